//! Makes samples and readings of all streams, and keeps them until they can be told.

use std::sync::Arc;

use redoline_proto::MESSAGE_BYTES_MAX;
use redoline_proto::transfer::{Batch, Reading, Sample, TransferEvent};

use super::outlet::Outlet;
use super::stream::Stream;
use crate::sys::clock::monotonic_ns;
use crate::sys::tcp_info;

/// Of a kept batch, so that a controller that does not listen costs the host no memory.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Upper bounds of the encoded sizes.
const READING_BYTES: usize = 400;
const SAMPLE_BYTES: usize = 32;
const STREAM_BYTES: usize = 10;

#[derive(Debug)]
pub struct Sampler<'a> {
    streams: &'a [Arc<Stream>],
    last_ns: i64,
    last_bytes: Vec<u64>,
    kept: Batch,
}

impl<'a> Sampler<'a> {
    pub fn new(streams: &'a [Arc<Stream>]) -> Self {
        let last_bytes = vec![0; streams.len()];
        Self { streams, last_ns: monotonic_ns(), last_bytes, kept: Batch::default() }
    }

    pub fn sample(&mut self) {
        let to_ns = monotonic_ns();
        let bytes: Vec<_> = self.streams.iter().map(|stream| stream.progress.bytes()).collect();
        let stream_bytes =
            bytes.iter().zip(&self.last_bytes).map(|(now, before)| now - before).collect();
        self.kept.samples.push(Sample { from_ns: self.last_ns, to_ns, stream_bytes });
        (self.last_ns, self.last_bytes) = (to_ns, bytes);
        if self.kept.samples.len() > KEPT_BYTES_MAX / sample_bytes(self.streams.len()) {
            merge_pairs(&mut self.kept.samples);
        }
    }

    pub fn read(&mut self) {
        let at_ns = monotonic_ns();
        let readings = self.streams.iter().filter_map(|stream| {
            let tcp = tcp_info::read(&stream.socket).ok()?;
            // What was closed is read for its last words before that.
            let is_open = tcp.state != Some(tcp_info::CLOSED);
            is_open.then_some(Reading { at_ns, stream: stream.index, tcp })
        });
        self.kept.readings.extend(readings);
        if self.kept.readings.len() > KEPT_BYTES_MAX / READING_BYTES {
            drop_every_second_round(&mut self.kept.readings);
        }
    }

    /// Tells what there is room for, and keeps the rest.
    pub fn ship(&mut self, outlet: &Outlet) {
        while let Some(chunk) = self.next_chunk() {
            if let Err(chunk) = outlet.offer(chunk) {
                put_back(&mut self.kept, chunk);
                return;
            }
        }
    }

    /// The last sample, and everything that is still kept.
    pub fn finish(&mut self, outlet: &Outlet) {
        self.sample();
        while let Some(chunk) = self.next_chunk() {
            outlet.tell(TransferEvent::Batch(chunk));
        }
    }

    /// No larger than a message may be; `None` when nothing is kept.
    fn next_chunk(&mut self) -> Option<Batch> {
        const HALF: usize = MESSAGE_BYTES_MAX / 2;
        let samples = self.kept.samples.len().min(HALF / sample_bytes(self.streams.len()));
        let readings = self.kept.readings.len().min(HALF / READING_BYTES);
        (samples + readings > 0).then(|| Batch {
            samples: self.kept.samples.drain(..samples).collect(),
            readings: self.kept.readings.drain(..readings).collect(),
        })
    }
}

fn sample_bytes(streams: usize) -> usize {
    SAMPLE_BYTES + streams * STREAM_BYTES
}

fn put_back(kept: &mut Batch, chunk: Batch) {
    kept.samples.splice(..0, chunk.samples);
    kept.readings.splice(..0, chunk.readings);
}

/// Half as many samples over the same time and with the same bytes.
fn merge_pairs(samples: &mut Vec<Sample>) {
    let merged = samples.chunks(2).map(|pair| {
        let mut merged = pair[0].clone();
        if let Some(second) = pair.get(1) {
            merged.to_ns = second.to_ns;
            merged.stream_bytes.iter_mut().zip(&second.stream_bytes).for_each(|(a, b)| *a += b);
        }
        merged
    });
    *samples = merged.collect();
}

/// Readings are of running totals: fewer of them are still right.
fn drop_every_second_round(readings: &mut Vec<Reading>) {
    let (mut round_ns, mut keep) = (None, false);
    readings.retain(|reading| {
        if round_ns != Some(reading.at_ns) {
            (round_ns, keep) = (Some(reading.at_ns), !keep);
        }
        keep
    });
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use redoline_proto::tcp_info::TcpInfo;

    use super::*;
    use crate::sys::tcp;

    #[test]
    fn a_stream_that_has_ended_is_not_read_any_more() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let streams: Vec<_> = (0..2)
            .map(|index| Arc::new(Stream::new(index, TcpStream::connect(address).unwrap())))
            .collect();
        let mut sampler = Sampler::new(&streams);
        sampler.read();
        // As a sender does that wants its port again.
        tcp::reset(&streams[0].socket).unwrap();
        sampler.read();
        let read: Vec<_> = sampler.kept.readings.iter().map(|reading| reading.stream).collect();
        assert_eq!(read, [0, 1, 1]);
    }

    fn sample(from_ns: i64, stream_bytes: [u64; 2]) -> Sample {
        Sample { from_ns, to_ns: from_ns + 10, stream_bytes: stream_bytes.to_vec() }
    }

    #[test]
    fn merged_samples_cover_the_same_time_with_the_same_bytes() {
        let mut samples = vec![sample(0, [1, 2]), sample(10, [3, 4]), sample(20, [5, 6])];
        merge_pairs(&mut samples);
        let merged = Sample { from_ns: 0, to_ns: 20, stream_bytes: vec![4, 6] };
        assert_eq!(samples, [merged, sample(20, [5, 6])]);
    }

    #[test]
    fn rounds_of_readings_are_dropped_whole() {
        let reading = |at_ns, stream| Reading { at_ns, stream, tcp: TcpInfo::default() };
        let rounds = |at: &[i64]| -> Vec<_> {
            at.iter().flat_map(|&at_ns| [reading(at_ns, 0), reading(at_ns, 1)]).collect()
        };
        let mut readings = rounds(&[1, 2, 3, 4]);
        drop_every_second_round(&mut readings);
        assert_eq!(readings, rounds(&[1, 3]));
    }

    #[test]
    fn what_is_not_told_stays_in_order() {
        let mut kept = Batch { samples: vec![sample(20, [0, 0])], readings: vec![] };
        let chunk =
            Batch { samples: vec![sample(0, [0, 0]), sample(10, [0, 0])], readings: vec![] };
        put_back(&mut kept, chunk);
        let order: Vec<_> = kept.samples.iter().map(|sample| sample.from_ns).collect();
        assert_eq!(order, [0, 10, 20]);
    }
}
