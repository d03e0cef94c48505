//! Owns our own dialect, TOML: `[servers.NAME]`, `[[hooks]]`, and the tables for all servers.
//! Nothing is guessed; an unknown key is an error.

use super::asks::Table;
use super::fields::{Fields, Style};
use super::{Decoded, Document, asks, auth, hooks, program};
use crate::problem::ProblemKind;
use crate::raw::{RawServer, Reach};
use crate::report::{Finding, Located, Place, Report};
use crate::server::Protocol;
use crate::suggest;
use crate::tree::{Key, Node, Value};

pub(super) fn document(root: Node, report: &mut Report<'_>) -> Document {
    let Value::Table(fields) = root.value else {
        unreachable!("a TOML document is a table");
    };
    let mut document = Document::default();
    for (key, node) in fields {
        if key.name == "servers" {
            let place = Place::new(key.offset, "servers");
            let style = Style::Strict;
            document.entries = Fields { report, style }.entries(node, &place);
            continue;
        }
        if key.name == "hooks" {
            document.hooks = hooks::entries(node, &Place::new(key.offset, "hooks"), report);
            continue;
        }
        let table = match key.name.as_str() {
            "sampling" => Some(&mut document.asks.sampling),
            "elicitation" => Some(&mut document.asks.elicitation),
            "roots" => Some(&mut document.asks.roots),
            "auth" => Some(&mut document.asks.auth),
            "store" => Some(&mut document.asks.store),
            _ => None,
        };
        if let Some(table) = table {
            *table = Some(Table { place: Place::new(key.offset, key.name), node });
            continue;
        }
        let finding = Finding::new(ProblemKind::UnknownKey, "unknown key");
        let finding = match table_meant(&key.name) {
            Some(meant) => finding.hint(format!("did you mean `{meant}`?")),
            None => finding.hint("servers are written as `[servers.NAME]`"),
        };
        report.error(&Place::root().join(&key.name, key.offset), finding);
    }
    document
}

/// Guesses which table an unknown top-level key stands for.
pub(crate) fn table_meant(key: &str) -> Option<&'static str> {
    match key {
        "mcp_servers" | "mcpServers" | "mcp" | "context_servers" => Some("servers"),
        _ => suggest::closest(key, TABLES),
    }
}

pub(super) fn decode(fields: Vec<(Key, Node)>, entry: &Place, report: &mut Report<'_>) -> Decoded {
    let mut raw = RawServer::default();
    let mut transport_garbled = false;
    let style = Style::Strict;
    let mut read = Fields { report, style };
    for (key, node) in fields {
        let place = entry.join(&key.name, node.offset);
        match key.name.as_str() {
            "command" => {
                raw.command = read.string(node, place);
                transport_garbled |= raw.command.is_none();
            }
            "args" => raw.args = read.strings(node, place),
            "env" => raw.env = read.map(node, place),
            "cwd" => raw.cwd = read.string(node, place),
            "url" => {
                raw.url = read.string(node, place);
                transport_garbled |= raw.url.is_none();
            }
            "transport" => raw.transport = reach(&mut read, node, place),
            "type" => raw.kind = reach(&mut read, node, place),
            "headers" => raw.headers = read.map(node, place),
            "headers_command" => raw.headers_command = program::headers_command(&mut read, node, place),
            "auth" => raw.auth = auth::auth(&mut read, node, place),
            "allow_http" => raw.allow_http = read.boolean(&node, place),
            "ca_file" => raw.ca_file = read.string(node, place),
            "client_cert" => raw.client_cert = read.string(node, place),
            "client_key" => raw.client_key = read.string(node, place),
            "timeout" => raw.timeout = read.duration(&node, place),
            "max_timeout" => raw.max_timeout = read.duration(&node, place),
            "connect_timeout" => raw.connect_timeout = read.duration(&node, place),
            "probe_timeout" => raw.probe_timeout = read.duration(&node, place),
            "keepalive_interval" => raw.keepalive_interval = read.interval(&node, place),
            "reconnect_wait" => raw.reconnect_wait = read.interval(&node, place),
            "enabled" => raw.enabled = read.boolean(&node, place),
            "protocol" => raw.protocol = protocol(&mut read, node, place),
            "sampling" => raw.sampling = asks::policy(&mut read, node, place),
            "roots" => raw.roots = read.strings(node, place),
            "hooks" => {
                let place = entry.join(&key.name, key.offset);
                let found = hooks::entries(node, &place, read.report);
                raw.hooks = found.into_iter().map(|hook| hooks::decode(hook, read.report)).collect();
            }
            unknown => {
                let meant = suggest::closest(unknown, RawServer::KEYS);
                let nested = holds_server(&node.value);
                transport_garbled |= nested || matches!(meant, Some("command" | "url"));
                let mut finding = Finding::new(ProblemKind::UnknownKey, "unknown key");
                finding.hint = if nested {
                    Some(dotted_name(entry, unknown))
                } else if let Some(meant) = meant {
                    Some(format!("did you mean `{meant}`?"))
                } else {
                    foreign(unknown).map(str::to_owned)
                };
                read.report.error(&entry.join(unknown, key.offset), finding);
            }
        }
    }
    Decoded { raw, transport_garbled }
}

