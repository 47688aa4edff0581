//! What the standard library does not reach of the operating system; the only folder with unsafe.

pub mod clock;
pub mod ethtool;
pub mod fragments;
pub mod huge_buffer;
pub mod pages;
pub mod read_ring;
pub mod priority;
pub mod readiness;
pub mod signals;
pub mod socket_options;
pub mod tcp;
pub mod tcp_info;
