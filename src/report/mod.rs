//! How a run is shown. Pure: values in, text out.

pub mod model;
pub mod build;
mod topology;
mod measurements;
mod outcome;
