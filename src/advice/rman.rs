//! Advice about copying the database: how many RMAN channels, and for the copy alone.

use super::{Command, CommandKind, Draft, Ground};
use crate::analysis::finding::Detail;
use crate::analysis::words::{count, list, long_time, rate};
use crate::plan::node::Direction;

const DIRECTION: Direction = Direction::PrimaryToStandby;
/// More are not written out one by one.
const LISTED: u32 = 8;

/// For all pairs at once.
struct Channels {
    count: u32,
    /// Of each pair alone.
    alone: Vec<u32>,
    /// What is to be known of the number, with a space before it.
    remark: String,
}

pub(super) fn channels(ground: &Ground<'_>) -> Option<Draft> {
    let channels = of_all_pairs(ground).filter(|channels| channels.count >= 2)?;
    let (_, best) = ground.case.best(DIRECTION)?;
    let copying = ground.findings.iter().find_map(|finding| match finding.detail {
        Detail::Instantiation { quiet_seconds, busy_seconds, .. } => Some(format!(
            " Copying the database then takes {} to {}.",
            long_time(quiet_seconds),
            long_time(busy_seconds)
        )),
        _ => None,
    });
    Some(Draft {
        action: format!(
            "Use {} for the copy of the database: {}.{} \
             RESTORE … FROM SERVICE copies over channels of the standby; DUPLICATE … FROM ACTIVE \
             DATABASE over AUXILIARY channels, of which it needs as many.",
            count(channels.count, "RMAN channel"),
            best_alone(&channels.alone),
            channels.remark
        ),
        commands: vec![Command {
            nodes: ground.standbys(),
            kind: CommandKind::Rman,
            lines: block(channels.count),
        }],
        expected_effect: format!(
            "Up to {} from {DIRECTION} as far as storage follows.{}",
            rate(best.rate),
            copying.unwrap_or_default()
        ),
        how_to_verify: "The rate of the duplication in V$SESSION_LONGOPS.".to_owned(),
        how_to_undo:
            "None needed: the channels end with the RUN block. CONFIGURE … PARALLELISM would \
                      stay, for every backup after the copy."
                .to_owned(),
        risk: "The copy can fill the path: redo transport and others then share what is left. \
               SECTION SIZE lets channels share large files."
            .to_owned(),
        needs_root: false,
        licence: None,
    })
}

/// `6 on each pair of nodes give the highest rate`, or of each pair its own number.
fn best_alone(alone: &[u32]) -> String {
    match alone {
        [1] => "1 on the pair of nodes gives the highest rate".to_owned(),
        [one] => format!("{one} on the pair of nodes give the highest rate"),
        [first, rest @ ..] if rest.iter().all(|one| one == first) => {
            format!("{first} on each pair of nodes, measured alone, gave its highest rate")
        }
        _ => {
            let each: Vec<String> = alone.iter().map(ToString::to_string).collect();
            format!(
                "{} on the pairs of nodes, each measured alone, gave its highest rate",
                list(&each)
            )
        }
    }
}

/// What the ladders of all pairs recommend, but no more than fill what all pairs carry at once.
fn of_all_pairs(ground: &Ground<'_>) -> Option<Channels> {
    let case = ground.case;
    let pairs: Vec<(u32, f64)> = case
        .pairs()
        .filter_map(|pair| {
            let rate = case.best_alone(pair, DIRECTION)?.steady.rate.0;
            Some((case.recommended(pair, DIRECTION)?, rate))
        })
        .collect();
    let alone: Vec<u32> = pairs.iter().map(|(channels, _)| *channels).collect();
    let (sum, most) = (alone.iter().sum::<u32>(), alone.iter().copied().max()?);
    if pairs.len() < 2 {
        return Some(Channels { count: sum, alone, remark: String::new() });
    }
    let at_once = case.together(DIRECTION).filter(|test| test.complete());
    let at_once = at_once.and_then(|test| Some((test.request.num_conn, test.rate()?)));
    let (count, remark) = match at_once {
        Some((num_conn, together)) if num_conn >= most => {
            let share = together.0 / pairs.iter().map(|(_, rate)| rate).sum::<f64>();
            let enough = (f64::from(sum) * share).ceil();
            match enough < f64::from(sum) {
                true => (
                    (enough as u32).max(pairs.len() as u32),
                    format!(
                        " All pairs at once carry {}, for which fewer are enough than all of these.",
                        rate(together)
                    ),
                ),
                false => (sum, String::new()),
            }
        }
        _ => (
            sum,
            " So many at once were not measured: if the pairs share something on the way, fewer are \
             enough."
                .to_owned(),
        ),
    };
    Some(Channels { count, alone, remark })
}

/// Channels of this copy alone. What it copies is left out: it overwrites data files.
fn block(channels: u32) -> Vec<String> {
    let mut lines = vec!["RUN {".to_owned()];
    let listed = if channels > LISTED + 1 { LISTED } else { channels };
    lines.extend((1..=listed).map(|n| format!("  ALLOCATE CHANNEL c{n} DEVICE TYPE DISK;")));
    if listed < channels {
        lines.push(format!("  # and so on, to c{channels}"));
    }
    lines.push("  # here the command that copies".to_owned());
    lines.push("}".to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_are_best_with_the_same_number_are_not_listed_one_by_one() {
        assert!(best_alone(&[6, 6]).starts_with("6 on each pair of nodes"));
        assert!(best_alone(&[6, 4]).starts_with("6 and 4 on the pairs of nodes"));
        assert!(best_alone(&[6]).starts_with("6 on the pair of nodes"));
    }

    #[test]
    fn channels_are_allocated_for_the_copy_alone_and_nothing_is_configured_or_overwritten() {
        let text = block(3).join("\n");
        assert_eq!(text.matches("ALLOCATE CHANNEL").count(), 3);
        assert!(text.starts_with("RUN {") && text.ends_with('}'), "{text}");
        for word in ["CONFIGURE", "RESTORE", "DUPLICATE"] {
            assert!(!text.contains(word), "{text}");
        }
        let long = block(24);
        assert_eq!(long.len(), 12);
        assert_eq!(long[9], "  # and so on, to c24");
    }
}
