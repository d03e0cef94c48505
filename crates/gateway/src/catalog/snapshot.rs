//! [`Snapshot`]: the merged lists of all servers at one moment, ready to be sent, and the way back
//! from each name and URI to its server.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bowline::Json;
use bowline::config::View;
use bowline::types::TaskSupport;
use bowline_proto::wire::mirror::HeaderAnnotations;
use bowline_proto::wire::object::Edit;

use super::exposed_lists::ExposedLists;
use super::list_writer::{ListWriter, MAX_ADDED_BYTES};
use super::names::{earlier_name, expose};
use super::{ListKind, NameOwners, Naming, ServerLists, TaskOffer, uris};

/// The merged lists of all servers.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// The result of each list method, by [`ListKind::index`].
    results: [Option<Json>; 4],
    tools: HashMap<Box<str>, Target>,
    prompts: HashMap<Box<str>, Target>,
    /// Tools and prompts by prefixed names that they had before, and which no other has.
    earlier_tools: HashMap<Box<str>, Target>,
    earlier_prompts: HashMap<Box<str>, Target>,
    resources: HashMap<Box<str>, Target>,
    templates: HashMap<Box<str>, Target>,
    /// The URIs of each server that other servers have too, and their exposed form.
    qualified: HashMap<Arc<str>, HashMap<Box<str>, Box<str>>>,
    /// The arguments of tools that headers repeat, by exposed name. Tools without any are left out.
    header_annotations: HashMap<Box<str>, HeaderAnnotations>,
    /// Tools that may be called twice, by exposed name: they declare that they only read, or that a
    /// repeated call has no further effect.
    harmless_tools: HashSet<Box<str>>,
    /// Tools that may be called as tasks, by exposed name.
    task_tools: HashMap<Box<str>, TaskSupport>,
    /// Whether servers may turn tools into tasks without saying so in their lists.
    has_tools_of_extension: bool,
    /// Servers that list neither resources nor templates.
    without_resources: Vec<Arc<str>>,
    /// Whether no resource can be read.
    hides_resources: bool,
    /// Instructions of the servers, merged.
    instructions: Option<String>,
    /// The server of [`Naming::Unchanged`].
    sole: Option<SoleServer>,
}

/// The only server of a gateway that changes nothing.
#[derive(Clone, Debug)]
pub(crate) struct SoleServer {
    /// Its configured name.
    pub(crate) name: Arc<str>,
    /// What it offers. `None` if it was never connected to.
    pub(crate) lists: Option<Arc<ServerLists>>,
}

/// The name of a tool or prompt for hosts.
struct ExposedName {
    name: String,
    /// The prefixed name that it had when another server had the same.
    earlier: Option<String>,
}

/// An element of a server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The configured name of the server.
    pub(crate) server: Arc<str>,
    /// The server's own name or URI for it.
    pub(crate) name: Box<str>,
}

impl Snapshot {
    /// Merges the lists of these servers, of all that are `configured`. What the view hides is in no
    /// list and has no way back, but counts for names: they are the same in every view.
    pub(super) fn build(
        servers: &[ExposedLists],
        configured: &[&str],
        (naming, owners): (Naming, &mut NameOwners),
        view: &View,
    ) -> Self {
        let instructions = merge_instructions(servers, view);
        let mut snapshot = Self { instructions, hides_resources: !view.resources, ..Self::default() };
        if let (Naming::Unchanged, [only]) = (naming, configured) {
            let lists = servers.first().map(|exposed| Arc::clone(&exposed.lists));
            snapshot.instructions = lists.as_ref().and_then(|lists| lists.instructions.clone());
            snapshot.sole = Some(SoleServer { name: (*only).into(), lists });
        } else {
            snapshot.qualified = qualified_uris(servers);
        }
        snapshot.qualified.retain(|server, _| view.shows_server(server));
        snapshot.without_resources = servers
            .iter()
            .filter(|exposed| exposed.lists.resources.is_empty() && exposed.lists.templates.is_empty())
            .filter(|exposed| exposed.has_resources && view.shows_resources(&exposed.server))
            .map(|exposed| Arc::clone(&exposed.server))
            .collect();
        for kind in ListKind::ALL {
            let at = kind.index();
            let list = match kind {
                ListKind::Tools | ListKind::Prompts => {
                    let table = if kind == ListKind::Tools { &mut owners.tools } else { &mut owners.prompts };
                    snapshot.merge_named(servers, kind, view, |elements| {
                        if naming == Naming::Unchanged {
                            return elements.iter().map(|element| (*element, own_name(element.1))).collect();
                        }
                        let names = expose(elements, configured, naming, table);
                        names
                            .into_iter()
                            .map(|((server, own), name)| {
                                let earlier =
                                    earlier_name(server, own, table).filter(|earlier| *earlier != name);
                                ((server, own), ExposedName { name, earlier })
                            })
                            .collect()
                    })
                }
                ListKind::Resources | ListKind::Templates => snapshot.merge_uris(servers, kind, view),
            };
            snapshot.results[at] = Some(list);
        }
        snapshot
    }

