//! Local stand-in until the lead's file comes; not committed.
