//! Readers of single values that name something of a network.

use std::net::IpAddr;

use super::problem::{Fault, Faults};
use super::tree::Node;
use super::value::{one, scalar, text};

pub fn address(node: &Node) -> Result<IpAddr, Faults> {
    let scalar = scalar(node, "an IP address")?;
    let address: IpAddr = scalar.text.trim().parse().map_err(|_| {
        one(
            node,
            format!("`{}` is not an IP address", scalar.text),
            "write the address itself: a name may resolve to another one on each node, \
             and then another path is measured",
        )
    })?;
    let address = address.to_canonical();
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    if address.is_unspecified() || address.is_multicast() || broadcast {
        return Err(one(
            node,
            format!("`{address}` is not the address of one node"),
            "a data port is opened on one address only; write the node's own redo address",
        ));
    }
    Ok(address)
}

/// One port, or the first and last of a range.
pub fn ports(node: &Node) -> Result<(u16, u16), Faults> {
    let scalar = scalar(node, "a port or a range of ports")?;
    let text = scalar.text.as_str();
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
        (Ok(first), Ok(last)) if first >= 1 && first <= last => Ok((first, last)),
        _ => Err(one(
            node,
            format!("`{text}` is not a port or a range of ports"),
            "write for example 5555 or \"5555-5560\"",
        )),
    }
}

/// A Linux congestion control's name (`TCP_CA_NAME_MAX` is 16 with the final zero).
pub fn congestion_control(node: &Node) -> Result<String, Faults> {
    let name = text(node)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.len() > 15 || !name.chars().all(fits) {
        let found = format!("`{name}` is not the name of a congestion control");
        return Err(one(node, found, "write for example cubic or bbr"));
    }
    Ok(name)
}

/// Names of code points (RFC 2474, 2597, 3246, 5865, 8622).
pub const DSCP_NAMES: &[(&str, u32)] = &[
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

/// The 6 bits of DiffServ, by number or name.
pub fn dscp(node: &Node) -> Result<u32, Faults> {
    let scalar = scalar(node, "a DSCP")?;
    let text = scalar.text.trim().to_ascii_lowercase();
    if let Some((_, code)) = DSCP_NAMES.iter().find(|(name, _)| *name == text) {
        return Ok(*code);
    }
    match text.parse::<u32>() {
        Ok(code @ 0..=63) => Ok(code),
        Ok(code) => {
            let found = format!("{code} is out of range");
            let right = match code % 4 {
                0 if code < 256 => format!(
                    "from 0 to 63; if {code} is the whole byte (TOS), the DSCP in it is {}",
                    code >> 2
                ),
                _ => "from 0 to 63".to_owned(),
            };
            Err(one(node, found, right))
        }
        Err(_) => {
            let names = DSCP_NAMES.iter().map(|(name, _)| *name);
            Err(vec![Fault::unknown(node.place, "DSCP", &text, names)])
        }
    }
}

/// A network interface's name (`IFNAMSIZ` is 16 with the final zero).
pub fn device(node: &Node) -> Result<String, Faults> {
    let name = text(node)?;
    let fits = |c: char| !c.is_whitespace() && !matches!(c, '/' | ':');
    if name.len() > 15 || !name.chars().all(fits) {
        let found = format!("`{name}` is not the name of an interface");
        return Err(one(node, found, "write for example eth1 or bond0.120"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runbook::source::Place;

    fn plain(text: &str) -> Node {
        Node::plain(Place::new(1, 1), text)
    }

    #[test]
    fn an_address_is_that_of_one_node() {
        assert_eq!(address(&plain("::ffff:192.0.2.1")), Ok("192.0.2.1".parse().unwrap()));
        for text in ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "db1"] {
            assert!(address(&plain(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn a_code_point_has_six_bits_or_a_name() {
        assert_eq!(dscp(&plain("46")), Ok(46));
        assert_eq!(dscp(&plain("EF")), Ok(46));
        assert_eq!(dscp(&plain("af31")), Ok(26));
        for text in ["64", "-1", "af44", "0x2e"] {
            assert!(dscp(&plain(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn assured_forwarding_is_eight_times_its_class_and_twice_its_precedence() {
        for (name, code) in DSCP_NAMES {
            let digits: Vec<u32> = name.chars().filter_map(|c| c.to_digit(10)).collect();
            let expected = match (&name[..2], digits.as_slice()) {
                ("af", [class, precedence]) => 8 * class + 2 * precedence,
                ("cs", [class]) => 8 * class,
                _ => continue,
            };
            assert_eq!(*code, expected, "{name}");
        }
    }

    #[test]
    fn an_interface_has_a_short_name() {
        assert_eq!(device(&plain("bond0.120")), Ok("bond0.120".to_owned()));
        for text in ["a-name-of-16-chars", "eth1:0", "eth 1", "a/b"] {
            assert!(device(&plain(text)).is_err(), "{text}");
        }
    }
}
