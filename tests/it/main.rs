//! Examples of the whole controller without nodes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod layers;
mod runbooks;
mod docs;
mod executor;
mod end_to_end;
