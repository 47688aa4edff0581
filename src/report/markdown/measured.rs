//! Each step with its outcome and its results.

use super::super::format::{self, NONE};
use super::super::model::{Measurement, Report, Step, StorageRead, Throughput};
use super::super::text::markdown as plain;
use super::super::wording;
use super::table;

pub(super) fn section(report: &Report) -> String {
    let mut text = "## Steps\n".to_owned();
    for step in &report.steps {
        text.push_str(&one_step(report, step));
    }
    text
}

fn one_step(report: &Report, step: &Step) -> String {
    let mut text = format!(
        "\n### {}. {}\n\n{}, {}: **{}**\n",
        step.number,
        plain(&step.name),
        plain(&step.action),
        wording::step_place(step),
        plain(&wording::words(&step.outcome))
    );
    if let Some(scope) = &step.scope {
        text.push_str(&format!("\nScope: {}\n", plain(scope)));
    }
    for message in &step.messages {
        text.push_str(&format!("\n- {}", plain(message)));
    }
    if !step.messages.is_empty() {
        text.push('\n');
    }
    let of_step = || report.measurements.iter();
    let throughput: Vec<_> = of_step().filter_map(|m| throughput_row(m, step.number)).collect();
    if !throughput.is_empty() {
        let head = [
            "Id",
            "Pairs",
            "num_conn",
            "Socket buffer",
            "MTU",
            "Steady rate",
            "Retransmitted",
            "RTT min / p50",
            "Path MTU",
        ];
        text.push_str(&format!("\n{}", table(&head, &throughput)));
    }
    let storage: Vec<_> = of_step().filter_map(|m| storage_row(m, step.number)).collect();
    if !storage.is_empty() {
        let head = [
            "Id",
            "Node",
            "Pattern",
            "Request",
            "Slots",
            "Sessions",
            "Rate",
            "Reads/s",
            "Latency p50 / p99",
            "From device",
        ];
        text.push_str(&format!("\n{}", table(&head, &storage)));
    }
    for series in report.series.iter().filter(|series| series.step == step.number) {
        text.push_str(&format!("\n{}\n", plain(&wording::series_sentence(series))));
    }
    text
}

fn throughput_row(measurement: &Measurement, step: u32) -> Option<Vec<String>> {
    let Measurement::Throughput(test) = measurement else {
        return None;
    };
    (test.step == step).then(|| throughput_cells(test))
}

fn throughput_cells(test: &Throughput) -> Vec<String> {
    let pairs: Vec<String> =
        test.pairs.iter().map(|ends| format!("{} to {}", ends.sender, ends.receiver)).collect();
    vec![
        plain(&test.id),
        plain(&pairs.join(", ")),
        test.num_conn.to_string(),
        plain(&test.requested.socket_buffer),
        test.requested.mtu_bytes.map_or(NONE.to_owned(), |mtu| mtu.to_string()),
        plain(&wording::steady_rate(test)),
        format::bytes(test.retransmitted_bytes),
        format!("{} / {}", rtt(test.rtt_us.min), rtt(test.rtt_us.p50)),
        format::count(test.path_mtu_bytes),
    ]
}

fn storage_row(measurement: &Measurement, step: u32) -> Option<Vec<String>> {
    let Measurement::StorageRead(read) = measurement else {
        return None;
    };
    (read.step == step).then(|| storage_cells(read))
}

fn storage_cells(read: &StorageRead) -> Vec<String> {
    let level = |level: Option<u32>| level.map_or(NONE.to_owned(), |level| level.to_string());
    vec![
        plain(&read.id),
        plain(&read.node),
        plain(&read.pattern),
        format::bytes(Some(read.request_bytes)),
        level(read.slots),
        level(read.sessions),
        format::mib_rate_with_half_width(read.bytes_per_second, read.half_width_bytes_per_second),
        format::number(read.iops),
        format!(
            "{} / {}",
            format::microseconds(read.latency_us.p50),
            format::microseconds(read.latency_us.p99)
        ),
        format::percent(read.device_read_ratio),
    ]
}

fn rtt(us: Option<u64>) -> String {
    format::microseconds(us.map(|us| us as f64))
}
