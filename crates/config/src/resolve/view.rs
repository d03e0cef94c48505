//! Resolves views.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Component;

use super::Resolver;
use crate::check;
use crate::exposure::ToolPattern;
use crate::problem::ProblemKind;
use crate::raw::RawView;
use crate::report::{Finding, LocatedValue};
use crate::root_folder::RootFolder;
use crate::suggest;
use crate::view::View;

impl Resolver<'_, '_> {
    /// Resolves the view `name`, which can name the servers in `known`. Whatever is wrong with it is
    /// reported.
    pub(crate) fn resolve_view(
        &mut self,
        name: &str,
        table: LocatedValue<RawView>,
        known: &BTreeSet<String>,
    ) -> View {
        let LocatedValue { value: RawView { servers, tools, prompts, resources, roots, garbled: _ }, place } =
            table;
        self.ok_or_report(&place, check::view_name(name));
        let servers = servers.map(|servers| self.resolve_view_servers(servers.value, known));
        let mut shown_tools = BTreeMap::new();
        for (server, patterns) in tools.into_iter().flat_map(|tools| tools.value) {
            let is_hidden = servers.as_ref().is_some_and(|servers| !servers.contains(&server.value));
            if !known.contains(&server.value) {
                self.report.error(&server.place, unknown_server(&server.value, known));
            } else if is_hidden {
                let finding = Finding::new(ProblemKind::Conflict, "the view does not show this server")
                    .hint(format!("add \"{}\" to `servers`", server.value));
                self.report.error(&server.place, finding);
            }
            let patterns = patterns.into_iter();
            let patterns = patterns
                .filter_map(|pattern| self.resolve_text(pattern, check::no_nul).map(ToolPattern::new));
            let patterns = patterns.collect();
            shown_tools.insert(server.value, patterns);
        }
        let roots = roots.map_or_else(Vec::new, |roots| roots.value);
        let roots = roots.into_iter().filter_map(|root| self.resolve_view_root(root)).collect();
        View {
            roots,
            servers,
            tools: shown_tools,
            prompts: prompts.is_none_or(|prompts| prompts.value),
            resources: resources.is_none_or(|resources| resources.value),
        }
    }

    fn resolve_view_root(&mut self, root: LocatedValue<String>) -> Option<RootFolder> {
        let place = root.place.clone();
        let path = self.resolve_path(Some(root))?;
        // On Windows a path with a root and no drive is not absolute.
        if !path.has_root() || path.components().any(|part| part == Component::ParentDir) {
            let finding =
                Finding::new(ProblemKind::InvalidValue, "the folder must be an absolute path without `..`");
            self.report.error(&place, finding);
            return None;
        }
        Some(RootFolder::new(path))
    }

    fn resolve_view_servers(
        &mut self,
        servers: Vec<LocatedValue<String>>,
        known: &BTreeSet<String>,
    ) -> BTreeSet<String> {
        let mut resolved = BTreeSet::new();
        for server in servers {
            let place = server.place.clone();
            let Some(server) = self.resolve_text(server, check::no_nul) else { continue };
            if !known.contains(&server) {
                self.report.error(&place, unknown_server(&server, known));
            }
            resolved.insert(server);
        }
        resolved
    }
}

fn unknown_server(name: &str, known: &BTreeSet<String>) -> Finding {
    let finding = Finding::new(ProblemKind::InvalidValue, "this file has no server of this name");
    match suggest::closest(name, known.iter().map(String::as_str)) {
        Some(meant) => finding.hint(format!("did you mean \"{meant}\"?")),
        None if known.is_empty() => finding.hint("add it as `[servers.NAME]`"),
        None => {
            let names: Vec<_> = known.iter().map(|name| format!("\"{name}\"")).collect();
            finding.hint(format!("its servers are {}", names.join(", ")))
        }
    }
}
