//! What an agent can be asked to do: transfers, path probes, storage reads; each ended by one flag.

pub mod cancel;
mod control;
pub mod cpu;
pub mod guard;
pub mod interface_mtu;
pub mod path;
pub mod storage;
pub mod transfer;

pub use control::{JobControl, Jobs, RunningJob, StartError};
