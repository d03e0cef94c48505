//! Owns what is shown of an untrusted file: what it would start, reach and read, each value as it
//! is written. No placeholder is filled and no environment is read, so inspecting a file gives
//! nothing away.
//!
//! What would be started is what the decoded entries say, so that no spelling of a host escapes: see
//! [`EntryMeanings`]. Beyond that the whole tree is walked, not only the keys that have a meaning
//! today: it is better to show too much.

mod meaning;

use std::collections::BTreeSet;

use self::meaning::EntryMeanings;
use crate::check;
use crate::dialect;
use crate::placeholder::{Reference, find_references};
use crate::problem::Problem;
use crate::report::{Location, Report};
use crate::source::{FileFormat, Source};
use crate::tree::{self, Key, Node, Value};

/// What a configuration would do, found without doing any of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// The servers in the order of the file, without names that no server can have.
    pub servers: Vec<ServerOutline>,
    /// Programs that would be started: servers, hooks, commands for headers and tokens.
    pub programs: Vec<ProgramOutline>,
    /// URLs that would be reached.
    pub endpoints: Vec<EndpointOutline>,
    /// The variables that would be read.
    pub variables: BTreeSet<String>,
    /// The files that would be read, as the file writes them.
    pub files: BTreeSet<String>,
    /// Roots that would be announced to servers.
    pub folders: Vec<String>,
    /// All other settings, such as policies, limits, grants and permissions, except those that only
    /// concern time limits or the transport.
    pub settings: Vec<SettingOutline>,
    /// Why the text cannot be parsed, if it cannot. Everything else is empty then.
    pub problem: Option<Problem>,
}

/// One server, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOutline {
    /// The name under which it is used, which is a valid server name.
    pub name: String,
    /// `command`, if that is a string.
    pub command: Option<String>,
    /// `url` or a host's word for it, if that is a string.
    pub url: Option<String>,
}

/// A program that would be started, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramOutline {
    /// Dotted path of the table or key that starts it, such as `servers.files` or `hooks[0]`.
    pub key: String,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables set in its environment.
    pub env: Vec<(String, String)>,
    /// The folder it runs in, if the file names one.
    pub cwd: Option<String>,
}

/// A URL that would be reached, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointOutline {
    /// Dotted path of the key that holds it.
    pub key: String,
    /// The URL.
    pub url: String,
    /// Names of the headers that would be sent there.
    pub headers: Vec<String>,
}

/// A setting, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingOutline {
    /// The dotted path of the key.
    pub key: String,
    /// Its value: a text, a number, `true` or `false`, or several of them.
    pub value: String,
}

/// Returns what `source` would do. Nothing is opened, filled in or checked beyond its syntax.
pub fn outline(source: &Source) -> Outline {
    let mut report = Report::new(source);
    let mut walker = Walker { meanings: EntryMeanings::read(source), outline: Outline::default() };
    if let Some(root) = tree::read(source, &mut report) {
        walker.outline.servers = list_servers(&root.value, source.format);
        walker.walk(&root.value, &Location::root(), Keys::Settings);
    }
    let (problems, _) = report.finish();
    let Walker { meanings, mut outline } = walker;
    outline.programs.extend(meanings.programs.into_values());
    outline.problem = problems.into_iter().next();
    outline
}

impl Outline {
    /// Returns the server of that name.
    pub fn server(&self, name: &str) -> Option<&ServerOutline> {
        self.servers.iter().find(|server| server.name == name)
    }
}

/// Walks the tree of a file and collects its outline.
struct Walker {
    /// The decoded entries. What the walk meets is taken out, so that each is shown once.
    meanings: EntryMeanings,
    outline: Outline,
}

