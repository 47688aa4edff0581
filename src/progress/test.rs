//! The test that runs: what it measures, how fast, and how long still.

use redoline_proto::units::BytesPerSecond;

use crate::plan::node::{NodeId, PairId};

/// Where a live rate comes from.
type Source = (Option<PairId>, Option<NodeId>);

#[derive(Debug)]
pub(super) struct RunningTest {
    place: String,
    what: String,
    expected_ms: u64,
    started_ms: i64,
    now_ms: i64,
    /// The last rate of each pair or node.
    rates: Vec<(Source, BytesPerSecond)>,
    /// Half-width of the last look, as a share of the rate.
    half_width: Option<f64>,
}

impl RunningTest {
    pub(super) fn new(
        place: String,
        text: &str,
        places: Vec<String>,
        expected_ms: u64,
        started_ms: i64,
    ) -> Self {
        let what = match places.as_slice() {
            [] => text.to_owned(),
            places => format!("{text}, {}", places.join(", ")),
        };
        let (now_ms, rates, half_width) = (started_ms, Vec::new(), None);
        Self { place, what, expected_ms, started_ms, now_ms, rates, half_width }
    }

    pub(super) fn looked(&mut self, half_width_share: Option<f64>) {
        self.half_width = half_width_share;
    }

    pub(super) fn live(&mut self, unix_ms: i64, source: Source, rate: BytesPerSecond) {
        self.now_ms = unix_ms;
        match self.rates.iter_mut().find(|known| known.0 == source) {
            Some(known) => known.1 = rate,
            None => self.rates.push((source, rate)),
        }
    }

    pub(super) fn place(&self) -> String {
        self.place.clone()
    }

    pub(super) fn expected_ms(&self) -> u64 {
        self.expected_ms
    }

    /// By the time of the last event: the bar moves when news come.
    pub(super) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.now_ms - self.started_ms).unwrap_or(0)
    }

    /// `num_conn 4, phx1-ash1: 118 Mbit/s, 6 s of 10 s`.
    pub(super) fn text(&self) -> String {
        let rate = match self.rates.as_slice() {
            [] => String::new(),
            [(_, rate)] => format!("{rate}, "),
            rates => {
                let sum: f64 = rates.iter().map(|(_, rate)| rate.0).sum();
                format!("{} together, ", BytesPerSecond(sum))
            }
        };
        let known = self
            .half_width
            .map_or_else(String::new, |share| format!("± {:.1} % so far, ", 100.0 * share));
        let elapsed = seconds(self.now_ms - self.started_ms);
        let expected = seconds(i64::try_from(self.expected_ms).unwrap_or(i64::MAX));
        super::narration::printable(&format!("{}: {rate}{known}{elapsed} of {expected}", self.what))
    }
}

/// `850 ms`, `12 s`, `3 min 20 s`.
pub(super) fn seconds(ms: i64) -> String {
    let seconds = (ms.max(0) + 500) / 1000;
    match seconds {
        0 => format!("{} ms", ms.max(0)),
        1..60 => format!("{seconds} s"),
        60.. if seconds % 60 == 0 => format!("{} min", seconds / 60),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_shows_how_well_the_rate_is_known() {
        let mut test = RunningTest::new("[1/2]".to_owned(), "1 connection", vec![], 60_000, 0);
        test.live(6_000, (Some(PairId(0)), None), BytesPerSecond(15e6));
        assert_eq!(test.text(), "1 connection: 120 Mbit/s, 6 s of 1 min");
        test.looked(Some(0.0312));
        assert_eq!(test.text(), "1 connection: 120 Mbit/s, ± 3.1 % so far, 6 s of 1 min");
    }
}
