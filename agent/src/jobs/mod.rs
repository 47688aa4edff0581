//! What an agent can be asked to do: transfers and storage reads, each ended by one flag.

pub mod cancel;
pub mod storage;
