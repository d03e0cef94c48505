//! Reads install links, by which pages offer a server to Cursor and VS Code. A link is from somebody else: it is
//! bounded, it may not name files of this machine, and its entry is shown whole before it is used (SE-04).

use std::path::Path;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bowline_hosts::{FileOrigin, Host, HostServerContent, read_servers};
use bowline_settings::EntryValue;
use serde_json::{Map, Value, json};
use url::{Url, form_urlencoded};

use crate::failure::{Failure, Outcome};
use crate::suggested_command::shell_quote;

/// The server of a link, as an entry of our configuration.
#[derive(Debug)]
pub(super) struct InstallLink {
    /// The name in the link, as it is written there.
    pub(super) name: String,
    /// The keys of its entry, apart from `env`.
    pub(super) entry: Vec<(&'static str, EntryValue)>,
    pub(super) env: Vec<(String, String)>,
    /// What is worth knowing about it, as sentences.
    pub(super) notes: Vec<String>,
}

impl InstallLink {
    /// Reads a link. `None` for a text that is no link of a host.
    pub(super) fn parse(text: &str) -> Option<Outcome<Self>> {
        let (scheme, rest) = text.split_once(':')?;
        let host = match scheme.to_ascii_lowercase().as_str() {
            "cursor" => Host::Cursor,
            "vscode" | "vscode-insiders" => Host::VsCode,
            _ => return None,
        };
        Some(Self::read(host, rest).map_err(|problem| {
            let (why, hint) = match problem {
                LinkProblem::UnknownField(field) => (
                    format!("it has the field `{field}`, which bowline does not know"),
                    format!(
                        "add the server by its URL or its command; known fields are {}",
                        KNOWN_KEYS.join(", ")
                    ),
                ),
                LinkProblem::Other(why) => {
                    (why, "copy the whole link, and write it in single quotes".to_owned())
                }
            };
            Failure::usage_hint(format!("the install link cannot be used: {why}"), hint)
        }))
    }

    fn read(host: Host, rest: &str) -> Result<Self, LinkProblem> {
        if rest.len() > MAX_LINK_BYTES {
            return Err(format!("it is longer than {} KiB", MAX_LINK_BYTES / 1024).into());
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let expected =
            if host == Host::Cursor { "anysphere.cursor-deeplink/mcp/install" } else { "mcp/install" };
        if place.trim_matches('/') != expected {
            return Err(format!("{} installs servers by links with `{expected}`", host.name()).into());
        }
        let (name, config) = if host == Host::Cursor { cursor_config(query)? } else { vscode_config(query)? };
        let LinkedServer { name: inner_name, mut fields, inputs } = find_server(config)?;
        let own_name = fields.remove("name").and_then(|name| name.as_str().map(ToOwned::to_owned));
        if let Some(unknown) = fields.keys().find(|key| !KNOWN_KEYS.contains(&key.as_str())) {
            return Err(LinkProblem::UnknownField(cut(unknown)));
        }
        let name = name.or(own_name).or(inner_name).unwrap_or_default();
        Ok(Self::make_entry(host, name, fields, inputs)?)
    }

    /// Makes the entry in the way of a file of the host.
    fn make_entry(
        host: Host,
        name: String,
        fields: Map<String, Value>,
        inputs: Value,
    ) -> Result<Self, String> {
        let table = if host == Host::VsCode { "servers" } else { "mcpServers" };
        let file = json!({ table: { "server": fields }, "inputs": inputs }).to_string();
        let origin = FileOrigin { path: Path::new("link"), project: None };
        let servers = read_servers(host, origin, &file).map_err(|problem| problem.message)?;
        let server = servers.into_iter().next().ok_or("it has no server")?;
        let (found, mut notes) = match server.content {
            HostServerContent::Server { entry, attention } => (entry, attention),
            HostServerContent::LeftOut(reason) => return Err(reason),
        };
        notes.extend(server.notes);
        if found.reads_files() {
            return Err("it names a file of this machine, whose content the server would get".to_owned());
        }
        let mut entry = found.keys();
        for (key, value) in &mut entry {
            match (*key, value) {
                ("url", EntryValue::Text(url)) => *url = normalize_url(url)?,
                ("socket", _) => return Err("it names a socket of this machine".to_owned()),
                _ => {}
            }
        }
        let env = entry.iter().position(|(key, _)| *key == "env").map(|at| entry.remove(at).1);
        let env = if let Some(EntryValue::Table(env)) = env { env } else { Vec::new() };
        Ok(Self { name, entry, env, notes })
    }

    /// Whether the server is reached by a URL.
    pub(super) fn is_url(&self) -> bool {
        self.entry.iter().any(|(key, _)| *key == "url")
    }

    /// Leaves out what arguments replace.
    pub(super) fn replace(&mut self, headers: &[(String, String)], envs: &[String]) {
        self.env.retain(|(name, _)| !envs.iter().any(|given| given.split('=').next() == Some(name.as_str())));
        for (key, value) in &mut self.entry {
            if let ("headers", EntryValue::Table(own)) = (*key, value) {
                own.retain(|(name, _)| !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)));
            }
        }
        self.entry.retain(|(_, value)| !matches!(value, EntryValue::Table(pairs) if pairs.is_empty()));
    }

