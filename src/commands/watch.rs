//! The readers of a run's events: history, progress, and the record that becomes the report.

use tokio::sync::mpsc;

use super::complain;

use crate::history::run_dir::EventLog;
use crate::progress::Progress;
use crate::record::event::{Event, Moment};
use crate::record::run::RunRecord;

/// Stamps each event once and hands it to every reader. A reader that fails does not end the run:
/// it is said once.
pub(super) async fn watch(
    mut events: mpsc::Receiver<Event>,
    mut log: EventLog,
    mut progress: Progress,
) -> Option<RunRecord> {
    let mut record: Option<RunRecord> = None;
    let mut log_failed = false;
    while let Some(event) = events.recv().await {
        let moment = Moment { unix_ms: jiff::Timestamp::now().as_millisecond(), event };
        if let Err(error) = log.append(&moment)
            && !log_failed
        {
            log_failed = true;
            complain(format_args!(
                "warning: the run goes on, but is not kept: {:#}",
                anyhow::Error::from(error)
            ));
        }
        // A terminal that is gone takes nothing from the run.
        if let Err(error) = progress.show(&moment) {
            tracing::debug!("progress cannot be shown: {error}");
        }
        match &mut record {
            Some(record) => record.apply(&moment),
            None => record = RunRecord::begin(&moment),
        }
    }
    record
}
