//! From the steps as written to the steps as run: loops and repeats unrolled, directions fixed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::actions::{self, Stated, Surroundings};
use super::clusters::Clusters;
use super::expression::Expression;
use super::node::{Direction, PairId};
use super::problem;
use super::results;
use super::scope::Scope;
use super::step::{Action, Nodes, OnError, Step};
use super::{storage, sweep, throughput};
use crate::runbook::file::StepFile;
use crate::runbook::problem::{Fault, Faults};
use crate::runbook::source::Place;
use crate::runbook::tree::Node;
use crate::runbook::value;

/// A step that is complete but for what depends on the whole plan.
#[derive(Clone, Debug)]
pub struct Draft {
    pub step: Step,
    /// Where messages about it point.
    pub place: Place,
    /// Names by which `--only` and `--from` find it.
    pub names: Vec<String>,
    /// Results that it reads.
    pub uses: Vec<String>,
    /// `None`: computed from the expected time.
    pub timeout: Option<Duration>,
    /// Not `excluded` by `--limit` alone: its pairs or nodes were named and none is left.
    pub emptied: bool,
    is_repeat: bool,
}

/// The direction, and everything that was registered, while steps are read in their order.
#[derive(Debug)]
pub struct Unroller<'a> {
    clusters: Option<&'a Clusters>,
    stated: Stated,
    direction: Direction,
    drafts: Vec<Draft>,
    pub faults: Faults,
}

/// An expression that reads results, and where it is written.
type Read = (Place, Expression);

/// What holds for a step whatever its action.
struct Common {
    name: String,
    when: Option<Read>,
    tags: Vec<String>,
    timeout: Option<Duration>,
    on_error: Option<OnError>,
    register: Option<String>,
}

impl<'a> Unroller<'a> {
    pub fn new(clusters: Option<&'a Clusters>, stated: Stated) -> Self {
        let direction = Direction::PrimaryToStandby;
        Self { clusters, stated, direction, drafts: Vec::new(), faults: Faults::new() }
    }

    /// The drafts so far, in the order of running.
    pub fn into_drafts(self) -> Vec<Draft> {
        self.drafts
    }

    pub fn count(&self) -> usize {
        self.drafts.len()
    }

    pub fn add(&mut self, file: &StepFile, scope: &Scope) {
        let scope = scope.of_step(file.place);
        let Some(items) = file.node.get("loop") else {
            self.add_one(file, &scope, None);
            return;
        };
        match loop_items(items, &scope) {
            Err(faults) => self.faults.extend(faults),
            Ok(items) => {
                for item in items {
                    let name = item.as_str().map_or_else(|| item.to_string(), str::to_owned);
                    self.add_one(file, &scope.with("item", item), Some(&name));
                }
            }
        }
    }

    fn add_one(&mut self, file: &StepFile, scope: &Scope, item: Option<&str>) {
        let common = match common(file, scope, item) {
            Ok(common) => Some(common),
            Err(faults) => {
                self.faults.extend(faults);
                None
            }
        };
        match file.action {
            "repeat" => self.repeat(file, common, scope),
            "swap_roles" => {
                self.direction = self.direction.swapped();
                self.finish(file, common, Ok((Action::SwapRoles, Vec::new())));
            }
            _ => {
                let action = self.action(file, scope);
                self.finish(file, common, action);
            }
        }
    }

    /// The action, and the results that it reads.
    fn action(&self, file: &StepFile, scope: &Scope) -> Result<(Action, Vec<Read>), Faults> {
        if file.action == "assert" {
            return assertion(file, scope);
        }
        let (rendered, mut faults) = scope.render_what_can_be(&file.body);
        let Self { clusters, stated, direction, .. } = *self;
        let around = Surroundings { clusters, direction, stated, late: &rendered.late };
        let body = &rendered.node;
        let action = match file.action {
            "topology" => actions::topology(body).map(Action::Topology),
            "path" => actions::path(body, clusters).map(Action::Path),
            "throughput" => {
                let within = throughput::Within::Step;
                throughput::read(body, around, within).map(throughput::Test::into_action)
            }
            "sweep" => sweep::read(body, around).map(Action::Sweep),
            "interface_mtu" => actions::interface_mtu(body, around).map(Action::InterfaceMtu),
            _ => storage::read(body, clusters).map(Action::StorageRead),
        };
        match action {
            Ok(action) if faults.is_empty() => Ok((action, rendered.late.into_iter().collect())),
            action => {
                faults.extend(action.err().into_iter().flatten());
                Err(faults)
            }
        }
    }

