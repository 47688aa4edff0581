//! From files to a plan, or to every reason why not.

use super::actions::{Stated, WriteSize};
use super::clusters::{self, Clusters};
use super::cost::cost;
use super::need::{Limits, Need};
use super::node::{Node, Pair, PairId};
use super::problem::Problem;
use super::remarks;
use super::requirements;
use super::scope::Scope;
use super::select;
use super::step::{Action, Step};
use super::steps::{self, Draft, Unroller};
use super::{AgentAfterRun, Plan, ReportFormat};
use crate::runbook::file::{self, RunbookFile, StepFile};
use crate::runbook::inventory::{self, InventoryFile};
use crate::runbook::problem::{self, Fault, Faults};
use crate::runbook::source::{Place, Source};
use crate::runbook::tree::{self, Content};
use crate::runbook::{demo_inventory, value};

pub use super::options::Options;

/// A plan from two texts; without an inventory, the built-in demo's. All mistakes of both files come
/// together, as far as one does not hide another.
pub fn from_texts(
    runbook: Source,
    inventory: Option<Source>,
    options: &Options,
) -> Result<Plan, Vec<Problem>> {
    let (runbook, mut problems) = file::read(runbook);
    let inventory = match inventory {
        Some(source) => inventory::read(source),
        None => demo_inventory(),
    };
    let inventory = inventory.map_err(|more| problems.extend(more)).ok();
    let plan = match &runbook {
        Some(runbook) => resolve_what_is_there(runbook, inventory.as_ref(), options),
        None => Err(Vec::new()),
    };
    match plan {
        Ok(plan) if problems.is_empty() => Ok(plan),
        plan => {
            problems.extend(plan.err().into_iter().flatten());
            problem::sort(&mut problems);
            Err(problems)
        }
    }
}

/// A plan from files that were read without a problem; without an inventory, the built-in demo's.
pub fn resolve(
    runbook: &RunbookFile,
    inventory: Option<&InventoryFile>,
    options: &Options,
) -> Result<Plan, Vec<Problem>> {
    let plan = match inventory {
        Some(inventory) => resolve_what_is_there(runbook, Some(inventory), options),
        None => {
            demo_inventory().and_then(|demo| resolve_what_is_there(runbook, Some(&demo), options))
        }
    };
    plan.map_err(|mut problems| {
        problem::sort(&mut problems);
        problems
    })
}

/// The nodes of an inventory, for what needs no runbook.
pub fn nodes(inventory: &InventoryFile, options: &Options) -> Result<Vec<Node>, Vec<Problem>> {
    clusters::resolve(inventory, options).map(|clusters| clusters.nodes)
}

/// What is read of a runbook before its parts meet.
struct Parts {
    name: String,
    need: Option<Need>,
    limits: Limits,
    formats: Vec<ReportFormat>,
    agent: Option<&'static str>,
    /// `None`: it has mistakes.
    allowed: Option<Vec<&'static str>>,
}

fn resolve_what_is_there(
    runbook: &RunbookFile,
    inventory: Option<&InventoryFile>,
    options: &Options,
) -> Result<Plan, Vec<Problem>> {
    let mut problems = Vec::new();
    let clusters = inventory
        .map(|inventory| clusters::resolve(inventory, options))
        .and_then(|clusters| clusters.map_err(|more| problems.extend(more)).ok());
    let (scope, more) = scope(runbook, options);
    problems.extend(more);
    let (parts, mut faults) = parts(runbook, &scope, clusters.as_ref());

    let mut unroller = Unroller::new(clusters.as_ref(), stated(runbook, &parts));
    runbook.steps.iter().for_each(|step| unroller.add(step, &scope));
    let finally_from = unroller.count();
    runbook.finally.iter().for_each(|step| unroller.add(step, &scope));
    faults.append(&mut unroller.faults);
    let mut drafts = unroller.into_drafts();
    let finally = drafts.split_off(finally_from);

    let any_pair = clusters.as_ref().is_none_or(|clusters| !clusters.pairs.is_empty());
    let wrong_arguments = select::mark(&mut drafts, options);
    // Steps that could not be read have no names: do not blame the argument for that.
    if faults.is_empty() && problems.is_empty() {
        problems.extend(wrong_arguments);
    }
    let mut remarks = select::drop_emptied(&mut drafts, any_pair);
    faults.extend(select::check(&drafts, options, bandwidth_known(&parts, clusters.as_ref())));
    if let Some(clusters) = &clusters {
        let all: Vec<Draft> = drafts.iter().chain(&finally).cloned().collect();
        faults.extend(select::check_nodes(&all, clusters));
    }

    problems.extend(Problem::all_of_file(&runbook.source, faults));
    match (clusters, inventory) {
        (Some(clusters), Some(inventory)) if problems.is_empty() => {
            remarks.splice(0..0, clusters.remarks.clone());
            remarks.extend(remarks::on_need(parts.need.as_ref(), &parts.limits, &drafts));
            remarks.extend(remarks::on_steps(&drafts, clusters.configuration.demo));
            Ok(plan(runbook, inventory, parts, clusters, drafts, finally, remarks))
        }
        _ => Err(problems),
    }
}

