//! Opens or makes the target, in a thread of its own: opening may hang on a dead file system.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use redoline_proto::storage::{StorageJob, StoragePrepared, StorageProgress, StorageTarget};

use super::engine::{self, Allowed, Choice};
use super::error::StorageError;
use super::pace::Pace;
use super::point;
use super::scratch::{self, Scratch};
use super::target::{Expected, Source, open_existing};
use super::watch::Watch;
use crate::jobs::cancel::CancelFlag;

/// A target that is ready to be read, and what is to be said of it.
#[derive(Debug)]
pub struct Ready {
    pub source: Arc<Source>,
    pub prepared: StoragePrepared,
    /// How each point is read, in their order.
    pub choices: Vec<Choice>,
}

#[derive(Debug)]
enum Message {
    Progress(StorageProgress),
    Done(Result<Box<Ready>, StorageError>),
}

/// How soon a cancelled preparation notices.
const TICK: Duration = Duration::from_millis(50);

/// Prepares the target of `job`; ends at its deadline, when cancelled, or at a limit.
pub fn prepare(
    job: &StorageJob,
    pace: Option<Pace>,
    allowed: Allowed,
    cancel: &CancelFlag,
    watch: &mut Watch,
    mut progress: impl FnMut(StorageProgress),
) -> Result<Box<Ready>, StorageError> {
    let stop = StopOnDrop(CancelFlag::new());
    let (report, messages) = mpsc::sync_channel(64);
    let (job_of_thread, stop_of_thread) = (job.clone(), stop.0.clone());
    thread::Builder::new()
        .name("storage-prepare".to_owned())
        .spawn(move || {
            let done = make_ready(&job_of_thread, pace, allowed, &stop_of_thread, &report);
            // Nobody listens any more when the job was cancelled.
            let _ = report.send(Message::Done(done));
        })
        .map_err(StorageError::Resources)?;
    let deadline = Instant::now() + job.prepare_deadline;
    loop {
        match messages.recv_timeout(TICK) {
            Ok(Message::Progress(text)) => progress(text),
            Ok(Message::Done(done)) => return done,
            Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => {
                let cause = std::io::Error::other("the preparing thread ended without a report");
                return Err(StorageError::Resources(cause));
            }
        }
        if cancel.is_set() {
            return Err(StorageError::Cancelled);
        }
        if let Some(limit) = watch.check(Instant::now()) {
            return Err(StorageError::Limit(limit));
        }
        if Instant::now() >= deadline {
            let seconds = job.prepare_deadline.as_secs();
            return Err(StorageError::Deadline { what: "preparing the target", seconds });
        }
    }
}

struct StopOnDrop(CancelFlag);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

fn make_ready(
    job: &StorageJob,
    pace: Option<Pace>,
    allowed: Allowed,
    stop: &CancelFlag,
    report: &mpsc::SyncSender<Message>,
) -> Result<Box<Ready>, StorageError> {
    let tell = |text: String, share_done| {
        // A full queue loses a progress line, never the result.
        let _ = report.try_send(Message::Progress(StorageProgress { text, share_done }));
    };
    let paced = pace.is_some();
    for point in &job.points {
        point.check()?;
    }
    let source = match &job.target {
        StorageTarget::File(path) => open_existing(path, Expected::RegularFile)?,
        StorageTarget::Device(path) => open_existing(path, Expected::BlockDevice)?,
        StorageTarget::Scratch { dir, size } => {
            let scratch = Scratch { dir: dir.clone(), size: *size, seed: job.seed, pace };
            let mut told = Instant::now();
            scratch::make(&scratch, stop, |share| {
                if told.elapsed() >= Duration::from_secs(1) {
                    told = Instant::now();
                    tell(format!("filling the scratch file in {dir}"), share);
                }
            })?
        }
    };
    let source = Arc::new(source);
    let mut choices = Vec::new();
    for point in &job.points {
        if stop.is_set() {
            return Err(StorageError::Cancelled);
        }
        point::check(point, &source)?;
        source.trial_read(point.request_bytes)?;
        choices.push(engine::choose(&source, point, paced, allowed));
    }
    let zero_block_share = source.zero_block_share(job.seed, || !stop.is_set())?;
    remarks(&source).into_iter().for_each(|remark| tell(remark, 1.0));
    let prepared = StoragePrepared {
        path: source.path.clone(),
        size_bytes: source.size_bytes,
        filesystem: source.filesystem.clone(),
        device: source.device.as_ref().map(|device| device.name.clone()),
        alignment_bytes: source.alignment_bytes,
        zero_block_share,
        scratch: source.scratch,
    };
    Ok(Box::new(Ready { source, prepared, choices }))
}

/// What a reader of the figures must know of the target.
fn remarks(source: &Source) -> Vec<String> {
    /// Below this, holes do not change what is measured.
    const HOLE_SHARE_MIN: f64 = 0.01;
    let mut remarks = Vec::new();
    if let Some(share) = source.hole_share.filter(|share| *share >= HOLE_SHARE_MIN) {
        remarks.push(format!(
            "{:.0} % of {} were never written (holes): the file system answers reads there \
             without a disk",
            share * 100.0,
            source.path
        ));
    }
    remarks
}
