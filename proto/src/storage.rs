//! Reading storage as Oracle Database reads it: what is asked, and what comes back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::checks::rate;
pub use crate::latency::{Latency, LatencyBucket};
use crate::transfer::{Guard, JobId, Stopped};
use crate::units::{Bytes, BytesPerSecond, milliseconds};
use crate::{FromWire, InvalidMessage, ToWire, pb};

/// What is read. Files and devices are opened read only; only a scratch file is ever made.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageTarget {
    File(String),
    Device(String),
    /// Made in `dir`, filled with incompressible blocks, unlinked before it is filled.
    Scratch {
        dir: String,
        size: Bytes,
    },
}

/// How Oracle Database asks for blocks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoragePattern {
    /// `db file sequential read`: one random block at a time, `pread`.
    SingleBlock,
    /// `direct path read`: sequential large reads, a fixed number kept outstanding.
    DirectPath,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoragePoint {
    pub pattern: StoragePattern,
    /// Of one read.
    pub request_bytes: u64,
    /// Concurrent readers of `SingleBlock`, outstanding requests (I/O slots) of `DirectPath`.
    pub outstanding: u32,
    pub duration_ms: u64,
}

/// Reads at a time: sessions of `SingleBlock`, I/O slots of `DirectPath`.
pub const OUTSTANDING_MAX: u32 = 256;

/// Of one read; the kernel splits larger ones anyway.
pub const REQUEST_MAX: Bytes = Bytes(32 * Bytes::MIB);

/// Of all buffers of a point: a production host has better uses for its memory.
pub const BUFFERS_MAX: Bytes = Bytes(256 * Bytes::MIB);

/// A point that no agent reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidPoint {
    #[error("{outstanding} reads at a time are not 1 to {OUTSTANDING_MAX}")]
    Outstanding { outstanding: u32 },
    #[error("reads of {request_bytes} bytes are not 1 byte to {REQUEST_MAX}")]
    Request { request_bytes: u64 },
    #[error(
        "{outstanding} reads of {request} at a time need {buffers} of memory, but {BUFFERS_MAX} is \
         the most; ask for fewer or smaller reads"
    )]
    Buffers { outstanding: u32, request: Bytes, buffers: Bytes },
}

