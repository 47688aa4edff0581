//! Lays the cables: management networks, redo networks, routers and the WAN between them.

use std::{
    io::{self, Write},
    net::Ipv4Addr,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    process::{Command, Stdio},
    sync::Arc,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    addresses,
    lab::LabSpec,
    namespace::Namespace,
    node::{DETOUR_INTERFACE, LabNode, MANAGEMENT_INTERFACE, REDO_INTERFACE, Side},
    wan::{Icmp, Tun, WanSpec},
};

/// The WAN's device in a router.
const WAN_INTERFACE: &str = "wan0";

/// The redo network's device in a router.
const LAN_INTERFACE: &str = "lan0";

/// Packets that wait for the relay to read them: a burst at the speed of memory must fit, so that
/// packets are lost only where the WAN's own queue loses them.
const WAN_BACKLOG_PACKETS: u32 = 20_000;

/// The number of a lab among those on this machine, reserved while the value lives.
///
/// An abstract socket is the reservation: its name is unique in this network namespace, which is
/// where the addresses must not clash, and it goes with the process.
#[derive(Debug)]
pub(crate) struct LabNumber {
    pub(crate) number: u32,
    _reservation: UnixDatagram,
}

impl LabNumber {
    /// Takes the first number that no other lab has, and whose network is not in use.
    pub(crate) fn reserve() -> Result<Self> {
        let addresses_in_use = run(&["-4", "-o", "addr"], "")?;
        for number in 0..addresses::LABS_MAX {
            let [a, b, c, _] = addresses::management(number, 0).0.octets();
            if addresses_in_use.contains(&format!(" {a}.{b}.{c}.")) {
                continue;
            }
            let name = SocketAddr::from_abstract_name(format!("redoline-lab-{number}"))
                .context("failed to name a reservation")?;
            match UnixDatagram::bind_addr(&name) {
                Ok(_reservation) => return Ok(Self { number, _reservation }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error).context("failed to reserve a lab number"),
            }
        }
        bail!("all {} networks of 198.18.0.0/15 are in use", addresses::LABS_MAX)
    }
}

/// Makes a router with its end of the WAN and its redo network.
pub(crate) fn router(side: Side, spec: &LabSpec) -> Result<(Namespace, Arc<Tun>)> {
    let LabSpec { wan, lan_mtu, .. } = spec;
    let name = format!("{}-router", addresses::site(side));
    let (router, ()) = Namespace::create(&name, || Ok(()))?;
    let tun = router.enter(|| Tun::open(WAN_INTERFACE))?;
    let other = match side {
        Side::Primary => Side::Standby,
        Side::Standby => Side::Primary,
    };
    let (near, far) = (addresses::wan(side), addresses::wan(other));
    router.sysctl("net.ipv4.ip_forward", "1")?;
    router.sysctl("net.ipv4.icmp_ratelimit", "0")?;
    for scope in ["all", "default"] {
        router.sysctl(&format!("net.ipv4.conf.{scope}.rp_filter"), "0")?;
        let key = format!("net.ipv6.conf.{scope}.disable_ipv6");
        router.sysctl(&key, if spec.ipv6 { "0" } else { "1" })?;
    }
    let batch = format!(
        "link set lo up\n\
         link add {LAN_INTERFACE} mtu {lan_mtu} type bridge\n\
         addr add {}/24 dev {LAN_INTERFACE}\n\
         link set {LAN_INTERFACE} up\n\
         addr add {near} peer {far} dev {WAN_INTERFACE}\n\
         link set {WAN_INTERFACE} mtu {} txqueuelen {WAN_BACKLOG_PACKETS} up\n\
         route add {}/24 via {far}\n",
        addresses::gateway(side),
        wan.mtu_from(side),
        addresses::redo_network(other),
    );
    router.run_with(&["ip", "-batch", "-"], &batch)?;
    if spec.ipv6 {
        route_ipv6(&router, side, other)?;
    }
    configure(&router, side, wan)?;
    Ok((router, Arc::new(tun)))
}

fn route_ipv6(router: &Namespace, side: Side, other: Side) -> Result<()> {
    router.sysctl("net.ipv6.conf.all.forwarding", "1")?;
    router.sysctl("net.ipv6.icmp.ratelimit", "0")?;
    let batch = format!(
        "addr add {}/64 dev {LAN_INTERFACE} nodad\n\
         route add {}/64 dev {WAN_INTERFACE}\n",
        addresses::gateway6(side),
        addresses::redo_network6(other),
    );
    router.run_with(&["ip", "-batch", "-"], &batch).map(drop)
}

