//! The one door to what only `unsafe` code can reach: mapped memory, io_uring, ioctls.

pub mod ethtool;
pub mod pages;
pub mod read_ring;
