//! Tests of the controller that need no node but this machine.

mod layers;
mod runbooks;