/// Sets what the router itself does to packets of this WAN.
pub(crate) fn configure(router: &Namespace, side: Side, wan: &WanSpec) -> Result<()> {
    let mtu = wan.mtu_from(side).to_string();
    router.run(&["ip", "link", "set", WAN_INTERFACE, "mtu", &mtu])?;
    // A sender hears of the WAN's MTU from the router on its own side.
    let filter = match wan.icmp_to(side) {
        Icmp::Allowed => "",
        Icmp::Filtered => {
            "icmp type destination-unreachable icmp code frag-needed drop\n\
             icmpv6 type packet-too-big drop"
        }
    };
    // The kernel only ever lowers it.
    let clamp = wan.mss_clamp.map_or(String::new(), |bytes| {
        format!("tcp flags & (syn | rst) == syn tcp option maxseg size set {bytes}")
    });
    router.nft(&format!(
        "table inet redoline_wan {{}}\n\
         delete table inet redoline_wan\n\
         table inet redoline_wan {{\n\
         chain output {{ type filter hook output priority 0;\n{filter}\n}}\n\
         chain forward {{ type filter hook forward priority 0;\n{clamp}\n}}\n\
         }}\n"
    ))
}

/// Connects a node to its router and to the controller.
pub(crate) fn connect(
    node: &LabNode,
    router: &Namespace,
    lab: u32,
    index: usize,
    spec: &LabSpec,
) -> Result<()> {
    let lan_mtu = spec.lan_mtu;
    let interface = addresses::controller_interface(lab, node.name());
    let (controller, management) = addresses::management(lab, index);
    let (init, port) = (node.init(), node.name());
    let cables = format!(
        "link add name {REDO_INTERFACE} mtu {lan_mtu} netns {init} type veth \
         peer name {port} mtu {lan_mtu} netns {}\n\
         link add name {interface} type veth peer name {MANAGEMENT_INTERFACE} netns {init}\n\
         addr add {controller}/30 dev {interface}\n\
         link set {interface} up\n",
        router.init()
    );
    run(&["-batch", "-"], &cables).with_context(|| format!("failed to connect `{port}`"))?;
    let batch = format!("link set {port} master {LAN_INTERFACE}\nlink set {port} up\n");
    router.run_with(&["ip", "-batch", "-"], &batch)?;
    let gateway = addresses::gateway(node.side());
    let batch = format!(
        "link set lo up\n\
         addr add {management}/30 dev {MANAGEMENT_INTERFACE}\n\
         link set {MANAGEMENT_INTERFACE} up\n\
         addr add {}/24 dev {REDO_INTERFACE}\n\
         link set {REDO_INTERFACE} up\n\
         route add default via {gateway}\n",
        node.redo()
    );
    node.run_with(&["ip", "-batch", "-"], &batch)?;
    let Some(redo) = node.redo6() else { return Ok(()) };
    let gateway = addresses::gateway6(node.side());
    let batch =
        format!("addr add {redo}/64 dev {REDO_INTERFACE} nodad\nroute add default via {gateway}\n");
    node.run_with(&["ip", "-batch", "-"], &batch).map(drop)
}

/// Gives a node a second interface to its router, and sends what goes to the other side through it.
pub(crate) fn misroute(node: &LabNode, router: &Namespace, index: usize, mtu: u32) -> Result<()> {
    let (near, far) = addresses::detour(index);
    let port = format!("{}-other", node.name());
    let cable = format!(
        "link add name {DETOUR_INTERFACE} mtu {mtu} netns {} type veth \
         peer name {port} mtu {mtu} netns {}\n",
        node.init(),
        router.init()
    );
    run(&["-batch", "-"], &cable).with_context(|| format!("failed to connect `{port}`"))?;
    let batch = format!("addr add {far}/30 dev {port}\nlink set {port} up\n");
    router.run_with(&["ip", "-batch", "-"], &batch)?;
    let other = match node.side() {
        Side::Primary => Side::Standby,
        Side::Standby => Side::Primary,
    };
    let batch = format!(
        "addr add {near}/30 dev {DETOUR_INTERFACE}\n\
         link set {DETOUR_INTERFACE} up\n\
         route add {}/24 via {far}\n",
        addresses::redo_network(other)
    );
    node.run_with(&["ip", "-batch", "-"], &batch).map(drop)
}

/// Takes the controller's end of a management network away, at once.
pub(crate) fn disconnect(lab: u32, node: &str) {
    // It may be gone already, with the node's namespace.
    let _ = run(&["link", "del", &addresses::controller_interface(lab, node)], "");
}

/// The `/etc/hosts` of all nodes.
pub(crate) fn hosts(nodes: &[(String, Ipv4Addr)]) -> String {
    let mut hosts = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
    for (name, redo) in nodes {
        hosts += &format!("{redo} {name}\n");
    }
    hosts
}

/// Runs `ip` in this process's own namespace.
fn run(arguments: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("failed to run `ip`")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).context("failed to tell `ip` what to do")?;
    }
    let output = child.wait_with_output().context("failed to wait for `ip`")?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ip {}` failed: {}", arguments.join(" "), message.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
