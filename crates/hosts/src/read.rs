//! Reads which servers the file of a host names, in the form of our own configuration. Pure: nothing is
//! opened, started or reached.

mod auth;
mod claude_settings;
mod fields;
mod findings;
mod mcporter;
mod placeholder;
mod relay_command;
mod secrets;
mod server;
mod server_entry;
mod settings;
mod times;
mod yaml;

use std::path::{Path, PathBuf};

use bowline_config::tree::{Key, Node, Value, parse_tree};
use bowline_config::{Problem, ProblemKind, Source, split_plain_command};

use self::claude_settings::ServerKind;
use self::fields::{get, has, into_table, last_of_each, take, text, texts};
use self::findings::Findings;
use self::placeholder::{Input, Translator};
use crate::host::{FileFormat, Host};

pub use claude_settings::ClaudeSettings;
pub use secrets::{has_secret, redact_tokens, secret_values_in_pair, secret_values_in_words};
pub(crate) use server_entry::Target;
pub use server_entry::{ServerEntry, StoredSecret};

/// A server that the file of a host names.
#[derive(Debug)]
pub struct HostServer {
    /// Its name in the file.
    pub name: String,
    /// The project that the entry is for, if the file has entries of several projects.
    pub project: Option<PathBuf>,
    /// What the entry is.
    pub content: HostServerContent,
    /// What is worth knowing about it, as sentences without secrets.
    pub notes: Vec<String>,
}

/// What an entry of a host is.
#[derive(Debug)]
pub enum HostServerContent {
    /// A server that can be used.
    Server {
        /// Its entry in our form.
        entry: Box<ServerEntry>,
        /// What a person has to do before it can be used.
        attention: Vec<String>,
    },
    /// Something that cannot be used elsewhere, for this reason.
    LeftOut(String),
}

/// Where the text of a host's file is from.
#[derive(Clone, Copy, Debug)]
pub struct FileOrigin<'a> {
    /// The path of the file.
    pub path: &'a Path,
    /// The project that the file is for, if it is for one.
    pub project: Option<&'a Path>,
}

/// Reads the servers that a file names, in the order of the file. The problem of a file that cannot be
/// read does not quote it.
pub fn read_servers(host: Host, origin: FileOrigin<'_>, text: &str) -> Result<Vec<HostServer>, Box<Problem>> {
    read_servers_with(host, origin, &ClaudeSettings::default(), text)
}

/// Reads the servers that a file names, as [`read_servers`] does, with those disabled that settings of Claude
/// Code in other files switch off.
pub fn read_servers_with(
    host: Host,
    origin: FileOrigin<'_>,
    settings: &ClaudeSettings,
    text: &str,
) -> Result<Vec<HostServer>, Box<Problem>> {
    let root = parse(host.file_format(), origin.path, text)?;
    let Value::Table(mut root) = root.value else {
        return Err(problem(origin.path, 1, "the file is not an object"));
    };
    let inputs = read_inputs(&root);
    let switched_off = SwitchedOff::read(host, &root);
    let shared_times = settings::shared_times(host, &root);
    let mut servers = Vec::new();
    let shared_redirect = auth::shared_redirect(host, &root);
    let mut read_table =
        |fields: Vec<(Key, Node)>,
         project: Option<PathBuf>,
         note: Option<&str>,
         find_switch: &dyn Fn(&str, &Value) -> Option<&'static str>| {
            for (key, node) in last_of_each(fields) {
                let folder = origin.path.parent().unwrap_or(Path::new(""));
                let translator = Translator {
                    host,
                    folder,
                    project: project.as_deref().or(origin.project),
                    inputs: &inputs,
                };
                let switch = find_switch(&key.name, &node.value);
                let mut server = read_server(key.name, node, &translator);
                server.project.clone_from(&project);
                server.notes.extend(note.map(ToOwned::to_owned));
                if let HostServerContent::Server { entry, .. } = &mut server.content {
                    entry.is_enabled &= !switched_off.names(&server.name) && switch.is_none();
                    entry.add_times(&shared_times);
                    server.notes.extend(entry.add_redirect(&shared_redirect));
                }
                server.notes.extend(switch.map(|key| format!("Claude Code has it switched off (`{key}`)")));
                servers.push(server);
            }
        };
    let kind = if origin.project.is_some() { ServerKind::McpJson } else { ServerKind::User };
    let find_switch = |name: &str, entry: &Value| {
        settings.find_switch(name, entry, kind).filter(|_| host == Host::ClaudeCode)
    };
    let is_flat = host == Host::ClaudeCode
        && origin.path.file_name().is_some_and(|name| name == ".mcp.json")
        && !has(&root, "mcpServers");
    if is_flat {
        let servers = root.extract_if(.., |(_, node)| is_server(&node.value)).collect();
        read_table(servers, None, Some(FLAT_NOTE), &find_switch);
    }
    let global_command = read_global_command(host, &root);
    for (name, note) in server_tables(host) {
        let mut table = take(&mut root, name).map(into_table).unwrap_or_default();
        // That command takes the place of a server of its name.
        table.retain(|(key, _)| global_command.as_ref().is_none_or(|(own, _)| own.name != key.name));
        read_table(unwrap_table(host, name, table), None, *note, &find_switch);
    }
    if let Some(server) = global_command {
        read_table(vec![server], None, Some("it is the command line in `mcp.serverCommand`"), &find_switch);
    }
    if host == Host::ClaudeCode {
        for (key, node) in take(&mut root, "projects").map(into_table).unwrap_or_default() {
            let mut state = into_table(node.value);
            let servers = take(&mut state, "mcpServers").map(into_table);
            let mut own = ClaudeSettings::default();
            own.add_state(&state);
            let find_switch = |name: &str, entry: &Value| {
                let find = |settings: &ClaudeSettings| settings.find_switch(name, entry, ServerKind::Local);
                find(&own).or_else(|| find(settings))
            };
            read_table(servers.unwrap_or_default(), Some(PathBuf::from(key.name)), None, &find_switch);
        }
    }
    if servers.len() > MAX_SERVERS {
        return Err(problem(origin.path, 1, &format!("the file names more than {MAX_SERVERS} servers")));
    }
    Ok(servers)
}

