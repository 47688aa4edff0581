//! `redoline clean`: removes what any run left on the nodes of an inventory.

use futures_util::future::join_all;

use super::{complain, files, passwords, planned, say};
use crate::agents::deploy;
use crate::cli::CleanArgs;
use crate::connect::{self, Deadlines};
use crate::execute::failure::chain;
use crate::exit::Exit;
use crate::plan::node::Node;
use crate::plan::{Options, clusters};
use crate::report::text::clean as printable;
use crate::runbook;

/// Files of any age: the user says that no run is wanted any more.
const ANY_AGE_MINUTES: u32 = 0;

pub(super) async fn clean(args: CleanArgs) -> anyhow::Result<Exit> {
    let text = files::read(&args.inventory)?;
    let name = args.inventory.display().to_string();
    let inventory = match runbook::parse_inventory(&name, &text) {
        Ok(inventory) => inventory,
        Err(problems) => return Ok(planned::refuse(&problems)),
    };
    let options = Options {
        host_key_policy: planned::host_key_policy(args.accept_new_host_keys),
        passwords: passwords::look_up(&inventory)?,
        ..planned::surroundings()
    };
    let nodes = match clusters::resolve(&inventory, &options) {
        Ok(clusters) => clusters.nodes,
        Err(problems) => return Ok(planned::refuse(&problems)),
    };
    let mut exit = Exit::Success;
    for (node, outcome) in join_all(nodes.iter().map(clean_node)).await {
        match outcome {
            Ok(removed) if removed.is_empty() => say(format_args!("{node}: nothing to remove")),
            Ok(removed) => say(format_args!("{node}: removed {}", printable(&removed.join(", ")))),
            Err(text) => {
                complain(format_args!("{node}: {}", printable(&text)));
                exit = Exit::Unreachable;
            }
        }
    }
    Ok(exit)
}

async fn clean_node(node: &Node) -> (String, Result<Vec<String>, String>) {
    let name = node.name.clone();
    let mut connection = match connect::open(&name, &node.access, &Deadlines::default()).await {
        Ok(connection) => connection,
        Err(error) => return (name, Err(chain(&error))),
    };
    let directory = node.agent_dir.as_deref();
    let removed = deploy::sweep(&mut connection, directory, ANY_AGE_MINUTES).await;
    connection.close().await;
    (name, removed.map_err(|error| chain(&error)))
}
