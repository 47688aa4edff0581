//! Names of runs: sortable, readable, unique.

/// `20261130T181500Z-3fa9`: the time at which it began and two random bytes.
pub fn run_id(started: jiff::Timestamp, random: u16) -> String {
    format!("{}-{random:04x}", started.strftime("%Y%m%dT%H%M%SZ"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_later_run_sorts_after_an_earlier_one() {
        let id = |second| super::run_id(jiff::Timestamp::from_second(second).unwrap(), 0x3fa9);
        assert_eq!(id(1_796_062_500), "20261130T181500Z-3fa9");
        assert!(id(1_796_062_500) < id(1_796_062_501));
    }
}