    /// The result of a list method: everything in one page.
    pub(crate) fn result(&self, kind: ListKind) -> Json {
        self.results[kind.index()].clone().unwrap_or_else(|| ListWriter::new(kind, 0).finish())
    }

    /// Whether a list is the same in both.
    pub(crate) fn has_same(&self, kind: ListKind, other: &Self) -> bool {
        self.result(kind).as_bytes() == other.result(kind).as_bytes()
    }

    /// The only server, if nothing of it is changed.
    pub(crate) fn sole(&self) -> Option<&SoleServer> {
        self.sole.as_ref()
    }

    /// The instructions of all servers, for the model of a host.
    pub(crate) fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    /// The tool or prompt with this exposed name, or with the prefixed name that it had before.
    pub(crate) fn named(&self, kind: ListKind, name: &str) -> Option<&Target> {
        match kind {
            ListKind::Tools => self.tools.get(name).or_else(|| self.earlier_tools.get(name)),
            ListKind::Prompts => self.prompts.get(name).or_else(|| self.earlier_prompts.get(name)),
            ListKind::Resources => self.resources.get(name),
            ListKind::Templates => self.templates.get(name),
        }
    }

    /// The arguments of the tool with this exposed name that headers repeat, if it has any.
    // GW-03
    pub(crate) fn header_annotations(&self, tool: &str) -> Option<&HeaderAnnotations> {
        self.header_annotations.get(tool)
    }

    /// Whether the tool with this exposed name may be called twice.
    pub(crate) fn is_harmless_tool(&self, tool: &str) -> bool {
        self.harmless_tools.contains(tool)
    }

    /// Whether the tool with this exposed name may be called as a task.
    // TA-01
    pub(crate) fn task_support(&self, tool: &str) -> TaskSupport {
        self.task_tools.get(tool).copied().unwrap_or_default()
    }

    /// The list of tools for a host of 2025-11-25, which says of each tool whether it may be called as
    /// a task. A server with the tasks extension does not say that itself: it decides about each call.
    // GW-16
    pub(crate) fn tools_with_tasks(&self) -> Json {
        let list = self.result(ListKind::Tools);
        let tools = list.member("tools").and_then(|tools| tools.decode::<Vec<Json>>().ok());
        let Some(tools) = tools.filter(|_| self.has_tools_of_extension) else { return list };
        // It is made for each request, since a second list would take as much memory as the first.
        let mut writer = ListWriter::new(ListKind::Tools, list.as_bytes().len());
        for tool in &tools {
            let name = tool.member("name").and_then(|name| name.decode::<String>().ok()).unwrap_or_default();
            if self.task_support(&name) == TaskSupport::Optional {
                writer.push(&with_optional_task(tool));
            } else {
                writer.push(tool);
            }
        }
        writer.finish()
    }

    /// The names of tools or prompts that servers call `name`, sorted: a host may know a name from
    /// before another server had the same.
    pub(crate) fn names_of(&self, kind: ListKind, name: &str) -> Vec<&str> {
        let table = if kind == ListKind::Tools { &self.tools } else { &self.prompts };
        let same = table.iter().filter(|(_, target)| *target.name == *name);
        let mut names: Vec<_> = same.map(|(exposed, _)| &**exposed).collect();
        names.sort_unstable();
        names
    }