impl StoragePoint {
    /// Whether an agent may read it at all, whatever the target is.
    pub fn check(&self) -> Result<(), InvalidPoint> {
        let Self { outstanding, request_bytes, .. } = *self;
        if !(1..=OUTSTANDING_MAX).contains(&outstanding) {
            return Err(InvalidPoint::Outstanding { outstanding });
        }
        if !(1..=REQUEST_MAX.0).contains(&request_bytes) {
            return Err(InvalidPoint::Request { request_bytes });
        }
        let buffers = Bytes(u64::from(outstanding) * request_bytes);
        if buffers > BUFFERS_MAX {
            let request = Bytes(request_bytes);
            return Err(InvalidPoint::Buffers { outstanding, request, buffers });
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct StorageJob {
    pub job: JobId,
    pub target: StorageTarget,
    pub points: Vec<StoragePoint>,
    pub sample: Duration,
    pub guard: Guard,
    /// Of the random offsets.
    pub seed: u64,
    pub prepare_deadline: Duration,
    pub rate: Option<BytesPerSecond>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StorageEvent {
    Prepared(StoragePrepared),
    Progress(StorageProgress),
    Result(Box<StorageResult>),
    End { stopped: Option<Stopped> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StorageProgress {
    pub text: String,
    /// 0 to 1.
    pub share_done: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoragePrepared {
    pub path: String,
    pub size_bytes: u64,
    pub filesystem: String,
    pub device: Option<String>,
    pub alignment_bytes: u32,
    /// Of 256 random blocks: how many hold only zeros. Arrays answer those without a disk.
    pub zero_block_share: Option<f64>,
    pub scratch: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StorageResult {
    pub point: StoragePoint,
    /// `pread`, `io_uring`, `threads`.
    pub engine: String,
    pub engine_reason: String,
    /// That ended in the window.
    pub reads: u64,
    pub bytes: u64,
    /// Of the window: from all readers being ready until none starts another read.
    pub elapsed_ns: u64,
    pub samples: Vec<StorageSample>,
    /// Of every read that began in the window, also of those that ended after it.
    pub latency: Latency,
    /// `/proc/self/io` read_bytes over bytes asked for: 1 when every byte came from a device.
    pub device_read_ratio: Option<f64>,
    pub device_requests_per_read: Option<f64>,
    /// Read from the same device by others meanwhile.
    pub foreign_bytes: Option<u64>,
    pub cpu_us: u64,
    pub short_reads: u64,
    /// Pages of the buffers: `4 KiB` as a PGA has, `2 MiB` as an SGA in HugePages has.
    pub buffer_pages: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StorageSample {
    pub from_ns: i64,
    pub to_ns: i64,
    pub reads: u64,
    pub bytes: u64,
}

mirror!(StoragePoint, StoragePoint { pattern, request_bytes, outstanding, duration_ms });
mirror!(StorageProgress, StorageProgress { text, share_done });
mirror!(
    StoragePrepared,
    StoragePrepared {
        path,
        size_bytes,
        filesystem,
        device,
        alignment_bytes,
        zero_block_share,
        scratch,
    }
);
mirror!(
    StorageResult,
    StorageResult {
        point,
        engine,
        engine_reason,
        reads,
        bytes,
        elapsed_ns,
        samples,
        latency,
        device_read_ratio,
        device_requests_per_read,
        foreign_bytes,
        cpu_us,
        short_reads,
        buffer_pages,
    }
);
mirror!(StorageSample, StorageSample { from_ns, to_ns, reads, bytes });
mirror_enum!(StoragePattern, StoragePattern { SingleBlock, DirectPath });

impl ToWire<pb::ReadStorageRequest> for StorageJob {
    fn to_wire(self) -> pb::ReadStorageRequest {
        use pb::read_storage_request::Target;
        let target = match self.target {
            StorageTarget::File(path) => Target::File(path),
            StorageTarget::Device(path) => Target::Device(path),
            StorageTarget::Scratch { dir, size } => {
                Target::Scratch(pb::ScratchTarget { dir, size_bytes: size.0 })
            }
        };
        pb::ReadStorageRequest {
            job: self.job.0,
            target: Some(target),
            points: self.points.to_wire(),
            sample_ms: milliseconds(self.sample),
            guard: self.guard.to_wire(),
            seed: self.seed,
            prepare_deadline_ms: milliseconds(self.prepare_deadline),
            rate_bytes_per_second: self.rate.map(|rate| rate.0),
        }
    }
}

impl FromWire<pb::ReadStorageRequest> for StorageJob {
    fn from_wire(wire: pb::ReadStorageRequest) -> Result<Self, InvalidMessage> {
        use pb::read_storage_request::Target;
        let target = match wire.target.ok_or_else(|| InvalidMessage::missing().at("target"))? {
            Target::File(path) => StorageTarget::File(path),
            Target::Device(path) => StorageTarget::Device(path),
            Target::Scratch(scratch) => {
                StorageTarget::Scratch { dir: scratch.dir, size: Bytes(scratch.size_bytes) }
            }
        };
        if wire.sample_ms == 0 {
            return Err(InvalidMessage::invalid("must be above 0").at("sample_ms"));
        }
        Ok(Self {
            job: JobId(wire.job),
            target,
            points: points(wire.points).map_err(|error| error.at("points"))?,
            sample: Duration::from_millis(wire.sample_ms),
            guard: Guard::from_wire(wire.guard).map_err(|error| error.at("guard"))?,
            seed: wire.seed,
            prepare_deadline: Duration::from_millis(wire.prepare_deadline_ms),
            rate: wire.rate_bytes_per_second.map(rate).transpose()?,
        })
    }
}

fn points(wire: Vec<pb::StoragePoint>) -> Result<Vec<StoragePoint>, InvalidMessage> {
    let points: Vec<StoragePoint> = Vec::from_wire(wire)?;
    for point in &points {
        point.check().map_err(|error| InvalidMessage::invalid(error.to_string()))?;
    }
    Ok(points)
}

impl ToWire<pb::StorageEvent> for StorageEvent {
    fn to_wire(self) -> pb::StorageEvent {
        use pb::storage_event::Event;
        let event = match self {
            Self::Prepared(prepared) => Event::Prepared(prepared.to_wire()),
            Self::Progress(progress) => Event::Progress(progress.to_wire()),
            Self::Result(result) => Event::Result((*result).to_wire()),
            Self::End { stopped } => Event::End(pb::StorageEnd { stopped: stopped.to_wire() }),
        };
        pb::StorageEvent { event: Some(event) }
    }
}

impl FromWire<pb::StorageEvent> for StorageEvent {
    fn from_wire(wire: pb::StorageEvent) -> Result<Self, InvalidMessage> {
        use pb::storage_event::Event;
        match wire.event.ok_or_else(|| InvalidMessage::missing().at("event"))? {
            Event::Prepared(prepared) => StoragePrepared::from_wire(prepared).map(Self::Prepared),
            Event::Progress(progress) => StorageProgress::from_wire(progress).map(Self::Progress),
            Event::Result(result) => {
                StorageResult::from_wire(result).map(|result| Self::Result(Box::new(result)))
            }
            Event::End(end) => Ok(Self::End {
                stopped: Option::from_wire(end.stopped).map_err(|error| error.at("stopped"))?,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT: StoragePoint = StoragePoint {
        pattern: StoragePattern::DirectPath,
        request_bytes: 1 << 20,
        outstanding: 256,
        duration_ms: 1000,
    };

    fn job(point: StoragePoint) -> StorageJob {
        StorageJob {
            job: JobId(1),
            target: StorageTarget::File("/u02/data.dbf".to_owned()),
            points: vec![POINT, point],
            sample: Duration::from_millis(100),
            guard: Guard::default(),
            seed: 1,
            prepare_deadline: Duration::from_secs(60),
            rate: None,
        }
    }

    #[track_caller]
    fn refused(job: StorageJob) -> String {
        let wire: pb::ReadStorageRequest = job.to_wire();
        StorageJob::from_wire(wire).unwrap_err().to_string()
    }

    #[test]
    fn points_at_the_bounds_survive_the_wire() {
        let large = StoragePoint { request_bytes: REQUEST_MAX.0, outstanding: 8, ..POINT };
        let wire: pb::ReadStorageRequest = job(large).to_wire();
        assert_eq!(StorageJob::from_wire(wire).unwrap(), job(large));
    }

    #[test]
    fn points_beyond_the_bounds_are_refused() {
        for (point, text) in [
            (
                StoragePoint { outstanding: 257, ..POINT },
                "`points` is invalid: 257 reads at a time are not 1 to 256",
            ),
            (
                StoragePoint { request_bytes: REQUEST_MAX.0 + 1, ..POINT },
                "`points` is invalid: reads of 33554433 bytes are not 1 byte to 32 MiB",
            ),
            (
                StoragePoint { request_bytes: REQUEST_MAX.0, ..POINT },
                "`points` is invalid: 256 reads of 32 MiB at a time need 8 GiB of memory, but \
                 256 MiB is the most; ask for fewer or smaller reads",
            ),
        ] {
            assert_eq!(refused(job(point)), text);
        }
        assert!(refused(job(StoragePoint { outstanding: 0, ..POINT })).contains("1 to 256"));
        assert!(refused(job(StoragePoint { request_bytes: 0, ..POINT })).contains("32 MiB"));
    }

    #[test]
    fn a_rate_that_is_none_is_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let job = StorageJob { rate: Some(BytesPerSecond(rate)), ..job(POINT) };
            assert!(refused(job).starts_with("`rate_bytes_per_second` is invalid"));
        }
    }
}
