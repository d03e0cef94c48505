//! Owns what a view of the servers shows: which servers, which of their tools, prompts, resources.

use std::collections::{BTreeMap, BTreeSet};

use crate::exposure::ToolPattern;
use crate::root_folder::{RootCloseness, RootFolder};

/// A part of what a gateway exposes, for hosts that are to see no more. What a view does not show
/// cannot be reached through it either. The default shows everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct View {
    /// The names of the servers that it shows; `None` shows all.
    pub servers: Option<BTreeSet<String>>,
    /// The tools that it shows of a server, by the name of the server. Patterns stand for the names
    /// under which tools are exposed, without a prefix. A server that is not named here has all of
    /// its tools.
    pub tools: BTreeMap<String, Vec<ToolPattern>>,
    /// Whether it shows prompts (default: it does).
    pub prompts: bool,
    /// Whether it shows resources and resource templates (default: it does).
    pub resources: bool,
    /// The folders whose hosts get this view: those that select no view otherwise, and whose root is one
    /// of these folders or lies below one (default: none).
    pub roots: Vec<RootFolder>,
}

impl View {
    /// Creates a view that shows nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self { servers: Some(BTreeSet::new()), prompts: false, resources: false, ..Self::default() }
    }

    /// Whether the view shows anything of a server.
    pub fn shows_server(&self, server: &str) -> bool {
        self.servers.as_ref().is_none_or(|servers| servers.contains(server))
    }

    /// Whether the view shows a tool of a server, by the name under which the tool is exposed.
    pub fn shows_tool(&self, server: &str, tool: &str) -> bool {
        let is_shown = |patterns: &Vec<ToolPattern>| patterns.iter().any(|pattern| pattern.matches(tool));
        self.shows_server(server) && self.tools.get(server).is_none_or(is_shown)
    }

    /// Whether the view shows the prompts of a server.
    pub fn shows_prompts(&self, server: &str) -> bool {
        self.prompts && self.shows_server(server)
    }

    /// Whether the view shows the resources and resource templates of a server.
    pub fn shows_resources(&self, server: &str) -> bool {
        self.resources && self.shows_server(server)
    }

    /// Whether the view hides nothing of a server, also nothing that the server may offer later.
    pub fn shows_all_of(&self, server: &str) -> bool {
        self.shows_prompts(server) && self.shows_resources(server) && !self.tools.contains_key(server)
    }

    /// How closely one of [`View::roots`] describes a folder, if one does.
    pub fn root_closeness(&self, folder: &str) -> Option<RootCloseness> {
        self.roots.iter().filter_map(|root| root.closeness(folder)).max()
    }

    /// Whether a view can have this name, which is a part of its URL: 1 to 64 characters of A-Z, a-z,
    /// 0-9, `_` and `-`.
    pub fn is_valid_name(name: &str) -> bool {
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        (1..=64).contains(&name.len()) && name.bytes().all(valid)
    }
}

impl Default for View {
    fn default() -> Self {
        Self { servers: None, tools: BTreeMap::new(), prompts: true, resources: true, roots: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_shows_everything() {
        let view = View::default();
        assert!(view.shows_server("a") && view.shows_tool("a", "x"));
        assert!(view.shows_prompts("a") && view.shows_resources("a") && view.shows_all_of("a"));
    }

    #[test]
    fn nothing_of_a_hidden_server_is_shown() {
        let tools = BTreeMap::from([("hidden".to_owned(), vec![ToolPattern::new("*")])]);
        let servers = Some(BTreeSet::from(["a".to_owned()]));
        for view in [View { servers, tools, ..View::default() }, View::nothing()] {
            assert!(!view.shows_server("hidden") && !view.shows_tool("hidden", "x"));
            assert!(!view.shows_prompts("hidden") && !view.shows_resources("hidden"));
            assert!(!view.shows_all_of("hidden"));
        }
    }

    #[test]
    fn patterns_limit_the_tools_of_their_server_only() {
        let patterns = ["get_*", "list"].map(ToolPattern::new).to_vec();
        let tools = BTreeMap::from([("a".to_owned(), patterns), ("none".to_owned(), Vec::new())]);
        let view = View { tools, ..View::default() };
        assert!(view.shows_tool("a", "get_x") && view.shows_tool("a", "list"));
        assert!(!view.shows_tool("a", "delete") && !view.shows_tool("none", "get_x"));
        assert!(view.shows_tool("b", "delete") && view.shows_all_of("b"));
        assert!(!view.shows_all_of("a") && view.shows_prompts("a"));
    }

    #[test]
    fn prompts_and_resources_are_hidden_for_all_servers() {
        let view = View { prompts: false, ..View::default() };
        assert!(!view.shows_prompts("a") && view.shows_resources("a") && !view.shows_all_of("a"));
        let view = View { resources: false, ..View::default() };
        assert!(view.shows_prompts("a") && !view.shows_resources("a") && !view.shows_all_of("a"));
    }

    #[test]
    fn a_name_is_a_part_of_a_path() {
        for good in ["a", "Review_2-b", &"x".repeat(64)] {
            assert!(View::is_valid_name(good), "{good}");
        }
        for bad in ["", "a.b", "a/b", "a b", "é", "..", "a%20", &"x".repeat(65)] {
            assert!(!View::is_valid_name(bad), "{bad}");
        }
    }
}
