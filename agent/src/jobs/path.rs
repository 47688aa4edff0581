//! What the way to a peer is like: small datagrams for round trips, large ones for the path MTU.

use redoline_proto::path::{PathProbe, ProbeJob, ReflectEnd, ReflectEvent, ReflectJob};
use redoline_proto::transfer::{StopCause, Stopped};

use super::JobControl;

pub fn reflect(
    _job: &ReflectJob,
    _control: &JobControl,
    events: tokio::sync::mpsc::Sender<ReflectEvent>,
) {
    let stopped = Stopped { cause: StopCause::System, text: "not built".to_owned() };
    let end = ReflectEnd { stopped: Some(stopped), ..ReflectEnd::default() };
    let _ = events.blocking_send(ReflectEvent::End(end));
}

pub fn probe(_job: &ProbeJob, _control: &JobControl) -> PathProbe {
    PathProbe::default()
}
