//! Variables, and texts rendered with them. A rendered value is never rendered again.

use std::collections::{BTreeMap, HashMap};

use minijinja::Value;
use minijinja::value::{Serde, ValueKind};

use super::expression::{Expression, environment, is_global};
use super::problem::{late_not_allowed, registered_later};
use crate::runbook::problem::{Fault, Faults};
use crate::runbook::source::Place;
use crate::runbook::template::{self, Template};
use crate::runbook::tree::{Content, Entry, Node, Scalar};
use crate::runbook::value;

/// Every name that an expression may read at one place of the runbook.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub vars: BTreeMap<String, serde_json::Value>,
    /// Registered names, with the place of the step that registers each.
    pub registered: BTreeMap<String, Place>,
    /// Of the step that reads; results of it and of later steps are not there yet.
    pub step: Option<Place>,
}

/// Keys whose values may wait for results.
const LATE_KEYS: &[&str] = &["num_conn"];

/// A tree without templates, but for what has to wait for results.
#[derive(Clone, Debug)]
pub struct Rendered {
    pub node: Node,
    pub late: HashMap<Place, Expression>,
}

impl Scope {
    /// For the expressions of one step.
    pub fn of_step(&self, step: Place) -> Self {
        Self { step: Some(step), ..self.clone() }
    }

    pub fn with(&self, name: &str, value: serde_json::Value) -> Self {
        let mut scope = self.clone();
        scope.vars.insert(name.to_owned(), value);
        scope
    }

    /// An expression's text to an expression with the variables bound.
    pub fn expression(&self, node: &Node) -> Result<Expression, Faults> {
        let scalar = value::scalar(node, "an expression")?;
        let text = template::bare(&scalar.text);
        let expression = Expression::parse(text).map_err(|error| {
            vec![Fault::new(node.place, format!("`{text}` cannot be read: {}", error.why))]
        })?;
        let names = expression.names();
        let faults: Faults =
            names.iter().filter_map(|name| self.unknown(node.place, name)).collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        let constants = names
            .into_iter()
            .filter_map(|name| Some((name.clone(), self.vars.get(&name)?.clone())));
        let constants: Vec<_> = constants.collect();
        let expression = expression.with_constants(constants);
        if expression.names().is_empty() {
            // Nothing is left to wait for, so a mistake shows now.
            let why = |error: super::expression::InvalidExpression| {
                vec![Fault::new(node.place, error.to_string())]
            };
            expression.evaluate(&Value::UNDEFINED).map_err(why)?;
        }
        Ok(expression)
    }

    fn unknown(&self, place: Place, name: &str) -> Option<Fault> {
        if self.vars.contains_key(name) {
            return None;
        }
        match self.registered.get(name) {
            Some(at) if self.step.is_some_and(|step| *at >= step) => {
                Some(registered_later(place, name, at.line))
            }
            Some(_) => None,
            None => {
                let known = self.vars.keys().chain(self.registered.keys()).map(String::as_str);
                Some(Fault::unknown(place, "name", name, known))
            }
        }
    }

    /// Renders every text of a tree.
    pub fn render(&self, node: &Node) -> Result<Rendered, Faults> {
        let (rendered, faults) = self.render_what_can_be(node);
        if faults.is_empty() { Ok(rendered) } else { Err(faults) }
    }

    /// What cannot be rendered is left unreadable, so that the rest can still be checked.
    pub fn render_what_can_be(&self, node: &Node) -> (Rendered, Faults) {
        let mut late = HashMap::new();
        let mut faults = Faults::new();
        let node = self.render_node(node, false, &mut late, &mut faults);
        (Rendered { node, late }, faults)
    }

    fn render_node(
        &self,
        node: &Node,
        may_wait: bool,
        late: &mut HashMap<Place, Expression>,
        faults: &mut Faults,
    ) -> Node {
        let content = match &node.content {
            Content::Scalar(scalar) => {
                return self.render_scalar(node, scalar, may_wait, late, faults);
            }
            Content::List(items) => Content::List(
                items.iter().map(|item| self.render_node(item, false, late, faults)).collect(),
            ),
            Content::Map(entries) => Content::Map(
                entries
                    .iter()
                    .map(|entry| {
                        let may_wait = LATE_KEYS.contains(&entry.key.as_str());
                        let value = self.render_node(&entry.value, may_wait, late, faults);
                        Entry { value, ..entry.clone() }
                    })
                    .collect(),
            ),
            Content::Unreadable => Content::Unreadable,
        };
        Node { place: node.place, content }
    }

    fn render_scalar(
        &self,
        node: &Node,
        scalar: &Scalar,
        may_wait: bool,
        late: &mut HashMap<Place, Expression>,
        faults: &mut Faults,
    ) -> Node {
        let result = match template::classify(&scalar.text) {
            Template::Literal => return node.clone(),
            Template::Expression(_) => self.render_expression(node, may_wait, late),
            Template::Mixed => self.render_mixed(node.place, &scalar.text),
        };
        result.unwrap_or_else(|more| {
            faults.extend(more);
            Node::unreadable(node.place)
        })
    }

