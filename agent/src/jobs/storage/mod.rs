//! Reads storage as Oracle Database reads it: past the page cache, with its two patterns.
//!
//! Files and devices are opened read only. The only code that writes is in `scratch` and
//! `redo_log`, into a file without a name.

mod counters;
mod device;
mod engine;
mod error;
mod offsets;
mod pace;
mod point;
mod prepare;
mod reader;
mod redo_log;
mod samples;
mod scratch;
mod target;
mod watch;
#[cfg(test)]
mod tests;

pub use redo_log::{RedoLog, Region};

use std::sync::Arc;
use std::time::{Duration, Instant};

use redoline_proto::storage::{StorageEvent, StorageJob};

use self::engine::{Allowed, Choice, within};
use self::error::StorageError;
use self::pace::Pace;
use self::point::{Setting, Task};
use self::prepare::Ready;
use self::watch::Watch;
use super::cancel::CancelFlag;
use super::guard::may_start;

/// For the target to close before the job ends without waiting for it.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// Runs all points of `job`, one after the other; blocks until the last, or until `cancel` is set.
///
/// Emits `Prepared`, a `Result` per point that ran its course, progress at most once a second
/// (and remarks on the target while preparing), and always `End` last.
pub fn run(job: StorageJob, cancel: &CancelFlag, emit: impl FnMut(StorageEvent)) {
    run_with(&job, Allowed::All, cancel, emit);
}

fn run_with(
    job: &StorageJob,
    allowed: Allowed,
    cancel: &CancelFlag,
    mut emit: impl FnMut(StorageEvent),
) {
    let stopped = measure(job, allowed, cancel, &mut emit).err().map(Into::into);
    emit(StorageEvent::End { stopped });
}

fn measure(
    job: &StorageJob,
    allowed: Allowed,
    cancel: &CancelFlag,
    emit: &mut impl FnMut(StorageEvent),
) -> Result<(), StorageError> {
    let now = Instant::now();
    let mut watch = Watch::new(job.guard, now);
    let pace = Pace::new(job.rate, now);
    may_start(job.guard).map_err(StorageError::Limit)?;
    let ready = prepare::prepare(job, pace.clone(), allowed, cancel, &mut watch, |progress| {
        emit(StorageEvent::Progress(progress));
    })?;
    let Ready { source, prepared, choices } = *ready;
    emit(StorageEvent::Prepared(prepared));
    let setting =
        Setting { source: Arc::clone(&source), sample: job.sample, seed: job.seed, pace, cancel };
    let outcome = run_points(job, &setting, choices, &mut watch, emit);
    drop(setting);
    close(source);
    outcome
}

fn run_points(
    job: &StorageJob,
    setting: &Setting<'_>,
    choices: Vec<Choice>,
    watch: &mut Watch,
    emit: &mut impl FnMut(StorageEvent),
) -> Result<(), StorageError> {
    let mut position = 0;
    for (index, (point, choice)) in job.points.iter().zip(choices).enumerate() {
        if setting.cancel.is_set() {
            return Err(StorageError::Cancelled);
        }
        let task = Task { index, point, choice };
        let result = point::run(setting, task, &mut position, watch, |progress| {
            emit(StorageEvent::Progress(progress));
        })?;
        emit(StorageEvent::Result(Box::new(result)));
    }
    Ok(())
}

/// Closing the last descriptor of a scratch file frees its blocks, which may hang as a read may.
fn close(source: impl Send + 'static) {
    // What takes longer, or finds no thread, ends with the process at the latest.
    let _ = within(CLOSE_PATIENCE, "storage-close", move || drop(source));
}
