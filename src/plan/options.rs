//! What the command line and the environment add to the files, already read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::access::{HostKeyPolicy, Secret};
use crate::runbook::PasswordSource;

/// Everything that decides a plan besides the two files.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--set name=value`, in the order given.
    pub set: Vec<(String, String)>,
    /// `--only`: names, registered names or tags of steps.
    pub only: Vec<String>,
    /// `--from`: the name or registered name of a step.
    pub from: Option<String>,
    /// `--limit`: names of nodes.
    pub limit: Vec<String>,
    pub host_key_policy: HostKeyPolicy,
    /// For `~` in paths.
    pub home: Option<PathBuf>,
    /// The login name used where the inventory gives none.
    pub user: Option<String>,
    /// What was looked up of `InventoryFile::passwords`; a missing one is not a problem here.
    pub passwords: BTreeMap<PasswordSource, Secret>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            set: Vec::new(),
            only: Vec::new(),
            from: None,
            limit: Vec::new(),
            host_key_policy: HostKeyPolicy::Strict,
            home: None,
            user: None,
            passwords: BTreeMap::new(),
        }
    }
}
