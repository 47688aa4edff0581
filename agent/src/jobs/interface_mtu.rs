//! An interface's MTU at another value, for as long as somebody listens; restored whatever happens.

use redoline_proto::path::{HoldMtuEvent, HoldMtuJob, MtuRestored};
use redoline_proto::transfer::{StopCause, Stopped};

use super::JobControl;

pub fn hold(
    _job: &HoldMtuJob,
    _control: &JobControl,
    events: tokio::sync::mpsc::Sender<HoldMtuEvent>,
) {
    let stopped = Stopped { cause: StopCause::System, text: "not built".to_owned() };
    let restored =
        MtuRestored { interface: String::new(), now_bytes: None, stopped: Some(stopped) };
    let _ = events.blocking_send(HoldMtuEvent::Restored(restored));
}
