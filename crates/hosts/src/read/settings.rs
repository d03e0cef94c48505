//! Reads the keys of an entry that have nothing to do with how the server is reached: times, tools, and what
//! the server may ask for.

use bowline_config::tree::{Key, Node, Value};
use bowline_settings::EntryValue;

use super::fields::{boolean, get, has, texts};
use super::findings::Findings;
use super::server_entry::{ProgramEntry, ServerEntry, Target};
use super::times::{read_opencode_times, set_time};
use crate::host::Host;

/// Reads a key that has nothing to do with how the server is reached. Returns whether it is one.
pub(super) fn read_settings(
    key: &str,
    value: &Value,
    entry: &mut ServerEntry,
    host: Host,
    found: &mut Findings,
) -> bool {
    match key {
        "enabled" => entry.is_enabled &= boolean(value) != Some(false),
        "disabled" => entry.is_enabled &= boolean(value) != Some(true),
        "timeout" => {
            let counts_seconds = matches!(host, Host::Goose | Host::Hermes | Host::Zed | Host::Codex);
            let unit = if counts_seconds { 1000.0 } else { 1.0 };
            match value {
                Value::Table(times) if host == Host::Opencode => read_opencode_times(entry, times, found),
                _ => set_time(entry, "timeout", value, unit, found),
            }
        }
        "tool_timeout_sec" => set_time(entry, "timeout", value, 1000.0, found),
        "startup_timeout_sec" | "connect_timeout" => set_time(entry, "connect_timeout", value, 1000.0, found),
        "startup_timeout_ms" => set_time(entry, "connect_timeout", value, 1.0, found),
        "keepalive_interval" => set_time(entry, "keepalive_interval", value, 1000.0, found),
        "idle_timeout_seconds" => set_time(entry, "idle_stop", value, 1000.0, found),
        "lifecycle" => {
            if let Value::Table(fields) = value {
                for (key, node) in fields {
                    if !read_settings(&key.name, &node.value, entry, host, found) {
                        found.note(format!("`lifecycle.{}` is not used", key.name));
                    }
                }
            }
        }
        "enabled_tools" | "includeTools" | "available_tools" | "allowedTools" => {
            // An empty list of goose stands for all tools.
            entry.enabled_tools = texts(value).filter(|tools| !tools.is_empty() || host != Host::Goose);
        }
        "disabled_tools" | "excludeTools" | "disabledTools" | "blockedTools" => {
            entry.disabled_tools.extend(texts(value).unwrap_or_default());
        }
        "tools" => match value {
            Value::Table(fields) if host == Host::Hermes => {
                for (key, node) in fields {
                    let list = || texts(&node.value).filter(|tools| !tools.is_empty());
                    match key.name.as_str() {
                        "include" => entry.enabled_tools = list(),
                        "exclude" => entry.disabled_tools.extend(list().unwrap_or_default()),
                        "prompts" => turn_off(entry, "prompts", &node.value),
                        "resources" => turn_off(entry, "resources", &node.value),
                        other => found.note(format!("`tools.{other}` is not used")),
                    }
                }
            }
            Value::Array(_) => entry.enabled_tools = texts(value).filter(|tools| *tools != ["*"]),
            _ => found.note("settings of single tools are not used".to_owned()),
        },
        "sampling" => {
            if is_turned_off(key, value, found) {
                entry.flags.push(("sampling", EntryValue::Text("deny".to_owned())));
            }
        }
        "elicitation" => {
            if is_turned_off(key, value, found) {
                let host = host.name();
                found.note(format!("{host} does not let it ask you anything, and bowline does"));
            }
        }
        "remote" if host == Host::Zed => {
            if boolean(value) != Some(false) {
                found.note(
                    "Zed starts it on the machine of a remote project, and bowline on this one".to_owned(),
                );
            }
        }
        "sandboxEnabled" | "sandbox" => {
            if boolean(value) != Some(false) {
                found.note(format!("{} runs it in a sandbox, and bowline does not", host.name()));
            }
        }
        _ => return false,
    }
    true
}

/// Returns whether a table about one kind of request turns it off. Its other keys are not used.
fn is_turned_off(table: &str, value: &Value, found: &mut Findings) -> bool {
    let Value::Table(fields) = value else { return false };
    for (key, _) in fields.iter().filter(|(key, _)| key.name != "enabled") {
        found.note(format!("`{table}.{}` is not used", key.name));
    }
    get(fields, "enabled").and_then(boolean) == Some(false)
}

fn turn_off(entry: &mut ServerEntry, key: &'static str, value: &Value) {
    if boolean(value) == Some(false) {
        entry.flags.push((key, EntryValue::Flag(false)));
    }
}

/// The times that a file sets for all of its servers. What cannot be read is left out, as its host does.
pub(super) fn shared_times(host: Host, root: &[(Key, Node)]) -> Vec<(&'static str, String)> {
    let mut shared = ServerEntry::new(Target::Program(ProgramEntry::default()));
    let mut found = Findings::default();
    let mut read = |value| read_settings("timeout", value, &mut shared, host, &mut found);
    match host {
        Host::Opencode => {
            if let Some(Value::Table(mcp)) = get(root, "mcp")
                && let Some(times) = get(mcp, "timeout")
                // A server may have this name.
                && matches!(times, Value::Table(fields) if !has(fields, "type"))
            {
                read(times);
            }
        }
        Host::Zed => {
            if let Some(seconds) = get(root, "context_server_timeout") {
                read(seconds);
            }
        }
        _ => {}
    }
    shared.times
}

impl ServerEntry {
    /// Adds the times that the file sets for all servers and this entry does not.
    pub(super) fn add_times(&mut self, shared: &[(&'static str, String)]) {
        for (key, time) in shared {
            if !self.times.iter().any(|(known, _)| known == key) {
                self.times.push((key, time.clone()));
            }
        }
    }
}
