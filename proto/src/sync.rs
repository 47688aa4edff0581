//! SYNC transport: what the receiver does with a message before it answers, and what the answers
//! took.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::latency::Latency;
use crate::units::Bytes;

/// What the receiver of a SYNC test does before it answers a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acknowledge {
    pub message_bytes: u64,
    /// `None`: it answers once the message is in memory (FASTSYNC).
    pub write: Option<RedoWrite>,
}

/// Each message goes to a scratch file (O_DIRECT, O_DSYNC), as RFS writes to a standby redo log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RedoWrite {
    pub dir: String,
    /// Of the file, which is written round and round.
    pub file_bytes: u64,
}

impl RedoWrite {
    /// The smallest scratch file in which each of `num_conn` connections has a place for a message
    /// of `message_bytes` of its own, in whole blocks of 4 KiB; files are made in whole MiB.
    pub fn file_bytes_min(message_bytes: u64, num_conn: u32) -> Bytes {
        const BLOCK_BYTES: u64 = 4096;
        let message = message_bytes.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
        let all = message.saturating_mul(u64::from(num_conn.max(1)));
        Bytes(all.div_ceil(Bytes::MIB).saturating_mul(Bytes::MIB))
    }

    /// For the receiver to make and fill its file, before it says `Ready`; the job's own deadline
    /// counts from then on.
    pub fn prepare_deadline(&self) -> Duration {
        /// No storage that takes redo is slower.
        const BYTES_PER_SECOND_MIN: u64 = 20_000_000;
        Duration::from_secs(60 + self.file_bytes / BYTES_PER_SECOND_MIN)
    }
}

/// Answers to messages, of all streams together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acknowledgements {
    pub messages: u64,
    /// From the first byte given to `send` to the answer.
    pub total: Latency,
    /// Of that, the receiver's write; `None` when nothing was written.
    pub write: Option<Latency>,
}

mirror!(RedoWrite, RedoWrite { dir, file_bytes });
mirror!(Acknowledge, Acknowledge { message_bytes, write });
mirror!(Acknowledgements, Acknowledgements { messages, total, write });