impl Walker {
    fn walk(&mut self, value: &Value, place: &Location, keys: Keys) {
        match value {
            Value::Table(fields) => self.walk_table(fields, place, keys),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let place = Location::new(item.offset, format!("{}[{index}]", place.key));
                    self.walk(&item.value, &place, keys);
                }
            }
            Value::String(text) => self.record_placeholders(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Date => {}
        }
    }

    fn walk_table(&mut self, fields: &[(Key, Node)], place: &Location, keys: Keys) {
        // Names of servers are free, but the keys below them keep their meaning.
        let holds_servers = SERVER_TABLES.contains(&place.key.as_str());
        // Every parameter goes into the authorization URL, whatever its name.
        let holds_params = AUTH_TABLES.iter().any(|table| {
            place.key.strip_suffix(".authorize_params").is_some_and(|outer| outer.ends_with(*table))
        });
        let is_auth = AUTH_TABLES.iter().any(|table| place.key.ends_with(*table));
        // The file itself has tables and no settings.
        let is_file = place.key.is_empty();
        let program =
            self.meanings.programs.remove(&place.key).or_else(|| written_program(fields, &place.key));
        self.outline.programs.extend(program);
        let headers = self.list_headers(fields, place);
        for (key, node) in fields {
            let place = place.join(&key.name, node.offset);
            // Hosts spell some keys of a login differently.
            let own_name = if is_auth { dialect::own_auth_key(&key.name) } else { None };
            let own_name = own_name.unwrap_or(key.name.as_str());
            // Arguments and variables of a program are shown with the program.
            let belongs_to_program = matches!(own_name, "command" | "args" | "env");
            let mut is_setting = keys == Keys::Settings && (holds_params || !belongs_to_program) && !is_file;
            if let Some(program) = self.take_program(own_name, &node.value, &place.key) {
                is_setting = false;
                self.outline.programs.push(program);
            } else if let Value::String(text) = &node.value {
                if ENDPOINT_KEYS.contains(&own_name) {
                    let (key, url) = (place.key.clone(), text.clone());
                    self.outline.endpoints.push(EndpointOutline { key, url, headers: headers.clone() });
                    is_setting = false;
                } else if !belongs_to_program && (LOGIN_URL_KEYS.contains(&own_name) || text.contains("://"))
                {
                    let (key, url) = (place.key.clone(), text.clone());
                    self.outline.endpoints.push(EndpointOutline { key, url, headers: vec![] });
                    is_setting = false;
                }
                if FILE_KEYS.contains(&own_name) {
                    self.outline.files.insert(text.clone());
                }
                if own_name == KEY_ENV {
                    self.outline.variables.insert(text.clone());
                }
            } else if own_name == SERVER_ROOTS || place.key == ROOT_FOLDERS {
                self.outline.folders.extend(words(&node.value));
                is_setting = false;
            }
            if is_setting
                && (holds_params || !OMITTED_KEYS.contains(&own_name))
                && let Some(value) = scalar(&node.value)
            {
                self.outline.settings.push(SettingOutline { key: place.key.clone(), value });
            }
            let free =
                keys == Keys::Names || (!holds_servers && FREE_NAME_TABLES.contains(&key.name.as_str()));
            self.walk(&node.value, &place, if free { Keys::Names } else { Keys::Settings });
        }
    }

    /// Returns the program that a key names without a table of its own. One with a table is found when
    /// that table is walked.
    fn take_program(&mut self, name: &str, value: &Value, key: &str) -> Option<ProgramOutline> {
        if matches!(value, Value::Table(_)) {
            return None;
        }
        let written = || {
            let words = if name == HEADERS_COMMAND { words(value) } else { vec![] };
            (!words.is_empty()).then(|| ProgramOutline { key: key.to_owned(), words, env: vec![], cwd: None })
        };
        self.meanings.programs.remove(key).or_else(written)
    }

    /// Lists the names of the headers that are sent to the URL of a table, and records the variables
    /// that their values are read from. A host can name such a variable without a placeholder.
    fn list_headers(&mut self, fields: &[(Key, Node)], place: &Location) -> Vec<String> {
        let Some(headers) = self.meanings.headers.remove(&place.key) else {
            return field(fields, "headers").or(field(fields, "http_headers")).map(names).unwrap_or_default();
        };
        for (_, value) in &headers {
            self.record_placeholders(value);
        }
        headers.into_iter().map(|(name, _)| name).collect()
    }

    fn record_placeholders(&mut self, text: &str) {
        for asked in find_references(text) {
            match asked {
                Reference::Variable(name) => self.outline.variables.insert(name.to_owned()),
                Reference::File(path) => self.outline.files.insert(path.to_owned()),
            };
        }
    }
}

/// Whether the keys of a table are ours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// Each key is a setting.
    Settings,
    /// Names chosen by the file, of variables and headers, which are shown elsewhere.
    Names,
}

