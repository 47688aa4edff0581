//! What a host carried during a test on each of its interfaces, and what its kernel dropped.

use redoline_proto::transfer::{InterfaceUse, SoftnetUse};

use crate::record::measurement::EndRecord;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostUse {
    /// Empty where the agent could not tell.
    pub interfaces: Vec<InterfaceUse>,
    pub softnet: Option<SoftnetUse>,
    /// Over which they were counted.
    pub seconds: Option<f64>,
}

impl HostUse {
    pub fn interface(&self, name: &str) -> Option<&InterfaceUse> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }
}

pub fn of(end: &EndRecord) -> HostUse {
    let Some(last) = &end.end else { return HostUse::default() };
    let elapsed_us = last.cpu.elapsed_us;
    HostUse {
        interfaces: last.interfaces.clone(),
        softnet: last.softnet,
        seconds: (elapsed_us > 0).then(|| elapsed_us as f64 / 1e6),
    }
}
