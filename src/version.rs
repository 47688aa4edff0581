//! Which build this is: stamped by `build.rs`, named by the handshake and every report.

/// From `Cargo.toml`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that was built, or `unknown`.
pub const COMMIT: &str = env!("REDOLINE_COMMIT");
/// For `--version`.
pub const LONG: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("REDOLINE_COMMIT"), ")");
