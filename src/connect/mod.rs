//! A duplex byte stream to a program started on a node.
