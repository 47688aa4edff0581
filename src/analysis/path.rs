//! What the way between two nodes is like: round trips idle and loaded, loss, order, packet sizes.

use redoline_proto::latency::Latency;
use redoline_proto::path::PathProbe;

use super::throughput::PairSummary;
use crate::plan::node::{Direction, PairId};
use crate::record::measurement::MeasurementId;

#[derive(Clone, Debug, PartialEq)]
pub struct PathSummary {
    pub id: MeasurementId,
    pub step: usize,
    pub direction: Direction,
    pub pair: PairId,
    pub probe: Option<PathProbe>,
    /// Of the short stream of large messages; its round trips are those under load.
    pub stream: Option<PairSummary>,
    pub failure: Option<String>,
}

impl PathSummary {
    /// Of small datagrams on the idle path.
    pub fn idle_rtt(&self) -> Option<&Latency> {
        self.probe.as_ref()?.rtt.as_ref()
    }

    /// Share of the small datagrams that were not answered, 0 to 1; `None` when none came back.
    pub fn loss_share(&self) -> Option<f64> {
        let probe = self.probe.as_ref()?;
        let came_back = probe.answered > 0 && probe.sent > 0;
        came_back.then(|| 1.0 - f64::from(probe.answered) / f64::from(probe.sent))
    }
}
