//! Compares a report with what a row expects, and shows both where they differ.

use std::fmt::Write;

use jiff::Timestamp;
use redoline_lab::units::{parse_bytes, parse_duration, parse_rate_bps, parse_share};
use serde_json::Value;

use super::row::{Expect, ExpectedFinding, ExpectedRate, ExpectedTime};

/// Everything that is not as expected, in words.
pub fn problems(expect: &Expect, exit_code: i32, report: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    if exit_code != expect.exit_code {
        problems.push(format!("exit code {exit_code} instead of {}", expect.exit_code));
    }
    let answer = text(&report["verdict"]["answer"]);
    if answer != expect.verdict {
        problems.push(format!("verdict `{answer}` instead of `{}`", expect.verdict));
    }
    let mut free: Vec<&Value> = findings(report).collect();
    for wanted in &expect.findings {
        match free.iter().position(|found| fits(wanted, found)) {
            Some(index) => drop(free.remove(index)),
            None => problems.push(format!("missing: {}", describe_expected(wanted))),
        }
    }
    for found in free {
        let id = text(&found["id"]);
        let is_warning = matches!(text(&found["severity"]), "warning" | "critical");
        let is_wrong = expect.absent.iter().any(|absent| absent == id)
            || (is_warning && !expect.also.iter().any(|also| also == id));
        if is_wrong {
            problems.push(format!("must not come out: {}", describe_found(found)));
        }
    }
    problems.extend(expect.rates.iter().filter_map(|rate| rate_problem(rate, report)));
    problems.extend(expect.times.iter().filter_map(|time| time_problem(time, report)));
    problems
}

/// The problems, then all that was found and measured.
pub fn table(problems: &[String], expect: &Expect, report: &Value) -> String {
    let mut table = String::from("  not as expected\n");
    for problem in problems {
        line(&mut table, problem);
    }
    table += "  expected findings\n";
    for wanted in &expect.findings {
        line(&mut table, &describe_expected(wanted));
    }
    table += "  found\n";
    for found in findings(report) {
        line(&mut table, &describe_found(found));
        line(&mut table, &format!("    {}", text(&found["sentence"])));
    }
    table += "  measured\n";
    for measurement in throughputs(report) {
        line(&mut table, &describe_measurement(measurement));
    }
    for step in steps(report) {
        let name = text(&step["name"]);
        if let Some(seconds) = took_seconds(step) {
            line(&mut table, &format!("step `{name}` took {seconds:.1} s"));
        }
    }
    for missing in report["run"]["missing"].as_array().into_iter().flatten() {
        line(&mut table, &format!("missing: {}", text(missing)));
    }
    table
}

fn line(table: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(table, "    {line}");
}

fn fits(wanted: &ExpectedFinding, found: &Value) -> bool {
    let direction = wanted.direction.as_deref();
    let mut nodes: Vec<&str> = list(&found["nodes"]);
    nodes.sort_unstable();
    let mut wanted_nodes: Option<Vec<&str>> =
        wanted.nodes.as_ref().map(|nodes| nodes.iter().map(String::as_str).collect());
    if let Some(nodes) = &mut wanted_nodes {
        nodes.sort_unstable();
    }
    let value_fits = wanted.value.as_ref().is_none_or(|wanted_value| {
        let value = found["value"].as_f64();
        let expected = in_unit(wanted_value, text(&found["unit"]));
        value.zip(expected).is_some_and(|(value, expected)| near(value, expected, wanted.within))
    });
    text(&found["id"]) == wanted.id
        && direction.is_none_or(|direction| found["direction"] == direction)
        && wanted_nodes.is_none_or(|wanted| wanted == nodes)
        && wanted.says.as_deref().is_none_or(|words| text(&found["sentence"]).contains(words))
        && value_fits
}

/// A row's quantity in a report's unit.
fn in_unit(quantity: &str, unit: &str) -> Option<f64> {
    let bare = quantity.parse().ok();
    bare.or_else(|| with_unit(quantity, unit))
}

fn with_unit(quantity: &str, unit: &str) -> Option<f64> {
    match unit {
        "bytes_per_second" => parse_rate_bps(quantity).ok().map(|bps| bps as f64 / 8.0),
        "bytes" => parse_bytes(quantity).ok().map(|bytes| bytes as f64),
        "seconds" => parse_duration(quantity).ok().map(|time| time.as_secs_f64()),
        "microseconds" => parse_duration(quantity).ok().map(|time| time.as_secs_f64() * 1e6),
        "share" | "cores" => parse_share(quantity).ok(),
        _ => None,
    }
}

fn near(value: f64, expected: f64, within: f64) -> bool {
    (value - expected).abs() <= expected.abs() * within
}

