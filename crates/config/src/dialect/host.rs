//! Owns the dialect of hosts, JSON: `{"mcpServers": {…}}`, or `{"servers": {…}}`. A file that works
//! in a host is read as it is: keys that only concern that host become notes.

use super::ServerEntry;
use super::fields::{Fields, Style};
use super::host_auth::HostAuth;
use crate::check::{self, InvalidValue};
use crate::keys::KeyTable as _;
use crate::problem::ProblemKind;
use crate::raw::{RawMap, RawServer, RawTransport};
use crate::report::{Finding, LocatedValue, Location, Report};
use crate::server_name::ServerNames;
use crate::suggest;
use crate::tree::{Key, Node, Value};

pub(super) fn read_servers(root: Node, report: &mut Report<'_>) -> Vec<ServerEntry> {
    let style = Style::Lenient;
    let mut read = Fields { report, style };
    let top = Location::root();
    let Value::Table(fields) = root.value else {
        let message = format!("must be an object, not {}", root.value.type_name());
        let finding = Finding::new(ProblemKind::WrongType, message).hint(EXAMPLE_HINT);
        read.report.error(&Location::new(root.offset, ""), finding);
        return Vec::new();
    };
    let names = choose_server_names(&fields);
    let mut found = false;
    let mut entries: Vec<ServerEntry> = Vec::new();
    let mut others = Vec::new();
    for (key, node) in read.unique(fields, &top) {
        if !SERVER_TABLES.contains(&key.name.as_str()) {
            let is_server = is_server(&node.value) && check::name(&key.name).is_ok();
            others.push((key.name, is_server));
            continue;
        }
        found = true;
        let place = top.join(&key.name, key.offset);
        for entry in read.entries(node, &place, &|written| names.used_name(written)) {
            if entries.iter().any(|other| other.name == entry.name) {
                let message = "given in both `mcpServers` and `servers`";
                let finding = Finding::new(ProblemKind::DuplicateKey, message);
                read.report.enter_server(&entry.name);
                read.report.error(&entry.place, finding);
                read.report.leave_server();
            } else {
                entries.push(entry);
            }
        }
    }
    // The other keys of such a file are the host's settings and not ours to judge, unless one of
    // them was meant to be the table of servers.
    if !found {
        let meant = others.iter().find(|(name, _)| suggest::closest(name, SERVER_TABLES).is_some());
        let bare = others.iter().find(|(_, is_server)| *is_server);
        let hint = match (meant, bare) {
            (Some((name, _)), _) => format!("`{name}` looks like it; write `mcpServers`"),
            // Claude Code accepts this in the file of a plugin, and refuses it in that of a project.
            (None, Some((name, _))) => {
                format!("`{name}` looks like a server; write {{\"mcpServers\": {{\"{name}\": {{…}}}}}}")
            }
            (None, None) => EXAMPLE_HINT.to_owned(),
        };
        let finding = Finding::new(ProblemKind::MissingKey, "has no `mcpServers`").hint(hint);
        read.report.error(&Location::new(root.offset, ""), finding);
    }
    entries
}

pub(super) fn decode(fields: Vec<(Key, Node)>, entry: &Location, report: &mut Report<'_>) -> RawServer {
    let style = Style::Lenient;
    let mut read = Fields { report, style };
    let mut raw = RawServer::default();
    let mut by_key = None;
    let mut disabled = None;
    let mut host_auth = HostAuth::default();
    let mut given: Vec<&'static str> = Vec::new();
    for (key, node) in read.unique(fields, entry) {
        if matches!(node.value, Value::Null) {
            continue;
        }
        let place = entry.join(&key.name, node.offset);
        match key.name.as_str() {
            "command" => {
                raw.command = decode_command(&mut read, node, place);
                raw.garbled.extend(raw.command.is_none().then_some("command"));
            }
            "url" | "serverUrl" | "httpUrl" => {
                if raw.url.is_some() {
                    let finding = Finding::new(ProblemKind::Conflict, "a second URL")
                        .hint("keep one of `url`, `serverUrl` and `httpUrl`");
                    read.report.error(&place, finding);
                    continue;
                }
                // One host has a key for each of the two transports. Its `url` is not taken to mean
                // HTTP+SSE: most other hosts mean either transport by it.
                by_key =
                    (key.name == "httpUrl").then(|| LocatedValue::new(RawTransport::Http, place.clone()));
                raw.url = read.string(node, place);
                raw.garbled.extend(raw.url.is_none().then_some("url"));
            }
            // Settings dialogs write empty lists for what does not apply.
            "args" => raw.args = read.strings(node, place).filter(|it| !it.value.is_empty()),
            "env" => raw.env = read.map(node, place).filter(|it| !it.value.is_empty()),
            "headers" | "http_headers" => {
                let headers = read
                    .map(node, place)
                    .map(|headers| drop_reserved_headers(headers, read.report))
                    .filter(|it| !it.value.is_empty());
                match (headers, &raw.headers) {
                    (Some(second), Some(_)) => report_second("headers", &second.place, read.report),
                    (headers, _) => raw.headers = raw.headers.take().or(headers),
                }
            }
            "disabled" => disabled = read.boolean(&node, place),
            "hooks" => {
                let finding = Finding::new(ProblemKind::Ignored, "not used")
                    .hint("hooks are written in the TOML form, as `[[servers.NAME.hooks]]`");
                read.report.note(&place, finding);
            }
            other => {
                if let Some(own) = own_key(other) {
                    if given.contains(&own) {
                        report_second(own, &place, read.report);
                        continue;
                    }
                    given.push(own);
                    if own == "timeout" {
                        warn_small_timeout(&node, &place, read.report);
                    }
                    raw.read_key(own, &mut read, node, place);
                    continue;
                }
                let Some(place) = host_auth.take(&mut read, other, node, place) else {
                    continue;
                };
                let finding = Finding::new(ProblemKind::Ignored, "not used");
                let finding = match suggest::closest(other, known_keys()) {
                    Some(meant) => finding.hint(format!("did you mean `{meant}`?")),
                    None => finding,
                };
                read.report.note(&place, finding);
            }
        }
    }
    if let Some(disabled) = disabled {
        refuse_contradiction(&raw, &disabled, read.report);
        raw.enabled = Some(LocatedValue::new(!disabled.value, disabled.place));
    }
    if raw.kind.is_none() && raw.transport.is_none() {
        raw.kind = by_key;
    }
    let (auth, headers_command, more) = host_auth.finish();
    (raw.auth, raw.headers_command) = (auth, headers_command);
    if let Some((_, first)) = more.first() {
        let place = first.place.clone();
        raw.headers.get_or_insert_with(|| LocatedValue::new(RawMap::new(), place)).value.extend(more);
    }
    raw
}

