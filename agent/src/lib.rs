//! Agent: measures network and storage on one node, driven by the controller.

pub mod facts;
pub mod jobs;
mod sys;
