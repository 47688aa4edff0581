//! One line per measured pair or read, for spreadsheets (RFC 4180); unknown is an empty field.

use std::collections::BTreeMap;

use super::model::{Measurement, PairEnds, Path, Report, StorageRead, Throughput};
use super::text::clean;
use crate::plan::node::Direction;

/// Names of the columns; new ones come at the end, so that those of old spreadsheets stay.
const HEAD: [&str; 41] = [
    "run",
    "measurement",
    "step",
    "kind",
    "direction",
    "sender_or_node",
    "receiver",
    "nodes",
    "num_conn",
    "socket_buffer",
    "mtu_bytes",
    "pattern",
    "request_bytes",
    "slots_or_sessions",
    "bytes_per_second",
    "half_width_bytes_per_second",
    "retransmitted_bytes",
    "min_rtt_us",
    "p99_latency_us",
    "both_directions",
    "mode",
    "message_bytes",
    "encoding",
    "converged",
    "elapsed_ms",
    "share",
    "pair_fairness",
    "stream_fairness",
    "sender_cpu_cores",
    "receiver_cpu_cores",
    "messages_per_second",
    "mean_latency_us",
    "p50_latency_us",
    "max_latency_us",
    "mean_write_latency_us",
    "commit_overhead_low_us",
    "commit_overhead_high_us",
    "loaded_p50_rtt_us",
    "loss_ratio",
    "path_mtu_bytes",
    "return_path_mtu_bytes",
];

/// The measurements as CSV; lines end with CR LF, as the RFC has it.
pub fn render(report: &Report) -> String {
    let mut text = line(&HEAD.map(str::to_owned));
    for measurement in &report.measurements {
        match measurement {
            Measurement::Throughput(test) => {
                for ends in &test.pairs {
                    text.push_str(&of_pair(report, test, ends).line());
                }
            }
            Measurement::Path(path) => text.push_str(&of_path(report, path).line()),
            Measurement::StorageRead(read) => text.push_str(&of_read(report, read).line()),
        }
    }
    text
}

