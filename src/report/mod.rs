//! How a run is shown. Pure: values in, text out.

pub mod model;
