//! [`HostDocument`]: the text of a host's configuration file, in which the entry of one server is
//! added or removed while every other byte stays as it is.
//!
//! An entry is added by inserting one piece of text, and removed by deleting pieces. Each format has a
//! file that says where. Whatever that comes to, both texts are parsed afterwards, and a change that is
//! more or less than the entry is refused.

mod json;
mod toml;
mod yaml;

use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::entry::{HostEntry, Layout, ServerCommand};
use crate::host::{FileFormat, Host};

/// The text of a host's configuration file, and the servers that it names.
#[derive(Clone, Debug)]
pub struct HostDocument {
    host: Host,
    text: String,
    /// What the text means.
    root: Value,
    layout: Layout,
}

/// A document with one more entry.
#[derive(Clone, Debug)]
pub struct Insertion {
    /// The document with the entry.
    pub document: HostDocument,
    /// The text that was inserted, in one piece.
    pub inserted: String,
}

/// Why a file of a host cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The file is not valid. The text says why and in which line, and does not quote the file.
    #[error("{0}")]
    Syntax(String),
    /// The file is valid, but written in a way that is not changed safely. The text says which.
    #[error("{0}")]
    Unsupported(String),
}

/// How an entry to insert is given.
#[derive(Clone, Copy, Debug)]
enum NewEntry<'a> {
    /// By its keys.
    Fields(&'a HostEntry),
    /// By the text that it had in such a file, with its name.
    Verbatim(&'a str),
}

/// A piece of text to insert.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TextInsertion {
    /// Byte offset in the old text.
    at: usize,
    text: String,
}

impl HostDocument {
    /// Parses the text of a file. A file that does not exist has the empty text.
    pub fn parse(host: Host, text: &str) -> Result<Self, EditError> {
        let root = match host.file_format() {
            FileFormat::Json => json::parse(text)?,
            FileFormat::Toml => toml::parse(text)?,
            FileFormat::Yaml => yaml::parse(text)?,
        };
        if !root.is_object() {
            return Err(not_an_object(&[]));
        }
        let layout = match root.get("mcp").and_then(|mcp| mcp.get("servers")) {
            // A server could be named `servers` as well; it has a `type`.
            Some(Value::Object(servers)) if host == Host::Opencode && !servers.contains_key("type") => {
                Layout::OpencodeServers
            }
            _ => Layout::Usual,
        };
        Ok(Self { host, text: text.to_owned(), root, layout })
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The entry with this name.
    pub fn entry(&self, name: &str) -> Option<&Value> {
        self.entries().find(|(other, _)| *other == name).map(|(_, entry)| entry)
    }

    /// The entries of servers, by name.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Value)> {
        let mut container = Some(&self.root);
        for key in self.container_path() {
            container = container.and_then(|value| value.get(key));
        }
        container.and_then(Value::as_object).into_iter().flatten().map(|(name, entry)| (name.as_str(), entry))
    }

    /// Whether there is no setting in the file, or only an empty list of servers.
    pub fn is_empty(&self) -> bool {
        self.without_empty_container().as_object().is_some_and(Map::is_empty)
    }

    /// Whether the entry with this name is what [`HostDocument::insert`] would write.
    pub fn has_command(&self, name: &str, command: &ServerCommand) -> bool {
        self.entry(name) == Some(&self.build_entry(name, command).to_value())
    }

    /// Adds an entry before the others. There must be none with its name.
    pub fn insert(&self, name: &str, command: &ServerCommand) -> Result<Insertion, EditError> {
        let entry = self.build_entry(name, command);
        self.insert_new(name, NewEntry::Fields(&entry), entry.to_value())
    }

    /// Adds the entry that another version of this document has under this name, in the same words.
    pub fn insert_from(&self, other: &Self, name: &str) -> Result<Insertion, EditError> {
        let entry = other.entry(name).ok_or_else(|| no_entry(name))?;
        let range = other.entry_range(name)?;
        self.insert_new(name, NewEntry::Verbatim(&other.text[range]), entry.clone())
    }