/// Fields by the name of their column; the others are empty.
struct Fields(BTreeMap<&'static str, String>);

impl Fields {
    fn of<const N: usize>(fields: [(&'static str, String); N]) -> Self {
        Self(BTreeMap::from(fields))
    }

    fn line(&self) -> String {
        line(&HEAD.map(|name| self.0.get(name).cloned().unwrap_or_default()))
    }
}

/// Retransmissions, round trip, CPU and bounds of the commit are of the whole test, also where several
/// pairs took part.
fn of_pair(report: &Report, test: &Throughput, ends: &PairEnds) -> Fields {
    let steady = test.steady.as_ref();
    let commit = test.commit_overhead_us.as_ref();
    let latency = ends.latency_us.as_ref();
    let write = ends.write_latency_us.as_ref();
    Fields::of([
        ("run", report.run.id.clone()),
        ("measurement", test.id.clone()),
        ("step", test.step.to_string()),
        ("kind", "throughput".to_owned()),
        ("direction", direction(test.direction)),
        ("sender_or_node", ends.sender.clone()),
        ("receiver", ends.receiver.clone()),
        ("nodes", test.nodes.clone()),
        ("num_conn", test.num_conn.to_string()),
        ("socket_buffer", test.requested.socket_buffer.clone()),
        ("mtu_bytes", known(test.requested.mtu_bytes.or(test.interface_mtu_bytes))),
        ("bytes_per_second", known(ends.bytes_per_second)),
        ("half_width_bytes_per_second", known(ends.half_width_bytes_per_second)),
        ("retransmitted_bytes", known(test.retransmitted_bytes)),
        ("min_rtt_us", known(test.rtt_us.min)),
        ("p99_latency_us", known(latency.and_then(|latency| latency.p99))),
        ("both_directions", test.both_directions.to_string()),
        ("mode", test.mode.clone()),
        ("message_bytes", test.message_bytes.to_string()),
        ("encoding", test.encoding.clone().unwrap_or_default()),
        ("converged", known(steady.map(|steady| steady.converged))),
        ("elapsed_ms", known(steady.map(|steady| steady.truncated_ms + steady.window_ms))),
        ("share", known(ends.share)),
        ("pair_fairness", known(test.pair_fairness)),
        ("stream_fairness", known(test.stream_fairness)),
        ("sender_cpu_cores", known(test.cpu_cores.sender)),
        ("receiver_cpu_cores", known(test.cpu_cores.receiver)),
        ("messages_per_second", known(ends.messages_per_second)),
        ("mean_latency_us", known(latency.and_then(|latency| latency.mean))),
        ("p50_latency_us", known(latency.and_then(|latency| latency.p50))),
        ("max_latency_us", known(latency.and_then(|latency| latency.max))),
        ("mean_write_latency_us", known(write.and_then(|write| write.mean))),
        ("commit_overhead_low_us", known(commit.and_then(|commit| commit.low))),
        ("commit_overhead_high_us", known(commit.map(|commit| commit.high))),
        ("loaded_p50_rtt_us", known(test.rtt_us.p50)),
        ("path_mtu_bytes", known(test.path_mtu_bytes)),
    ])
}

/// Latencies are round trips of small probes on the idle path; the rate is of the stream that loaded it.
fn of_path(report: &Report, path: &Path) -> Fields {
    let idle = path.rtt_us.idle.as_ref();
    Fields::of([
        ("run", report.run.id.clone()),
        ("measurement", path.id.clone()),
        ("step", path.step.to_string()),
        ("kind", "path".to_owned()),
        ("direction", direction(path.direction)),
        ("sender_or_node", path.sender.clone()),
        ("receiver", path.receiver.clone()),
        ("bytes_per_second", known(path.load_bytes_per_second)),
        ("retransmitted_bytes", known(path.retransmitted_bytes)),
        ("mean_latency_us", known(idle.and_then(|idle| idle.mean))),
        ("p50_latency_us", known(idle.and_then(|idle| idle.p50))),
        ("p99_latency_us", known(idle.and_then(|idle| idle.p99))),
        ("max_latency_us", known(idle.and_then(|idle| idle.max))),
        ("loaded_p50_rtt_us", known(path.rtt_us.loaded_p50)),
        ("loss_ratio", known(path.loss_ratio)),
        ("path_mtu_bytes", known(path.path_mtu_bytes)),
        ("return_path_mtu_bytes", known(path.return_path_mtu_bytes)),
    ])
}

fn of_read(report: &Report, read: &StorageRead) -> Fields {
    Fields::of([
        ("run", report.run.id.clone()),
        ("measurement", read.id.clone()),
        ("step", read.step.to_string()),
        ("kind", "storage_read".to_owned()),
        ("sender_or_node", read.node.clone()),
        ("pattern", read.pattern.clone()),
        ("request_bytes", read.request_bytes.to_string()),
        ("slots_or_sessions", known(read.slots.or(read.sessions))),
        ("bytes_per_second", known(read.bytes_per_second)),
        ("half_width_bytes_per_second", known(read.half_width_bytes_per_second)),
        ("p99_latency_us", known(read.latency_us.p99)),
        ("mean_latency_us", known(read.latency_us.mean)),
        ("p50_latency_us", known(read.latency_us.p50)),
        ("max_latency_us", known(read.latency_us.max)),
    ])
}

fn direction(direction: Direction) -> String {
    direction.to_string().replace(' ', "_")
}

fn known<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn line(fields: &[String; HEAD.len()]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    format!("{}\r\n", fields.join(","))
}

/// A field that begins like a formula would be run by a spreadsheet.
fn quoted(field: &str) -> String {
    let field = clean(field);
    let formula = field.starts_with(['=', '+', '-', '@']);
    let field = if formula { format!("'{field}") } else { field };
    if field.contains(['"', ',']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn every_pair_and_read_has_a_line_of_the_same_length() {
        let text = render(&samples::whole());
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        // 38 network tests, of which two have two pairs, and 28 reads.
        assert_eq!(lines.len(), 1 + 40 + 28);
        assert!(lines.iter().all(|line| line.split(',').count() == HEAD.len()), "{text}");
        let expected = "20261130-183005-orders,m1,2,throughput,primary_to_standby,phx1,ash1,each,1,\
                        auto,,,,,7237500,50000,28960,20050,,";
        assert!(lines[1].starts_with(expected), "{}", lines[1]);
    }

    #[test]
    fn what_was_not_measured_is_empty() {
        let text = render(&samples::broken());
        assert!(
            text.lines().nth(1).unwrap().contains("auto,,,,,,,,,,false,async,1048576,,,,"),
            "{text}"
        );
    }

    #[test]
    fn every_kind_of_test_fills_its_columns() {
        insta::assert_snapshot!(render(&samples::wide()).replace("\r\n", "\n"));
    }

    #[test]
    fn no_field_is_a_formula_or_leaves_its_quotes() {
        let text = render(&samples::hostile());
        assert!(!text.chars().any(|c| c.is_control() && !"\r\n".contains(c)), "{text:?}");
        assert_eq!(quoted("=1+1"), "'=1+1");
        assert_eq!(quoted("a\"b,c\n"), "\"a\"\"b,c \"");
    }
}
