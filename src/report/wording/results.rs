//! Rates, ladders and sweeps in words.

use super::super::format;
use super::super::model::{Point, Report, Series, Steady, Throughput};
use super::super::parameters;
use super::super::summary::{self, Level};
use super::words;

/// `57.9 ± 0.4 Mbit/s (6.9 MiB/s)`, what keeps it from being final, or that it failed.
pub fn steady_rate(test: &Throughput) -> String {
    match test.steady.as_ref().and_then(not_converged) {
        Some(why) => format!("{}, {why}", rate(test)),
        None => rate(test),
    }
}

/// `57.9 ± 0.4 Mbit/s (6.9 MiB/s)`, or that it failed.
pub fn rate(test: &Throughput) -> String {
    let Some(steady) = &test.steady else { return "no result".to_owned() };
    let (rate, half_width) = (steady.bytes_per_second, steady.half_width_bytes_per_second);
    format::rate_with_half_width(Some(rate), half_width)
}

/// `± 0.7 %, 24 batches over its last 18.8 s of 20 s`, or `not converged, ± 4 % over 1 min, 12 batches`.
pub fn known_to(steady: &Steady) -> String {
    let batches = steady.batches;
    match (not_converged(steady), relative(steady)) {
        (Some(why), _) => format!("{why}, {batches} batches"),
        (None, share) => {
            format!("± {}, {batches} batches {}", format::percent(share), over(steady))
        }
    }
}

/// What a mean rests on: `over its last 4.4 s of 7.8 s`, `over 7.8 s` where nothing was cut off.
fn over(steady: &Steady) -> String {
    let time = |ms: u64| format::milliseconds(Some(ms as f64));
    match steady.truncated_ms {
        0 => format!("over {}", time(steady.window_ms)),
        cut => {
            format!("over its last {} of {}", time(steady.window_ms), time(cut + steady.window_ms))
        }
    }
}

/// `not converged, ± 4 % over its last 58.8 s of 1 min`; `None` when it has converged.
pub fn not_converged(steady: &Steady) -> Option<String> {
    let over = over(steady);
    (!steady.converged).then(|| match relative(steady) {
        Some(share) => format!("not converged, ± {} {over}", format::percent(Some(share))),
        None => format!("not converged, too few samples for an interval {over}"),
    })
}

fn relative(steady: &Steady) -> Option<f64> {
    let share = steady.half_width_bytes_per_second? / steady.bytes_per_second;
    share.is_finite().then_some(share)
}

/// `converged to ± 0.7 % (target 2.5 %) in 24 batches over 18.8 s, after 1.2 s of ramp; …`.
pub fn convergence(steady: &Steady) -> String {
    let how = match (not_converged(steady), relative(steady)) {
        (Some(why), _) => why,
        (None, Some(share)) => format!("converged to ± {}", format::percent(Some(share))),
        (None, None) => "converged".to_owned(),
    };
    let shift = level_shift(steady).map(|shift| format!("; {shift}")).unwrap_or_default();
    format!(
        "{how} (target {}), {} batches {}, after {} of ramp, confidence {}{shift}",
        format::percent(Some(steady.target_share)),
        steady.batches,
        over(steady),
        format::milliseconds(Some(steady.truncated_ms as f64)),
        format::percent(Some(steady.confidence)),
    )
}

/// `the rate moved from 320 Mbit/s to 260 Mbit/s`; `None` when it did not.
pub fn level_shift(steady: &Steady) -> Option<String> {
    let rate = |rate: f64| format::network_rate(Some(rate), None);
    let shift = steady.level_shift.as_ref()?;
    let (first, last) = (shift.first_bytes_per_second, shift.last_bytes_per_second);
    Some(format!("the rate moved from {} to {}", rate(first), rate(last)))
}

/// `m1, m3 to m9`: of at least three in a row the first and the last.
pub fn ids(ids: &[String]) -> String {
    let number = |id: &str| id.strip_prefix('m')?.parse::<u64>().ok();
    let follows = |a: &str, b: &str| {
        number(a).zip(number(b)).is_some_and(|(a, b)| a.checked_add(1) == Some(b))
    };
    let runs = ids.chunk_by(|a, b| follows(a, b));
    let texts: Vec<String> = runs
        .map(|run| match run {
            [first, _, .., last] => format!("{first} to {last}"),
            few => few.join(", "),
        })
        .collect();
    texts.join(", ")
}