    /// Describes the whole entry on one line. Nothing is redacted: what is not shown cannot be approved.
    pub(super) fn describe(&self) -> String {
        let mut words: Vec<String> =
            self.env.iter().map(|(name, value)| shell_quote(&format!("{name}={value}"))).collect();
        let mut rest = String::new();
        for (key, value) in &self.entry {
            match (*key, value) {
                ("url", EntryValue::Text(url)) => words.push(url.clone()),
                ("command", EntryValue::Text(command)) => words.push(shell_quote(command)),
                ("args", EntryValue::List(args)) => words.extend(args.iter().map(|arg| shell_quote(arg))),
                ("cwd", EntryValue::Text(cwd)) => rest.extend([" (in ", cwd, ")"]),
                ("headers", EntryValue::Table(headers)) => {
                    let show = |(name, value): &(String, String)| shell_quote(&format!("{name}: {value}"));
                    rest.extend(headers.iter().map(|header| format!(" ({})", show(header))));
                }
                (key, value) => rest.extend([" (", key, ": ", &show_value(value), ")"]),
            }
        }
        words.join(" ") + &rest
    }
}

/// Why a link cannot be used.
enum LinkProblem {
    /// It has a field of this name, which might change what is approved.
    UnknownField(String),
    /// Anything else, in words.
    Other(String),
}

impl From<String> for LinkProblem {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

/// The URL as it is requested: what a person reads must be the host that is reached. A URL with a placeholder is
/// complete only when it is used, and stays as it is.
fn normalize_url(text: &str) -> Result<String, String> {
    if text.chars().any(|char| char.is_control() || char.is_whitespace() || char == '\\') {
        return Err("its URL has blanks, control characters or backslashes".to_owned());
    }
    if text.contains("${") {
        // Letters of other alphabets may look like those of a host that is known.
        let has_lookalikes = !text.is_ascii();
        return if has_lookalikes { Err("its URL is not ASCII".to_owned()) } else { Ok(text.to_owned()) };
    }
    Url::parse(text).map(String::from).map_err(|error| format!("its URL is not valid: {error}"))
}

/// Longest link that is read. Cursor and VS Code are given far shorter ones.
const MAX_LINK_BYTES: usize = 16 * 1024;

/// The keys of a server that a link may have. Others might change what is approved.
const KNOWN_KEYS: [&str; 13] = [
    "args",
    "auth",
    "command",
    "cwd",
    "description",
    "env",
    "envFile",
    "gallery",
    "headers",
    "oauth",
    "type",
    "url",
    "version",
];

/// The name and the configuration in the query of a link for Cursor.
fn cursor_config(query: &str) -> Result<(Option<String>, Value), String> {
    let field = |wanted: &str| {
        let found = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.into_owned()).filter(|value| !value.is_empty())
    };
    let config = field("config").ok_or("it has no `config`")?;
    // A `+` that was not encoded has been read as a blank. Both alphabets are in use.
    let config = config.replace([' ', '-'], "+").replace('_', "/");
    let config = LENIENT_BASE64.decode(config).map_err(|_| "its `config` is not base64")?;
    let config = String::from_utf8(config).map_err(|_| "its `config` is not text")?;
    Ok((field("name"), parse_json(&config)?))
}

const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The configuration in the query of a link for VS Code, which is a percent-encoded object.
fn vscode_config(query: &str) -> Result<(Option<String>, Value), String> {
    // Only in forms, a `+` is a blank.
    let query = query.replace('+', "%2B");
    let whole = format!("={}", query.replace('&', "%26"));
    let config = form_urlencoded::parse(whole.as_bytes()).next().map(|(_, value)| value.into_owned());
    Ok((
        None,
        parse_json(config.filter(|config| !config.is_empty()).as_deref().ok_or("it has no configuration")?)?,
    ))
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("its configuration is not JSON: {error}"))
}

/// The server of a configuration.
struct LinkedServer {
    /// Its name, if it is wrapped as in a file.
    name: Option<String>,
    fields: Map<String, Value>,
    /// The values that VS Code asks for.
    inputs: Value,
}

/// Finds the one server of a configuration, which may be wrapped as in a file.
fn find_server(config: Value) -> Result<LinkedServer, String> {
    let Value::Object(mut fields) = config else {
        return Err("its configuration is not an object".to_owned());
    };
    let inputs = fields.remove("inputs").unwrap_or_default();
    if ["command", "url", "type"].iter().any(|key| fields.get(*key).is_some_and(Value::is_string)) {
        return Ok(LinkedServer { name: None, fields, inputs });
    }
    let wrapped = ["mcpServers", "servers"].iter().find_map(|key| fields.remove(*key));
    let servers = match wrapped {
        Some(Value::Object(servers)) => servers,
        Some(_) => return Err("its servers are not an object".to_owned()),
        None => fields,
    };
    let count = servers.len();
    match servers.into_iter().next() {
        Some((name, Value::Object(fields))) if count == 1 => {
            Ok(LinkedServer { name: Some(name), fields, inputs })
        }
        Some((_, Value::Object(_))) => Err(format!("it has {count} entries, and not one server")),
        _ => Err("it has neither a command nor a URL".to_owned()),
    }
}

fn show_value(value: &EntryValue) -> String {
    let pair = |name: &str, value: &str| format!("{name} = {value}");
    match value {
        EntryValue::Text(text) => text.clone(),
        EntryValue::List(texts) => texts.join(", "),
        EntryValue::Table(pairs) => {
            pairs.iter().map(|(name, value)| pair(name, value)).collect::<Vec<_>>().join(", ")
        }
        EntryValue::Flag(flag) => flag.to_string(),
        EntryValue::Number(number) => number.to_string(),
        EntryValue::Keys(keys) => {
            keys.iter().map(|(key, value)| pair(key, &show_value(value))).collect::<Vec<_>>().join(", ")
        }
    }
}

/// The beginning of a text of a link, for a message.
fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests;
