//! What the databases require, and what a run may use of the hosts and the network.

use std::collections::BTreeMap;
use std::time::Duration;

use redoline_proto::units::{Bytes, BytesPerSecond, Share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the databases require of network and storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Need {
    /// Peak redo rate of each thread, without headroom.
    #[serde(with = "by_number")]
    pub threads: BTreeMap<u32, BytesPerSecond>,
    /// Peak redo rate of all threads together, without headroom.
    pub total: Option<BytesPerSecond>,
    /// Average redo write size.
    pub write_size: Option<Bytes>,
    /// Average write to the primary's own redo log (`log file parallel write`).
    #[serde(default)]
    pub local_write: Option<Duration>,
    /// Added to the rates before they are compared: MAA adds 30 %.
    pub headroom: Share,
    pub transport: Transport,
    pub database_size: Option<Bytes>,
    pub instantiate_within: Option<Duration>,
}

impl Need {
    pub fn with_headroom(&self, rate: BytesPerSecond) -> BytesPerSecond {
        BytesPerSecond(rate.0 * (1.0 + self.headroom.0))
    }
}

/// How redo is shipped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    #[default]
    Async,
    /// AFFIRM: acknowledged after the write to the standby redo log.
    Sync,
    /// NOAFFIRM: acknowledged after receipt in memory.
    Fastsync,
}

/// What a run may use; enforced by the agents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Per node; paced.
    pub rate: Option<BytesPerSecond>,
    /// Of the whole run, sent over the network under test.
    pub bytes: Option<Bytes>,
    /// Of the host's CPU time; a test that exceeds it is ended.
    pub cpu: Option<Share>,
    /// 1-minute load average per CPU; above it no test starts.
    pub load: Option<f64>,
    /// Time of day in which tests may start, by the controller's clock.
    pub window: Option<TimeWindow>,
}

/// From one time of day to another, in minutes after midnight; `from > to` spans midnight.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct TimeWindow {
    pub from_minute: u16,
    pub to_minute: u16,
}

impl TimeWindow {
    pub fn contains(self, minute: u16) -> bool {
        if self.from_minute <= self.to_minute {
            (self.from_minute..self.to_minute).contains(&minute)
        } else {
            minute >= self.from_minute || minute < self.to_minute
        }
    }
}

/// JSON's keys are texts, and inside a tagged enum serde does not read numbers from them.
mod by_number {
    use std::collections::BTreeMap;

    use redoline_proto::units::BytesPerSecond;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    type ByNumber = BTreeMap<u32, BytesPerSecond>;

    pub(super) fn serialize<S: Serializer>(rates: &ByNumber, to: S) -> Result<S::Ok, S::Error> {
        let by_text: BTreeMap<String, BytesPerSecond> =
            rates.iter().map(|(number, rate)| (number.to_string(), *rate)).collect();
        by_text.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ByNumber, D::Error> {
        BTreeMap::<String, BytesPerSecond>::deserialize(from)?
            .into_iter()
            .map(|(text, rate)| Ok((text.parse().map_err(de::Error::custom)?, rate)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_may_span_midnight() {
        let night = TimeWindow { from_minute: 22 * 60, to_minute: 5 * 60 };
        assert!(night.contains(23 * 60) && night.contains(0) && !night.contains(5 * 60));
    }
}