fn reach(read: &mut Fields<'_, '_>, node: Node, place: Place) -> Option<Located<Reach>> {
    let Located { value, place } = read.string(node, place)?;
    let known = Reach::ALL.into_iter().find(|(name, _)| *name == value);
    if let Some((_, reach)) = known {
        return Some(Located::new(reach, place));
    }
    let message = "must be \"stdio\", \"http\" or \"sse\"";
    let mut finding = Finding::new(ProblemKind::InvalidValue, message);
    finding.hint = suggest::closest(&value, Reach::ALL.map(|(name, _)| name))
        .map(|meant| format!("did you mean \"{meant}\"?"));
    read.report.error(&place, finding);
    None
}

fn protocol(read: &mut Fields<'_, '_>, node: Node, place: Place) -> Option<Located<Protocol>> {
    let Located { value, place } = read.string(node, place)?;
    let protocol = match value.as_str() {
        "auto" => Protocol::Auto,
        "legacy" => Protocol::Legacy,
        "modern" => Protocol::Modern,
        other => {
            let message = "must be \"auto\", \"legacy\" or \"modern\"";
            let mut finding = Finding::new(ProblemKind::InvalidValue, message);
            finding.hint = suggest::closest(other, ["auto", "legacy", "modern"])
                .map(|meant| format!("did you mean \"{meant}\"?"));
            read.report.error(&place, finding);
            return None;
        }
    };
    Some(Located::new(protocol, place))
}

/// Whether a table inside an entry is a server: `[servers.git.hub]` is a table `hub` inside the
/// server `git`.
fn holds_server(value: &Value) -> bool {
    let Value::Table(inner) = value else {
        return false;
    };
    inner.iter().any(|(key, _)| matches!(key.name.as_str(), "command" | "url"))
}

fn dotted_name(entry: &Place, inner: &str) -> String {
    let outer = entry.key.trim_start_matches("servers.");
    format!("a name with a dot in it is quoted: `[servers.\"{outer}.{inner}\"]`")
}

/// Every top-level table.
const TABLES: [&str; 7] = ["servers", "hooks", "sampling", "elicitation", "roots", "auth", "store"];

/// Returns what to write in place of keys that other programs have.
fn foreign(key: &str) -> Option<&'static str> {
    Some(match key {
        "disabled" => "write `enabled = false`",
        "environment" | "envs" | "env_vars" => "did you mean `env`?",
        "serverUrl" | "httpUrl" | "uri" | "endpoint" => "did you mean `url`?",
        "http_headers" => "did you mean `headers`?",
        "cmd" => "did you mean `command`?",
        "tool_timeout_sec" | "timeout_ms" => "did you mean `timeout`?",
        "startup_timeout_sec" | "startup_timeout_ms" => "did you mean `connect_timeout`?",
        "bearer_token" | "bearer_token_env_var" => "write `headers = { Authorization = \"Bearer ${VAR}\" }`",
        "keepalive" | "keep_alive" | "ping_interval" => "did you mean `keepalive_interval`?",
        "ssl_verify" => "name the authority to trust in `ca_file`",
        "headersHelper" | "http_headers_helper" => "did you mean `headers_command`?",
        "env_http_headers" => "write `headers = { NAME = \"${VAR}\" }`",
        "scopes" => "write `auth = { scope = [\"…\"] }`",
        "oauth_resource" => "write `auth = { resource = \"…\" }`",
        "client_id" | "client_secret" => "it goes into `[servers.NAME.auth]`",
        _ => return None,
    })
}
