//! An agent on each node: which executable, how it gets there and is started, how it is greeted,
//! kept alive and released.

pub mod executable;
pub mod deploy;
pub mod client;
pub mod session;