    /// The server of a URI, and its own form of it: listed, or made by [`uris::qualify`].
    pub(crate) fn resource(&self, uri: &str) -> Option<Target> {
        if let Some(target) = self.resources.get(uri) {
            return Some(target.clone());
        }
        if let Some(SoleServer { name, .. }) = &self.sole {
            return Some(Target { server: Arc::clone(name), name: uri.into() });
        }
        if self.hides_resources {
            return None;
        }
        let (server, own) = uris::split(uri)?;
        let (server, own_uris) = self.qualified.get_key_value(server)?;
        // Only a server that shares a URI has such names.
        (!own_uris.is_empty()).then(|| Target { server: Arc::clone(server), name: own.into() })
    }

    /// The servers that may have a resource which no server lists, the likeliest first: those with
    /// a template that begins like it, then those that list resources of its scheme, then those
    /// that list none at all. A URI is not shown to others.
    pub(crate) fn likely_servers(&self, uri: &str) -> Vec<Arc<str>> {
        let scheme = |uri: &str| uri.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        let by_template = self.templates.values().filter(|target| uris::begins_like(uri, &target.name));
        let listed = self.resources.values().chain(self.templates.values());
        let by_scheme =
            listed.filter(|target| scheme(&target.name).is_some() && scheme(&target.name) == scheme(uri));
        let mut servers: Vec<Arc<str>> = Vec::new();
        for group in [sorted_servers(by_template), sorted_servers(by_scheme), self.without_resources.clone()]
        {
            for server in group {
                if !servers.contains(&server) {
                    servers.push(server);
                }
            }
        }
        servers
    }

    /// Whether a server lists resources or templates.
    pub(crate) fn lists_resources(&self, server: &str) -> bool {
        !self.without_resources.iter().any(|other| **other == *server)
    }

