//! What the ends of a transfer read of their sockets: at the start, meanwhile, and before close.

use redoline_proto::tcp_info::TcpInfo;
use redoline_proto::transfer::{StreamEnd, StreamStart};

use crate::record::measurement::EndRecord;

pub(super) fn starts(end: &EndRecord) -> &[StreamStart] {
    end.connected.as_ref().map_or(&[], |connected| &connected.streams)
}

pub(super) fn ends(end: &EndRecord) -> &[StreamEnd] {
    end.end.as_ref().map_or(&[], |end| &end.streams)
}

pub(super) fn start_of(end: &EndRecord, stream: u32) -> Option<&StreamStart> {
    starts(end).iter().find(|start| start.stream == stream)
}

pub(super) fn end_of(end: &EndRecord, stream: u32) -> Option<&StreamEnd> {
    ends(end).iter().find(|end| end.stream == stream)
}

/// What readings and ends know of a field.
pub(super) fn known<T>(
    end: &EndRecord,
    field: impl Fn(&TcpInfo) -> Option<T> + Copy,
) -> impl DoubleEndedIterator<Item = T> {
    let readings = end.readings.iter().filter_map(move |reading| field(&reading.tcp));
    readings.chain(ends(end).iter().filter_map(move |end| field(&end.tcp)))
}

pub(super) fn last_known<T>(
    end: &EndRecord,
    field: impl Fn(&TcpInfo) -> Option<T> + Copy,
) -> Option<T> {
    let last = known(end, field).next_back();
    last.or_else(|| starts(end).iter().rev().find_map(|start| field(&start.tcp)))
}

/// The sum over streams of what a counter grew by; `None` when any stream's growth is unknown.
pub(super) fn growth(end: &EndRecord, field: impl Fn(&TcpInfo) -> Option<u64>) -> Option<u64> {
    let streams = ends(end);
    (!streams.is_empty()).then_some(())?;
    streams
        .iter()
        .map(|last| {
            let first = start_of(end, last.stream)?;
            Some(field(&last.tcp)?.saturating_sub(field(&first.tcp)?))
        })
        .sum()
}