/// What actions ask of the top of the runbook.
fn stated(runbook: &RunbookFile, parts: &Parts) -> Stated {
    let write_size = match (&parts.need, &runbook.need) {
        (Some(need), _) => need.write_size.map_or(WriteSize::NotStated, WriteSize::Known),
        (None, Some(_)) => WriteSize::Unreadable,
        (None, None) => WriteSize::NotStated,
    };
    let allowed = parts.allowed.as_ref();
    let may_change_mtu = allowed.is_none_or(|allowed| allowed.contains(&"interface_mtu"));
    Stated { write_size, may_change_mtu }
}

fn bandwidth_known(parts: &Parts, clusters: Option<&Clusters>) -> bool {
    let needed =
        parts.need.as_ref().is_some_and(|need| need.total.is_some() || !need.threads.is_empty());
    needed || clusters.is_none_or(|clusters| clusters.configuration.network.bandwidth.is_some())
}

fn plan(
    runbook: &RunbookFile,
    inventory: &InventoryFile,
    parts: Parts,
    clusters: Clusters,
    drafts: Vec<Draft>,
    finally: Vec<Draft>,
    remarks: Vec<String>,
) -> Plan {
    let agent = match parts.agent.or(inventory.defaults.agent) {
        Some("keep") => AgentAfterRun::Keep,
        _ => AgentAfterRun::Remove,
    };
    let timeouts: Vec<_> = drafts.iter().chain(&finally).map(|draft| draft.timeout).collect();
    let mut plan = Plan {
        name: parts.name,
        runbook_sha256: runbook.source.sha256(),
        configuration: clusters.configuration,
        nodes: clusters.nodes,
        crossed_from: clusters.pairs.len(),
        pairs: clusters.pairs,
        left_out: clusters.left_out,
        remarks,
        need: parts.need,
        limits: parts.limits,
        steps: drafts.into_iter().map(|draft| draft.step).collect(),
        finally: finally.into_iter().map(|draft| draft.step).collect(),
        formats: parts.formats,
        agent,
    };
    add_crossed(&mut plan, &clusters.crossed);
    let expected = cost(&plan);
    let steps = plan.steps.iter_mut().chain(&mut plan.finally);
    for ((step, cost), timeout) in steps.zip(&expected.steps).zip(timeouts) {
        step.timeout = timeout.unwrap_or(cost.timeout);
    }
    plan
}

/// Of the crossed pairs those that a step uses, with the numbers that are then theirs.
fn add_crossed(plan: &mut Plan, crossed: &[Pair]) {
    let own = plan.crossed_from;
    let mut kept: Vec<usize> = Vec::new();
    for step in plan.steps.iter_mut().chain(&mut plan.finally) {
        for id in crossed_pairs(step, own) {
            let place = kept.iter().position(|known| *known == id.0).unwrap_or_else(|| {
                kept.push(id.0);
                kept.len() - 1
            });
            *id = PairId(own + place);
        }
    }
    plan.pairs.extend(kept.into_iter().map(|id| crossed[id - own]));
}

fn crossed_pairs(step: &mut Step, own: usize) -> impl Iterator<Item = &mut PairId> {
    let pairs = match &mut step.action {
        Action::Throughput(spec) => spec.pairs.as_mut_slice(),
        Action::Assert(spec) => spec.pairs.as_mut_slice(),
        _ => &mut [],
    };
    pairs.iter_mut().filter(move |id| id.0 >= own)
}

