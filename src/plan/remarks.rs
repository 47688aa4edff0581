//! What a plan will not be able to tell, said before it runs.

use redoline_proto::encoding::Encoding;
use redoline_proto::transfer::Payload;

use super::need::{Limits, Need, Transport};
use super::step::{Action, ThroughputSpec, Vary};
use super::steps::Draft;

/// What of the need this run cannot tell.
pub fn on_need(need: Option<&Need>, limits: &Limits, drafts: &[Draft]) -> Vec<String> {
    let Some(need) = need else { return Vec::new() };
    let mut remarks: Vec<String> = no_sync_test(need, drafts).into_iter().collect();
    if let Some(limit) = limits.rate {
        let above = need.threads.iter().filter(|(_, rate)| need.with_headroom(**rate) >= limit);
        remarks.extend(above.map(|(thread, _)| {
            format!(
                "thread {thread} needs more than limits.rate lets a node send, so it cannot be told"
            )
        }));
    }
    remarks
}

/// The mode of a step is what the step says: a test of the rate and a test of the latency are two.
fn no_sync_test(need: &Need, drafts: &[Draft]) -> Option<String> {
    let (transport, mode) = match need.transport {
        Transport::Async => return None,
        Transport::Sync => ("SYNC AFFIRM", "sync"),
        Transport::Fastsync => ("SYNC NOAFFIRM", "fastsync"),
    };
    let is_tested = running(drafts).any(|(_, test)| test.mode.key() == mode);
    (!is_tested).then(|| {
        format!(
            "the need is {transport}, and no step has `mode: {mode}`: rates can be judged, what \
             commits wait for cannot"
        )
    })
}

/// What steps would do in vain, or on this machine.
pub fn on_steps(drafts: &[Draft], loopback: bool) -> Vec<String> {
    let mut remarks = useless_compression(drafts);
    let changes_mtu =
        |(draft, _): (&Draft, _)| matches!(draft.step.action, Action::InterfaceMtu(_));
    if loopback && running(drafts).any(changes_mtu) {
        remarks.push(
            "all redo addresses are on loopback: interface_mtu changes the loopback interface of \
             this machine, which everything on it uses, and can show no gain"
                .to_owned(),
        );
    }
    remarks
}

fn useless_compression(drafts: &[Draft]) -> Vec<String> {
    let useless = running(drafts).filter(|(draft, test)| {
        let compresses = matches!(test.encoding, Some(Encoding::Compression(_)))
            || matches!(&draft.step.action, Action::Sweep(sweep)
                if matches!(sweep.vary, Vary::Compression(_)));
        compresses && test.payload == Payload::Random && test.compressible.is_none()
    });
    useless
        .map(|(draft, _)| {
            format!(
                "`{}` compresses random bytes, in which nothing is found; give `compressible`, for \
                 example the share that the redo of these databases shrinks by",
                draft.step.name
            )
        })
        .collect()
}

fn running(drafts: &[Draft]) -> impl Iterator<Item = (&Draft, &ThroughputSpec)> {
    let drafts = drafts.iter().filter(|draft| !draft.step.excluded);
    drafts.filter_map(|draft| Some((draft, draft.step.action.test()?)))
}
