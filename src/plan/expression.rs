//! Expressions of `when`, `assert` and late values: compiled once, evaluated with a pair's results.

use std::collections::BTreeMap;

use minijinja::value::{Serde, ValueKind, merge_maps};
use minijinja::{Environment, UndefinedBehavior, Value};

use crate::runbook::template;

/// A checked minijinja expression without its braces.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Expression {
    text: String,
    /// Values that were known when the plan was made: variables and the `item` of a loop.
    constants: BTreeMap<String, serde_json::Value>,
}

/// Why an expression is wrong or has no value.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{expression}`: {why}")]
pub struct InvalidExpression {
    pub expression: String,
    pub why: String,
}

/// Steps of the template engine; enough for any expression a person writes.
const FUEL: u64 = 100_000;

impl Expression {
    /// Checks the syntax; `text` is without `{{ }}`.
    pub fn parse(text: &str) -> Result<Self, InvalidExpression> {
        if let Some(why) = template::expression_error(text) {
            return Err(InvalidExpression { expression: text.to_owned(), why });
        }
        Ok(Self { text: text.to_owned(), constants: BTreeMap::new() })
    }

    /// Binds names to values; they count before the context's.
    #[must_use]
    pub fn with_constants(
        mut self,
        constants: impl IntoIterator<Item = (String, serde_json::Value)>,
    ) -> Self {
        self.constants.extend(constants);
        self
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The top-level names that the expression reads and that are not bound.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.paths(false);
        names.retain(|name| !self.constants.contains_key(name));
        names
    }

    /// The names with the attributes read of them, such as `ladder.recommended_num_conn`.
    pub fn attributes(&self) -> Vec<String> {
        self.paths(true)
    }

    fn paths(&self, nested: bool) -> Vec<String> {
        let environment = environment();
        let mut names: Vec<String> = environment
            .compile_expression(&self.text)
            .map(|expression| expression.undeclared_variables(nested).into_iter().collect())
            .unwrap_or_default();
        names.retain(|name| !is_global(&environment, name));
        names.sort();
        names
    }

    /// Whether a condition is true; a value that is neither true nor false is an error.
    pub fn holds(&self, context: &Value) -> Result<bool, InvalidExpression> {
        let value = self.evaluate(context)?;
        match value.kind() {
            ValueKind::Bool => Ok(value.is_true()),
            kind => Err(InvalidExpression {
                expression: self.text().to_owned(),
                why: format!("is a {kind}, and not true or false; compare it with something"),
            }),
        }
    }

    pub fn evaluate(&self, context: &Value) -> Result<Value, InvalidExpression> {
        let environment = environment();
        let constants = Value::from(Serde(&self.constants));
        let context = match self.constants.is_empty() {
            true => context.clone(),
            false if context.is_undefined() || context.is_none() => constants,
            false => merge_maps([context.clone(), constants]),
        };
        environment
            .compile_expression(&self.text)
            .and_then(|expression| expression.eval(context))
            .and_then(|value| match value.is_undefined() {
                true => Err(minijinja::Error::new(
                    minijinja::ErrorKind::UndefinedError,
                    "has no value yet",
                )),
                false => Ok(value),
            })
            .map_err(|error| invalid(&self.text, &error))
    }
}

/// Units and functions of the environment itself.
pub fn is_global(environment: &Environment<'_>, name: &str) -> bool {
    let name = name.split('.').next().unwrap_or(name);
    environment.globals().any(|(global, _)| global == name)
}

/// Strict, bounded, and with the units that expressions may multiply by: `10 * MiB`.
///
/// A rate is in bytes per second, so `Mbit` is 125,000.
pub fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    for (name, bytes) in [
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("kbit", 125.0),
        ("Mbit", 125e3),
        ("Gbit", 125e6),
    ] {
        environment.add_global(name, bytes);
    }
    environment
}

/// Never minijinja's detailed text: it prints the values of variables, and one may be secret.
fn invalid(expression: &str, error: &minijinja::Error) -> InvalidExpression {
    InvalidExpression { expression: expression.to_owned(), why: template::why(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: bool) {
        let context = Value::from_pairs([("rate", 7_240_000.0)]);
        let value = Expression::parse(text).unwrap().evaluate(&context).unwrap();
        assert_eq!(value.is_true(), expected, "{text}");
    }

    #[test]
    fn rates_are_compared_with_units() {
        check("rate > 57 * Mbit", true);
        check("rate >= 10 * MiB", false);
    }

    #[test]
    fn an_unknown_name_is_an_error_and_not_false() {
        let error = Expression::parse("single.rate > 1").unwrap().evaluate(&Value::UNDEFINED);
        assert!(error.unwrap_err().to_string().contains("undefined"));
    }

    #[test]
    fn names_are_what_an_expression_reads() {
        let expression = Expression::parse("ladder.recommended_num_conn + extra * MiB").unwrap();
        assert_eq!(expression.names(), ["extra", "ladder"]);
    }

    #[test]
    fn a_constant_is_known_without_a_context() {
        let expression = Expression::parse("ladder.n * factor").unwrap();
        let expression = expression.with_constants([("factor".to_owned(), 2.into())]);
        assert_eq!(expression.names(), ["ladder"]);
        let context = Value::from_pairs([("ladder", Value::from_pairs([("n", 8)]))]);
        assert_eq!(expression.evaluate(&context).unwrap(), Value::from(16));
    }
}