    /// The exposed form of a URI in a result of `server`, if it has another one: because another
    /// server lists it too, or has a template like it.
    pub(crate) fn exposed_uri(&self, server: &str, uri: &str) -> Option<Cow<'_, str>> {
        let qualified = self.qualified.get(server)?;
        if let Some(exposed) = qualified.get(uri) {
            return Some(Cow::Borrowed(exposed));
        }
        let is_ambiguous = !self.resources.contains_key(uri)
            && qualified.keys().any(|template| uris::begins_like(uri, template));
        is_ambiguous.then(|| Cow::Owned(uris::qualify(server, uri)))
    }

    /// Whether results of `server` can contain URIs that have another exposed form.
    pub(crate) fn has_qualified_uris(&self, server: &str) -> bool {
        self.qualified.get(server).is_some_and(|uris| !uris.is_empty())
    }

    fn merge_named(
        &mut self,
        servers: &[ExposedLists],
        kind: ListKind,
        view: &View,
        expose: impl for<'a> FnOnce(&[(&'a str, &'a str)]) -> HashMap<(&'a str, &'a str), ExposedName>,
    ) -> Json {
        let listed: Vec<(&ExposedLists, String, &Json)> = elements(servers, kind, "name").collect();
        let ids: Vec<_> = listed.iter().map(|(of, name, _)| (&*of.server, name.as_str())).collect();
        let names = expose(&ids);
        let mut table = HashMap::with_capacity(listed.len());
        let mut earlier_names = HashMap::new();
        let size = listed.iter().map(|(.., item)| item.as_bytes().len() + MAX_ADDED_BYTES).sum();
        let mut list = ListWriter::new(kind, size);
        for (of, name, item) in &listed {
            let server = &of.server;
            let is_shown = match kind {
                ListKind::Tools => view.shows_tool(server, name),
                _ => view.shows_prompts(server),
            };
            if !is_shown {
                continue;
            }
            let ExposedName { name: exposed, earlier } = &names[&(&**server, name.as_str())];
            let own = if kind == ListKind::Tools { of.own_tool_name(name) } else { name };
            let target = Target { server: Arc::clone(server), name: own.into() };
            // An element that a server lists twice is exposed once.
            if table.insert(exposed.as_str().into(), target.clone()).is_some() {
                continue;
            }
            if let Some(earlier) = earlier {
                earlier_names.insert(earlier.as_str().into(), target);
            }
            let known_names = [Some(exposed), earlier.as_ref()].into_iter().flatten();
            if kind == ListKind::Tools
                && let Some(schema) = item.member("inputSchema")
                && let Ok(annotations) = HeaderAnnotations::from_schema(&schema)
                && !annotations.is_empty()
            {
                let annotations = known_names.clone().map(|name| (name.as_str().into(), annotations.clone()));
                self.header_annotations.extend(annotations);
            }
            if kind == ListKind::Tools && is_harmless(item) {
                self.harmless_tools.extend(known_names.map(|name| name.as_str().into()));
            }
            let support =
                if kind == ListKind::Tools { task_support(of, item) } else { TaskSupport::Forbidden };
            if support != TaskSupport::Forbidden {
                let known_names = [Some(exposed), earlier.as_ref()].into_iter().flatten();
                self.task_tools.extend(known_names.map(|name| (name.as_str().into(), support)));
            }
            let item = if exposed == name { (*item).clone() } else { edited(item, "name", exposed) };
            list.push(&self.with_exposed_app(server, item));
            self.has_tools_of_extension |=
                kind == ListKind::Tools && of.lists.tasks == Some(TaskOffer::Extension);
        }
        if kind == ListKind::Tools {
            (self.tools, self.earlier_tools) = (table, earlier_names);
        } else {
            (self.prompts, self.earlier_prompts) = (table, earlier_names);
        }
        list.finish()
    }

    fn merge_uris(&mut self, servers: &[ExposedLists], kind: ListKind, view: &View) -> Json {
        let member = uri_member(kind);
        let mut table = HashMap::new();
        let listed = servers.iter().flat_map(|exposed| exposed.lists.list(kind));
        let mut list =
            ListWriter::new(kind, listed.map(|item| item.as_bytes().len() + MAX_ADDED_BYTES).sum());
        for (ExposedLists { server, .. }, uri, item) in elements(servers, kind, member) {
            if !view.shows_resources(server) {
                continue;
            }
            let exposed = self
                .qualified
                .get(server)
                .and_then(|uris| uris.get(uri.as_str()))
                .map_or(&*uri, |exposed| exposed);
            let target = Target { server: Arc::clone(server), name: uri.as_str().into() };
            if table.insert(exposed.into(), target).is_none() {
                list.push(&if exposed == uri { item.clone() } else { edited(item, member, exposed) });
            }
        }
        match kind {
            ListKind::Resources => self.resources = table,
            _ => self.templates = table,
        }
        list.finish()
    }

    /// Rewrites the link from a tool to its app, if another server has the same URI.
    // AP-02
    fn with_exposed_app(&self, server: &str, tool: Json) -> Json {
        if !self.has_qualified_uris(server) {
            return tool;
        }
        let Some(meta) = tool.member("_meta") else { return tool };
        let exposed = |link: Option<Json>| {
            let uri = link?.decode::<String>().ok()?;
            self.exposed_uri(server, &uri).map(Cow::into_owned)
        };
        let mut edited_meta = meta.clone();
        if let Some(app) = meta.member("ui")
            && let Some(uri) = exposed(app.member("resourceUri"))
        {
            edited_meta = with_member(&edited_meta, "ui", &edited(&app, "resourceUri", &uri));
        }
        if let Some(uri) = exposed(meta.member(FLAT_APP_LINK)) {
            edited_meta = edited(&edited_meta, FLAT_APP_LINK, &uri);
        }
        with_member(&tool, "_meta", &edited_meta)
    }
}

/// An older spelling of the link from a tool to its app.
const FLAT_APP_LINK: &str = "ui/resourceUri";

/// Whether a tool declares that it may be called twice.
fn is_harmless(tool: &Json) -> bool {
    let Some(annotations) = tool.member("annotations") else { return false };
    let is_set = |hint| annotations.member(hint).and_then(|hint| hint.decode().ok()) == Some(true);
    is_set("readOnlyHint") || is_set("idempotentHint")
}

/// Whether a tool may be called as a task, as far as its server is known to offer tasks.
// TA-01
fn task_support(of: &ExposedLists, tool: &Json) -> TaskSupport {
    match of.lists.tasks {
        None | Some(TaskOffer::Nothing) => TaskSupport::Forbidden,
        Some(TaskOffer::Extension) => TaskSupport::Optional,
        Some(TaskOffer::Experiment) => {
            let support = tool.member("execution").and_then(|execution| execution.member("taskSupport"));
            match support.and_then(|support| support.decode::<String>().ok()).as_deref() {
                Some("optional") => TaskSupport::Optional,
                Some("required") => TaskSupport::Required,
                _ => TaskSupport::Forbidden,
            }
        }
    }
}