/// Variables of the runbook, replaced by those of the command line, and all registered names.
fn scope(runbook: &RunbookFile, options: &Options) -> (Scope, Vec<Problem>) {
    let mut scope = Scope::default();
    let mut faults = Faults::new();
    for entry in &runbook.vars {
        match value_of(&entry.value) {
            Ok(value) => _ = scope.vars.insert(entry.key.clone(), value),
            Err(more) => faults.extend(more),
        }
        faults.extend(not_a_name(entry.place, &entry.key));
    }
    let all: Vec<&StepFile> = runbook.steps.iter().chain(&runbook.finally).collect();
    let (registered, twice) = steps::registered(&all);
    faults.extend(twice);
    for entry in runbook.vars.iter().filter(|entry| registered.contains_key(&entry.key)) {
        let found = format!("`{}` is a variable and a registered step", entry.key);
        faults.push(Fault::new(entry.place, found).right("give one of them another name"));
    }
    scope.registered = registered;
    let mut problems = Problem::all_of_file(&runbook.source, faults);
    for (name, text) in &options.set {
        problems.extend(
            set(&mut scope, runbook, name, text).map(|fault| Problem::of_argument("--set", fault)),
        );
    }
    (scope, problems)
}

/// A variable with a name like `io-slots` could not be used.
fn not_a_name(place: Place, key: &str) -> Option<Fault> {
    let node = tree::Node::text(place, key);
    steps::register(&node).err().and_then(|faults| faults.into_iter().next())
}

fn set(scope: &mut Scope, runbook: &RunbookFile, name: &str, text: &str) -> Option<Fault> {
    let nowhere = Place::new(1, 1);
    if runbook.vars.iter().all(|entry| entry.key != name) {
        let known = runbook.vars.iter().map(|entry| entry.key.as_str());
        return Some(Fault::unknown(nowhere, "variable", name, known));
    }
    match value_of(&tree::Node::plain(nowhere, text)) {
        Ok(value) => {
            scope.vars.insert(name.to_owned(), value);
            None
        }
        Err(faults) => faults.into_iter().next(),
    }
}

fn value_of(node: &tree::Node) -> Result<serde_json::Value, Faults> {
    let value = value::untyped(node)?;
    serde_json::to_value(value)
        .map_err(|_| value::one(node, "a value that cannot be used", "write a text or a number"))
}

fn parts(runbook: &RunbookFile, scope: &Scope, clusters: Option<&Clusters>) -> (Parts, Faults) {
    let mut faults = Faults::new();
    let empty = tree::Node { place: Place::new(1, 1), content: Content::Map(Vec::new()) };
    let name = rendered(Some(&runbook.name), scope, value::text, &mut faults);
    let threads = clusters.map(|clusters| clusters.threads.as_slice());
    let read = |node: &tree::Node| requirements::need(node, threads);
    let need = rendered(runbook.need.as_ref(), scope, read, &mut faults);
    let limits = rendered(runbook.limits.as_ref(), scope, requirements::limits, &mut faults);
    let report = runbook.report.as_ref().unwrap_or(&empty);
    let formats = rendered(Some(report), scope, requirements::formats, &mut faults);
    let agent = rendered(runbook.agent.as_ref(), scope, inventory::agent, &mut faults);
    let allowed = match runbook.allow.as_ref() {
        Some(node) => rendered(Some(node), scope, requirements::allowed, &mut faults),
        None => Some(Vec::new()),
    };
    let parts = Parts {
        name: name.unwrap_or_default(),
        need,
        limits: limits.unwrap_or_default(),
        formats: formats.unwrap_or_default(),
        agent,
        allowed,
    };
    (parts, faults)
}

fn rendered<T>(
    node: Option<&tree::Node>,
    scope: &Scope,
    read: impl FnOnce(&tree::Node) -> Result<T, Faults>,
    faults: &mut Faults,
) -> Option<T> {
    let result = scope.render(node?).and_then(|rendered| read(&rendered.node));
    result.map_err(|more| faults.extend(more)).ok()
}
