//! What a SYNC test says of a commit: how long an acknowledgement takes, and what of it is disk.

use std::time::Duration;

use redoline_proto::latency::Latency;

use crate::record::measurement::{PairTransfer, TransferRequest};

/// Of all streams of one pair.
#[derive(Clone, Debug, PartialEq)]
pub struct SyncSummary {
    /// `sync` (AFFIRM) or `fastsync`.
    pub mode: String,
    pub message_bytes: u64,
    pub messages: u64,
    /// Over the time from the first byte to the end.
    pub messages_per_second: Option<f64>,
    /// From the first byte given to `send` to the acknowledgement.
    pub total: Latency,
    /// Of that, the receiver's write; `None` when nothing was written.
    pub write: Option<Latency>,
    /// Mean of `total` − mean of `write`, in microseconds: network and both ends' processors.
    pub network_mean_us: f64,
}

impl SyncSummary {
    /// Share of the mean acknowledgement that is not the write, 0 to 1.
    pub fn network_share(&self) -> Option<f64> {
        (self.total.mean_us > 0.0).then(|| self.network_mean_us / self.total.mean_us)
    }

    /// What SYNC adds to a commit, as bounds: LGWR writes locally and sends at the same time, so the
    /// commit waits for the longer of both: max(0, remote − local) … remote. Means, microseconds.
    ///
    /// `None` for the lower bound when the local log write is not known.
    pub fn commit_overhead_us(&self, local_write: Option<Duration>) -> (Option<f64>, f64) {
        let remote = self.total.mean_us;
        let local = local_write.map(|local| local.as_secs_f64() * 1e6);
        (local.map(|local| (remote - local).max(0.0)), remote)
    }
}

/// `None` for an ASYNC test, and for one that did not get to its end.
pub fn summarise(request: &TransferRequest, pair: &PairTransfer) -> Option<SyncSummary> {
    let end = pair.sender.end.as_ref()?;
    let acknowledged = end.acknowledgements.as_ref()?;
    let elapsed_ns = pair.sender.started_ns.map(|started| end.at_ns - started);
    let seconds = elapsed_ns.filter(|ns| *ns > 0).map(|ns| ns as f64 / 1e9);
    let total = acknowledged.total.clone();
    let write = acknowledged.write.clone();
    let written = write.as_ref().map_or(0.0, |write| write.mean_us);
    Some(SyncSummary {
        mode: request.mode.clone(),
        message_bytes: request.message_bytes,
        messages: acknowledged.messages,
        messages_per_second: seconds.map(|seconds| acknowledged.messages as f64 / seconds),
        network_mean_us: (total.mean_us - written).max(0.0),
        total,
        write,
    })
}
