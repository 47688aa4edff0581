//! Examples of the whole controller without nodes.

mod layers;
mod runbooks;
