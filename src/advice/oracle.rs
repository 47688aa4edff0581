//! Advice about Oracle's own settings: SYNC transport, encryption, compression.

use super::{Command, CommandKind, Draft, Ground};
use crate::analysis::finding::{Detail, Finding, FindingId};
use crate::analysis::words::percent;
use crate::plan::need::Transport;

const SDU: u32 = 65_535;

/// The present value of every destination, which has to be kept and is the way back.
const SHOW_DESTINATIONS: &str = "SHOW PARAMETER log_archive_dest_";

impl Ground<'_> {
    /// The attributes of the transport that the need states; `None` for ASYNC.
    fn sync_mode(&self) -> Option<&'static str> {
        match self.case.setup().need.as_ref()?.transport {
            Transport::Async => None,
            Transport::Sync => Some("SYNC AFFIRM"),
            Transport::Fastsync => Some("SYNC NOAFFIRM"),
        }
    }

    /// A change of one attribute of a destination, whose others stay. It names no number, so that it
    /// cannot be run as it is.
    fn destination(&self, attribute: &str) -> Command {
        Command {
            nodes: self.primaries(),
            kind: CommandKind::Sqlplus,
            lines: vec![
                SHOW_DESTINATIONS.to_owned(),
                format!(
                    "ALTER SYSTEM SET LOG_ARCHIVE_DEST_n='SERVICE=… {attribute} …' SCOPE=BOTH;"
                ),
            ],
        }
    }
}

/// Only where the need states SYNC: a run that measures it to see does not ask for a change.
pub(super) fn net_for_sync(ground: &Ground<'_>) -> Option<Draft> {
    let mode = ground.sync_mode()?;
    let high = ground.findings.iter().find_map(|finding| match finding.detail {
        Detail::Commit { high_us, .. } => Some(high_us / 1e3),
        _ => None,
    })?;
    let nodes = ground.all_nodes();
    let sqlnet = Command {
        nodes: nodes.clone(),
        kind: CommandKind::SqlnetOra,
        lines: vec![format!("DEFAULT_SDU_SIZE={SDU}")],
    };
    let tnsnames = Command {
        nodes,
        kind: CommandKind::TnsnamesOra,
        lines: vec![format!("(DESCRIPTION=(SDU={SDU})(ADDRESS=…)(CONNECT_DATA=…))")],
    };
    let fast = mode == "SYNC NOAFFIRM";
    let (choice, risk) = match fast {
        true => (
            "",
            "FASTSYNC loses what was only in the standby's memory if both sites fail at once. ",
        ),
        false => (
            " FASTSYNC (SYNC NOAFFIRM) would take the standby's write out of the commit, where redo in \
             its memory is protection enough; the need states AFFIRM, so no line here changes that.",
            "",
        ),
    };
    Some(Draft {
        action: format!(
            "For {mode}, as the need states it: an SDU of {SDU} on both sides, unless a larger one is \
             set (it is negotiated to the smaller one; dynamically registered services take \
             DEFAULT_SDU_SIZE of sqlnet.ora), and standby redo logs with a single member on the fastest \
             disk group.{choice} Leave NET_TIMEOUT at its 30 s: below 15 to 20 s a destination is left at \
             the first pause (ORA-16198). Measured: up to {high:.2} ms per commit. With the broker, set \
             LogXptMode instead. The SDU brings nothing for ASYNC."
        ),
        commands: vec![sqlnet, tnsnames, ground.destination(mode)],
        expected_effect: "Each redo write crosses the network as one message.".to_owned(),
        how_to_verify: format!(
            "{}; then `log file sync` and `SYNC remote write` at peak, with and without SYNC",
            ground.again()
        ),
        how_to_undo:
            "Put the former lines back; ALTER SYSTEM with the value that SHOW PARAMETER gave \
                      before; defer and enable the destination."
                .to_owned(),
        risk: format!(
            "{risk}DEFAULT_SDU_SIZE holds for every new connection of these files, not only for redo; \
             it costs memory per session."
        ),
        needs_root: false,
        licence: None,
    })
}