/// Most servers that one file may name.
const MAX_SERVERS: usize = 1000;

/// The tables of a file that have servers in them, each with what is worth knowing about it.
fn server_tables(host: Host) -> &'static [(&'static str, Option<&'static str>)] {
    match host {
        Host::Opencode => &[("mcp", None)],
        Host::Codex | Host::Hermes => &[("mcp_servers", None)],
        Host::Goose => &[("extensions", None)],
        Host::Zed => &[("context_servers", None)],
        Host::VsCode => &[
            ("servers", None),
            ("mcp", None),
            ("mcpServers", Some("VS Code itself does not read `mcpServers`")),
        ],
        _ => &[("mcpServers", None)],
    }
}

/// The servers of a table whose form differs between versions of the host.
fn unwrap_table(host: Host, name: &str, mut table: Vec<(Key, Node)>) -> Vec<(Key, Node)> {
    if !matches!(host, Host::Opencode | Host::VsCode) || name != "mcp" {
        return table;
    }
    // Newer files have the servers in a table of their own, beside settings for all of them.
    let newer = match get(&table, "servers") {
        Some(value) if !is_server(value) => take(&mut table, "servers").map(into_table),
        _ => None,
    };
    table.retain(|(_, node)| is_server(&node.value));
    if host == Host::VsCode {
        table.clear();
    }
    table.extend(newer.unwrap_or_default());
    table
}

/// Whether a table may be a server, and not the settings of all servers.
fn is_server(value: &Value) -> bool {
    match value {
        Value::Table(fields) => ["type", "command", "url"]
            .into_iter()
            .any(|key| matches!(get(fields, key), Some(Value::String(_) | Value::Array(_)))),
        _ => false,
    }
}

/// What is said of servers that have no `mcpServers` around them.
const FLAT_NOTE: &str =
    "it is not in `mcpServers`: Claude Code accepts that from a plugin, and not from a project";

/// Reads the command line of Gemini CLI that makes one more server, named `mcp`.
fn read_global_command(host: Host, root: &[(Key, Node)]) -> Option<(Key, Node)> {
    let (true, Some(Value::Table(mcp))) =
        (matches!(host, Host::GeminiCli | Host::QwenCode), get(root, "mcp"))
    else {
        return None;
    };
    let (_, node) = mcp.iter().rfind(|(key, _)| key.name == "serverCommand")?;
    let line = text(&node.value).filter(|line| !line.is_empty())?;
    let offset = node.offset;
    let at = |value| Node { offset, value };
    let key = |name: &str| Key { name: name.to_owned(), offset };
    let value = match split_plain_command(&line) {
        Some(words) => Value::Array(words.into_iter().map(|word| at(Value::String(word))).collect()),
        // What is no command is left out, with this key as the reason.
        None => Value::Table(Vec::new()),
    };
    Some((key("mcp"), at(Value::Table(vec![(key("serverCommand"), at(value))]))))
}

