//! A probe and a reflector with a router between them, whose cables have MTUs of their own.

use std::net::{IpAddr, UdpSocket};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redoline_agent::jobs::JobControl;
use redoline_agent::jobs::path::{probe, reflect};
use redoline_proto::path::{
    PathProbe, ProbeJob, ProbeWay, ReflectEnd, ReflectEvent, ReflectJob, SizeOutcome,
};
use redoline_proto::transfer::{JobId, Token};
use tokio::sync::mpsc;

use crate::Test;
use crate::namespace::Namespace;

pub const TESTS: &[Test] = &[
    ("a_path_that_carries_what_its_interfaces_do", a_path_that_carries_what_its_interfaces_do),
    ("a_router_that_says_what_it_carries", a_router_that_says_what_it_carries),
    ("a_black_hole_is_found_to_the_byte", a_black_hole_is_found_to_the_byte),
    ("the_same_over_ipv6", the_same_over_ipv6),
    ("a_firewall_that_passes_no_datagram", a_firewall_that_passes_no_datagram),
    ("silence_is_no_black_hole", silence_is_no_black_hole),
    ("a_path_mtu_that_the_kernel_remembers", a_path_mtu_that_the_kernel_remembers),
    ("a_cancelled_probe_ends_at_once", a_cancelled_probe_ends_at_once),
];

const TOKEN: Token = Token([0x5a; 16]);
const LONG: Duration = Duration::from_secs(60);
const NEAR: &str = "198.51.100.1";
const FAR: &str = "203.0.113.1";

/// Near and far end, and the router between them.
struct Path {
    near: Namespace,
    router: Namespace,
    far: Namespace,
}

/// Of the four ends of the two cables, from near to far.
fn path(mtus: [u32; 4]) -> Path {
    let path = Path { near: Namespace::new(), router: Namespace::new(), far: Namespace::new() };
    let Path { near, router, far } = &path;
    near.cable("eth0", router, "left");
    far.cable("eth0", router, "right");
    for (namespace, interface, v4, v6, mtu) in [
        (near, "eth0", "198.51.100.1/24", "fd00:1::1/64", mtus[0]),
        (router, "left", "198.51.100.2/24", "fd00:1::2/64", mtus[1]),
        (router, "right", "203.0.113.2/24", "fd00:2::2/64", mtus[2]),
        (far, "eth0", "203.0.113.1/24", "fd00:2::1/64", mtus[3]),
    ] {
        namespace.set_up(interface, v4, mtu);
        namespace.set_up(interface, v6, mtu);
    }
    router.set("net/ipv4/ip_forward", "1");
    router.set("net/ipv6/conf/all/forwarding", "1");
    for (namespace, v4, v6) in
        [(near, "198.51.100.2", "fd00:1::2"), (far, "203.0.113.2", "fd00:2::2")]
    {
        namespace.ip(&format!("route add default via {v4}"));
        namespace.ip(&format!("route add default via {v6}"));
    }
    path
}

struct Reflecting {
    port: u16,
    control: JobControl,
    thread: JoinHandle<()>,
    events: mpsc::Receiver<ReflectEvent>,
}

impl Reflecting {
    fn start(path: &Path, near: &str, far: &str) -> Self {
        let job = ReflectJob {
            job: JobId(1),
            token: TOKEN,
            bind_address: far.parse().unwrap(),
            ports: (5555, 5560),
            expected_peer: Some(near.parse().unwrap()),
            deadline: LONG,
        };
        let (sender, mut events) = mpsc::channel(4);
        let control = JobControl::default();
        let reins = control.clone();
        let thread = path.far.spawn(move || reflect(&job, &reins, sender));
        let Some(ReflectEvent::Ready { port }) = events.blocking_recv() else { panic!("no port") };
        Self { port, control, thread, events }
    }

    fn finish(mut self) -> ReflectEnd {
        self.control.finish.set();
        let Some(ReflectEvent::End(end)) = self.events.blocking_recv() else { panic!("no end") };
        self.thread.join().unwrap();
        end
    }
}