pub(super) fn avoid_sync(ground: &Ground<'_>) -> Option<Draft> {
    let finding = ground.findings.first().filter(|_| ground.sync_mode().is_some())?;
    Some(Draft {
        action: format!(
            "Plan with ASYNC over this distance, or with a far sync instance near the primary that \
             ships on in ASYNC; SYNC only after a test with the application. {}",
            finding.sentence
        ),
        expected_effect:
            "Commits no longer wait for the distance; redo of the last moments can be \
                          lost in a disaster, without a far sync instance."
                .to_owned(),
        how_to_verify: "Transactions per second and response times at peak, with and without SYNC."
            .to_owned(),
        how_to_undo: "Set the transport mode of the destination again.".to_owned(),
        risk: "ASYNC has no zero data loss.".to_owned(),
        licence: Some("Oracle Active Data Guard (for a far sync instance)"),
        ..Draft::default()
    })
}

pub(super) fn weigh_encryption(ground: &Ground<'_>) -> Option<Draft> {
    Some(Draft {
        action: format!(
            "Encrypt redo on the network only where policy asks for it and the data are not \
             encrypted already: redo of tablespaces under TDE is. {} This is TLS of this tool, a \
             model of Oracle Net encryption: measure the database itself before deciding.",
            costs(ground)
        ),
        expected_effect: "The processor time named by the finding, at both ends, and the rate \
                          without it."
            .to_owned(),
        how_to_verify:
            "NETWORK SEND times and processor use of the redo transport processes, with \
                        and without."
                .to_owned(),
        how_to_undo: "SQLNET.ENCRYPTION_SERVER and _CLIENT as before, in sqlnet.ora of both sides."
            .to_owned(),
        risk: "Without encryption, redo of tablespaces without TDE is readable on the network."
            .to_owned(),
        ..Draft::default()
    })
}

/// The command only where a need is missed and the network holds it: it needs a licence.
pub(super) fn weigh_compression(ground: &Ground<'_>) -> Option<Draft> {
    let commands: Vec<Command> = ground
        .shrink_factor()
        .map(|_| ground.destination("COMPRESSION=ENABLE"))
        .into_iter()
        .collect();
    let how_to_undo = match commands.is_empty() {
        true => "Nothing is changed.",
        false => "ALTER SYSTEM with the value that SHOW PARAMETER gave before.",
    };
    Some(Draft {
        action: format!(
            "Compress redo only where the network cannot carry it: COMPRESSION=ENABLE in \
             LOG_ARCHIVE_DEST_n costs processor time at both ends. {} This is a model with a made \
             payload: how far your redo shrinks, archived logs tell (gzip -1); encrypted redo \
             hardly does.",
            costs(ground)
        ),
        commands,
        expected_effect: "Fewer bytes on the network, by the factor that your redo shrinks by."
            .to_owned(),
        how_to_verify: "Transport lag in V$DATAGUARD_STATS at peak time.".to_owned(),
        how_to_undo: how_to_undo.to_owned(),
        risk: "A process that compresses more slowly than redo is made lengthens the lag."
            .to_owned(),
        licence: Some("Oracle Advanced Compression"),
        ..Draft::default()
    })
}

/// What each method left of the rate.
fn costs(ground: &Ground<'_>) -> String {
    let parts: Vec<String> = ground.findings.iter().filter_map(|finding| cost(finding)).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("Measured: {}.", parts.join("; ")),
    }
}

fn cost(finding: &Finding) -> Option<String> {
    let Detail::Coding { ratio, wire_share } = finding.detail else { return None };
    let method = finding.also.as_ref()?.kind.split(' ').next().unwrap_or_default().to_owned();
    let shrunk = wire_share.filter(|_| finding.id == FindingId::CompressionCost);
    let shrunk =
        shrunk.map_or(String::new(), |share| format!(", {} of the bytes sent", percent(share)));
    Some(format!("{method} leaves {} of the rate{shrunk}", percent(ratio)))
}
