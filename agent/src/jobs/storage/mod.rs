//! Reads storage as Oracle Database reads it: past the page cache, with its two patterns.
//!
//! Files and devices are opened read only. The only code that writes is in `scratch`, into a file
//! without a name.

mod counters;
mod device;
mod engine;
mod error;
mod latency;
mod offsets;
mod pace;
mod point;
mod prepare;
mod reader;
mod samples;
mod scratch;
mod target;
mod watch;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use redoline_proto::storage::{StorageEvent, StorageJob};

use self::engine::Allowed;
use self::error::StorageError;
use self::pace::Pace;
use self::point::Setting;
use self::watch::Watch;
use super::cancel::CancelFlag;

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
    let ready = prepare::prepare(job, pace.clone(), cancel, &mut watch, |progress| {
        emit(StorageEvent::Progress(progress));
    })?;
    emit(StorageEvent::Prepared(ready.prepared));
    let source = Arc::clone(&ready.source);
    let setting = Setting { source, sample: job.sample, seed: job.seed, pace, cancel, allowed };
    let mut position = 0;
    for (index, point) in job.points.iter().enumerate() {
        if cancel.is_set() {
            return Err(StorageError::Cancelled);
        }
        let result = point::run(&setting, index, point, &mut position, &mut watch, |progress| {
            emit(StorageEvent::Progress(progress));
        })?;
        emit(StorageEvent::Result(Box::new(result)));
    }
    Ok(())
}
