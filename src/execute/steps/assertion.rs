//! Assertions: all expressions must hold, for every pair that they are about.

use super::At;
use super::measure::no_value;
use crate::execute::run::Run;
use crate::plan::step::AssertSpec;
use crate::record::event::StepOutcome;

/// An expression without a value is no failed assertion: it cannot be judged.
pub fn check(run: &Run<'_>, at: At<'_>, spec: &AssertSpec) -> StepOutcome {
    let mut untrue = Vec::new();
    let mut unknown = Vec::new();
    for id in spec.pairs.iter().copied() {
        let context = run.results.context(id, None, run.plan.pair(id), at.direction);
        for expression in &spec.that {
            match expression.holds(&context) {
                Ok(true) => (),
                Ok(false) => {
                    let name = run.plan.pair_name(id);
                    let problem = format!("`{}` does not hold on {name}", expression.text());
                    untrue.push((id, said(spec, &problem)));
                }
                Err(error) => unknown.push(no_value("assert", said(spec, &error.to_string()), id)),
            }
        }
    }
    if unknown.is_empty() && untrue.is_empty() {
        return StepOutcome::Passed;
    }
    if unknown.is_empty() {
        let texts = untrue.into_iter().map(|(_, text)| text).collect();
        return StepOutcome::AssertionFailed { texts };
    }
    // Each with its own pair.
    let untrue = untrue.into_iter().map(|(pair, text)| no_value("assert", text, pair));
    StepOutcome::Failed { failures: unknown.into_iter().chain(untrue).collect() }
}

fn said(spec: &AssertSpec, problem: &str) -> String {
    match &spec.message {
        Some(message) => format!("{message}: {problem}"),
        None => problem.to_owned(),
    }
}
