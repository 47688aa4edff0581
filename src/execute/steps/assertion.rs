//! Assertions: all expressions must hold, for every pair.

use super::At;
use super::measure::no_value;
use crate::execute::run::Run;
use crate::plan::node::PairId;
use crate::plan::step::AssertSpec;
use crate::record::event::StepOutcome;

/// An expression without a value is no failed assertion: it cannot be judged.
pub fn check(run: &Run<'_>, at: At<'_>, spec: &AssertSpec) -> StepOutcome {
    let mut texts = Vec::new();
    let mut unknown = Vec::new();
    for (index, pair) in run.plan.pairs.iter().enumerate() {
        let id = PairId(index);
        let context = run.results.context(id, *pair, at.direction);
        for expression in &spec.that {
            match expression.holds(&context) {
                Ok(true) => (),
                Ok(false) => {
                    let name = run.plan.pair_name(id);
                    let problem = format!("`{}` does not hold on {name}", expression.text());
                    texts.push(said(spec, &problem));
                }
                Err(error) => unknown.push(no_value("assert", said(spec, &error.to_string()), id)),
            }
        }
    }
    match (texts.is_empty(), unknown.is_empty()) {
        (true, true) => StepOutcome::Passed,
        (false, true) => StepOutcome::AssertionFailed { texts },
        (_, false) => {
            let failed = texts.into_iter().map(|text| no_value("assert", text, PairId(0)));
            StepOutcome::Failed { failures: unknown.into_iter().chain(failed).collect() }
        }
    }
}

fn said(spec: &AssertSpec, problem: &str) -> String {
    match &spec.message {
        Some(message) => format!("{message}: {problem}"),
        None => problem.to_owned(),
    }
}
