//! From what went wrong to a failure in the record: node, phase, text, cause.

use std::error::Error;

use redoline_proto::transfer::{StopCause, Stopped};

use crate::agents::client::AgentError;
use crate::agents::session::{Agent, BeginError};
use crate::plan::node::NodeId;
use crate::record::measurement::{Failure, FailureCause};

/// An error and everything beneath it, outermost first.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

pub fn of_begin(node: NodeId, error: &BeginError) -> Failure {
    let cause = match error {
        BeginError::Busy { .. } => FailureCause::Busy,
        BeginError::Connect(_)
        | BeginError::Deploy(_)
        | BeginError::Greet { .. }
        | BeginError::Protocol { .. } => FailureCause::Unreachable,
    };
    Failure { node: Some(node), phase: error.phase(), text: chain(error), cause }
}

pub fn of_agent(agent: &Agent, phase: &str, error: &AgentError) -> Failure {
    of_client(agent.node, &agent.name, phase, error, &agent.last_words())
}

/// `last_words`: what the agent wrote on its standard error, for one that is gone.
pub fn of_client(
    node: NodeId,
    name: &str,
    phase: &str,
    error: &AgentError,
    last_words: &str,
) -> Failure {
    let lost = matches!(error, AgentError::Lost { .. } | AgentError::Silent { .. });
    let text = match lost {
        true => format!(
            "the agent on `{name}` is gone or no longer answers ({}){last_words}; look at the node \
             and the way to it, then run the step again with `--only`",
            chain(error)
        ),
        false => format!("`{name}`: {}", chain(error)),
    };
    let cause = if lost { FailureCause::Unreachable } else { FailureCause::CouldNotMeasure };
    Failure { node: Some(node), phase: phase.to_owned(), text, cause }
}

/// An agent ended the job by itself and said why.
pub fn of_stop(node: NodeId, phase: &str, stopped: &Stopped) -> Failure {
    let cause = match stopped.cause {
        StopCause::Limit => FailureCause::Limit,
        StopCause::Cancelled => FailureCause::Interrupted,
        StopCause::Connect | StopCause::Peer | StopCause::Deadline | StopCause::System => {
            FailureCause::CouldNotMeasure
        }
    };
    Failure { node: Some(node), phase: phase.to_owned(), text: stopped.text.clone(), cause }
}

pub fn could_not_measure(node: Option<NodeId>, phase: &str, text: impl Into<String>) -> Failure {
    Failure {
        node,
        phase: phase.to_owned(),
        text: text.into(),
        cause: FailureCause::CouldNotMeasure,
    }
}
