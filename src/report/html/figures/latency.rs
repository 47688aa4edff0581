//! How long acknowledgements of SYNC transport took: their histograms, and of what they consist.

use super::super::super::model::{Latency, LatencyBucket, PairEnds, Report, Throughput};
use super::super::super::{format, parameters, summary, tables};
use super::super::chart::{Bar, BarChart, BarSet};
use super::{Figure, slug};

/// One for each pair of each SYNC test that was answered.
pub(super) fn figures(report: &Report) -> Vec<Figure> {
    summary::throughputs(report)
        .filter(|test| test.mode != "async")
        .flat_map(|test| test.pairs.iter().map(move |ends| (test, ends)))
        .filter_map(|(test, ends)| figure(test, ends))
        .collect()
}

fn figure(test: &Throughput, ends: &PairEnds) -> Option<Figure> {
    let total = ends.latency_us.as_ref()?;
    let message = format::bytes(Some(test.message_bytes));
    let title = format!(
        "Acknowledgements of {message} with {}, {} to {} ({})",
        parameters::mode(&test.mode),
        ends.sender,
        ends.receiver,
        test.id
    );
    let id = slug(&format!("latency {} {} {}", test.id, ends.sender, ends.receiver));
    let sets = [
        Some(("acknowledgement", total)),
        ends.write_latency_us.as_ref().map(|w| ("of that, the write", w)),
    ];
    let sets: Vec<(&str, &Latency)> = sets.into_iter().flatten().collect();
    let chart = histogram(&sets)?.svg(&format!("{id}-chart"), &title)?;
    let sentences = sets.iter().map(|(name, latency)| sentence(name, latency)).collect();
    Some(Figure { id, title, charts: vec![chart], sentences, columns: vec![], rows: vec![] })
}

fn sentence(name: &str, latency: &Latency) -> String {
    let us = format::microseconds;
    format!(
        "{}: mean {}, p50 {}, p90 {}, p99 {}, p99.9 {}, max {}.",
        name,
        us(latency.mean),
        us(latency.p50),
        us(latency.p90),
        us(latency.p99),
        tables::p999(Some(latency)),
        us(latency.max)
    )
}

/// Buckets double, as in V$EVENT_HISTOGRAM_MICRO; bars are shares of all messages. `None` without a
/// message.
fn histogram(sets: &[(&str, &Latency)]) -> Option<BarChart> {
    let mut bounds: Vec<f64> = sets
        .iter()
        .flat_map(|(_, latency)| &latency.histogram)
        .map(|bucket| bucket.upper_us)
        .filter(|upper| upper.is_finite())
        .collect();
    bounds.sort_by(f64::total_cmp);
    bounds.dedup();
    if bounds.is_empty() {
        return None;
    }
    let bars = |latency: &Latency| {
        let all: u64 = latency.histogram.iter().map(|bucket| bucket.count).sum();
        bounds.iter().map(|bound| Some(bar(&latency.histogram, *bound, all))).collect()
    };
    Some(BarChart {
        x_label: "at most, and more than the bucket before".to_owned(),
        y_label: "share of messages, %".to_owned(),
        labels: bounds.iter().map(|bound| format::microseconds(Some(*bound))).collect(),
        y_most: Some(100.0),
        sets: sets
            .iter()
            .map(|(name, latency)| BarSet { name: (*name).to_owned(), bars: bars(latency) })
            .collect(),
    })
}

fn bar(histogram: &[LatencyBucket], bound: f64, all: u64) -> Bar {
    let counts = histogram.iter().filter(|bucket| bucket.upper_us == bound);
    let count: u64 = counts.map(|bucket| bucket.count).sum();
    Bar { y: 100.0 * count as f64 / all.max(1) as f64, half_width: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_messages_end_at_a_hundred_percent() {
        let latency = Latency {
            mean: Some(900.0),
            p50: Some(900.0),
            p90: Some(900.0),
            p99: Some(900.0),
            p999: None,
            max: Some(900.0),
            histogram: vec![LatencyBucket { upper_us: 1024.0, count: 340 }],
        };
        let svg = histogram(&[("acknowledgement", &latency)]).unwrap().svg("id", "title").unwrap();
        let ends: Vec<&str> = svg.lines().map(str::trim).collect();
        assert!(ends.contains(&"100") && !ends.contains(&"120"), "{svg}");
    }
}
