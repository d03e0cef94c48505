//! Applies what the configuration says is exposed of a server to what the server offers.

use std::sync::Arc;

use bowline::Json;
use bowline::config::Exposure;
use bowline_proto::wire::object::Edit;

use super::ServerLists;

/// What is exposed of one server.
#[derive(Debug)]
pub(super) struct ExposedLists {
    pub(super) server: Arc<str>,
    pub(super) lists: Arc<ServerLists>,
    /// The server's own names of those tools that have another one in `lists`, by that.
    pub(super) own_names: Vec<(Box<str>, Box<str>)>,
    /// Whether resources that are not listed may be read.
    pub(super) has_resources: bool,
}

impl ExposedLists {
    /// Leaves out what is not exposed, and renames and describes tools anew.
    pub(super) fn new(server: &Arc<str>, lists: &Arc<ServerLists>, exposure: &Exposure) -> Self {
        let server = Arc::clone(server);
        if *exposure == Exposure::default() {
            return Self { server, lists: Arc::clone(lists), own_names: Vec::new(), has_resources: true };
        }
        let mut exposed = ServerLists::clone(lists);
        let names: Vec<_> = exposed.tools.iter().map(name_of).collect();
        let mut own_names = Vec::new();
        exposed.tools = exposed
            .tools
            .iter()
            .zip(&names)
            .filter_map(|(tool, name)| {
                let own = name.as_deref()?;
                if !exposure.exposes_tool(own) {
                    return None;
                }
                let mut edit = Edit::new();
                // A name that another tool of the server has leads to that.
                let new_name = exposure
                    .tool_names
                    .get(own)
                    .filter(|new| !names.iter().flatten().any(|name| name == *new));
                if let Some(new) = new_name {
                    edit = edit.set_str("name", new);
                    own_names.push((new.as_str().into(), own.into()));
                }
                if let Some(text) = exposure.tool_descriptions.get(own) {
                    edit = edit.set_str("description", text);
                }
                Some(edit.apply(Some(tool)).unwrap_or_else(|_| tool.clone()))
            })
            .collect();
        if !exposure.prompts {
            exposed.prompts.clear();
        }
        if !exposure.resources {
            exposed.resources.clear();
            exposed.templates.clear();
        }
        Self { server, lists: Arc::new(exposed), own_names, has_resources: exposure.resources }
    }

    /// The server's own name of a tool that is listed under `name`.
    pub(super) fn own_tool_name<'a>(&'a self, name: &'a str) -> &'a str {
        let renamed = self.own_names.iter().find(|(new, _)| **new == *name);
        renamed.map_or(name, |(_, own)| own)
    }
}

fn name_of(item: &Json) -> Option<String> {
    item.member("name")?.decode().ok()
}
