//! What an agent can be asked to do: transfers, path probes, storage reads; each ended by one flag.

pub mod cancel;
mod control;
pub mod cpu;
pub mod guard;
mod host_use;
pub mod interface_mtu;
mod latency;
pub mod path;
pub mod storage;
mod throttle;
pub mod transfer;

pub use control::{JobControl, Jobs, RunningJob, StartError};