/// Says that a tool may be called as a task, in the words of 2025-11-25.
fn with_optional_task(tool: &Json) -> Json {
    let execution = tool.member("execution").filter(Json::is_object);
    let execution = Edit::new().set_str("taskSupport", "optional").apply(execution.as_ref());
    with_member(tool, "execution", &execution.expect("checked to be an object"))
}

/// The name of an element for hosts that know it by the server's own.
fn own_name(name: &str) -> ExposedName {
    ExposedName { name: name.to_owned(), earlier: None }
}

fn sorted_servers<'a>(targets: impl Iterator<Item = &'a Target>) -> Vec<Arc<str>> {
    let servers: BTreeSet<_> = targets.map(|target| Arc::clone(&target.server)).collect();
    servers.into_iter().collect()
}

/// The elements of one list of all servers, in order, each with its server and its name or URI.
/// Elements without one are left out: nothing could be done with them.
fn elements<'a>(
    servers: &'a [ExposedLists],
    kind: ListKind,
    member: &'a str,
) -> impl Iterator<Item = (&'a ExposedLists, String, &'a Json)> {
    servers.iter().flat_map(move |exposed| {
        let items = exposed.lists.list(kind).iter();
        items.filter_map(move |item| Some((exposed, item.member(member)?.decode::<String>().ok()?, item)))
    })
}

fn uri_member(kind: ListKind) -> &'static str {
    if kind == ListKind::Templates { "uriTemplate" } else { "uri" }
}

/// The URIs and URI templates that more than one server lists, by server.
fn qualified_uris(servers: &[ExposedLists]) -> HashMap<Arc<str>, HashMap<Box<str>, Box<str>>> {
    let mut owners: BTreeMap<String, Vec<&Arc<str>>> = BTreeMap::new();
    for kind in [ListKind::Resources, ListKind::Templates] {
        for (ExposedLists { server, .. }, uri, _) in elements(servers, kind, uri_member(kind)) {
            let servers = owners.entry(uri).or_default();
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
    }
    let mut qualified: HashMap<Arc<str>, HashMap<Box<str>, Box<str>>> = HashMap::new();
    // A URI that looks qualified is always qualified, or it could stand in for that of another.
    for (uri, servers) in
        owners.iter().filter(|(uri, servers)| servers.len() > 1 || uris::split(uri).is_some())
    {
        for server in servers {
            let exposed = uris::qualify(server, uri).into();
            qualified.entry(Arc::clone(server)).or_default().insert(uri.as_str().into(), exposed);
        }
    }
    qualified
}

/// Replaces a text member.
fn edited(object: &Json, member: &str, value: &str) -> Json {
    Edit::new().set_str(member, value).apply(Some(object)).unwrap_or_else(|_| object.clone())
}

fn with_member(object: &Json, member: &str, value: &Json) -> Json {
    Edit::new().set(member, value).apply(Some(object)).unwrap_or_else(|_| object.clone())
}

/// Merges the instructions of the servers that the view shows, each below a heading with the name of its server.
fn merge_instructions(servers: &[ExposedLists], view: &View) -> Option<String> {
    let mut merged = String::new();
    for ExposedLists { server, lists, .. } in servers {
        if !view.shows_server(server) {
            continue;
        }
        let Some(instructions) = lists.instructions.as_deref().map(str::trim).filter(|text| !text.is_empty())
        else {
            continue;
        };
        let shown: String = instructions.chars().take(MAX_INSTRUCTIONS_PER_SERVER).collect();
        let cut = if shown.len() < instructions.len() { "\n[cut]" } else { "" };
        let part = format!("# Server `{server}`\n{shown}{cut}\n\n");
        if merged.len() + part.len() > MAX_INSTRUCTIONS {
            break;
        }
        merged.push_str(&part);
    }
    let merged = merged.trim_end();
    (!merged.is_empty()).then(|| merged.to_owned())
}

/// Longest instructions of one server, in characters. They go into the context of every model.
const MAX_INSTRUCTIONS_PER_SERVER: usize = 2_000;
/// Longest merged instructions, in bytes.
const MAX_INSTRUCTIONS: usize = 16 * 1024;

#[cfg(test)]
mod tests;
