//! [`ServerLists`]: what one server offers.

use bowline::{Era, Json, Peer, Revision};
use bowline_proto::wire::extension;
use serde::{Deserialize, Serialize};

use super::ListKind;

/// What one server offers, as last fetched. Everything in it is untrusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerLists {
    /// Its name and version: an `Implementation`, if it sent one.
    #[serde(default)]
    pub server_info: Option<Json>,
    /// Its capabilities, as it wrote them. `None` if they were not recorded.
    #[serde(default)]
    pub capabilities: Option<Json>,
    /// Its instructions for the model.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Its tools, as it wrote them.
    pub tools: Vec<Json>,
    /// Its prompts, as it wrote them.
    pub prompts: Vec<Json>,
    /// Its resources, as it wrote them.
    pub resources: Vec<Json>,
    /// Its resource templates, as it wrote them.
    pub templates: Vec<Json>,
    /// Whether it speaks a revision without sessions.
    #[serde(default)]
    pub is_stateless: bool,
    /// Whether it has asked a host of this kind anything, as far as is known.
    #[serde(default)]
    pub has_asked: bool,
    /// How its tools can be called as tasks. `None` if that was not recorded.
    #[serde(default)]
    pub tasks: Option<TaskOffer>,
    /// The lists that have never been fetched to their end. They are empty here, whatever the server has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfetched: Vec<ListKind>,
}

/// How the tools of a server can be called as tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOffer {
    /// They cannot.
    Nothing,
    /// As 2025-11-25 has it: each tool says whether it may be called as a task.
    Experiment,
    /// By the tasks extension of 2026-07-28: the server decides about each call.
    Extension,
}

impl TaskOffer {
    /// What a connected server offers.
    // TA-01, TN-10
    pub(crate) fn of(peer: &Peer) -> Self {
        let capabilities = &peer.capabilities;
        match peer.revision {
            Revision::V2025_11_25
                if capabilities.get_path(&["tasks", "requests", "tools", "call"]).is_some() =>
            {
                Self::Experiment
            }
            revision
                if revision.era() == Era::Modern && capabilities.extension(extension::TASKS).is_some() =>
            {
                Self::Extension
            }
            _ => Self::Nothing,
        }
    }
}

impl ServerLists {
    /// Whether the server has declared such a list, as far as is known.
    pub(crate) fn offers(&self, kind: ListKind) -> bool {
        self.capabilities.as_ref().is_none_or(|declared| kind.is_declared(declared))
    }

    /// Nothing is known of any list.
    pub(super) fn unfetched() -> Self {
        Self { unfetched: ListKind::ALL.to_vec(), ..Self::default() }
    }

    /// Whether the list is known: it was fetched once, or the server has none.
    pub(super) fn knows(&self, kind: ListKind) -> bool {
        !self.unfetched.contains(&kind) || !self.offers(kind)
    }

    /// Whether every list is known.
    pub(crate) fn is_complete(&self) -> bool {
        ListKind::ALL.into_iter().all(|kind| self.knows(kind))
    }

    /// Takes over a list that was fetched to its end.
    pub(super) fn set_list(&mut self, kind: ListKind, list: Vec<Json>) {
        self.unfetched.retain(|unfetched| *unfetched != kind);
        match kind {
            ListKind::Tools => self.tools = list,
            ListKind::Prompts => self.prompts = list,
            ListKind::Resources => self.resources = list,
            ListKind::Templates => self.templates = list,
        }
    }

    /// Takes over the lists that were never fetched, as far as they are in `known`.
    pub(super) fn add_unfetched(&mut self, known: &Self) {
        for kind in self.unfetched.clone() {
            if !known.unfetched.contains(&kind) {
                self.set_list(kind, known.list(kind).to_vec());
            }
        }
    }

    pub(super) fn list(&self, kind: ListKind) -> &[Json] {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
        }
    }
}
