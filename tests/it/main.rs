//! Tests of the controller that need no node but this machine.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

mod layers;
mod runbooks;