/// Chooses the names under which the servers of a file are used. Of a table that is there twice, the first counts.
pub(crate) fn choose_server_names(root: &[(Key, Node)]) -> ServerNames {
    let tables = SERVER_TABLES.iter().filter_map(|table| root.iter().find(|(key, _)| key.name == *table));
    let servers = tables.flat_map(|(_, node)| match &node.value {
        Value::Table(servers) => servers.as_slice(),
        _ => &[],
    });
    ServerNames::choose(servers.map(|(key, _)| key.name.as_str()))
}

/// Returns whether a value has a key of which every server has one.
fn is_server(value: &Value) -> bool {
    let Value::Table(fields) = value else { return false };
    let is_reached_by = |key: &Key| matches!(key.name.as_str(), "command" | "url" | "serverUrl" | "httpUrl");
    fields.iter().any(|(key, node)| is_reached_by(key) && matches!(node.value, Value::String(_)))
}

/// Maps a key to the one of ours that is read in the same way.
fn own_key(key: &str) -> Option<&'static str> {
    RawServer::KEYS.iter().find(|own| own.hosts.contains(&key)).map(|own| own.name)
}

/// Lists the keys that are read from an entry, for suggestions.
fn known_keys() -> impl Iterator<Item = &'static str> {
    let own = RawServer::KEYS.iter().filter_map(|key| key.hosts.first().copied());
    FOREIGN_KEYS.into_iter().chain(own)
}

/// Reports a key that was given before in another spelling.
fn report_second(key: &str, place: &Location, report: &mut Report<'_>) {
    let message = format!("gives `{key}` a second time");
    report.error(place, Finding::new(ProblemKind::DuplicateKey, message));
}

fn decode_command(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<String>> {
    if matches!(node.value, Value::Array(_)) {
        let finding = Finding::new(ProblemKind::WrongType, "must be a string, not a list")
            .hint("the program goes into `command` and the rest into `args`");
        read.report.error(&place, finding);
        return None;
    }
    read.string(node, place)
}

fn refuse_contradiction(raw: &RawServer, disabled: &LocatedValue<bool>, report: &mut Report<'_>) {
    let enabled = raw.enabled.as_ref().map(|enabled| enabled.value);
    if enabled == Some(disabled.value) {
        let finding = Finding::new(ProblemKind::Conflict, "contradicts `enabled`");
        report.error(&disabled.place, finding);
    }
}

/// Drops headers that the transport sets itself. People copy whole requests into these files, and
/// here that does no harm.
fn drop_reserved_headers(mut headers: LocatedValue<RawMap>, report: &mut Report<'_>) -> LocatedValue<RawMap> {
    headers.value.retain(|(name, value)| {
        let reserved = check::header_name(&name.value) == Err(InvalidValue::ReservedHeader);
        if reserved {
            let message = "not used: the transport sets this header itself";
            report.note(&value.place, Finding::new(ProblemKind::Ignored, message));
        }
        !reserved
    });
    headers
}

/// Notes a timeout that looks like seconds. Most hosts count milliseconds here and a few count
/// seconds; the number alone cannot say.
fn warn_small_timeout(node: &Node, place: &Location, report: &mut Report<'_>) {
    if let Value::Number(number) | Value::String(number) = &node.value
        && number.parse::<f64>().is_ok_and(|number| number < 1000.0)
    {
        let message = format!("read as {number} milliseconds");
        let hint = format!("write \"{number}s\" if it was meant in seconds");
        report.note(place, Finding::new(ProblemKind::Doubtful, message).hint(hint));
    }
}

const SERVER_TABLES: [&str; 2] = ["mcpServers", "servers"];

const EXAMPLE_HINT: &str = "for example {\"mcpServers\": {\"NAME\": {\"command\": \"…\"}}}";

/// Keys whose meaning differs from ours, or that only hosts have.
const FOREIGN_KEYS: [&str; 13] = [
    "command",
    "args",
    "env",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "headersHelper",
    "headers_command",
    "auth",
    "oauth",
    "scopes",
    "disabled",
];