    fn finish(
        &mut self,
        file: &StepFile,
        common: Option<Common>,
        action: Result<(Action, Vec<Read>), Faults>,
    ) {
        let (mut action, reads) = match action {
            Ok(action) => action,
            Err(faults) => {
                self.faults.extend(faults);
                return;
            }
        };
        let Some(common) = common else { return };
        let mut uses = Vec::new();
        for (place, expression) in reads.iter().chain(&common.when) {
            self.check_fields(*place, expression);
            uses.extend(expression.names());
        }
        uses.sort();
        uses.dedup();
        if let Action::Assert(spec) = &mut action {
            spec.pairs = self.pairs_of(&uses);
            if spec.pairs.is_empty() && self.clusters.is_some_and(|all| !all.pairs.is_empty()) {
                self.faults.push(problem::no_pair_in_common(file.place, &uses));
            }
        }
        let base = file.node.get("name").and_then(Node::scalar).map(|scalar| scalar.text.clone());
        let names = [Some(common.name.clone()), common.register.clone(), base];
        let draft = Draft {
            names: names.into_iter().flatten().chain(common.tags.iter().cloned()).collect(),
            place: file.place,
            uses,
            timeout: common.timeout,
            emptied: self.clusters.is_some() && is_empty(&action),
            is_repeat: false,
            step: Step {
                name: common.name,
                register: common.register,
                direction: self.direction,
                when: common.when.map(|(_, expression)| expression),
                tags: common.tags,
                timeout: Duration::ZERO,
                on_error: common.on_error.unwrap_or_default(),
                action,
                line: file.place.line,
                excluded: false,
            },
        };
        self.check_uses(&draft, draft.place);
        self.drafts.push(draft);
    }

    /// The pairs that have results of all these names in the direction that holds here; the
    /// configuration's own where no name is about pairs.
    fn pairs_of(&self, names: &[String]) -> Vec<PairId> {
        let mut common: Option<Vec<PairId>> = None;
        for name in names {
            let of_name = self.drafts.iter().map(|draft| &draft.step).filter(|step| {
                step.register.as_ref() == Some(name) && step.direction == self.direction
            });
            let measured: Vec<PairId> =
                of_name.flat_map(|step| step.action.pairs()).copied().collect();
            if measured.is_empty() {
                continue;
            }
            common = Some(match common {
                Some(common) => common.into_iter().filter(|id| measured.contains(id)).collect(),
                None => measured,
            });
        }
        let own = self.clusters.map_or(0, |clusters| clusters.pairs.len());
        let mut pairs = common.unwrap_or_else(|| (0..own).map(PairId).collect());
        pairs.sort();
        pairs.dedup();
        pairs
    }

    /// A misspelt result is a mistake before the run, not in it.
    fn check_fields(&mut self, place: Place, expression: &Expression) {
        for path in expression.attributes() {
            let Some((name, field)) = path.split_once('.') else { continue };
            let field = field.split('.').next().unwrap_or(field);
            let step =
                self.drafts.iter().find(|draft| draft.step.register.as_deref() == Some(name));
            let Some(step) = step else { continue };
            let known = results::fields(&step.step.action);
            if !known.contains(&field) {
                let known = known.iter().copied();
                self.faults.push(problem::no_such_field(place, name, field, known));
            }
        }
    }

    /// A result must be there in the direction that asks for it.
    fn check_uses(&mut self, draft: &Draft, place: Place) {
        for name in &draft.uses {
            let mut of_name =
                self.drafts.iter().filter(|other| other.step.register.as_ref() == Some(name));
            let has_direction = |other: &Draft| other.step.action.is_about_pairs();
            let known = of_name.clone().next().is_some();
            let here = of_name
                .any(|other| !has_direction(other) || other.step.direction == draft.step.direction);
            if known && !here {
                let direction = draft.step.direction;
                self.faults.push(problem::no_result_in_direction(place, name, direction));
            }
        }
    }

    fn repeat(&mut self, file: &StepFile, common: Option<Common>, scope: &Scope) {
        let names = match value::one_or_more(&file.body, |node| {
            value::text(node).map(|name| (name, node.place))
        }) {
            Ok(names) => names,
            Err(faults) => {
                self.faults.extend(faults);
                return;
            }
        };
        for (name, place) in names {
            let copies: Vec<Draft> = self
                .drafts
                .iter()
                .filter(|draft| !draft.is_repeat && draft.step.register.as_ref() == Some(&name))
                .cloned()
                .collect();
            if copies.is_empty() {
                self.faults.extend(unknown_repeat(place, &name, scope));
            }
            for copy in copies {
                if let Some(common) = &common {
                    let copy = self.repeated(copy, common, file.place);
                    self.check_uses(&copy, place);
                    self.drafts.push(copy);
                }
            }
        }
    }

    /// The same step in the direction that holds here; what the repeat says itself comes first.
    fn repeated(&self, mut copy: Draft, common: &Common, place: Place) -> Draft {
        let direction = self.direction;
        copy.step.name = format!("{}, repeated ({direction})", copy.step.name);
        copy.step.direction = direction;
        if let (Action::Throughput(spec), Some(clusters)) = (&mut copy.step.action, self.clusters)
            && spec.nodes == Nodes::AllToOne
        {
            spec.pairs = clusters.all_to_one(direction);
        }
        copy.step.line = place.line;
        copy.place = place;
        let when = common.when.clone().map(|(_, expression)| expression);
        copy.step.when = when.or(copy.step.when);
        copy.step.on_error = common.on_error.unwrap_or(copy.step.on_error);
        copy.step.tags.extend(common.tags.iter().cloned());
        copy.timeout = common.timeout.or(copy.timeout);
        copy.names.push(copy.step.name.clone());
        copy.names.push(common.name.clone());
        copy.names.extend(common.tags.iter().cloned());
        copy.uses.extend(common.when.iter().flat_map(|(_, when)| when.names()));
        copy.is_repeat = true;
        copy
    }
}

