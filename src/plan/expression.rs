//! Expressions of `when`, `assert` and late values: compiled once, evaluated with a pair's results.

use minijinja::{Environment, UndefinedBehavior, Value};

/// A checked minijinja expression without its braces.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Expression(String);

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
        environment().compile_expression(text).map_err(|error| invalid(text, &error))?;
        Ok(Self(text.to_owned()))
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// The top-level names that the expression reads.
    pub fn names(&self) -> Vec<String> {
        let environment = environment();
        let mut names: Vec<String> = environment
            .compile_expression(&self.0)
            .map(|expression| expression.undeclared_variables(false).into_iter().collect())
            .unwrap_or_default();
        names.sort();
        names
    }

    pub fn evaluate(&self, context: &Value) -> Result<Value, InvalidExpression> {
        let environment = environment();
        environment
            .compile_expression(&self.0)
            .and_then(|expression| expression.eval(context))
            .and_then(|value| match value.is_undefined() {
                true => Err(minijinja::Error::new(
                    minijinja::ErrorKind::UndefinedError,
                    "has no value yet",
                )),
                false => Ok(value),
            })
            .map_err(|error| invalid(&self.0, &error))
    }
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
    let why = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    InvalidExpression { expression: expression.to_owned(), why }
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
}
