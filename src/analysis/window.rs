//! The window common to all streams of all pairs of a test, on the controller's clock.

use std::time::Duration;

use redoline_proto::handshake::ClockOffset;
use redoline_proto::transfer::Sample;
use redoline_proto::units::BytesPerSecond;

use super::steady::Interval;
use crate::record::measurement::{EndRecord, PairTransfer};

/// From one moment of the controller's monotonic clock to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Window {
    pub from_ns: i64,
    pub to_ns: i64,
}

impl Window {
    fn and(self, other: Self) -> Self {
        Self { from_ns: self.from_ns.max(other.from_ns), to_ns: self.to_ns.min(other.to_ns) }
    }

    fn not_empty(self) -> Option<Self> {
        (self.to_ns > self.from_ns).then_some(self)
    }

    /// Its first part, `time` long.
    #[must_use]
    pub fn first(self, time: Duration) -> Self {
        let to_ns = self.from_ns.saturating_add(time.as_nanos() as i64);
        Self { to_ns: self.to_ns.min(to_ns), ..self }
    }

    pub fn seconds(self) -> f64 {
        (self.to_ns - self.from_ns) as f64 / 1e9
    }
}

/// A receiver's samples in the order of time, on the controller's clock.
#[derive(Clone, Debug)]
pub struct Track {
    pieces: Vec<Piece>,
    /// In which all of its streams that carried data at all did so.
    window: Option<Window>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    window: Window,
    bytes: f64,
}

impl Track {
    /// `alone`: no other node's times are compared, so the node's own clock will do.
    ///
    /// `None` when the clock is needed and not known.
    pub fn of(pair: &PairTransfer, alone: bool) -> Option<Self> {
        let receiver = &pair.receiver;
        let clock = clock(receiver, alone)?;
        let pieces = pieces(receiver, clock, |sample| sample.bytes().0);
        Some(Self { pieces, window: streams_window(receiver, clock) })
    }

    /// Each of the pair's streams for itself, by its number; `None` as in [`Track::of`].
    pub fn of_streams(pair: &PairTransfer, alone: bool) -> Option<Vec<Self>> {
        let receiver = &pair.receiver;
        let clock = clock(receiver, alone)?;
        let of_stream = |stream| {
            let bytes = |sample: &Sample| sample.stream_bytes.get(stream).copied().unwrap_or(0);
            let window = stream_window(receiver, stream)
                .map(|window| on_controller(clock, window.from_ns, window.to_ns));
            Self { pieces: pieces(receiver, clock, bytes), window }
        };
        Some((0..streams(receiver)).map(of_stream).collect())
    }

    /// The mean in `window`; `None` of an empty one.
    pub fn rate(&self, window: Window) -> Option<BytesPerSecond> {
        let window = window.not_empty()?;
        Some(BytesPerSecond(self.bytes(window) / window.seconds()))
    }

    /// Bytes between two moments; a sample that is cut counts by its share.
    fn bytes(&self, window: Window) -> f64 {
        let first = self.pieces.partition_point(|piece| piece.window.to_ns <= window.from_ns);
        self.pieces[first..]
            .iter()
            .take_while(|piece| piece.window.from_ns < window.to_ns)
            .map(|piece| match piece.window.and(window).not_empty() {
                Some(part) => piece.bytes * part.seconds() / piece.window.seconds(),
                None => 0.0,
            })
            .sum()
    }

    /// Where this receiver's samples begin and end within `window`.
    fn edges(&self, window: Window) -> Vec<i64> {
        let mut edges = vec![window.from_ns];
        let ends = self.pieces.iter().map(|piece| piece.window.to_ns);
        edges.extend(ends.filter(|end| (window.from_ns + 1..window.to_ns).contains(end)));
        edges.push(window.to_ns);
        edges.dedup();
        edges
    }

    fn whole(&self) -> Option<Window> {
        let (first, last) = (self.pieces.first()?, self.pieces.last()?);
        Window { from_ns: first.window.from_ns, to_ns: last.window.to_ns }.not_empty()
    }
}

/// max(start) … min(end) over all streams of all tracks; `None` when they do not overlap.
pub fn common(tracks: &[Track]) -> Option<Window> {
    let mut windows = tracks.iter().map(|track| track.window);
    let first = windows.next()??;
    windows.try_fold(first, |common, window| window.map(|window| common.and(window)))?.not_empty()
}

/// The sum of the tracks in `window`, in the intervals of the first one.
pub fn sum(tracks: &[Track], window: Window) -> Vec<Interval> {
    timed_sum(tracks, window).into_iter().map(|(_, interval)| interval).collect()
}

/// The sum of the tracks from the first sample to the last, each interval with its beginning.
pub fn whole_run(tracks: &[Track]) -> Vec<(i64, Interval)> {
    let whole = tracks
        .iter()
        .filter_map(Track::whole)
        .reduce(|a, b| Window { from_ns: a.from_ns.min(b.from_ns), to_ns: a.to_ns.max(b.to_ns) });
    whole.map_or_else(Vec::new, |window| timed_sum(tracks, window))
}

fn timed_sum(tracks: &[Track], window: Window) -> Vec<(i64, Interval)> {
    let Some(first) = tracks.first() else {
        return Vec::new();
    };
    first
        .edges(window)
        .windows(2)
        .map(|edge| {
            let part = Window { from_ns: edge[0], to_ns: edge[1] };
            let bytes = tracks.iter().map(|track| track.bytes(part)).sum();
            (part.from_ns, Interval { seconds: part.seconds(), bytes })
        })
        .collect()
}