    fn insert_new(&self, name: &str, new: NewEntry<'_>, entry: Value) -> Result<Insertion, EditError> {
        let path = self.container_path();
        self.check_container()?;
        let TextInsertion { at, text: inserted } = match self.host.file_format() {
            FileFormat::Json => json::insert(&self.text, path, name, new)?,
            FileFormat::Toml => toml::insert(&self.text, path, name, new),
            FileFormat::Yaml => yaml::insert(&self.text, path, name, new),
        };
        let (before, after) = self.text.split_at_checked(at).ok_or_else(cannot_be_verified)?;
        let document = self.reparse(format!("{before}{inserted}{after}"))?;
        let mut expected = self.root.clone();
        let added = add_to_container(&mut expected, path, name, entry);
        if self.entry(name).is_none() && added && document.root == expected && document.layout == self.layout
        {
            return Ok(Insertion { document, inserted });
        }
        Err(cannot_be_verified())
    }

    /// Removes the entry with this name, which must exist.
    pub fn remove(&self, name: &str) -> Result<Self, EditError> {
        let path = self.container_path();
        let text = match self.host.file_format() {
            FileFormat::Json => json::remove(&self.text, path, name)?,
            FileFormat::Toml => toml::remove(&self.text, path, name)?,
            FileFormat::Yaml => yaml::remove(&self.text, path, name)?,
        };
        self.check_removal(name, text)
    }

    /// Removes the entry with this name by deleting the text that was inserted for it, if that is still
    /// there as it was.
    pub fn remove_inserted(&self, name: &str, inserted: &str) -> Option<Self> {
        let mut places = self.text.match_indices(inserted);
        let (at, _) = places.next()?;
        if inserted.is_empty() || places.next().is_some() {
            return None;
        }
        let text = format!("{}{}", &self.text[..at], &self.text[at + inserted.len()..]);
        self.check_removal(name, text).ok()
    }

    /// Whether the text is blank, or JSON without comments and trailing commas, which every parser reads.
    pub fn is_strict_json(&self) -> bool {
        let body = self.text.trim_start_matches('\u{feff}').trim();
        let is_json = self.host.file_format() == FileFormat::Json;
        is_json && (body.is_empty() || serde_json::from_str::<IgnoredAny>(body).is_ok())
    }

    /// The text that a person would have to add by hand for an entry.
    pub fn describe_entry(&self, name: &str, command: &ServerCommand) -> String {
        let (entry, path) = (self.build_entry(name, command), self.container_path());
        match self.host.file_format() {
            FileFormat::Json => json::render_document(path, name, &entry),
            FileFormat::Toml => toml::render_table(path, name, &entry, "\n"),
            FileFormat::Yaml => yaml::render_document(path, name, &entry),
        }
    }

    /// The keys that lead to the servers, joined with dots.
    pub fn container_name(&self) -> String {
        self.container_path().join(".")
    }

    fn build_entry(&self, name: &str, command: &ServerCommand) -> HostEntry {
        HostEntry::new(self.host, self.layout, name, command)
    }

    /// The place of an entry in the text: of the member in JSON, of the lines in TOML and YAML.
    fn entry_range(&self, name: &str) -> Result<Range<usize>, EditError> {
        let path = self.container_path();
        match self.host.file_format() {
            FileFormat::Json => json::entry_range(&self.text, path, name),
            FileFormat::Toml => toml::entry_range(&self.text, path, name),
            FileFormat::Yaml => yaml::entry_range(&self.text, path, name),
        }
    }

