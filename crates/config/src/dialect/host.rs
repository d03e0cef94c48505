//! Owns the dialect of hosts, JSON: `{"mcpServers": {…}}`, or `{"servers": {…}}`. A file that works
//! in a host is read as it is: keys that only concern that host become notes.

use super::fields::{Fields, Style};
use super::host_auth::HostAuth;
use super::{DecodedServer, ServerEntry};
use crate::check::{self, InvalidValue};
use crate::problem::ProblemKind;
use crate::raw::{RawMap, RawServer, RawTransport};
use crate::report::{Finding, Located, Location, Report};
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
    let mut found = false;
    let mut entries: Vec<ServerEntry> = Vec::new();
    let mut others = Vec::new();
    for (key, node) in read.unique(fields, &top) {
        if !SERVER_TABLES.contains(&key.name.as_str()) {
            others.push(key.name);
            continue;
        }
        found = true;
        for entry in read.entries(node, &top.join(&key.name, key.offset)) {
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
        let meant = others.iter().find(|name| suggest::closest(name, SERVER_TABLES).is_some());
        let hint = match meant {
            Some(name) => format!("`{name}` looks like it; write `mcpServers`"),
            None => EXAMPLE_HINT.to_owned(),
        };
        let finding = Finding::new(ProblemKind::MissingKey, "has no `mcpServers`").hint(hint);
        read.report.error(&Location::new(root.offset, ""), finding);
    }
    entries
}

pub(super) fn decode(fields: Vec<(Key, Node)>, entry: &Location, report: &mut Report<'_>) -> DecodedServer {
    let style = Style::Lenient;
    let mut read = Fields { report, style };
    let mut raw = RawServer::default();
    let mut transport_garbled = false;
    let mut by_key = None;
    let mut disabled = None;
    let mut host_auth = HostAuth::default();
    for (key, node) in read.unique(fields, entry) {
        if matches!(node.value, Value::Null) {
            continue;
        }
        let place = entry.join(&key.name, node.offset);
        match key.name.as_str() {
            "command" => {
                raw.command = decode_command(&mut read, node, place);
                transport_garbled |= raw.command.is_none();
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
                by_key = (key.name == "httpUrl").then(|| Located::new(RawTransport::Http, place.clone()));
                raw.url = read.string(node, place);
                transport_garbled |= raw.url.is_none();
            }
            // Settings dialogs write empty lists for what does not apply.
            "args" => raw.args = read.strings(node, place).filter(|it| !it.value.is_empty()),
            "env" => raw.env = read.map(node, place).filter(|it| !it.value.is_empty()),
            "headers" | "http_headers" => {
                let headers = read
                    .map(node, place)
                    .map(|headers| drop_reserved_headers(headers, read.report))
                    .filter(|it| !it.value.is_empty());
                set_once(&mut raw.headers, headers, "headers", read.report);
            }
            "cwd" => raw.cwd = read.string(node, place),
            "allow_http" => raw.allow_http = read.boolean(&node, place),
            "timeout" => {
                warn_small_timeout(&node, &place, read.report);
                raw.timeout = read.duration(&node, place);
            }
            "keepalive_interval" | "keepAliveInterval" => {
                let interval = read.interval(&node, place);
                set_once(&mut raw.keepalive_interval, interval, "keepalive_interval", read.report);
            }
            "reconnect_wait" | "reconnectWait" => {
                let wait = read.interval(&node, place);
                set_once(&mut raw.reconnect_wait, wait, "reconnect_wait", read.report);
            }
            "enabled" => raw.enabled = read.boolean(&node, place),
            "disabled" => disabled = read.boolean(&node, place),
            "type" => raw.kind = decode_transport(&mut read, node, place),
            "transport" | "transportType" => {
                let transport = decode_transport(&mut read, node, place);
                set_once(&mut raw.transport, transport, "transport", read.report);
            }
            "hooks" => {
                let finding = Finding::new(ProblemKind::Ignored, "not used")
                    .hint("hooks are written in the TOML form, as `[[servers.NAME.hooks]]`");
                read.report.note(&place, finding);
            }
            other => {
                let Some(place) = host_auth.take(&mut read, other, node, place) else {
                    continue;
                };
                let finding = Finding::new(ProblemKind::Ignored, "not used");
                let finding = match suggest::closest(other, SERVER_KEYS) {
                    Some(meant) => finding.hint(format!("did you mean `{meant}`?")),
                    None => finding,
                };
                read.report.note(&place, finding);
            }
        }
    }
    if let Some(disabled) = disabled {
        refuse_contradiction(&raw, &disabled, read.report);
        raw.enabled = Some(Located::new(!disabled.value, disabled.place));
    }
    if raw.kind.is_none() && raw.transport.is_none() {
        raw.kind = by_key;
    }
    let (auth, headers_command, more) = host_auth.finish();
    (raw.auth, raw.headers_command) = (auth, headers_command);
    if let Some((_, first)) = more.first() {
        let place = first.place.clone();
        raw.headers.get_or_insert_with(|| Located::new(RawMap::new(), place)).value.extend(more);
    }
    DecodedServer { raw, transport_garbled }
}

/// Sets a field that a key and its other spelling may set only once.
fn set_once<T>(slot: &mut Option<Located<T>>, value: Option<Located<T>>, key: &str, report: &mut Report<'_>) {
    let Some(value) = value else { return };
    if slot.is_some() {
        let message = format!("gives `{key}` a second time");
        report.error(&value.place, Finding::new(ProblemKind::DuplicateKey, message));
        return;
    }
    *slot = Some(value);
}

fn decode_transport(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<Located<RawTransport>> {
    let Located { value, place } = read.string(node, place)?;
    let squeezed: String =
        value.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let finding = match squeezed.as_str() {
        "stdio" | "local" => return Some(Located::new(RawTransport::Stdio, place)),
        "http" | "streamablehttp" => return Some(Located::new(RawTransport::Http, place)),
        "sse" => return Some(Located::new(RawTransport::Sse, place)),
        "remote" => return Some(Located::new(RawTransport::Remote, place)),
        "ws" | "websocket" => {
            Finding::new(ProblemKind::Unsupported, "WebSocket is not a transport of the protocol")
        }
        _ => Finding::new(ProblemKind::InvalidValue, "must be \"stdio\", \"http\" or \"sse\""),
    };
    read.report.error(&place, finding);
    None
}

fn decode_command(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<Located<String>> {
    if matches!(node.value, Value::Array(_)) {
        let finding = Finding::new(ProblemKind::WrongType, "must be a string, not a list")
            .hint("the program goes into `command` and the rest into `args`");
        read.report.error(&place, finding);
        return None;
    }
    read.string(node, place)
}

fn refuse_contradiction(raw: &RawServer, disabled: &Located<bool>, report: &mut Report<'_>) {
    let enabled = raw.enabled.as_ref().map(|enabled| enabled.value);
    if enabled == Some(disabled.value) {
        let finding = Finding::new(ProblemKind::Conflict, "contradicts `enabled`");
        report.error(&disabled.place, finding);
    }
}

/// Drops headers that the transport sets itself. People copy whole requests into these files, and
/// here that does no harm.
fn drop_reserved_headers(mut headers: Located<RawMap>, report: &mut Report<'_>) -> Located<RawMap> {
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

/// Every key that is read from an entry, for suggestions.
const SERVER_KEYS: [&str; 20] = [
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "headersHelper",
    "headers_command",
    "allow_http",
    "auth",
    "oauth",
    "scopes",
    "timeout",
    "keepalive_interval",
    "reconnect_wait",
    "enabled",
    "disabled",
    "type",
];
