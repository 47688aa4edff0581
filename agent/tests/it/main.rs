//! The agent as its controller sees it: over a stream, in gRPC, with real sockets on loopback.

#![expect(clippy::unwrap_used, reason = "the lint's own exception does not cover helpers of tests")]

mod support;

mod encoding;
mod ends;
mod finish;
mod hello;
mod process;
mod refusals;
mod repeats;
mod sockets;
mod sync;
mod times;
mod transfer;
