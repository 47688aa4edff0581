//! The one door to what only `unsafe` code can reach: mapped memory, io_uring, ioctls, netlink.

pub mod pages;
pub mod read_ring;
