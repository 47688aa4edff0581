//! Reads storage as Oracle Database reads it.

use redoline_proto::storage::{StorageEvent, StorageJob};
use redoline_proto::transfer::{StopCause, Stopped};

use super::cancel::CancelFlag;

/// Runs all points of `job`, one after the other; blocks until the last, or until `cancel` is set.
pub fn run(job: StorageJob, cancel: &CancelFlag, mut emit: impl FnMut(StorageEvent)) {
    let text = format!("job {}: storage reads are not built in", job.job.0);
    tracing::warn!(cancelled = cancel.is_set(), "{text}");
    emit(StorageEvent::End { stopped: Some(Stopped { cause: StopCause::System, text }) });
}