fn probe_job(far: &str, port: u16, packet_bytes: &[u32]) -> ProbeJob {
    ProbeJob {
        job: JobId(2),
        token: TOKEN,
        address: far.parse().unwrap(),
        port,
        bind_address: None,
        count: 20,
        spacing: Duration::from_millis(1),
        deadline: LONG,
        packet_bytes: packet_bytes.to_vec(),
    }
}

fn run_probe(path: &Path, job: ProbeJob) -> PathProbe {
    path.near.spawn(move || probe(&job, &JobControl::default())).join().unwrap()
}

fn probed(path: &Path, near: &str, far: &str, packet_bytes: &[u32]) -> (PathProbe, ReflectEnd) {
    let reflecting = Reflecting::start(path, near, far);
    let found = run_probe(path, probe_job(far, reflecting.port, packet_bytes));
    (found, reflecting.finish())
}

fn outcome(found: &PathProbe, packet_bytes: u32) -> (SizeOutcome, Option<u32>) {
    let size = found.sizes.iter().find(|size| size.packet_bytes == packet_bytes);
    let size = size.unwrap_or_else(|| panic!("{packet_bytes} was not tried: {found:?}"));
    (size.outcome, size.told_mtu_bytes)
}

fn a_path_that_carries_what_its_interfaces_do() {
    let path = path([1500; 4]);
    let (found, end) = probed(&path, NEAR, FAR, &[576, 9000]);
    assert_eq!(found.way, Some(ProbeWay::Udp), "{found:?}");
    assert_eq!((found.path_mtu_bytes, found.return_path_mtu_bytes), (Some(1500), Some(1500)));
    assert_eq!((found.interface.as_deref(), found.interface_mtu_bytes), (Some("eth0"), Some(1500)));
    assert_eq!(found.source_address.as_deref(), Some(NEAR));
    assert_eq!(found.gateway.as_deref(), Some("198.51.100.2"));
    assert_eq!((found.sent, found.answered, found.reordered), (20, 20, 0));
    assert_eq!(found.rtt.as_ref().unwrap().count, 20);
    assert_eq!(outcome(&found, 576), (SizeOutcome::Passed, None));
    assert_eq!(outcome(&found, 1500), (SizeOutcome::Passed, None));
    assert_eq!(outcome(&found, 9000), (SizeOutcome::TooBigHere, Some(1500)));
    assert_eq!(found.sizes.len(), 3);
    assert!(found.remarks.is_empty(), "{found:?}");
    assert_eq!((end.strangers, end.stopped), (0, None));
}

fn a_router_that_says_what_it_carries() {
    let path = path([9000, 9000, 1400, 1400]);
    let (found, _) = probed(&path, NEAR, FAR, &[]);
    assert_eq!(found.path_mtu_bytes, Some(1400), "{found:?}");
    assert_eq!(found.return_path_mtu_bytes, Some(1400));
    assert_eq!(outcome(&found, 9000), (SizeOutcome::TooBigThere, Some(1400)));
    assert_eq!(outcome(&found, 1401), (SizeOutcome::TooBigThere, Some(1400)));
    assert!(found.remarks[0].starts_with("198.51.100.2 says"), "{found:?}");
    // The tests after it start as they would have without it.
    let route = path.near.ip(&format!("route get {FAR}"));
    assert!(!route.contains("mtu"), "{route}");
}

/// A cable whose far end takes less than its near end sends: what is larger vanishes. The kernel
/// lets the four bytes of a VLAN tag pass beyond the MTU.
fn a_black_hole_is_found_to_the_byte() {
    let path = path([9000, 9000, 9000, 1500]);
    let (found, _) = probed(&path, NEAR, FAR, &[8000]);
    assert_eq!(found.path_mtu_bytes, Some(1504), "{found:?}");
    assert_eq!(outcome(&found, 1500), (SizeOutcome::Passed, None));
    for lost in [1505, 8000, 9000] {
        assert_eq!(outcome(&found, lost), (SizeOutcome::Lost, None), "{found:?}");
    }
    // The other direction is judged alone.
    assert_eq!(found.return_path_mtu_bytes, Some(1500));
    assert!(
        found.remarks.contains(
            &"the way there: packets of 1504 bytes pass, packets of 1505 bytes vanish and nobody \
              says so"
                .to_owned()
        ),
        "{found:?}"
    );
}