    fn render_expression(
        &self,
        node: &Node,
        may_wait: bool,
        late: &mut HashMap<Place, Expression>,
    ) -> Result<Node, Faults> {
        let expression = self.expression(node)?;
        if let Some(name) = expression.names().first() {
            if !may_wait {
                return Err(vec![late_not_allowed(node.place, name)]);
            }
            late.insert(node.place, expression);
            return Ok(node.clone());
        }
        let value = expression
            .evaluate(&Value::UNDEFINED)
            .map_err(|error| vec![Fault::new(node.place, error.to_string())])?;
        Ok(to_node(node.place, &value))
    }

    fn render_mixed(&self, place: Place, text: &str) -> Result<Node, Faults> {
        let environment = environment();
        let cannot = |error: &minijinja::Error| {
            vec![Fault::new(place, format!("`{text}` cannot be read: {}", template::why(error)))]
        };
        if let Some(why) = template::template_error(text) {
            return Err(vec![Fault::new(place, format!("`{text}` cannot be read: {why}"))]);
        }
        let template = environment.template_from_str(text).map_err(|error| cannot(&error))?;
        let mut names: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        names.retain(|name| !is_global(&environment, name));
        names.sort();
        let unknown = |name: &String| match self.vars.contains_key(name) {
            true => None,
            false => self.unknown(place, name).or_else(|| Some(late_not_allowed(place, name))),
        };
        let faults: Faults = names.iter().filter_map(unknown).collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        let rendered =
            template.render(Value::from(Serde(&self.vars))).map_err(|error| cannot(&error))?;
        Ok(Node::text(place, rendered))
    }
}

/// A value as if it were written at the template's place.
fn to_node(place: Place, value: &Value) -> Node {
    let content = match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().into_iter().flatten();
            Content::List(items.map(|item| to_node(place, &item)).collect())
        }
        ValueKind::Map => {
            let keys = value.try_iter().into_iter().flatten();
            let entry = |key: Value| {
                let value = value.get_item(&key).unwrap_or_default();
                Entry { key: key.to_string(), place, value: to_node(place, &value) }
            };
            Content::Map(keys.map(entry).collect())
        }
        ValueKind::Number => return Node::plain(place, number_text(value)),
        ValueKind::Bool => return Node::plain(place, value.to_string()),
        ValueKind::None | ValueKind::Undefined => return Node::plain(place, "null"),
        _ => return Node::text(place, value.to_string()),
    };
    Node { place, content }
}

/// `{{ 8 / 2 }}` is 4.0 to the engine and 4 to its author.
fn number_text(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(number) if number.fract() == 0.0 && number.abs() < 9e15 => format!("{number:.0}"),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        let vars = [
            ("probe".to_owned(), "10 s".into()),
            ("n".to_owned(), 4.into()),
            ("tricky".to_owned(), "{{ n }}".into()),
        ];
        Scope {
            vars: vars.into(),
            registered: [("ladder".to_owned(), Place::new(2, 1))].into(),
            step: None,
        }
    }

    #[track_caller]
    fn rendered(text: &str) -> (String, bool) {
        let node = Node::text(Place::new(9, 1), text);
        let rendered = scope().render(&node).unwrap().node;
        let scalar = rendered.scalar().unwrap();
        (scalar.text.clone(), scalar.plain)
    }

    #[test]
    fn a_lone_expression_keeps_its_type() {
        assert_eq!(rendered("{{ n * 2 }}"), ("8".to_owned(), true));
        assert_eq!(rendered("{{ n / 2 }}"), ("2".to_owned(), true));
        assert_eq!(rendered("{{ probe }}"), ("10 s".to_owned(), false));
        assert_eq!(rendered("n is {{ n }}"), ("n is 4".to_owned(), false));
    }

    #[test]
    fn a_rendered_value_is_not_rendered_again() {
        assert_eq!(rendered("{{ tricky }}"), ("{{ n }}".to_owned(), false));
    }

    #[test]
    fn an_unknown_name_tells_the_nearest() {
        let node = Node::text(Place::new(9, 1), "{{ prob }}");
        let faults = scope().render(&node).unwrap_err();
        assert_eq!(faults[0].nearest.as_deref(), Some("probe"));
    }

    #[test]
    fn a_result_may_be_waited_for_only_where_that_is_possible() {
        let late = |key: &str| {
            let value = Node::text(Place::new(9, 1), "{{ ladder.recommended_num_conn * n }}");
            let entry = Entry { key: key.to_owned(), place: Place::new(9, 1), value };
            let map = Node { place: Place::new(9, 1), content: Content::Map(vec![entry]) };
            scope().render(&map)
        };
        assert_eq!(late("num_conn").unwrap().late.len(), 1);
        assert!(late("duration").is_err());
    }
}
