//! Whether a path carries packets of a size, before a test that would only hang.

use std::time::Duration;

use redoline_proto::path::{PathProbe, SizeOutcome, SizeProbe};

use super::At;
use super::path::probe_pair;
use crate::execute::probe::Ask;
use crate::execute::run::Run;
use crate::plan::node::PairId;
use crate::record::event::StepFailure;

/// Small datagrams: only to see that anything comes back.
const PROBES: u32 = 10;
const PROBE_SPACING: Duration = Duration::from_millis(10);
const PROBE_DEADLINE: Duration = Duration::from_secs(5);
/// Why packets of `mtu` bytes are not carried on one of `pairs`, `back`: in either direction. `None`
/// also where nothing small comes back, of which nothing follows.
pub async fn why_not(
    run: &mut Run<'_>,
    at: At<'_>,
    pairs: &[PairId],
    mtu: u32,
    back: bool,
) -> Result<Option<String>, StepFailure> {
    let ask = Ask {
        count: PROBES,
        spacing: PROBE_SPACING,
        packet_bytes: vec![mtu],
        deadline: PROBE_DEADLINE,
    };
    for pair in pairs {
        let probe = probe_pair(run, at, *pair, &ask).await;
        let probe = probe.map_err(|failure| StepFailure { pair: Some(*pair), failure })?;
        if let Some(why) = said(&probe, mtu, back) {
            return Ok(Some(format!("{}: {why}", run.plan.pair_name(*pair))));
        }
    }
    Ok(None)
}

/// `back`: large packets go the other way, too.
fn said(probe: &PathProbe, mtu: u32, back: bool) -> Option<String> {
    let is_asked = |size: &&SizeProbe| size.packet_bytes == mtu;
    let size = probe.sizes.iter().find(is_asked)?;
    let what = format!("packets of {mtu} bytes");
    match size.outcome {
        SizeOutcome::Passed => {
            let carried = probe.return_path_mtu_bytes.filter(|carried| back && *carried < mtu)?;
            Some(format!("{what} do not come back; the way back carries {carried}"))
        }
        SizeOutcome::TooBigHere => Some(format!(
            "{what} do not leave the sender: its route or a remembered path MTU is less"
        )),
        SizeOutcome::TooBigThere => Some(match size.told_mtu_bytes {
            Some(told) => {
                format!("{what} are refused by a router on the way, which carries {told}")
            }
            None => format!("{what} are refused by a router on the way"),
        }),
        SizeOutcome::Lost => {
            Some(format!("{what} are lost without a word: a device on the way has a smaller MTU"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(outcome: SizeOutcome, told_mtu_bytes: Option<u32>) -> PathProbe {
        let size = SizeProbe { packet_bytes: 9000, outcome, told_mtu_bytes };
        PathProbe { sizes: vec![size], return_path_mtu_bytes: Some(1500), ..PathProbe::default() }
    }

    #[test]
    fn a_path_that_does_not_carry_the_mtu_is_named_before_it_is_measured() {
        let why = |outcome, told| said(&probe(outcome, told), 9000, false);
        assert_eq!(why(SizeOutcome::Passed, None), None);
        assert!(why(SizeOutcome::TooBigHere, None).is_some_and(|why| why.contains("the sender")));
        let router = why(SizeOutcome::TooBigThere, Some(1500));
        assert!(router.is_some_and(|why| why.ends_with("which carries 1500")));
        assert!(why(SizeOutcome::Lost, None).is_some_and(|why| why.contains("without a word")));
    }

    #[test]
    fn the_way_back_counts_where_large_packets_go_back() {
        let passed = probe(SizeOutcome::Passed, None);
        assert!(said(&passed, 9000, true).is_some_and(|why| why.ends_with("carries 1500")));
    }

    #[test]
    fn where_nothing_comes_back_nothing_follows() {
        assert_eq!(said(&PathProbe::default(), 9000, true), None);
    }
}
