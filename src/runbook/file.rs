//! A runbook as it was written: structure checked, templates not yet rendered.

use super::check::{self, Templates};
use super::keys;
use super::problem::{Fault, Faults, Problem};
use super::source::{Place, Source};
use super::tree::{self, Content, Entry, Node};

/// Parts stay trees with their places, because their values may be templates; `plan::resolve`
/// renders and reads them.
#[derive(Clone, Debug, PartialEq)]
pub struct RunbookFile {
    pub source: Source,
    pub name: Node,
    pub vars: Vec<Entry>,
    pub need: Option<Node>,
    pub limits: Option<Node>,
    pub allow: Option<Node>,
    pub steps: Vec<StepFile>,
    pub finally: Vec<StepFile>,
    pub report: Option<Node>,
    pub agent: Option<Node>,
}

/// A step with exactly one action.
#[derive(Clone, Debug, PartialEq)]
pub struct StepFile {
    pub place: Place,
    /// The whole mapping.
    pub node: Node,
    pub action: &'static str,
    /// What stands behind the action's key.
    pub body: Node,
}

/// Reads what can be read, and tells everything that is wrong. No file comes back where not even
/// its top level can be read.
pub fn read(source: Source) -> (Option<RunbookFile>, Vec<Problem>) {
    let (root, mut faults) = tree::read(source.text());
    let Some(root) = root else { return (None, told(&source, faults)) };
    faults.extend(check::mapping(&root, &keys::RUNBOOK, Templates::Allowed));
    if faults.is_empty() {
        faults.extend(second_opinion(source.text()));
    }
    let problems = told(&source, faults);
    let file = root.entries().is_some().then(|| RunbookFile {
        name: root.get("name").cloned().unwrap_or_else(|| Node::unreadable(root.place)),
        vars: root.get("vars").and_then(Node::entries).unwrap_or_default().to_vec(),
        need: root.get("need").cloned(),
        limits: root.get("limits").cloned(),
        allow: root.get("allow").cloned(),
        steps: steps(root.get("steps")),
        finally: steps(root.get("finally")),
        report: root.get("report").cloned(),
        agent: root.get("agent").cloned(),
        source,
    });
    (file, problems)
}

pub(super) fn told(source: &Source, faults: Faults) -> Vec<Problem> {
    let mut problems = Problem::all_of_file(source, faults);
    super::problem::sort(&mut problems);
    problems
}

/// Two readers must agree that a text is YAML: what only one of them takes would mean something
/// else to an editor or another tool.
pub(super) fn second_opinion(text: &str) -> Option<Fault> {
    let error = serde_yaml::from_str::<serde_yaml::Value>(text).err()?;
    let place = error.location().map_or(Place::new(1, 1), |at| Place::new(at.line(), at.column()));
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    Some(Fault::new(place, format!("not YAML: {what}")))
}

fn steps(node: Option<&Node>) -> Vec<StepFile> {
    match node.map(|node| &node.content) {
        Some(Content::List(items)) => items.iter().filter_map(step).collect(),
        _ => Vec::new(),
    }
}

fn step(node: &Node) -> Option<StepFile> {
    let mut actions = node.entries()?.iter().filter_map(|entry| {
        let action = keys::ACTIONS.iter().find(|action| action.name == entry.key)?;
        Some((action.name, &entry.value))
    });
    let (action, body) = actions.next()?;
    actions.next().is_none().then(|| StepFile {
        place: node.place,
        node: node.clone(),
        action,
        body: body.clone(),
    })
}
