//! How a run is shown. Pure: values in, text out.

pub mod model;
pub mod build;
mod topology;
mod measurements;
mod series;
mod outcome;
pub mod format;
pub mod text;
pub mod summary;
pub mod wording;
pub mod parameters;
pub mod tables;
pub mod json;
pub mod csv;
pub mod markdown;
pub mod terminal;
pub mod html;

#[cfg(test)]
mod samples;
