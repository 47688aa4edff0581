//! What happened: events, and the run that they fold into. Pure values.

pub mod event;
pub mod measurement;
pub mod run;
pub mod setup;
mod sound;
