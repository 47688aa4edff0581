//! Assertions: all expressions must hold, for every pair.

use super::At;
use crate::execute::run::Run;
use crate::plan::node::PairId;
use crate::plan::step::AssertSpec;
use crate::record::event::StepOutcome;

/// An expression without a value does not hold: what was not measured proves nothing.
pub fn check(run: &Run<'_>, at: At<'_>, spec: &AssertSpec) -> StepOutcome {
    let mut texts = Vec::new();
    for (index, pair) in run.plan.pairs.iter().enumerate() {
        let context = run.results.context(PairId(index), *pair, at.direction);
        let name =
            format!("{}-{}", run.plan.node(pair.primary).name, run.plan.node(pair.standby).name);
        for expression in &spec.that {
            let problem = match expression.evaluate(&context) {
                Ok(value) if value.is_true() => continue,
                Ok(_) => format!("`{}` does not hold on {name}", expression.text()),
                Err(error) => format!("on {name}, {error}"),
            };
            texts.push(match &spec.message {
                Some(message) => format!("{message}: {problem}"),
                None => problem,
            });
        }
    }
    if texts.is_empty() { StepOutcome::Passed } else { StepOutcome::AssertionFailed { texts } }
}