fn rate_problem(wanted: &ExpectedRate, report: &Value) -> Option<String> {
    let ExpectedRate { num_conn, direction, together, pair, rate, within } = wanted;
    let nodes = if *together { "together" } else { "each" };
    let rates = throughputs(report).filter(|one| {
        one["num_conn"] == *num_conn
            && one["direction"] == direction.as_str()
            && one["nodes"] == nodes
            && pair.as_ref().is_none_or(|pair| one["pairs"][0]["pair"] == pair.as_str())
    });
    let rates: Vec<f64> = rates.filter_map(mbit_per_s).collect();
    let expected = *rate as f64 / 1e6;
    let is_right = !rates.is_empty() && rates.iter().all(|rate| near(*rate, expected, *within));
    (!is_right).then(|| {
        format!(
            "{num_conn} connections, {direction}: {rates:.1?} instead of {expected:.1} Mbit/s \
             (within {:.0} %)",
            within * 100.0
        )
    })
}

fn time_problem(wanted: &ExpectedTime, report: &Value) -> Option<String> {
    let most = wanted.took_at_most.as_secs_f64();
    let runs: Vec<Option<f64>> = steps(report)
        .filter(|step| is_run_of(text(&step["name"]), &wanted.step))
        .map(took_seconds)
        .collect();
    let is_right = !runs.is_empty() && runs.iter().all(|run| run.is_some_and(|took| took <= most));
    (!is_right)
        .then(|| format!("step `{}` took {runs:.1?} s instead of {most} s at most", wanted.step))
}

/// A step has its runbook's name, and more where a later one repeats it.
fn is_run_of(name: &str, step: &str) -> bool {
    name.strip_prefix(step).is_some_and(|rest| rest.is_empty() || rest.starts_with(", repeated"))
}

/// `None` of a step that was not run.
fn took_seconds(step: &Value) -> Option<f64> {
    let moment = |key: &str| step[key].as_str()?.parse::<Timestamp>().ok();
    Some(moment("ended")?.duration_since(moment("started")?).as_secs_f64())
}

fn describe_expected(wanted: &ExpectedFinding) -> String {
    let nodes = wanted.nodes.as_ref().map_or("any nodes".to_owned(), |nodes| nodes.join(" "));
    let value = wanted
        .value
        .as_ref()
        .map_or(String::new(), |value| format!("{value} (within {:.0} %)", wanted.within * 100.0));
    let direction = wanted.direction.as_deref().unwrap_or("any direction");
    format!("{:<26} {direction:<20} {nodes:<16} {value}", wanted.id)
}

fn describe_found(found: &Value) -> String {
    let unit = text(&found["unit"]);
    let value = found["value"].as_f64().map_or(String::new(), |value| match unit {
        "bytes_per_second" => format!("{:.1} Mbit/s", value * 8.0 / 1e6),
        "bytes" => format!("{value:.0} B"),
        unit => format!("{value:.4} {unit}"),
    });
    format!(
        "{:<26} {:<20} {:<16} {value} [{} {}]",
        text(&found["id"]),
        text(&found["direction"]),
        list(&found["nodes"]).join(" "),
        text(&found["severity"]),
        text(&found["confidence"]),
    )
}

fn describe_measurement(measurement: &Value) -> String {
    let rate = mbit_per_s(measurement).map_or("-".to_owned(), |rate| format!("{rate:.1} Mbit/s"));
    let pairs = measurement["pairs"].as_array().into_iter().flatten();
    let pairs: Vec<&str> = pairs.map(|pair| text(&pair["pair"])).collect();
    let field = |name: &str| measurement[name].to_string();
    format!(
        "{} {:<20} {:>2} conn {rate}, rtt_us {}, retransmitted {}, acked {}, limited {}, failures {}",
        pairs.join(" "),
        text(&measurement["direction"]),
        field("num_conn"),
        field("rtt_us"),
        field("retransmitted_bytes"),
        field("acked_bytes"),
        field("limited"),
        field("failures"),
    )
}

fn findings(report: &Value) -> impl Iterator<Item = &Value> {
    report["findings"].as_array().into_iter().flatten()
}

fn throughputs(report: &Value) -> impl Iterator<Item = &Value> {
    let all = report["measurements"].as_array().into_iter().flatten();
    all.filter(|one| one["kind"] == "throughput")
}

fn steps(report: &Value) -> impl Iterator<Item = &Value> {
    report["steps"].as_array().into_iter().flatten()
}

fn mbit_per_s(measurement: &Value) -> Option<f64> {
    super::super::scene::mbit_per_s(measurement)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn list(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}
