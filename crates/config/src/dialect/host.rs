//! Owns the form that hosts write, JSON: `{"mcpServers": {…}}`, or `{"servers": {…}}`. A file that
//! works in a host is read as it is: keys that only concern that host become notes.

use super::fields::{Fields, Style};
use super::{Decoded, Entry};
use crate::check::{self, Invalid};
use crate::problem::ProblemKind;
use crate::raw::{RawMap, RawServer};
use crate::report::{Finding, Located, Place, Report};
use crate::suggest;
use crate::tree::{Key, Node, Value};

pub(super) fn entries(root: Node, report: &mut Report<'_>) -> Vec<Entry> {
    let style = Style::Lenient;
    let mut read = Fields { report, style };
    let top = Place::root();
    let Value::Table(fields) = root.value else {
        let message = format!("must be an object, not {}", root.value.type_name());
        let finding = Finding::new(ProblemKind::WrongType, message).hint(EXAMPLE);
        read.report.error(&Place::new(root.offset, ""), finding);
        return Vec::new();
    };
    let mut found = false;
    let mut entries: Vec<Entry> = Vec::new();
    let mut others = Vec::new();
    for (key, node) in read.unique(fields, &top) {
        if !ROOTS.contains(&key.name.as_str()) {
            others.push(key.name);
            continue;
        }
        found = true;
        for entry in read.entries(node, &top.join(&key.name, key.offset)) {
            if entries.iter().any(|other| other.name == entry.name) {
                let message = "given in both `mcpServers` and `servers`";
                let finding = Finding::new(ProblemKind::DuplicateKey, message);
                read.report.enter(&entry.name);
                read.report.error(&entry.place, finding);
                read.report.leave();
            } else {
                entries.push(entry);
            }
        }
    }
    // The other keys of such a file are a host's settings: not ours to judge, unless one of them
    // was meant to be the table of servers.
    if !found {
        let meant = others.iter().find(|name| suggest::closest(name, ROOTS).is_some());
        let hint = match meant {
            Some(name) => format!("`{name}` looks like it; write `mcpServers`"),
            None => EXAMPLE.to_owned(),
        };
        let finding = Finding::new(ProblemKind::MissingKey, "has no `mcpServers`").hint(hint);
        read.report.error(&Place::new(root.offset, ""), finding);
    }
    entries
}

pub(super) fn decode(fields: Vec<(Key, Node)>, entry: &Place, report: &mut Report<'_>) -> Decoded {
    let style = Style::Lenient;
    let mut read = Fields { report, style };
    let mut raw = RawServer::default();
    let mut transport_garbled = false;
    let mut kind = None;
    let mut disabled = None;
    for (key, node) in read.unique(fields, entry) {
        if matches!(node.value, Value::Null) {
            continue;
        }
        let place = entry.join(&key.name, node.offset);
        match key.name.as_str() {
            "command" => {
                raw.command = command(&mut read, node, place);
                transport_garbled |= raw.command.is_none();
            }
            "url" | "serverUrl" | "httpUrl" => {
                if raw.url.is_some() {
                    let finding = Finding::new(ProblemKind::Conflict, "a second URL")
                        .hint("keep one of `url`, `serverUrl` and `httpUrl`");
                    read.report.error(&place, finding);
                    continue;
                }
                raw.url = read.string(node, place);
                transport_garbled |= raw.url.is_none();
            }
            // Settings dialogs write empty lists for what does not apply.
            "args" => raw.args = read.strings(node, place).filter(|it| !it.value.is_empty()),
            "env" => raw.env = read.map(node, place).filter(|it| !it.value.is_empty()),
            "headers" => {
                raw.headers = read
                    .map(node, place)
                    .map(|headers| without_reserved(headers, read.report))
                    .filter(|it| !it.value.is_empty());
            }
            "cwd" => raw.cwd = read.string(node, place),
            "timeout" => {
                doubt_small_timeout(&node, &place, read.report);
                raw.timeout = read.duration(&node, place);
            }
            "enabled" => raw.enabled = read.boolean(&node, place),
            "disabled" => disabled = read.boolean(&node, place),
            "type" | "transport" | "transportType" => kind = reach(&mut read, node, place),
            other => {
                let finding = Finding::new(ProblemKind::Ignored, "not used");
                let finding = match suggest::closest(other, KEYS) {
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
    if let Some(kind) = kind {
        check_reach(&kind, &raw, read.report);
    }
    Decoded { raw, transport_garbled }
}

/// How an entry says that it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Started,
    ByUrl,
}

fn reach(read: &mut Fields<'_, '_>, node: Node, place: Place) -> Option<Located<Reach>> {
    let Located { value, place } = read.string(node, place)?;
    let squeezed: String =
        value.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let finding = match squeezed.as_str() {
        "stdio" | "local" => return Some(Located::new(Reach::Started, place)),
        "http" | "streamablehttp" | "remote" => return Some(Located::new(Reach::ByUrl, place)),
        "sse" => Finding::new(
            ProblemKind::Unsupported,
            "the HTTP+SSE transport of 2024-11-05 is not supported yet",
        )
        .hint("if the server also has a Streamable HTTP endpoint, use its URL with \"http\""),
        "ws" | "websocket" => {
            Finding::new(ProblemKind::Unsupported, "WebSocket is not a transport of the protocol")
        }
        _ => Finding::new(ProblemKind::InvalidValue, "must be \"stdio\" or \"http\""),
    };
    read.report.error(&place, finding);
    None
}

fn check_reach(kind: &Located<Reach>, raw: &RawServer, report: &mut Report<'_>) {
    let message = match kind.value {
        Reach::Started if raw.url.is_some() && raw.command.is_none() => {
            "says that the server is started, but the entry has a URL and no `command`"
        }
        Reach::ByUrl if raw.command.is_some() && raw.url.is_none() => {
            "says that the server is reached by URL, but the entry has a `command` and no `url`"
        }
        _ => return,
    };
    report.error(&kind.place, Finding::new(ProblemKind::Conflict, message));
}

fn command(read: &mut Fields<'_, '_>, node: Node, place: Place) -> Option<Located<String>> {
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

/// People copy whole requests into these files. What the transport says anyway does no harm there.
fn without_reserved(mut headers: Located<RawMap>, report: &mut Report<'_>) -> Located<RawMap> {
    headers.value.retain(|(name, value)| {
        let reserved = check::header_name(&name.value) == Err(Invalid::ReservedHeader);
        if reserved {
            let message = "not used: the transport sets this header itself";
            report.note(&value.place, Finding::new(ProblemKind::Ignored, message));
        }
        !reserved
    });
    headers
}

/// Most hosts count milliseconds here and a few count seconds; the number alone cannot say.
fn doubt_small_timeout(node: &Node, place: &Place, report: &mut Report<'_>) {
    if let Value::Number(number) = &node.value
        && number.parse::<f64>().is_ok_and(|number| number < 1000.0)
    {
        let message = format!("read as {number} milliseconds");
        let hint = format!("write \"{number}s\" if it was meant in seconds");
        report.note(place, Finding::new(ProblemKind::Doubtful, message).hint(hint));
    }
}

const ROOTS: [&str; 2] = ["mcpServers", "servers"];

const EXAMPLE: &str = "for example {\"mcpServers\": {\"NAME\": {\"command\": \"…\"}}}";

/// What is used of an entry, for suggestions.
const KEYS: [&str; 12] = [
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "timeout",
    "enabled",
    "disabled",
    "type",
];
