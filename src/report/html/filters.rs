//! Formatting for the templates. A field that does not exist is an error, one that is null is
//! unknown.

use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, ErrorKind};

use super::super::format;
use super::super::model::{Answer, Severity};
use super::super::wording;
use crate::plan::node::Direction;

pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_filter("rate", |rate: &Value| Ok::<_, Error>(format::rate(number(rate)?)));
    environment.add_filter("rate_within", |rate: &Value, half_width: &Value| {
        Ok::<_, Error>(format::rate_with_half_width(number(rate)?, number(half_width)?))
    });
    environment.add_filter("mib_rate_within", |rate: &Value, half_width: &Value| {
        Ok::<_, Error>(format::mib_rate_with_half_width(number(rate)?, number(half_width)?))
    });
    environment.add_filter("bytes", |bytes: &Value| Ok::<_, Error>(format::bytes(whole(bytes)?)));
    environment.add_filter("count", |count: &Value| Ok::<_, Error>(format::count(whole(count)?)));
    environment.add_filter("us", |us: &Value| Ok::<_, Error>(format::microseconds(number(us)?)));
    environment.add_filter("ms", |ms: &Value| Ok::<_, Error>(format::milliseconds(number(ms)?)));
    environment
        .add_filter("share", |share: &Value| Ok::<_, Error>(format::percent(number(share)?)));
    environment.add_filter("digits", |n: &Value| Ok::<_, Error>(format::number(number(n)?)));
    environment.add_filter("known", |text: &Value| known(text, format::UNKNOWN));
    environment.add_filter("or_dash", |text: &Value| known(text, format::NONE));
    environment.add_filter("listed", listed);
    environment.add_filter("moment", |text: &str| format::moment(text));
    environment.add_filter("words", |text: &str| wording::words(text));
    environment.add_filter("direction", |d: Serde<Direction>| d.0.to_string());
    environment.add_filter("answer", |answer: Serde<Answer>| wording::answer(answer.0));
    environment.add_filter("severity", |severity: Serde<Severity>| wording::severity(severity.0));
}

fn number(value: &Value) -> Result<Option<f64>, Error> {
    refuse_undefined(value)?;
    if value.is_none() { Ok(None) } else { f64::try_from(value.clone()).map(Some) }
}

fn whole(value: &Value) -> Result<Option<u64>, Error> {
    refuse_undefined(value)?;
    if value.is_none() { Ok(None) } else { u64::try_from(value.clone()).map(Some) }
}

fn known(value: &Value, otherwise: &str) -> Result<String, Error> {
    refuse_undefined(value)?;
    let text = if value.is_none() { String::new() } else { value.to_string() };
    Ok(if text.is_empty() { otherwise.to_owned() } else { text })
}

fn listed(value: &Value) -> Result<String, Error> {
    refuse_undefined(value)?;
    let items: Vec<String> = value.try_iter()?.map(|item| item.to_string()).collect();
    Ok(wording::or_none(&items))
}

fn refuse_undefined(value: &Value) -> Result<(), Error> {
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "the report has no such field"));
    }
    Ok(())
}
