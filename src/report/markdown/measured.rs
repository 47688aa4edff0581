//! Each step with its outcome and its results.

use super::super::format::{self, NONE};
use super::super::model::{Measurement, Report, Step, StorageRead, Throughput};
use super::super::text::markdown as plain;
use super::super::{parameters, summary, tables, wording};
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
            "Known to",
            "Retransmitted",
            "RTT min / p50",
            "Path MTU",
        ];
        text.push_str(&format!("\n{}", table(&head, &throughput)));
        text.push_str(&conditions(report, step.number));
    }
    for shown in tables::of_step(report, step.number) {
        text.push_str(&of_all_formats(&shown));
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
        text.push_str(&format!("\n{}\n", plain(&wording::series_sentence(report, series))));
    }
    text
}

fn throughput_row(measurement: &Measurement, step: u32) -> Option<Vec<String>> {
    let Measurement::Throughput(test) = measurement else {
        return None;
    };
    (test.step == step).then(|| throughput_cells(test))
}

fn of_all_formats(shown: &tables::Table) -> String {
    let escaped = |row: &tables::Row| row.cells.iter().map(|cell| plain(cell)).collect();
    let rows: Vec<Vec<String>> = shown.rows.iter().map(escaped).collect();
    let mut text = format!("\n{}:\n\n{}", plain(&shown.caption), table(&shown.head, &rows));
    let notes: Vec<String> =
        shown.notes.iter().map(|note| format!("- {}\n", plain(note))).collect();
    if !notes.is_empty() {
        text.push_str(&format!("\n{}", notes.concat()));
    }
    text
}

/// What was asked for and granted, how well it is known, and what the hosts dropped; what several
/// tests of the step have in common is said once.
fn conditions(report: &Report, step: u32) -> String {
    let tests = || summary::throughputs(report).filter(|test| test.step == step);
    let mut said = Said::default();
    for test in tests() {
        said.add("requested", parameters::requested(test), &test.id);
    }
    for test in tests() {
        said.add("granted", parameters::granted(test), &test.id);
    }
    for (test, steady) in tests().filter_map(|test| Some((test, test.steady.as_ref()?))) {
        if let Some(shift) = wording::level_shift(steady) {
            said.add("level", shift, &test.id);
        }
    }
    for test in tests() {
        for losses in test.hosts.iter().filter_map(parameters::host_losses) {
            said.add("hosts", losses, &test.id);
        }
    }
    said.text()
}

/// Sentences, each with the measurements that it holds for.
#[derive(Default)]
struct Said {
    lines: Vec<(&'static str, String, Vec<String>)>,
}

impl Said {
    fn add(&mut self, what: &'static str, sentence: String, id: &str) {
        match self.lines.iter_mut().find(|line| line.0 == what && line.1 == sentence) {
            Some(line) => line.2.push(id.to_owned()),
            None => self.lines.push((what, sentence, vec![id.to_owned()])),
        }
    }

    fn text(&self) -> String {
        let line = |(what, sentence, ids): &(&str, String, Vec<String>)| {
            format!("- {}, {what}: {}\n", plain(&wording::ids(ids)), plain(sentence))
        };
        let lines: Vec<String> = self.lines.iter().map(line).collect();
        if lines.is_empty() { String::new() } else { format!("\n{}", lines.concat()) }
    }
}

fn throughput_cells(test: &Throughput) -> Vec<String> {
    let mut pairs: Vec<String> =
        test.pairs.iter().map(|ends| format!("{} to {}", ends.sender, ends.receiver)).collect();
    pairs.extend(wording::manner(test).map(|manner| format!("({manner})")));
    vec![
        plain(&test.id),
        plain(&pairs.join(", ").replace(", (", " (")),
        test.num_conn.to_string(),
        plain(&test.requested.socket_buffer),
        test.requested.mtu_bytes.map_or(NONE.to_owned(), |mtu| mtu.to_string()),
        plain(&wording::rate(test)),
        plain(&test.steady.as_ref().map_or_else(|| NONE.to_owned(), wording::known_to)),
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
