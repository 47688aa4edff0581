//! Advice about Oracle's own settings: SYNC transport, encryption, compression.

use super::{Command, CommandKind, Draft, Ground};
use crate::analysis::finding::{Detail, Finding, FindingId};
use crate::analysis::words::percent;
use crate::plan::need::Transport;

/// Oracle recommends at least 8 to 10 s; shorter ones end in ORA-16198 during a pause.
const NET_TIMEOUT_LEAST_SECONDS: u32 = 10;
const SDU: u32 = 65_535;

impl Ground<'_> {
    fn is_sync(&self) -> bool {
        let need = self.case.setup().need.as_ref();
        need.is_some_and(|need| need.transport != Transport::Async)
    }
}

pub(super) fn net_for_sync(ground: &Ground<'_>) -> Option<Draft> {
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
    let destination = Command {
        nodes: ground.primaries(),
        kind: CommandKind::Sqlplus,
        lines: vec![format!(
            "ALTER SYSTEM SET LOG_ARCHIVE_DEST_2='SERVICE=… SYNC NOAFFIRM \
             NET_TIMEOUT={NET_TIMEOUT_LEAST_SECONDS} …' SCOPE=BOTH;"
        )],
    };
    Some(Draft {
        action: format!(
            "For SYNC: an SDU of {SDU} on both sides (it is negotiated to the smaller one; \
             dynamically registered services take DEFAULT_SDU_SIZE of sqlnet.ora), standby redo logs \
             with a single member on the fastest disk group, and FASTSYNC (SYNC NOAFFIRM) where \
             redo in the standby's memory is protection enough. NET_TIMEOUT of at least 8 to 10 s: \
             shorter ones leave the destination at the first pause (ORA-16198). Measured: up to \
             {high:.2} ms per commit. With the broker, set LogXptMode and NetTimeout instead. The \
             SDU brings nothing for ASYNC."
        ),
        commands: vec![sqlnet, tnsnames, destination],
        expected_effect: "Each redo write crosses the network as one message; without the write \
                          before the answer, its time leaves the commit."
            .to_owned(),
        how_to_verify: format!(
            "{}; then `log file sync` and `SYNC remote write` at peak, with and without SYNC",
            ground.again()
        ),
        how_to_undo:
            "Remove the lines; ALTER SYSTEM with the former LOG_ARCHIVE_DEST_2; defer and \
                      enable the destination."
                .to_owned(),
        risk: "FASTSYNC loses what was only in the standby's memory if both sites fail at once."
            .to_owned(),
        needs_root: false,
        licence: None,
    })
}

pub(super) fn avoid_sync(ground: &Ground<'_>) -> Option<Draft> {
    let finding = ground.findings.first().filter(|_| ground.is_sync())?;
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

pub(super) fn weigh_compression(ground: &Ground<'_>) -> Option<Draft> {
    Some(Draft {
        action: format!(
            "Compress redo only where the network cannot carry it: COMPRESSION=ENABLE in \
             LOG_ARCHIVE_DEST_n costs processor time at both ends. {} This is a model with a made \
             payload: how far your redo shrinks, archived logs tell (gzip -1); encrypted redo \
             hardly does.",
            costs(ground)
        ),
        commands: vec![Command {
            nodes: ground.primaries(),
            kind: CommandKind::Sqlplus,
            lines: vec![
                "ALTER SYSTEM SET LOG_ARCHIVE_DEST_2='SERVICE=… COMPRESSION=ENABLE …' SCOPE=BOTH;"
                    .to_owned(),
            ],
        }],
        expected_effect: "Fewer bytes on the network, by the factor that your redo shrinks by."
            .to_owned(),
        how_to_verify: "Transport lag in V$DATAGUARD_STATS at peak time.".to_owned(),
        how_to_undo: "COMPRESSION=DISABLE in the same destination.".to_owned(),
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