/// `None` where the step is there but could not be read, which is told at its own place.
fn unknown_repeat(place: Place, name: &str, scope: &Scope) -> Option<Fault> {
    let is_before = |at: &Place| scope.step.is_none_or(|step| *at < step);
    match scope.registered.get(name) {
        Some(at) if is_before(at) => return None,
        Some(at) => return Some(problem::registered_later(place, name, at.line)),
        None => {}
    }
    let before = scope.registered.iter().filter(|(_, at)| is_before(at));
    let known = before.map(|(name, _)| name.as_str());
    Some(Fault::unknown(place, "registered step", name, known))
}

fn is_empty(action: &Action) -> bool {
    match action {
        Action::StorageRead(spec) => spec.nodes.is_empty(),
        _ => action.is_about_pairs() && action.pairs().is_empty(),
    }
}

fn loop_items(node: &Node, scope: &Scope) -> Result<Vec<serde_json::Value>, Faults> {
    let rendered = scope.render(node)?.node;
    value::list(&rendered, |item| {
        let value = value::untyped(item)?;
        serde_json::to_value(value)
            .map_err(|_| value::one(item, "an item that is no value", "write a text or a number"))
    })
}

fn common(file: &StepFile, scope: &Scope, item: Option<&str>) -> Result<Common, Faults> {
    let mut faults = Faults::new();
    let mut keep =
        |result: Result<Node, Faults>| result.map_err(|more: Faults| faults.extend(more)).ok();
    let given = |key: &str| file.node.get(key);
    let render = |node: &Node| scope.render(node).map(|rendered| rendered.node);
    let name = given("name").and_then(|node| keep(render(node)));
    let tags = given("tags").and_then(|node| keep(render(node)));
    let timeout = given("timeout").and_then(|node| keep(render(node)));
    let on_error = given("on_error").and_then(|node| keep(render(node)));
    let name = name.map(|node| value::text(&node));
    let tags = tags.map(|node| value::one_or_more(&node, value::text));
    let timeout = timeout.map(|node| value::duration(&node, Duration::from_millis(1)));
    let on_error = on_error.map(|node| value::choice(&node, &["continue", "stop"], &[]));
    let when = given("when").map(|node| scope.expression(node).map(|when| (node.place, when)));
    let register = given("register").map(register);
    let name = take(name, &mut faults);
    let names_item = given("name")
        .and_then(Node::scalar)
        .is_some_and(|scalar| scalar.text.contains("{{") && scalar.text.contains("item"));
    let name = match (name, item) {
        (Some(name), Some(item)) if !names_item => Some(format!("{name} [{item}]")),
        (name, _) => name,
    };
    let common = Common {
        // A missing name was told by the check of the file.
        name: name.unwrap_or_default(),
        when: take(when, &mut faults),
        tags: take(tags, &mut faults).unwrap_or_default(),
        timeout: take(timeout, &mut faults),
        on_error: take(on_error, &mut faults).map(|word| match word {
            "stop" => OnError::Stop,
            _ => OnError::Continue,
        }),
        register: take(register, &mut faults),
    };
    if faults.is_empty() { Ok(common) } else { Err(faults) }
}

fn take<T>(result: Option<Result<T, Faults>>, faults: &mut Faults) -> Option<T> {
    result?.map_err(|more| faults.extend(more)).ok()
}

/// A name that an expression can read.
pub fn register(node: &Node) -> Result<String, Faults> {
    let name = value::text(node)?;
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(name);
    }
    let found = format!("`{name}` cannot be used in an expression");
    Err(value::one(node, found, "use letters, digits and _, and begin with a letter"))
}

fn assertion(file: &StepFile, scope: &Scope) -> Result<(Action, Vec<Read>), Faults> {
    let message = file.body.get("message").map(|node| scope.render(node)).transpose()?;
    let message = message.map(|rendered| rendered.node);
    let read = |node: &Node| scope.expression(node).map(|expression| (node.place, expression));
    let (spec, reads) = actions::assertion(&file.body, message.as_ref(), read)?;
    Ok((Action::Assert(spec), reads))
}

/// Every `register` of the file with its step's place, and those that are given twice.
pub fn registered(steps: &[&StepFile]) -> (BTreeMap<String, Place>, Faults) {
    let mut places: BTreeMap<String, Place> = BTreeMap::new();
    let mut faults = Faults::new();
    for step in steps {
        let Some(node) = step.node.get("register") else { continue };
        let Ok(name) = register(node) else { continue };
        match places.get(&name) {
            Some(first) => faults.push(problem::registered_twice(node.place, &name, first.line)),
            None => {
                places.insert(name, step.place);
            }
        }
    }
    (places, faults)
}