/// Lists the servers by the names under which they are used. A host's file has them under another key, or under
/// both.
fn list_servers(root: &Value, format: FileFormat) -> Vec<ServerOutline> {
    let names = match format {
        FileFormat::Toml => None,
        FileFormat::Json => Some(dialect::choose_server_names(entries(root))),
    };
    let used_name = |key: &Key| names.as_ref().map_or(key.name.clone(), |names| names.used_name(&key.name));
    let tables = entries(root).iter().filter(|(key, _)| SERVER_TABLES.contains(&key.name.as_str()));
    let all = tables.flat_map(|(_, node)| entries(&node.value));
    let used = all.map(|(key, node)| (used_name(key), node)).filter(|(name, _)| check::name(name).is_ok());
    used.map(|(name, node)| {
        let fields = entries(&node.value);
        let text = |name: &&str| field(fields, name).and_then(string);
        let (command, url) = (text(&"command"), SERVER_URL_KEYS.iter().find_map(text));
        ServerOutline { name, command, url }
    })
    .collect()
}

/// Returns the program of a table that has a `command`, as it is written. Such a table may be one that
/// is not used, or whose entry cannot be decoded.
fn written_program(fields: &[(Key, Node)], key: &str) -> Option<ProgramOutline> {
    let mut all = field(fields, "command").map(words).filter(|words| !words.is_empty())?;
    all.extend(field(fields, "args").map(words).unwrap_or_default());
    let cwd = field(fields, "cwd").and_then(string);
    let env = field(fields, "env").map(pairs).unwrap_or_default();
    Some(ProgramOutline { key: key.to_owned(), words: all, env, cwd })
}

/// Returns the value of the first field of that name.
fn field<'a>(fields: &'a [(Key, Node)], name: &str) -> Option<&'a Value> {
    fields.iter().find(|(key, _)| key.name == name).map(|(_, node)| &node.value)
}

/// Returns the fields of a table; any other value has none.
fn entries(value: &Value) -> &[(Key, Node)] {
    if let Value::Table(fields) = value { fields } else { &[] }
}

fn string(value: &Value) -> Option<String> {
    if let Value::String(text) = value { Some(text.clone()) } else { None }
}

/// Reads a string or a list of strings.
fn words(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(|item| string(&item.value)).collect(),
        other => string(other).into_iter().collect(),
    }
}

/// Formats a value that is no table, or a list of such values.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(text) | Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            let items = items.iter().map(|item| scalar(&item.value)).collect::<Option<Vec<_>>>()?;
            (!items.is_empty()).then(|| items.join(", "))
        }
        Value::Null | Value::Date | Value::Table(_) => None,
    }
}

fn names(value: &Value) -> Vec<String> {
    entries(value).iter().map(|(key, _)| key.name.clone()).collect()
}

fn pairs(value: &Value) -> Vec<(String, String)> {
    let all = entries(value).iter();
    all.filter_map(|(key, node)| Some((key.name.clone(), string(&node.value)?))).collect()
}

const SERVER_TABLES: [&str; 2] = ["servers", "mcpServers"];
/// How the keys of tables about a login end.
const AUTH_TABLES: [&str; 2] = [".auth", ".oauth"];
/// Keys of the URL of a server.
const SERVER_URL_KEYS: [&str; 3] = ["url", "serverUrl", "httpUrl"];
const HEADERS_COMMAND: &str = "headers_command";
/// Names a variable without using a placeholder.
const KEY_ENV: &str = "key_env";
const SERVER_ROOTS: &str = "roots";
const ROOT_FOLDERS: &str = "roots.folders";
/// Keys of URLs that the headers beside them are sent to.
const ENDPOINT_KEYS: [&str; 5] = ["url", "webhook", "base_url", "serverUrl", "httpUrl"];
/// Keys of URLs that are reached or shown during a login.
const LOGIN_URL_KEYS: [&str; 5] =
    ["token_endpoint", "client_metadata_url", "issuer", "redirect_uri", "resource"];
/// Tables whose keys are names of variables or headers.
const FREE_NAME_TABLES: [&str; 3] = ["env", "headers", "http_headers"];
/// Keys that are not listed as settings: those shown elsewhere, those that widen nothing (time
/// limits, transport), and credentials, which do not belong on the screen. A new key is shown until
/// it is listed here.
const OMITTED_KEYS: [&str; 26] = [
    "client_cert",
    "client_key",
    "client_secret",
    "connect_timeout",
    "cwd",
    "enabled",
    "file",
    "idle_stop",
    "keepalive_interval",
    "key_env",
    "max_timeout",
    "message_limit_mib",
    "on",
    "path",
    "private_key",
    "probe_timeout",
    "protocol",
    "reconnect_wait",
    "serverUrl",
    "share",
    "timeout",
    "transport",
    "ttl",
    "type",
    "url",
    "value",
];
/// Keys that name a file.
const FILE_KEYS: [&str; 5] = ["ca_file", "client_cert", "client_key", "file", "path"];

#[cfg(test)]
mod tests;
