//! One page that stands alone: no script, no font, no picture and no style from elsewhere.

mod chart;
mod figures;
mod filters;
mod view;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, UndefinedBehavior, context};
use sha2::{Digest, Sha256};

use super::model::{Measurement, Report};
use super::text;

const STYLE: &str = include_str!("style.css");

const TEMPLATES: [(&str, &str); 6] = [
    ("page.html", include_str!("page.html")),
    ("verdict.html", include_str!("verdict.html")),
    ("advice.html", include_str!("advice.html")),
    ("figures.html", include_str!("figures.html")),
    ("topology.html", include_str!("topology.html")),
    ("measurements.html", include_str!("measurements.html")),
];

/// The page could not be made: a mistake in the built-in templates.
#[derive(Debug, thiserror::Error)]
#[error("failed to fill in the report page")]
pub struct RenderError(#[source] minijinja::Error);

/// The whole page.
///
/// # Errors
/// None with the built-in templates, which a test fills in for every sample.
pub fn render(report: &Report) -> Result<String, RenderError> {
    let style = text::clean_lines(STYLE);
    let figures = figures::all(report);
    let report = &without_series_of_points(report);
    let hash = STANDARD.encode(Sha256::digest(style.as_bytes()));
    let page = environment()
        .and_then(|environment| {
            environment.get_template("page.html")?.render(context! {
                report => Value::from(Serde(report)),
                view => Value::from(Serde(view::View::of(report, figures))),
                style => style,
                style_hash => hash,
            })
        })
        .map_err(RenderError)?;
    // The last word: whatever came from where, no control character leaves.
    Ok(text::clean_lines(&page))
}

/// What only charts show; a long run has millions of these, and a template would copy them all.
fn without_series_of_points(report: &Report) -> Report {
    let mut report = report.clone();
    for measurement in &mut report.measurements {
        match measurement {
            Measurement::Throughput(test) => {
                test.samples = Vec::new();
                let of_pairs = test.pairs.iter_mut();
                let of_pairs =
                    of_pairs.flat_map(|ends| [&mut ends.latency_us, &mut ends.write_latency_us]);
                let of_test = [&mut test.latency_us, &mut test.write_latency_us];
                for latency in of_pairs.chain(of_test).flatten() {
                    latency.histogram = Vec::new();
                }
            }
            Measurement::Path(path) => {
                if let Some(idle) = &mut path.rtt_us.idle {
                    idle.histogram = Vec::new();
                }
            }
            Measurement::StorageRead(read) => {
                read.samples = Vec::new();
                read.latency_us.histogram = Vec::new();
            }
        }
    }
    report
}

fn environment() -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    for (name, source) in TEMPLATES {
        environment.add_template(name, source)?;
    }
    filters::add(&mut environment);
    Ok(environment)
}

#[cfg(test)]
mod tests;
