//! One line per measured pair or read, for spreadsheets (RFC 4180); unknown is an empty field.

use super::model::{Measurement, PairEnds, Report, StorageRead, Throughput};
use super::text::clean;

const HEAD: [&str; 19] = [
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
];

/// The measurements as CSV; lines end with CR LF, as the RFC has it.
pub fn render(report: &Report) -> String {
    let mut text = line(&HEAD.map(str::to_owned));
    for measurement in &report.measurements {
        match measurement {
            Measurement::Throughput(test) => {
                for ends in &test.pairs {
                    text.push_str(&line(&pair_fields(report, test, ends)));
                }
            }
            Measurement::Path(_) => {}
            Measurement::StorageRead(read) => text.push_str(&line(&read_fields(report, read))),
        }
    }
    text
}

/// Retransmissions and round trip are of the whole test, also where several pairs took part.
fn pair_fields(report: &Report, test: &Throughput, ends: &PairEnds) -> [String; 19] {
    [
        report.run.id.clone(),
        test.id.clone(),
        test.step.to_string(),
        "throughput".to_owned(),
        test.direction.to_string().replace(' ', "_"),
        ends.sender.clone(),
        ends.receiver.clone(),
        test.nodes.clone(),
        test.num_conn.to_string(),
        test.requested.socket_buffer.clone(),
        known(test.requested.mtu_bytes),
        String::new(),
        String::new(),
        String::new(),
        known(ends.bytes_per_second),
        known(ends.half_width_bytes_per_second),
        known(test.retransmitted_bytes),
        known(test.rtt_us.min),
        String::new(),
    ]
}

fn read_fields(report: &Report, read: &StorageRead) -> [String; 19] {
    [
        report.run.id.clone(),
        read.id.clone(),
        read.step.to_string(),
        "storage_read".to_owned(),
        String::new(),
        read.node.clone(),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        read.pattern.clone(),
        read.request_bytes.to_string(),
        known(read.slots.or(read.sessions)),
        known(read.bytes_per_second),
        known(read.half_width_bytes_per_second),
        String::new(),
        String::new(),
        known(read.latency_us.p99),
    ]
}

fn known<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn line(fields: &[String; 19]) -> String {
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
                        auto,,,,,7237500,50000,28960,20050,";
        assert_eq!(lines[1], expected);
    }

    #[test]
    fn what_was_not_measured_is_empty() {
        let text = render(&samples::broken());
        assert!(text.lines().nth(1).unwrap().ends_with("auto,,,,,,,,,"), "{text}");
    }

    #[test]
    fn no_field_is_a_formula_or_leaves_its_quotes() {
        assert_eq!(quoted("=1+1"), "'=1+1");
        assert_eq!(quoted("a\"b,c\n"), "\"a\"\"b,c \"");
    }
}
