//! Reads which servers the settings of Claude Code switch off: they are in other files than the servers.
//!
//! A server of `.mcp.json` that is named as approved (`enabledMcpjsonServers`, `enableAllProjectMcpServers`) is
//! switched off all the same if another setting rejects it, so that only the rejections are read. One that
//! was neither approved nor rejected is not switched off: an import asks about it as well.

use std::path::Path;

use bowline_config::Problem;
use bowline_config::tree::{Key, Node, Value};

use super::fields::{get, into_table, take, text, texts};
use super::parse;
use crate::host::FileFormat;

/// The servers that settings of Claude Code switch off, gathered from its files.
#[derive(Debug, Default)]
pub struct ClaudeSettings {
    /// Names of servers of `.mcp.json`.
    rejected: Vec<String>,
    /// Names of servers of any kind in the project.
    disabled: Vec<String>,
    denied: Vec<DeniedServer>,
}

/// One entry of `deniedMcpServers`.
#[derive(Debug)]
enum DeniedServer {
    Name(String),
    /// The program and its arguments.
    Command(Vec<String>),
    /// A pattern, in which `*` stands for any text.
    Url(String),
}

impl ClaudeSettings {
    /// Adds what `settings.json` or `settings.local.json` says.
    pub fn add_settings(&mut self, path: &Path, text: &str) -> Result<(), Box<Problem>> {
        let fields = into_table(parse(FileFormat::Json, path, text)?.value);
        self.rejected.extend(names(&fields, "disabledMcpjsonServers"));
        if let Some(Value::Array(items)) = get(&fields, "deniedMcpServers") {
            self.denied
                .extend(items.iter().take(MAX_DENIED).filter_map(|item| DeniedServer::read(&item.value)));
        }
        Ok(())
    }

    /// Adds what `~/.claude.json` says about a project.
    pub fn add_project_state(&mut self, project: &Path, path: &Path, text: &str) -> Result<(), Box<Problem>> {
        let mut fields = into_table(parse(FileFormat::Json, path, text)?.value);
        for (key, node) in take(&mut fields, "projects").map(into_table).unwrap_or_default() {
            if Path::new(&key.name) == project {
                self.add_state(&into_table(node.value));
            }
        }
        Ok(())
    }

    /// Adds what the state of a project says about its servers.
    pub(super) fn add_state(&mut self, fields: &[(Key, Node)]) {
        self.rejected.extend(names(fields, "disabledMcpjsonServers"));
        self.disabled.extend(names(fields, "disabledMcpServers"));
    }

    /// Returns the setting that switches a server off. `entry` is the server as it is in the file.
    pub(super) fn find_switch(&self, name: &str, entry: &Value, kind: ServerKind) -> Option<&'static str> {
        let has = |names: &[String]| names.iter().any(|known| known == name);
        if kind == ServerKind::McpJson && has(&self.rejected) {
            return Some("disabledMcpjsonServers");
        }
        if kind != ServerKind::User && has(&self.disabled) {
            return Some("disabledMcpServers");
        }
        self.denied.iter().any(|denied| denied.fits(name, entry)).then_some("deniedMcpServers")
    }
}

/// Where Claude Code has a server from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerKind {
    /// The user's servers, for all projects.
    User,
    /// The user's servers for one project.
    Local,
    /// `.mcp.json` of a project.
    McpJson,
}

impl DeniedServer {
    fn read(value: &Value) -> Option<Self> {
        let Value::Table(fields) = value else { return None };
        let field = |name| get(fields, name);
        if let Some(words) = field("serverCommand").and_then(texts) {
            return Some(Self::Command(words));
        }
        if let Some(pattern) = field("serverUrl").and_then(text) {
            return Some(Self::Url(pattern));
        }
        field("serverName").and_then(text).map(Self::Name)
    }

    fn fits(&self, name: &str, entry: &Value) -> bool {
        let Value::Table(fields) = entry else { return false };
        match self {
            Self::Name(denied) => denied == name,
            Self::Command(words) => {
                let mut own = get(fields, "command").and_then(texts).unwrap_or_default();
                own.extend(get(fields, "args").and_then(texts).unwrap_or_default());
                own == *words
            }
            Self::Url(pattern) => {
                get(fields, "url").and_then(text).is_some_and(|url| matches_pattern(pattern, &url))
            }
        }
    }
}

/// Most entries of `deniedMcpServers` that are read of one file.
const MAX_DENIED: usize = 1000;

fn names(fields: &[(Key, Node)], key: &str) -> Vec<String> {
    match get(fields, key) {
        Some(Value::Array(items)) => items.iter().filter_map(|item| text(&item.value)).collect(),
        _ => Vec::new(),
    }
}

/// Whether a text fits a pattern in which `*` stands for any text. Takes the first place where each part
/// fits, so that its time is bounded.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_in_a_pattern_stands_for_any_text() {
        for (pattern, text, fits) in [
            ("https://h/mcp", "https://h/mcp", true),
            ("https://h/mcp", "https://h/mcp/x", false),
            ("https://*.h/*", "https://a.h/mcp", true),
            ("https://*.h/*", "https://h/mcp", false),
            ("*", "", true),
            ("*mcp", "https://h/mcp", true),
            ("*mcp", "https://h/mcp/", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "ac", false),
            ("aa*aa", "aaa", false),
        ] {
            assert_eq!(matches_pattern(pattern, text), fits, "{pattern} {text}");
        }
    }
}
