//! The system's settings for TCP, from /proc/sys/net.

use redoline_proto::facts::TcpSettings;

use super::root::Root;

pub fn read(root: &Root) -> TcpSettings {
    let ipv4 = |name: &str| root.text(format!("/proc/sys/net/ipv4/{name}"));
    let core = |name: &str| root.text(format!("/proc/sys/net/core/{name}"));
    let switch = |name: &str| ipv4(name)?.parse().ok();
    let [rmem_min_bytes, rmem_default_bytes, rmem_max_bytes] = numbers(ipv4("tcp_rmem"));
    let [wmem_min_bytes, wmem_default_bytes, wmem_max_bytes] = numbers(ipv4("tcp_wmem"));
    let [local_port_first, local_port_last] = numbers(ipv4("ip_local_port_range"));
    TcpSettings {
        rmem_min_bytes,
        rmem_default_bytes,
        rmem_max_bytes,
        wmem_min_bytes,
        wmem_default_bytes,
        wmem_max_bytes,
        core_rmem_max_bytes: core("rmem_max").and_then(|text| text.parse().ok()),
        core_wmem_max_bytes: core("wmem_max").and_then(|text| text.parse().ok()),
        congestion_control: ipv4("tcp_congestion_control"),
        congestion_controls_available: words(ipv4("tcp_available_congestion_control")),
        default_qdisc: core("default_qdisc"),
        mtu_probing: switch("tcp_mtu_probing"),
        window_scaling: switch("tcp_window_scaling"),
        timestamps: switch("tcp_timestamps"),
        sack: switch("tcp_sack"),
        no_metrics_save: switch("tcp_no_metrics_save"),
        local_port_first: local_port_first.and_then(|port| port.try_into().ok()),
        local_port_last: local_port_last.and_then(|port| port.try_into().ok()),
    }
}

/// Exactly `N` numbers, or none at all.
fn numbers<const N: usize>(text: Option<String>) -> [Option<u64>; N] {
    let parsed: Option<Vec<u64>> = text
        .as_deref()
        .map(str::split_ascii_whitespace)
        .and_then(|fields| fields.map(|field| field.parse().ok()).collect());
    match parsed.map(<[u64; N]>::try_from) {
        Some(Ok(numbers)) => numbers.map(Some),
        _ => [None; N],
    }
}

fn words(text: Option<String>) -> Vec<String> {
    text.unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::super::root::tree;
    use super::*;

    #[test]
    fn the_settings_of_a_node_are_read() {
        let (_dir, root) = tree(&[
            ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 4194304\n"),
            ("/proc/sys/net/core/rmem_max", "212992\n"),
            ("/proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"),
            ("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic bbr\n"),
            ("/proc/sys/net/ipv4/tcp_mtu_probing", "0\n"),
            ("/proc/sys/net/ipv4/ip_local_port_range", "9000\t65500\n"),
        ]);
        let tcp = read(&root);
        assert_eq!((tcp.rmem_max_bytes, tcp.wmem_max_bytes), (Some(6_291_456), Some(4_194_304)));
        assert_eq!((tcp.core_rmem_max_bytes, tcp.core_wmem_max_bytes), (Some(212_992), None));
        assert_eq!(tcp.congestion_control.as_deref(), Some("cubic"));
        assert_eq!(tcp.congestion_controls_available, ["reno", "cubic", "bbr"]);
        assert_eq!((tcp.mtu_probing, tcp.sack), (Some(0), None));
        assert_eq!((tcp.local_port_first, tcp.local_port_last), (Some(9000), Some(65_500)));
    }

    #[test]
    fn half_a_setting_is_unknown() {
        assert_eq!(numbers::<3>(Some("4096 131072".to_owned())), [None; 3]);
        assert_eq!(numbers::<2>(Some("9000 many".to_owned())), [None; 2]);
        assert_eq!(numbers::<2>(None), [None; 2]);
    }
}
