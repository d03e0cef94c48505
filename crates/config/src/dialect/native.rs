//! Owns our own dialect, TOML: `[servers.NAME]`, `[[hooks]]`, and the tables for all servers.
//! Nothing is guessed; an unknown key is an error.

use super::fields::{Fields, Style};
use super::tables::UnreadTable;
use super::{DecodedServer, Document, auth, hooks, program, tables};
use crate::problem::ProblemKind;
use crate::raw::{RawServer, RawTransport};
use crate::report::{Finding, Located, Location, Report};
use crate::server::Protocol;
use crate::suggest;
use crate::tree::{Key, Node, Value};

pub(super) fn read_document(root: Node, report: &mut Report<'_>) -> Document {
    let Value::Table(fields) = root.value else {
        unreachable!("a TOML document is a table");
    };
    let mut document = Document::default();
    for (key, node) in fields {
        if key.name == "servers" {
            let place = Location::new(key.offset, "servers");
            let style = Style::Strict;
            document.servers = Fields { report, style }.entries(node, &place);
            continue;
        }
        if key.name == "hooks" {
            document.hooks = hooks::split_hooks(node, &Location::new(key.offset, "hooks"), report);
            continue;
        }
        let table = match key.name.as_str() {
            "sampling" => Some(&mut document.tables.sampling),
            "elicitation" => Some(&mut document.tables.elicitation),
            "roots" => Some(&mut document.tables.roots),
            "auth" => Some(&mut document.tables.auth),
            "store" => Some(&mut document.tables.store),
            _ => None,
        };
        if let Some(table) = table {
            *table = Some(UnreadTable { place: Location::new(key.offset, key.name), node });
            continue;
        }
        let finding = Finding::new(ProblemKind::UnknownKey, "unknown key");
        let finding = match suggest_table(&key.name) {
            Some(meant) => finding.hint(format!("did you mean `{meant}`?")),
            None => finding.hint("servers are written as `[servers.NAME]`"),
        };
        report.error(&Location::root().join(&key.name, key.offset), finding);
    }
    document
}

/// Guesses which table an unknown top-level key stands for.
pub(crate) fn suggest_table(key: &str) -> Option<&'static str> {
    match key {
        "mcp_servers" | "mcpServers" | "mcp" | "context_servers" => Some("servers"),
        _ => suggest::closest(key, TABLES),
    }
}

pub(super) fn decode(fields: Vec<(Key, Node)>, entry: &Location, report: &mut Report<'_>) -> DecodedServer {
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
            "transport" => raw.transport = decode_transport(&mut read, node, place),
            "type" => raw.kind = decode_transport(&mut read, node, place),
            "headers" => raw.headers = read.map(node, place),
            "headers_command" => {
                raw.headers_command = program::decode_headers_command(&mut read, node, place);
            }
            "auth" => raw.auth = auth::decode_auth(&mut read, node, place),
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
            "protocol" => raw.protocol = decode_protocol(&mut read, node, place),
            "sampling" => raw.sampling = tables::decode_policy(&mut read, node, place),
            "roots" => raw.roots = read.strings(node, place),
            "hooks" => {
                let place = entry.join(&key.name, key.offset);
                let found = hooks::split_hooks(node, &place, read.report);
                raw.hooks = found.into_iter().map(|hook| hooks::decode_hook(hook, read.report)).collect();
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
                    suggest_for_foreign_key(unknown).map(str::to_owned)
                };
                read.report.error(&entry.join(unknown, key.offset), finding);
            }
        }
    }
    DecodedServer { raw, transport_garbled }
}

fn decode_transport(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<Located<RawTransport>> {
    let Located { value, place } = read.string(node, place)?;
    let known = RawTransport::ALL.into_iter().find(|(name, _)| *name == value);
    if let Some((_, reach)) = known {
        return Some(Located::new(reach, place));
    }
    let message = "must be \"stdio\", \"http\" or \"sse\"";
    let mut finding = Finding::new(ProblemKind::InvalidValue, message);
    finding.hint = suggest::closest(&value, RawTransport::ALL.map(|(name, _)| name))
        .map(|meant| format!("did you mean \"{meant}\"?"));
    read.report.error(&place, finding);
    None
}

fn decode_protocol(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<Located<Protocol>> {
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

fn dotted_name(entry: &Location, inner: &str) -> String {
    let outer = entry.key.trim_start_matches("servers.");
    format!("a name with a dot in it is quoted: `[servers.\"{outer}.{inner}\"]`")
}

/// Every top-level table.
const TABLES: [&str; 7] = ["servers", "hooks", "sampling", "elicitation", "roots", "auth", "store"];

/// Returns what to write in place of keys that other programs have.
fn suggest_for_foreign_key(key: &str) -> Option<&'static str> {
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