fn the_same_over_ipv6() {
    let (near, far) = ("fd00:1::1", "fd00:2::1");
    let path = path([9000, 9000, 9000, 1500]);
    let (found, _) = probed(&path, near, far, &[]);
    assert_eq!((found.way, found.path_mtu_bytes), (Some(ProbeWay::Udp), Some(1504)), "{found:?}");
    assert_eq!(found.return_path_mtu_bytes, Some(1500));
    assert_eq!(found.gateway.as_deref(), Some("fd00:1::2"));
    path.router.ip("link set right mtu 1400");
    let (found, _) = probed(&path, near, far, &[]);
    assert_eq!(found.path_mtu_bytes, Some(1400), "{found:?}");
    assert_eq!(outcome(&found, 9000), (SizeOutcome::TooBigThere, Some(1400)));
    let told = "the kernel now remembers a path MTU of 1400 bytes";
    assert!(found.remarks.iter().any(|remark| remark.starts_with(told)), "{found:?}");
}

fn a_firewall_that_passes_no_datagram() {
    let path = path([1500; 4]);
    // Nobody listens there, which the kernel says.
    for far in [FAR, "fd00:2::1"] {
        let found = run_probe(&path, probe_job(far, 5555, &[9000]));
        assert_eq!(found.way, Some(ProbeWay::Icmp), "{found:?}");
        assert_eq!((found.sent, found.answered), (20, 20));
        assert_eq!((found.path_mtu_bytes, found.return_path_mtu_bytes), (Some(1500), None));
        assert_eq!(outcome(&found, 9000).0, SizeOutcome::TooBigHere);
        assert!(found.remarks[0].contains("says `port unreachable`"), "{found:?}");
        assert!(found.remarks.iter().any(|remark| remark.starts_with("judged by ping")));
    }
    path.near.set("net/ipv4/ping_group_range", "0 2147483647");
    let found = run_probe(&path, probe_job(FAR, 5555, &[]));
    assert_eq!((found.way, found.answered), (Some(ProbeWay::Icmp), 20), "{found:?}");
}

fn silence_is_no_black_hole() {
    let path = path([1500; 4]);
    path.near.ip(&format!("route add {FAR}/32 via 198.51.100.2"));
    path.router.ip(&format!("route add blackhole {FAR}/32"));
    let found = run_probe(&path, probe_job(FAR, 5555, &[9000]));
    assert_eq!((found.way, found.path_mtu_bytes), (None, None), "{found:?}");
    assert!(found.sent > 1, "{found:?}");
    assert_eq!((found.answered, found.rtt), (0, None));
    assert!(found.sizes.is_empty());
    assert!(found.remarks.last().unwrap().starts_with("nothing small came back"));
}

fn a_path_mtu_that_the_kernel_remembers() {
    let path = path([1500, 1500, 1400, 1400]);
    let remembered = || path.near.ip(&format!("route get {FAR}")).contains("mtu 1400");
    // As a sender of earlier traffic learns it.
    let end = Instant::now() + LONG;
    while !remembered() {
        assert!(Instant::now() < end);
        path.near.run(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.connect((FAR.parse::<IpAddr>().unwrap(), 9)).unwrap();
            // What a router says of it shows up as an error.
            let _ = socket.send(&[0; 1472]);
        });
    }
    for namespace in [&path.router, &path.far] {
        let interface = if std::ptr::eq(namespace, &path.far) { "eth0" } else { "right" };
        namespace.ip(&format!("link set {interface} mtu 1500"));
    }
    let (found, _) = probed(&path, NEAR, FAR, &[]);
    assert_eq!((found.remembered_mtu_bytes, found.path_mtu_bytes), (Some(1400), Some(1500)));
    assert!(found.remarks[0].starts_with("the kernel remembers a path MTU of 1400 bytes"));
}

fn a_cancelled_probe_ends_at_once() {
    let path = path([1500; 4]);
    let control = JobControl::default();
    control.cancel();
    let job = probe_job(FAR, 5555, &[]);
    let found = path.near.spawn(move || probe(&job, &control)).join().unwrap();
    assert_eq!((found.way, found.sent), (None, 0));
    assert_eq!(found.interface.as_deref(), Some("eth0"));
    assert_eq!(found.remarks.last().unwrap(), "cancelled before the end");
}
