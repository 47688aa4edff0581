//! The page stands alone, is well formed, leads nowhere that is not there, and escapes everything.

use std::collections::BTreeSet;

use super::chart::{Dot, Line, LineChart, Markers, XScale};
use super::render;
use crate::report::model::Report;
use crate::report::samples;

fn pages() -> Vec<String> {
    [samples::whole(), samples::broken(), samples::demo(), samples::wide()]
        .iter()
        .map(|report| render(report).unwrap())
        .collect()
}

/// Values of an attribute, in the order of the page.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    page.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn a_page_needs_nothing_from_elsewhere() {
    for page in pages() {
        for forbidden in ["http://", "https://", "<script", "<link", "<img", "url(", "@import"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(page.contains("default-src 'none'; style-src 'sha256-"));
        assert!(!page.contains(" style=\""), "the policy forbids style attributes");
        assert!(values(&page, "src").is_empty());
    }
}

#[test]
fn a_line_for_the_network_team_is_wrapped_and_not_behind_a_scroll_bar() {
    for page in pages() {
        let rule = page.lines().find(|line| line.starts_with("pre {")).unwrap();
        assert!(rule.contains("white-space: pre-wrap") && !rule.contains("overflow-x"), "{rule}");
    }
}

#[test]
fn the_policy_names_the_hash_of_the_style_that_is_there() {
    use base64::Engine as _;
    use sha2::Digest as _;
    for page in pages() {
        let style = page.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
        let hash = sha2::Sha256::digest(style.as_bytes());
        let hash = base64::engine::general_purpose::STANDARD.encode(hash);
        assert!(page.contains(&format!("'sha256-{hash}'")));
    }
}

#[test]
fn every_tag_is_closed_in_its_place() {
    for page in pages() {
        let mut open: Vec<String> = Vec::new();
        for tag in page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
            let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap();
            let void = matches!(name, "meta" | "!doctype") || tag.ends_with('/');
            if let Some(closed) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(closed), "in {tag}");
            } else if !void {
                open.push(name.to_owned());
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }
}

#[test]
fn every_link_has_its_anchor_and_every_id_is_unique() {
    for page in pages() {
        let ids = values(&page, "id");
        let unique: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), unique.len(), "{ids:?}");
        for target in values(&page, "href") {
            assert!(unique.contains(target.strip_prefix('#').unwrap()), "{target}");
        }
        for label in values(&page, "aria-labelledby") {
            assert!(unique.contains(label), "{label}");
        }
    }
}

#[test]
fn every_measurement_has_an_anchor() {
    for report in [samples::whole(), samples::broken(), samples::demo(), samples::wide()] {
        let page = render(&report).unwrap();
        let ids = values(&page, "id");
        for number in 1..=report.measurements.len() {
            assert!(ids.contains(&format!("m{number}").as_str()), "m{number}");
        }
    }
}

#[test]
fn whatever_a_peer_says_is_text() {
    let page = render(&samples::broken()).unwrap();
    assert!(page.contains("&lt;script&gt;alert(1)"), "the name is shown");
    for page in [page, render(&samples::hostile()).unwrap()] {
        assert!(!page.to_lowercase().contains("<script"));
        assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
    }
}

#[test]
fn hostile_names_in_charts_are_text() {
    let evil = "<script>\u{1b}[0m\"'&";
    let report: Report = {
        let mut report = samples::whole();
        for series in &mut report.series {
            series.pairs = vec![evil.to_owned()];
            for point in &mut series.points {
                point.label = format!("{evil}{}", point.label);
            }
        }
        report
    };
    let page = render(&report).unwrap();
    assert!(!page.contains("<script"));
    assert!(page.contains("&lt;script&gt; [0m&quot;&apos;&amp;"), "in a legend");
    assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
}

#[test]
fn a_whole_run_has_its_charts() {
    let page = render(&samples::whole()).unwrap();
    // Two of rates, two ladders, two sweeps, and rate and latency for each of two patterns.
    assert_eq!(page.matches("<svg role=\"img\"").count(), 10);
    assert!(!page.contains("NaN") && !page.contains(">inf"));
}

#[test]
fn what_is_unknown_is_said_so() {
    for page in pages() {
        // `>none<` is the name of an I/O scheduler.
        for wrong in [">None<", "Some(", "undefined", ">null<"] {
            assert!(!page.contains(wrong), "{wrong}");
        }
    }
    let page = render(&samples::broken()).unwrap();
    assert!(page.contains("no result") && page.contains("unknown"));
}

fn chart(dots: Vec<Dot>) -> Option<String> {
    let line = Line { name: "a".to_owned(), dots, runs: vec![] };
    LineChart {
        x_label: "num_conn".to_owned(),
        y_label: "Mbit/s".to_owned(),
        x_scale: XScale::Linear,
        markers: Markers::Each,
        lines: vec![line],
        levels: vec![("need".to_owned(), f64::NAN)],
    }
    .svg("c1", "Rate against num_conn")
}

fn dot(x: f64, y: f64) -> Dot {
    Dot { half_width: Some(f64::INFINITY), ..Dot::plain(x, y) }
}

#[test]
fn no_point_makes_no_chart_and_what_is_no_number_is_left_out() {
    assert_eq!(chart(vec![]), None);
    assert_eq!(chart(vec![dot(f64::NAN, 1.0), dot(1.0, f64::INFINITY)]), None);
    let svg = chart(vec![dot(2.0, 10.0), dot(4.0, f64::NAN), dot(6.0, 20.0)]).unwrap();
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    assert_eq!(svg.matches("<circle").count(), 3, "two points and the legend");
    let single = chart(vec![dot(1.0, 0.0)]).unwrap();
    assert!(!single.contains("NaN"), "{single}");
}

#[test]
fn a_chart_is_named_for_those_who_do_not_see_it() {
    let svg = chart(vec![dot(2.0, 10.0)]).unwrap();
    assert!(svg.starts_with("<svg role=\"img\" aria-labelledby=\"c1-title\" id=\"c1\""), "{svg}");
    assert!(svg.contains("<title id=\"c1-title\">Rate against num_conn</title>"), "{svg}");
}

/// To look at: `cargo test -p redoline --lib pages_to_look_at -- --ignored`.
#[test]
#[ignore = "writes files for people to look at"]
fn pages_to_look_at() {
    for (name, page) in ["whole", "broken", "demo", "wide"].iter().zip(pages()) {
        let path = std::env::temp_dir().join(format!("redoline-report-{name}.html"));
        std::fs::write(&path, page).unwrap();
        println!("{}", path.display());
    }
}
