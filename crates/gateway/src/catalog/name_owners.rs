//! [`NameOwners`]: which tool had which name, so that no other ever gets it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Which tool or prompt had which name, apart from those that end in a hash of it: a rule of a host for one of them must never apply to
/// another, also when the server has stopped offering it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameOwners {
    pub(super) tools: NameTable,
    pub(super) prompts: NameTable,
}

/// The exposed names, each with the server and its own name of the element.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NameTable(BTreeMap<String, (String, String)>);

/// Most names that are remembered. A server that offers new names without end gets only names with
/// hashes from then on.
const MAX_NAMES: usize = 100_000;

impl NameOwners {
    /// How many names are remembered.
    pub(super) fn len(&self) -> usize {
        self.tools.0.len() + self.prompts.0.len()
    }

    /// Adds names that another process remembered. Those that are here count.
    pub(super) fn merge(&mut self, other: Self) {
        for (table, other) in [(&mut self.tools, other.tools), (&mut self.prompts, other.prompts)] {
            for (name, owner) in other.0 {
                table.0.entry(name).or_insert(owner);
            }
        }
    }
}

impl NameTable {
    /// Takes a name for an element of a server. `false` if another has it or had it, or
    /// there is no room to remember it.
    pub(super) fn claim(&mut self, name: &str, server: &str, own: &str) -> bool {
        match self.0.get(name) {
            Some((owner, element)) => owner == server && element == own,
            None if self.0.len() >= MAX_NAMES => false,
            None => {
                self.0.insert(name.to_owned(), (server.to_owned(), own.to_owned()));
                true
            }
        }
    }

    /// Whether this element has or had the name.
    pub(super) fn is_owner(&self, name: &str, server: &str, own: &str) -> bool {
        self.0.get(name).is_some_and(|(owner, element)| owner == server && element == own)
    }

    /// Whether a name can be given to this element.
    pub(super) fn is_free(&self, name: &str, server: &str, own: &str) -> bool {
        match self.0.get(name) {
            Some((owner, element)) => owner == server && element == own,
            None => self.0.len() < MAX_NAMES,
        }
    }
}
