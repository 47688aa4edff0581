//! Which jobs run, and the reins by which each is started and ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redoline_proto::transfer::JobId;
use tokio::sync::watch;

use super::cancel::CancelFlag;

/// More jobs at once than any plan has, and fewer than would hurt a host.
pub const JOBS_MAX: usize = 8;

/// The reins of one job.
#[derive(Clone, Debug, Default)]
pub struct JobControl {
    pub cancel: CancelFlag,
    /// Set by `Go`. Cancelling sets it too, so that nobody waits for the start of what has ended;
    /// whoever waits for it looks at `cancel` first.
    pub go: CancelFlag,
    /// Set by `Finish`: the job ends as if its time were over.
    pub finish: CancelFlag,
}

impl JobControl {
    pub fn cancel(&self) {
        self.cancel.set();
        self.go.set();
    }
}

/// All jobs of an agent; clones share them.
#[derive(Clone, Debug)]
pub struct Jobs(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    running: Mutex<Running>,
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Running {
    jobs: HashMap<JobId, JobControl>,
    ending: bool,
}

/// Why a job does not start.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum StartError {
    #[error("job {} runs already", .0.0)]
    RunsAlready(JobId),
    #[error("{JOBS_MAX} jobs run already, which is the most at once")]
    TooMany,
    #[error("the agent is ending")]
    Ending,
}

impl Default for Jobs {
    fn default() -> Self {
        Self(Arc::new(Shared { running: Mutex::default(), count: watch::Sender::new(0) }))
    }
}

impl Jobs {
    /// The job runs until the returned value is dropped.
    pub fn start(&self, job: JobId) -> Result<RunningJob, StartError> {
        let mut running = self.running();
        if running.ending {
            return Err(StartError::Ending);
        }
        if running.jobs.contains_key(&job) {
            return Err(StartError::RunsAlready(job));
        }
        if running.jobs.len() >= JOBS_MAX {
            return Err(StartError::TooMany);
        }
        let control = JobControl::default();
        running.jobs.insert(job, control.clone());
        self.0.count.send_replace(running.jobs.len());
        Ok(RunningJob { jobs: self.clone(), job, control })
    }

    /// False when no such job runs.
    pub fn go(&self, job: JobId) -> bool {
        self.running().jobs.get(&job).map(|control| control.go.set()).is_some()
    }

    /// False when no such job runs.
    pub fn finish(&self, job: JobId) -> bool {
        self.running().jobs.get(&job).map(|control| control.finish.set()).is_some()
    }

    /// False when no such job runs.
    pub fn cancel(&self, job: JobId) -> bool {
        self.running().jobs.get(&job).map(JobControl::cancel).is_some()
    }

    /// Ends what runs, and lets nothing start any more.
    pub fn end(&self) {
        let mut running = self.running();
        running.ending = true;
        running.jobs.values().for_each(JobControl::cancel);
    }

    /// Waits until no job runs, at most for `deadline`; true when none does.
    pub async fn idle(&self, deadline: Duration) -> bool {
        let mut count = self.0.count.subscribe();
        let none = count.wait_for(|&running| running == 0);
        tokio::time::timeout(deadline, none).await.is_ok()
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job's place among the running ones, held by its thread.
#[derive(Debug)]
pub struct RunningJob {
    jobs: Jobs,
    job: JobId,
    control: JobControl,
}

impl RunningJob {
    pub fn control(&self) -> &JobControl {
        &self.control
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        let mut running = self.jobs.running();
        running.jobs.remove(&self.job);
        self.jobs.0.count.send_replace(running.jobs.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_is_one_job() {
        let jobs = Jobs::default();
        let running = jobs.start(JobId(1)).unwrap();
        assert_eq!(jobs.start(JobId(1)).unwrap_err(), StartError::RunsAlready(JobId(1)));
        drop(running);
        assert!(jobs.start(JobId(1)).is_ok());
    }

    #[test]
    fn there_is_a_most_of_jobs_at_once() {
        let jobs = Jobs::default();
        let running: Vec<_> =
            (0..JOBS_MAX as u64).map(|job| jobs.start(JobId(job)).unwrap()).collect();
        assert_eq!(jobs.start(JobId(99)).unwrap_err(), StartError::TooMany);
        drop(running);
    }

    #[test]
    fn cancelling_also_wakes_who_waits_for_the_start() {
        let jobs = Jobs::default();
        let running = jobs.start(JobId(1)).unwrap();
        assert!(jobs.cancel(JobId(1)));
        assert!(running.control().cancel.is_set() && running.control().go.is_set());
        assert!(!jobs.cancel(JobId(2)));
    }

    #[test]
    fn an_ending_agent_starts_nothing() {
        let jobs = Jobs::default();
        let running = jobs.start(JobId(1)).unwrap();
        jobs.end();
        assert!(running.control().cancel.is_set());
        assert_eq!(jobs.start(JobId(2)).unwrap_err(), StartError::Ending);
    }

    #[tokio::test]
    async fn idle_means_that_the_last_job_has_gone() {
        let jobs = Jobs::default();
        let running = jobs.start(JobId(1)).unwrap();
        assert!(!jobs.idle(Duration::from_millis(1)).await);
        drop(running);
        assert!(jobs.idle(Duration::from_secs(60)).await);
    }
}