/// What sent beside the pair itself: `all pairs together`, `both directions at the same time`;
/// `None` where it was alone.
pub fn manner(test: &Throughput) -> Option<String> {
    let mut parts = Vec::new();
    match test.nodes.as_str() {
        "each" => (),
        "together" if test.pairs.len() < 2 => (),
        "all_to_one" => {
            let receiver = test.pairs.first().map_or("one", |ends| &ends.receiver);
            parts.push(format!("all to one receiver, {receiver}"));
        }
        other => parts.push(parameters::nodes(other).to_owned()),
    }
    parts.extend(test.both_directions.then(|| parameters::BOTH_DIRECTIONS.to_owned()));
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// `num_conn on phx1-ash1, primary to standby`, and what sent at the same time.
pub fn series_subject(report: &Report, series: &Series) -> String {
    let place = match &series.node {
        Some(node) => node.clone(),
        None => series.pairs.join(", "),
    };
    let direction = series.direction.map(|direction| format!(", {direction}")).unwrap_or_default();
    let manner = series_manner(report, series).map(|how| format!(", {how}")).unwrap_or_default();
    format!("{} on {place}{direction}{manner}", variable(&series.variable))
}

/// As of its first measurement.
pub fn series_manner(report: &Report, series: &Series) -> Option<String> {
    let first = series.points.iter().find_map(|point| point.measurement.as_ref())?;
    manner(summary::throughputs(report).find(|test| test.id == *first)?)
}

pub fn variable(variable: &str) -> String {
    match variable {
        "num_conn" => "num_conn".to_owned(),
        "mtu" => "MTU".to_owned(),
        "interface_mtu" => "interface MTU".to_owned(),
        "slots" => "I/O slots".to_owned(),
        other => words(other),
    }
}

/// Best and recommended values of a series, and why it stopped.
pub fn series_sentence(report: &Report, series: &Series) -> String {
    let mut text = format!("{}: ", series_subject(report, series));
    if series.variable == "time" {
        text.push_str(&over_time(series));
        return text;
    }
    match &series.best {
        Some(only) if series.points.len() == 1 => {
            return format!("{text}only {} was tried.", point(series, only));
        }
        None => text.push_str("no point was measured"),
        Some(best) => text.push_str(&format!("best {}", point(series, best))),
    }
    if let Some(recommended) = &series.recommended {
        text.push_str(&format!("; recommended {}", point(series, recommended)));
    }
    if let (Some(_), Some(tolerance)) = (&series.recommended, series.tolerance) {
        text.push_str(&format!(
            ", the smallest within {} of the best",
            format::percent(Some(tolerance))
        ));
    }
    text.push_str(
        &documented(series).map_or_else(String::new, |documented| format!("; {documented}")),
    );
    text.push_str(&format!("; {}.", stopped_because(&series.stopped_because)));
    text
}

/// Of a knee: what the documented procedure would recommend.
fn documented(series: &Series) -> Option<String> {
    if series.until.as_deref() != Some("knee") || series.best.is_none() {
        return None;
    }
    Some(match (series.plateau_recommended, &series.plateau_remark) {
        (Some(num_conn), _) => format!(
            "the documented procedure (plateau) would recommend {}",
            format::number(Some(num_conn))
        ),
        (None, Some(remark)) => format!("by the documented procedure (plateau) {remark}"),
        (None, None) => {
            "what the documented procedure (plateau) would recommend, these levels do not tell"
                .to_owned()
        }
    })
}

/// What the documented procedure would recommend of a knee: a number, one with its condition, or why
/// there is none.
pub fn by_plateau(series: &Series) -> Option<String> {
    let told = series.plateau_recommended.map(|num_conn| format::number(Some(num_conn)));
    told.or_else(|| series.plateau_remark.clone())
}

/// `24 tests, from 55 Mbit/s after 3 h to 58 Mbit/s after 0 s.`
fn over_time(series: &Series) -> String {
    let rate = |point: &&Point| point.bytes_per_second.unwrap_or_default();
    let measured = || series.points.iter().filter(|point| point.bytes_per_second.is_some());
    let lowest = measured().min_by(|a, b| rate(a).total_cmp(&rate(b)));
    let highest = measured().max_by(|a, b| rate(a).total_cmp(&rate(b)));
    let count = series.points.len();
    let tests = if count == 1 { "1 test".to_owned() } else { format!("{count} tests") };
    let missing = match count - measured().count() {
        0 => String::new(),
        missing => format!(", {missing} of them without a rate"),
    };
    let (Some(lowest), Some(highest)) = (lowest, highest) else {
        return format!("{tests}, none with a rate.");
    };
    let at = |point: &Point| {
        format!("{} after {}", point_rate(series, point), point_label(series, point))
    };
    format!("{tests}{missing}, lowest {}, highest {}.", at(lowest), at(highest))
}

/// Times as people say them, everything else as the runbook has it.
pub fn point_label(series: &Series, point: &Point) -> String {
    match (series.variable.as_str(), point.value) {
        ("time", Some(seconds)) => format::seconds(Some(seconds)),
        _ => point.label.clone(),
    }
}

fn point(series: &Series, point: &Point) -> String {
    format!("{} with {}", point_label(series, point), point_rate(series, point))
}

/// Of storage in MiB/s, of a network in both units.
pub fn point_rate(series: &Series, point: &Point) -> String {
    rate_of(series, point.bytes_per_second, point.half_width_bytes_per_second)
}

/// `190 ± 2 Mbit/s (22.7 MiB/s), mean of 3 runs`, or why there is no number.
pub fn level_rate(series: &Series, level: &Level<'_>) -> String {
    let rate = || rate_of(series, level.bytes_per_second, level.half_width_bytes_per_second);
    let remarks: Vec<&str> = level.runs.iter().filter_map(|run| run.remark.as_deref()).collect();
    let remarks = remarks.join("; ");
    let measured = level.runs.iter().filter(|run| run.bytes_per_second.is_some()).count();
    let text = match measured {
        0 if !remarks.is_empty() => return remarks,
        0 | 1 => rate(),
        runs => format!("{}, mean of {runs} runs", rate()),
    };
    if remarks.is_empty() { text } else { format!("{text} ({remarks})") }
}

fn rate_of(series: &Series, rate: Option<f64>, half_width: Option<f64>) -> String {
    match series.node {
        Some(_) => format::mib_rate_with_half_width(rate, half_width),
        None => format::rate_with_half_width(rate, half_width),
    }
}

fn stopped_because(reason: &str) -> String {
    match reason {
        "plateau" => "ended after three levels that did not rise".to_owned(),
        "knee" => {
            "ended after two levels that did not exceed the reference, with its contenders measured \
             again"
                .to_owned()
        }
        "maximum" => "ended at the highest level, still rising".to_owned(),
        "all_values" => "every value was tried".to_owned(),
        "failure" => "ended because a level could not be measured".to_owned(),
        "interrupted" => "interrupted".to_owned(),
        other => words(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(converged: bool, half_width: Option<f64>) -> Steady {
        Steady {
            bytes_per_second: 1e6,
            half_width_bytes_per_second: half_width,
            confidence: 0.95,
            target_share: 0.025,
            converged,
            truncated_ms: 1200,
            batches: 12,
            window_ms: 58_800,
            level_shift: None,
        }
    }

    #[test]
    fn what_has_not_converged_says_how_far_it_came_and_after_how_long() {
        let wide = steady(false, Some(4e4));
        assert_eq!(
            not_converged(&wide).unwrap(),
            "not converged, ± 4 % over its last 58.8 s of 1 min"
        );
        let none = not_converged(&steady(false, None)).unwrap();
        assert_eq!(
            none,
            "not converged, too few samples for an interval over its last 58.8 s of 1 min"
        );
        let whole = Steady { truncated_ms: 0, ..wide };
        assert_eq!(not_converged(&whole).unwrap(), "not converged, ± 4 % over 58.8 s");
        assert_eq!(not_converged(&steady(true, Some(1e4))), None);
    }

    #[test]
    fn the_only_value_of_a_sweep_is_not_called_the_best() {
        let report = crate::report::samples::wide();
        let swept = |one: &&Series| one.best.is_some() && one.variable != "time";
        let mut series = report.series.iter().find(swept).unwrap().clone();
        series.points = vec![series.best.clone().unwrap()];
        let sentence = series_sentence(&report, &series);
        assert!(sentence.ends_with(" was tried.") && !sentence.contains("best"), "{sentence}");
    }

    #[test]
    fn measurements_in_a_row_are_named_by_the_first_and_the_last() {
        let named = |names: &[&str]| {
            ids(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>())
        };
        assert_eq!(named(&["m1", "m3", "m4", "m5", "m9", "m10"]), "m1, m3 to m5, m9, m10");
        assert_eq!(named(&["x", "m2"]), "x, m2");
        assert_eq!(named(&[]), "");
    }

    #[test]
    fn what_has_converged_says_to_what_and_from_how_many_batches() {
        assert_eq!(
            convergence(&steady(true, Some(1e4))),
            "converged to ± 1 % (target 2.5 %), 12 batches over its last 58.8 s of 1 min, after \
             1.2 s of ramp, confidence 95 %"
        );
    }
}