    fn container_path(&self) -> &'static [&'static str] {
        match (self.host, self.layout) {
            (Host::Opencode, Layout::OpencodeServers) => &["mcp", "servers"],
            (Host::Opencode, Layout::Usual) => &["mcp"],
            (Host::Codex | Host::Hermes, _) => &["mcp_servers"],
            (Host::VsCode, _) => &["servers"],
            (Host::Goose, _) => &["extensions"],
            (Host::Zed, _) => &["context_servers"],
            (
                Host::ClaudeCode
                | Host::ClaudeDesktop
                | Host::Cursor
                | Host::GeminiCli
                | Host::QwenCode
                | Host::Windsurf
                | Host::CopilotCli
                | Host::Mcporter,
                _,
            ) => &["mcpServers"],
        }
    }

    /// Fails if the list of servers, or what has to have it, is there and something else than an object.
    fn check_container(&self) -> Result<(), EditError> {
        let path = self.container_path();
        let mut value = &self.root;
        for (depth, key) in path.iter().enumerate() {
            match value.get(*key) {
                None | Some(Value::Null) => break,
                Some(below) if below.is_object() => value = below,
                Some(_) => return Err(not_an_object(&path[..=depth])),
            }
        }
        Ok(())
    }

    /// Parses a changed text. If it is not valid, the change was not safe.
    fn reparse(&self, text: String) -> Result<Self, EditError> {
        Self::parse(self.host, &text).map_err(|_| cannot_be_verified())
    }

    /// Accepts a text if it is this document without one entry, and has nothing else changed.
    fn check_removal(&self, name: &str, text: String) -> Result<Self, EditError> {
        let mut expected = self.clone();
        if !remove_from_container(&mut expected.root, self.container_path(), name) {
            return Err(no_entry(name));
        }
        let changed = self.reparse(text)?;
        if changed.without_empty_container() == expected.without_empty_container() {
            return Ok(changed);
        }
        Err(cannot_be_verified())
    }

    /// The meaning of the text, where a list of servers that is empty or null counts as none.
    fn without_empty_container(&self) -> Value {
        let mut root = self.root.clone();
        let path = self.container_path();
        for depth in (0..path.len()).rev() {
            let mut parent = Some(&mut root);
            for key in &path[..depth] {
                parent = parent.and_then(|value| value.get_mut(*key));
            }
            let Some(parent) = parent.and_then(Value::as_object_mut) else { continue };
            let is_empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
            if parent.get(path[depth]).is_some_and(is_empty) {
                parent.remove(path[depth]);
            }
        }
        root
    }
}

fn no_entry(name: &str) -> EditError {
    EditError::Unsupported(format!("there is no entry `{name}` in it"))
}

/// Says which value is not an object. An empty path is that of the outermost value.
fn not_an_object(path: &[&str]) -> EditError {
    EditError::Unsupported(match path {
        [] => "its outermost value is not an object".to_owned(),
        path => format!("the value of `{}` is not an object", path.join(".")),
    })
}

fn cannot_be_verified() -> EditError {
    EditError::Unsupported("it is written in a way in which one entry cannot be changed alone".to_owned())
}

/// Adds an entry to the value at `path`, which is made where there is none.
fn add_to_container(root: &mut Value, path: &[&str], name: &str, entry: Value) -> bool {
    let mut container = root;
    for key in path {
        if container.is_null() {
            *container = Value::Object(Map::new());
        }
        let Some(members) = container.as_object_mut() else { return false };
        container = members.entry(*key).or_insert(Value::Null);
    }
    if container.is_null() {
        *container = Value::Object(Map::new());
    }
    container.as_object_mut().is_some_and(|members| members.insert(name.to_owned(), entry).is_none())
}

fn remove_from_container(root: &mut Value, path: &[&str], name: &str) -> bool {
    let mut container = Some(root);
    for key in path {
        container = container.and_then(|value| value.get_mut(*key));
    }
    let members = container.and_then(Value::as_object_mut);
    members.is_some_and(|members| members.remove(name).is_some())
}

/// The line end that the text uses.
fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// What has to come before text that is appended to a file, so that it begins on a line of its own with
/// a blank line above it.
fn separator_at_end(text: &str, end: &str) -> String {
    let content = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    match content {
        "" => String::new(),
        _ if content.ends_with('\n') => end.to_owned(),
        _ => end.repeat(2),
    }
}

/// Describes where a text is not valid, without quoting it.
fn syntax_error(format: &str, text: &str, offset: Option<usize>, why: &str) -> EditError {
    let line = offset.and_then(|offset| text.get(..offset)).map(|before| before.matches('\n').count() + 1);
    let place = line.map(|line| format!(" in line {line}")).unwrap_or_default();
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    EditError::Syntax(format!("it is not valid {format}{place}{why}"))
}

/// What some editors write at the beginning of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';
