//! Two programs compared pair by pair, and what is demanded of the result.

use std::fmt;

use super::outcome::Outcome;
use super::statistics::Ratio;

/// One program's runs over another's.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Such as `agent / iperf3`.
    pub name: String,
    /// The number of pairs.
    pub pairs: usize,
    /// Of the rates: above 1 the first is faster.
    pub rate: Ratio,
    /// Of CPU time per GiB: below 1 the first is cheaper.
    pub cpu: Ratio,
    /// Of the first one's steady-state rate, where all runs have one.
    pub steady: Option<Ratio>,
    /// What the ratio of the rates must be, where something is demanded of it.
    pub gate: Option<Gate>,
}

/// What the ratio of the rates must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gate {
    /// The lower end of the interval is at least this.
    AtLeast(f64),
    /// The whole interval is within this share of 1.
    Within(f64),
}

impl Comparison {
    /// The k-th run of one with the k-th of the other; `None` without a pair.
    pub fn of(
        name: &str,
        first: &[Outcome],
        second: &[Outcome],
        gate: Option<Gate>,
    ) -> Option<Self> {
        let pairs = || first.iter().zip(second);
        let rates: Vec<_> = pairs().map(|(a, b)| a.bytes_per_second / b.bytes_per_second).collect();
        let cpu: Vec<_> = pairs().map(|(a, b)| a.cpu_s_per_gib / b.cpu_s_per_gib).collect();
        let steady: Option<Vec<_>> =
            pairs().map(|(a, b)| Some(a.steady_bytes_per_second? / b.bytes_per_second)).collect();
        Some(Self {
            name: name.to_owned(),
            pairs: rates.len(),
            rate: Ratio::of(&rates)?,
            cpu: Ratio::of(&cpu)?,
            steady: steady.and_then(|steady| Ratio::of(&steady)),
            gate,
        })
    }

    /// What must be is; `None` where nothing must.
    pub fn passes(&self) -> Option<bool> {
        self.gate.map(|gate| gate.passes(self.rate))
    }
}

impl Gate {
    /// Without an interval, nothing passes.
    pub fn passes(self, ratio: Ratio) -> bool {
        ratio.interval.is_some_and(|(low, high)| match self {
            Self::AtLeast(least) => low >= least,
            Self::Within(share) => low >= 1.0 - share && high <= 1.0 + share,
        })
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(formatter, "rate ratio, lower bound >= {least}"),
            Self::Within(share) => {
                write!(formatter, "rate ratio, whole interval within {} %", share * 100.0)
            }
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, pairs, rate, cpu, .. } = self;
        write!(formatter, "{name:<22} {pairs:>3} pairs   rate {rate}   CPU per GiB {cpu}")?;
        if let Some(steady) = self.steady {
            write!(formatter, "   rate as reported {steady}")?;
        }
        match (self.gate, self.passes()) {
            (Some(gate), Some(true)) => write!(formatter, "   PASS: {gate}"),
            (Some(gate), _) => write!(formatter, "   FAIL: {gate}"),
            (None, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bytes_per_second: f64, cpu_s_per_gib: f64) -> Outcome {
        Outcome { bytes_per_second, cpu_s_per_gib, steady_bytes_per_second: None }
    }

    #[test]
    fn runs_are_compared_pair_by_pair() {
        let (first, second) = ([run(2.0, 1.0), run(20.0, 1.0)], [run(1.0, 2.0), run(10.0, 2.0)]);
        let comparison =
            Comparison::of("a / b", &first, &second, Some(Gate::AtLeast(1.0))).unwrap();
        assert!((comparison.rate.middle - 2.0).abs() < 1e-12);
        assert!((comparison.cpu.middle - 0.5).abs() < 1e-12);
        assert_eq!((comparison.pairs, comparison.steady), (2, None));
        assert_eq!(comparison.passes(), Some(false), "two pairs give no interval");
        let nothing = Comparison::of("a / b", &first, &second, None).unwrap();
        assert_eq!(nothing.passes(), None);
    }

    #[test]
    fn gates_look_at_the_interval_and_not_at_the_middle() {
        let ratio = |low, high| Ratio { middle: 1.0, interval: Some((low, high)) };
        assert!(Gate::AtLeast(0.95).passes(ratio(0.95, 1.2)));
        assert!(!Gate::AtLeast(0.95).passes(ratio(0.94, 1.2)));
        assert!(Gate::Within(0.01).passes(ratio(0.991, 1.009)));
        assert!(!Gate::Within(0.01).passes(ratio(0.991, 1.011)));
        assert!(!Gate::AtLeast(0.95).passes(Ratio { middle: 1.0, interval: None }));
    }
}