fn read_server(name: String, node: Node, translator: &Translator<'_>) -> HostServer {
    let mut found = Findings::default();
    let entry = match node.value {
        Value::Table(fields) => server::read_entry(&name, fields, translator, &mut found),
        _ => None,
    };
    let Findings { notes, attention, left_out } = found;
    let content = match (entry, left_out) {
        (Some(entry), None) => HostServerContent::Server { entry: Box::new(entry), attention },
        (_, reason) => {
            HostServerContent::LeftOut(reason.unwrap_or_else(|| "its entry cannot be read".to_owned()))
        }
    };
    HostServer { name, project: None, content, notes }
}

/// Checks the syntax of a file whose host is unknown. Its format follows from its name; it is JSON if that says
/// nothing.
pub fn check_syntax(path: &Path, text: &str) -> Result<(), Box<Problem>> {
    let extension = path.extension().map(|it| it.to_string_lossy().to_ascii_lowercase());
    let format = match extension.as_deref() {
        Some("toml") => FileFormat::Toml,
        Some("yaml" | "yml") => FileFormat::Yaml,
        _ => FileFormat::Json,
    };
    parse(format, path, text).map(drop)
}

fn parse(format: FileFormat, path: &Path, text: &str) -> Result<Node, Box<Problem>> {
    let format = match format {
        FileFormat::Json => bowline_config::FileFormat::Json,
        FileFormat::Toml => bowline_config::FileFormat::Toml,
        FileFormat::Yaml => {
            return yaml::parse_yaml(text)
                .map_err(|error| problem(path, error.line.unwrap_or(1), "not valid YAML"));
        }
    };
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    if body.trim().is_empty() {
        return Ok(Node { offset: 0, value: Value::Table(Vec::new()) });
    }
    parse_tree(&Source::new(path, text).with_format(format))
}

fn problem(path: &Path, line: usize, message: &str) -> Box<Problem> {
    let mut problem =
        Problem::of_file(path.to_owned(), ProblemKind::Syntax, message.to_owned(), String::new());
    (problem.line, problem.hint) = (line, None);
    Box::new(problem)
}

/// Reads the values that VS Code asks for.
fn read_inputs(root: &[(Key, Node)]) -> Vec<Input> {
    let nested = match get(root, "mcp") {
        Some(Value::Table(mcp)) => get(mcp, "inputs"),
        _ => None,
    };
    let Some(Value::Array(items)) = get(root, "inputs").or(nested) else { return Vec::new() };
    let input = |item: &Node| {
        let Value::Table(fields) = &item.value else { return None };
        let field = |name| get(fields, name).and_then(text);
        // What is typed hidden is a secret, and so is its default.
        let is_hidden = matches!(get(fields, "password"), Some(Value::Bool(true)));
        let default = field("default").filter(|default| !default.is_empty() && !is_hidden);
        Some(Input { id: field("id")?, default })
    };
    items.iter().filter_map(input).collect()
}

/// Servers that a file switches off in another place than their entries.
#[derive(Default)]
struct SwitchedOff {
    excluded: Vec<String>,
    /// If there is a list, all others are switched off.
    allowed: Option<Vec<String>>,
}

impl SwitchedOff {
    fn read(host: Host, root: &[(Key, Node)]) -> Self {
        let list = |value: Option<&Value>| value.and_then(texts).filter(|names| !names.is_empty());
        match (host, get(root, "mcp")) {
            (Host::GeminiCli | Host::QwenCode, Some(Value::Table(mcp))) => Self {
                excluded: list(get(mcp, "excluded")).unwrap_or_default(),
                allowed: list(get(mcp, "allowed")),
            },
            _ => Self::default(),
        }
    }

    fn names(&self, name: &str) -> bool {
        let is_in = |names: &Vec<String>| names.iter().any(|known| known == name);
        is_in(&self.excluded) || self.allowed.as_ref().is_some_and(|allowed| !is_in(allowed))
    }
}