fn clock(receiver: &EndRecord, alone: bool) -> Option<ClockOffset> {
    let own = alone.then_some(ClockOffset { offset_ns: 0, error_ns: 0, unix_offset_ns: 0 });
    receiver.clock.or(own)
}

fn pieces(receiver: &EndRecord, clock: ClockOffset, bytes: impl Fn(&Sample) -> u64) -> Vec<Piece> {
    let piece = |sample: &Sample| {
        let window = on_controller(clock, sample.from_ns, sample.to_ns).not_empty()?;
        Some(Piece { window, bytes: bytes(sample) as f64 })
    };
    let mut pieces: Vec<Piece> = receiver.samples.iter().filter_map(piece).collect();
    pieces.sort_by_key(|piece| piece.window.from_ns);
    pieces
}

fn streams(receiver: &EndRecord) -> usize {
    receiver.samples.iter().map(|sample| sample.stream_bytes.len()).max().unwrap_or(0)
}

/// The time in which all streams of one receiver carried data. One without a byte counts as nothing
/// in the others' time: it is part of what the path gave.
fn streams_window(receiver: &EndRecord, clock: ClockOffset) -> Option<Window> {
    let windows = (0..streams(receiver)).filter_map(|stream| stream_window(receiver, stream));
    let common = windows.reduce(Window::and)?;
    Some(on_controller(clock, common.from_ns, common.to_ns))
}

/// From a stream's first byte to its last, by its end or else by its samples.
fn stream_window(receiver: &EndRecord, stream: usize) -> Option<Window> {
    let end = receiver
        .end
        .as_ref()
        .and_then(|end| end.streams.iter().find(|one| usize::try_from(one.stream) == Ok(stream)));
    let carries =
        |sample: &&Sample| sample.stream_bytes.get(stream).is_some_and(|bytes| *bytes > 0);
    let first = receiver.samples.iter().find(carries).map(|sample| sample.from_ns);
    let last = receiver.samples.iter().rev().find(carries).map(|sample| sample.to_ns);
    Some(Window {
        from_ns: end.and_then(|end| end.first_byte_ns).or(first)?,
        to_ns: end.and_then(|end| end.last_byte_ns).or(last)?,
    })
}

fn on_controller(clock: ClockOffset, from_ns: i64, to_ns: i64) -> Window {
    Window { from_ns: clock.to_controller_ns(from_ns), to_ns: clock.to_controller_ns(to_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::node::PairId;

    const SECOND: i64 = 1_000_000_000;

    /// One stream that carries 100 bytes per second from `from` on, by a clock that is ahead.
    fn pair(from: i64, seconds: i64, ahead: i64) -> PairTransfer {
        let at = |second: i64| (from + second) * SECOND + ahead;
        let samples = (0..seconds)
            .map(|s| Sample { from_ns: at(s), to_ns: at(s + 1), stream_bytes: vec![100] })
            .collect();
        let clock = Some(ClockOffset { offset_ns: ahead, error_ns: 0, unix_offset_ns: 0 });
        PairTransfer {
            pair: PairId(0),
            sender: EndRecord::default(),
            receiver: EndRecord { clock, samples, ..EndRecord::default() },
            failure: None,
        }
    }

    fn tracks(pairs: &[PairTransfer]) -> Vec<Track> {
        pairs.iter().map(|pair| Track::of(pair, pairs.len() == 1).unwrap()).collect()
    }

    #[test]
    fn clocks_are_brought_together_before_windows_are_compared() {
        let tracks = tracks(&[pair(10, 20, 0), pair(15, 20, 987_654_321)]);
        let window = common(&tracks).unwrap();
        assert_eq!(window, Window { from_ns: 15 * SECOND, to_ns: 30 * SECOND });
        let total: f64 = sum(&tracks, window).iter().map(|interval| interval.bytes).sum();
        assert!((total - 3000.0).abs() < 1e-3, "{total}");
    }

    #[test]
    fn a_sample_on_the_edge_counts_by_its_share() {
        let tracks = tracks(&[pair(0, 10, 0)]);
        let window = Window { from_ns: SECOND / 4, to_ns: 9 * SECOND + SECOND / 2 };
        let sums = sum(&tracks, window);
        assert_eq!(sums.first().map(|interval| interval.bytes), Some(75.0));
        assert_eq!(sums.last().map(|interval| interval.bytes), Some(50.0));
    }

    #[test]
    fn tests_that_do_not_overlap_have_no_common_window() {
        assert_eq!(common(&tracks(&[pair(0, 5, 0), pair(6, 5, 0)])), None);
    }

    #[test]
    fn a_stream_without_a_byte_counts_as_nothing_in_the_time_of_the_others() {
        let mut silent = pair(10, 20, 0);
        for sample in &mut silent.receiver.samples {
            sample.stream_bytes.push(0);
        }
        let tracks = tracks(std::slice::from_ref(&silent));
        let window = common(&tracks).unwrap();
        assert_eq!(window, Window { from_ns: 10 * SECOND, to_ns: 30 * SECOND });
        assert_eq!(tracks[0].rate(window), Some(BytesPerSecond(100.0)));
        let streams = Track::of_streams(&silent, true).unwrap();
        assert_eq!(streams[1].rate(window), Some(BytesPerSecond(0.0)));
        for sample in &mut silent.receiver.samples {
            sample.stream_bytes = vec![0, 0];
        }
        assert_eq!(common(&[Track::of(&silent, true).unwrap()]), None, "nothing came at all");
    }

    #[test]
    fn without_its_clock_a_node_cannot_be_added_to_others() {
        let mut lost = pair(0, 5, 0);
        lost.receiver.clock = None;
        assert!(Track::of(&lost, false).is_none());
        assert!(Track::of(&lost, true).is_some());
    }
}
