//! A lab for Redoline: two clusters of nodes on one machine, with an emulated WAN between them.
//!
//! ```text
//!  this process (controller's place: the root network namespace)
//!   │ 198.18.x.0/24 management, one veth per node
//!   ├── phx1 ─┐                                                   ┌─ ash1 ──┤
//!   └── phx2 ─┴─ 198.51.100.0/24 ─ router ═ WAN ═ router ─ 203.0.113.0/24 ─┴─ ash2
//! ```
//!
//! A node is a set of namespaces (network, mount, UTS, PID) with its own sshd, users, `/etc`,
//! `/home` and `/tmp`; nothing that it writes reaches the machine's files. The WAN is two TUN
//! devices and a relay in user space, since many kernels have no netem: delay, rate per direction,
//! rate per flow, loss, queue, burst credit, MTU, reordering. Everything hangs on the process that made it, and
//! goes with it, even when it is killed.
//!
//! Modules are listed from the pure parts to the whole.

pub mod units;
pub mod wan;
pub mod namespace;
mod cgroup;
mod private_root;
pub mod ssh;
pub mod node;
pub mod inventory;
mod addresses;
mod directory;
mod topology;
pub mod lab;
mod background;
mod iperf;
pub mod check;
pub mod peers;
mod requirements;
pub mod bench;
pub mod harness;

pub use background::Background;
pub use check::CheckReport;
pub use inventory::Inventory;
pub use lab::{Lab, LabSpec};
pub use namespace::{Namespace, Process, Spawned};
pub use node::{Carrier, LabNode, Network, Side};
pub use requirements::why_unavailable;
pub use wan::{Burst, Icmp, Punctuality, Reorder, WanSpec};
