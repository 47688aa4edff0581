//! Steps that measure the same several times: over hours, and around another interface MTU.

use super::{Ask, Run, point};
use crate::plan::node::{Direction, PairId};
use crate::plan::step::Nodes;
use crate::record::measurement::{SeriesKind, StoppedBecause, Variable};

const HOUR_MS: i64 = 3_600_000;

impl Run<'_> {
    /// `hours 100% 40%`: one stream each, all pairs at once, with what others leave of the link.
    pub(super) fn hours(
        &mut self,
        step: usize,
        direction: Direction,
        pairs: &[PairId],
        free: &[String],
    ) {
        let mut points = Vec::new();
        for (hour, free) in free.iter().enumerate() {
            let ask = Ask { nodes: Nodes::Together, free: share(free), ..Ask::of(1, 20) };
            let (measured, _) = self.measure(step, direction, pairs, &ask);
            let seconds = hour as f64 * 3600.0;
            points.push(point(Some(seconds), &format!("{seconds} s"), measured.id));
            self.now_ms += HOUR_MS;
        }
        let pair = if let [pair] = pairs { Some(*pair) } else { None };
        let series = (SeriesKind::Sweep, Variable::Time, None);
        let all = StoppedBecause::AllValues;
        self.finish(step, Some(direction), (pair, None), series, points, all);
    }

    /// `interface_mtu 9000`, and `interface_mtu 9000 80%` where so much of the link is left for the
    /// last of the three tests.
    pub(super) fn interface_mtu(
        &mut self,
        step: usize,
        direction: Direction,
        pair: PairId,
        words: &[String],
    ) {
        let mtu: u32 = words[0].parse().unwrap();
        let own = self.paths[&true].planted.interface_mtu;
        let later = words.get(1).map_or(1.0, |text| share(text));
        let mut points = Vec::new();
        for (interface_mtu, free) in [(None, 1.0), (Some(mtu), 1.0), (None, later)] {
            let ask = Ask { interface_mtu, free, ..Ask::of(1, 10) };
            let (measured, _) = self.measure(step, direction, &[pair], &ask);
            let mtu = interface_mtu.unwrap_or(own);
            points.push(point(Some(f64::from(mtu)), &mtu.to_string(), measured.id));
        }
        let series = (SeriesKind::Sweep, Variable::InterfaceMtu, None);
        let all = StoppedBecause::AllValues;
        self.finish(step, Some(direction), (Some(pair), None), series, points, all);
    }
}

fn share(text: &str) -> f64 {
    super::super::quantity::<redoline_proto::units::Share>(text).0
}
