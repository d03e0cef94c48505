//! [`ConfigEditor`]: changes the servers in a configuration file, and keeps everything else as it was
//! written.

mod references;
mod values;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

use self::values::to_value;
use crate::environment::{MAX_FILE_MEBIBYTES, describe_io_error, read_text_file};
use crate::error::SettingsError;
use crate::user_file::{ReplaceError, replace_user_file};

/// A configuration file in TOML that is being changed. Comments, blank lines and the order of what is
/// not changed stay as they are.
#[derive(Debug)]
pub struct ConfigEditor {
    path: PathBuf,
    /// The content as it was read; `None` if there was no file.
    before: Option<String>,
    document: DocumentMut,
}

/// The value of a key of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryValue {
    /// A string.
    Text(String),
    /// A list of strings.
    List(Vec<String>),
    /// A table of strings.
    Table(Vec<(String, String)>),
    /// A boolean.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A table of keys that have a meaning of their own, such as `auth`.
    Keys(Vec<(&'static str, EntryValue)>),
}

impl ConfigEditor {
    /// Reads a file, which need not exist.
    pub fn open(path: &Path) -> Result<Self, SettingsError> {
        let before = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            _ => {
                let read = read_text_file(path, MAX_FILE_MEBIBYTES);
                Some(read.map_err(|error| SettingsError::unreadable_file(path, &error))?)
            }
        };
        if before.as_deref().is_some_and(|text| text.trim_start().starts_with('{')) {
            return Err(SettingsError {
                hint: Some("edit it by hand, or use a TOML file".to_owned()),
                ..SettingsError::new(format!("{} is JSON, which only its host changes", path.display()))
            });
        }
        let document = before.as_deref().unwrap_or_default().parse::<DocumentMut>();
        let document = document.map_err(|_| SettingsError {
            hint: Some("`bowline config check` says where".to_owned()),
            ..SettingsError::new(format!("{} is not valid TOML", path.display()))
        })?;
        Ok(Self { path: path.to_owned(), before, document })
    }

    /// Creates a file that has no content yet, and is not looked for.
    pub fn empty(path: &Path) -> Self {
        Self { path: path.to_owned(), before: None, document: DocumentMut::new() }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file has an entry for this server.
    pub fn has_server(&self, name: &str) -> bool {
        self.servers().is_some_and(|servers| servers.contains_key(name))
    }

    /// Returns the files that `{file:path}` names in any string, as they are written.
    pub fn file_references(&self) -> BTreeSet<String> {
        references::find_files(self.document.as_table())
    }

    /// Adds a server after the others, or replaces it in its place. In a file of comments alone it comes after them.
    pub fn set_server(&mut self, name: &str, entry: &[(&str, EntryValue)]) {
        let comments = self.take_only_comments();
        let servers = self.document.entry("servers").or_insert_with(|| {
            let mut servers = Table::new();
            servers.set_implicit(true);
            Item::Table(servers)
        });
        if let Some(inline) = servers.as_inline_table_mut() {
            let entry: InlineTable = entry.iter().map(|(key, value)| (*key, to_value(value))).collect();
            inline.insert(name, Value::InlineTable(entry));
            return;
        }
        let Some(servers) = servers.as_table_mut() else { return };
        let mut table = Table::new();
        for (key, value) in entry {
            table.insert(key, Item::Value(to_value(value)));
        }
        if let Some(before) = servers.get_mut(name).and_then(Item::as_table_mut) {
            // It stays where it is, with the comment above it.
            *table.decor_mut() = before.decor().clone();
            table.set_position(before.position());
            *before = table;
        } else {
            let is_blank = self.before.as_deref().is_none_or(|text| text.trim().is_empty());
            let is_first = is_blank && servers.is_empty();
            let separator = if is_first { "" } else { "\n" };
            table.decor_mut().set_prefix(comments.unwrap_or_else(|| separator.to_owned()));
            servers.insert(name, Item::Table(table));
        }
    }

    /// Removes a server with the comment right above it, unless that is the head of the file. Returns whether there
    /// was one.
    pub fn remove_server(&mut self, name: &str) -> bool {
        let head = self.head_position();
        let Some(servers) = self.servers_mut() else { return false };
        let Some(removed) = servers.remove(name) else { return false };
        let is_empty = servers.is_empty();
        self.keep_comments(&removed, head);
        if is_empty && let Some(servers) = self.document.remove("servers") {
            self.keep_comments(&servers, head);
        }
        true
    }

    /// Enables or disables a server. Returns whether it has an entry.
    pub fn set_enabled(&mut self, name: &str, is_enabled: bool) -> bool {
        let Some(entry) = self.servers_mut().and_then(|servers| servers.get_mut(name)) else { return false };
        let Some(entry) = entry.as_table_like_mut() else { return false };
        match entry.get_mut("enabled").and_then(Item::as_value_mut) {
            Some(value) => {
                // A comment behind it stays.
                let decor = value.decor().clone();
                *value = Value::from(is_enabled);
                *value.decor_mut() = decor;
            }
            None if is_enabled => {}
            None => {
                entry.insert("enabled", Item::Value(Value::from(false)));
            }
        }
        true
    }

    /// The changed text. It begins as before, and so end the lines that were not changed. New lines end like the
    /// others if those all end alike, or else with a line feed.
    pub fn text(&self) -> String {
        let text = self.document.to_string();
        let text = text.trim_start_matches(BYTE_ORDER_MARK);
        // The document has neither: its parser drops a byte order mark, and knows one end of lines.
        let before = self.before.as_deref().unwrap_or_default();
        let own = before.trim_start_matches(BYTE_ORDER_MARK);
        let mark = if before.starts_with(BYTE_ORDER_MARK) { "\u{feff}" } else { "" };
        let (ends, long_ends) = (own.matches('\n').count(), own.matches("\r\n").count());
        let text = match long_ends {
            0 => text.to_owned(),
            _ if long_ends == ends => text.replace("\r\n", "\n").replace('\n', "\r\n"),
            _ => with_own_lines(own, text),
        };
        format!("{mark}{text}")
    }

    /// Writes the changed file in one step, and keeps its permissions. A file that is new is readable
    /// by its owner only.
    pub fn save(&self) -> Result<(), SettingsError> {
        let failed =
            |why: &str| SettingsError::new(format!("{} cannot be written: {why}", self.path.display()));
        let before = self.before.as_deref().map(str::as_bytes);
        replace_user_file(&self.path, before, Some(self.text().as_bytes())).map_err(|error| match error {
            ReplaceError::Changed => SettingsError {
                hint: Some("try again".to_owned()),
                ..SettingsError::new(format!("{} was changed by somebody else", self.path.display()))
            },
            ReplaceError::ReadOnly => failed("it is read-only"),
            ReplaceError::Io(error) => failed(&describe_io_error(&error)),
        })
    }

    fn servers(&self) -> Option<&dyn TableLike> {
        self.document.get("servers")?.as_table_like()
    }

    fn servers_mut(&mut self) -> Option<&mut dyn TableLike> {
        self.document.get_mut("servers")?.as_table_like_mut()
    }

    /// Takes the comments of a file that has nothing else, with a blank line after them.
    fn take_only_comments(&mut self) -> Option<String> {
        let comments = without_carriage_returns(self.document.trailing().as_str());
        if !self.document.as_table().is_empty() || !comments.contains('#') {
            return None;
        }
        self.document.set_trailing("");
        Some(format!("{}\n\n", comments.trim_end()))
    }

    /// The position of the table that the file begins with; `None` if it begins with a key.
    fn head_position(&mut self) -> Option<isize> {
        if !self.document.as_table().get_values().is_empty() {
            return None;
        }
        let mut positions = Vec::new();
        for_each_table(self.document.as_table_mut(), &mut |table| positions.extend(table.position()));
        positions.into_iter().min()
    }

    /// Keeps the comments above a table that was removed, apart from its own. What is above the table at `head` is
    /// about the file.
    fn keep_comments(&mut self, removed: &Item, head: Option<isize>) {
        let Some(table) = removed.as_table() else { return };
        let prefix = prefix_of(table);
        let is_head = head.is_some() && table.position() == head;
        let kept = match without_own_comment(&prefix) {
            "" if is_head => prefix.as_str(),
            kept => kept,
        };
        if kept.contains('#') {
            self.move_comment(last_position(table), kept);
        }
    }

    /// Moves a comment to the table after a position, or to the end of the file.
    fn move_comment(&mut self, position: Option<isize>, comment: &str) {
        let mut next = None;
        for_each_table(self.document.as_table_mut(), &mut |table| {
            if table.position() > position && next.is_none_or(|next| table.position() < next) {
                next = Some(table.position());
            }
        });
        let Some(next) = next else {
            let trailing = without_carriage_returns(self.document.trailing().as_str());
            let rest = trailing.trim_start_matches('\n');
            let gap = if rest.is_empty() { "" } else { gap_after(comment) };
            self.document.set_trailing(format!("{comment}{gap}{rest}"));
            return;
        };
        for_each_table(self.document.as_table_mut(), &mut |table| {
            if table.position() == next {
                let own = prefix_of(table);
                let joined = format!("{comment}{}{}", gap_after(comment), own.trim_start_matches('\n'));
                table.decor_mut().set_prefix(joined);
            }
        });
    }
}

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Replaces the lines of a changed document that come before and after the change by those of the file that it was read
/// from, which may end in another way.
fn with_own_lines(own: &str, changed: &str) -> String {
    let Ok(document) = own.parse::<DocumentMut>() else { return changed.to_owned() };
    let unchanged = document.to_string();
    let [own, before, after] =
        [own, &*unchanged, changed].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    if own.len() != before.len() {
        return changed.to_owned();
    }
    let is_same = |(one, other): &(&&str, &&str)| one == other;
    let first = before.iter().zip(&after).take_while(is_same).count();
    let last = before[first..].iter().rev().zip(after[first..].iter().rev()).take_while(is_same).count();
    let (own_end, end) = (own.len() - last, after.len() - last);
    [&own[..first], &after[first..end], &own[own_end..]].concat().concat()
}

/// Visits the tables below one that have a header.
fn for_each_table(table: &mut Table, visit: &mut dyn FnMut(&mut Table)) {
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(below) => {
                if !below.is_implicit() && !below.is_dotted() {
                    visit(below);
                }
                for_each_table(below, visit);
            }
            Item::ArrayOfTables(all) => {
                for below in all.iter_mut() {
                    visit(below);
                    for_each_table(below, visit);
                }
            }
            Item::None | Item::Value(_) => {}
        }
    }
}

/// The position of the last table at or below this one.
fn last_position(table: &Table) -> Option<isize> {
    let mut copy = table.clone();
    let mut last = table.position();
    for_each_table(&mut copy, &mut |below| last = last.max(below.position()));
    last
}

/// What comes before the header of a table: whole lines of comments, and blank lines.
fn prefix_of(table: &Table) -> String {
    let prefix = table.decor().prefix().and_then(|prefix| prefix.as_str());
    without_carriage_returns(prefix).trim_end_matches([' ', '\t']).to_owned()
}

/// The document keeps them in comments and blank lines, and does not write them.
fn without_carriage_returns(text: Option<&str>) -> String {
    text.unwrap_or_default().replace('\r', "")
}

/// What has to follow a comment so that it does not become one with the next.
fn gap_after(comment: &str) -> &'static str {
    if comment.ends_with("\n\n") { "" } else { "\n" }
}

/// What comes before a header, without the comment that is right above it.
fn without_own_comment(prefix: &str) -> &str {
    prefix.rfind("\n\n").map_or("", |at| &prefix[..at + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# My servers.

# Searches.
[servers.search]
url = \"https://example.com/mcp\" # the test one
enabled = true # for now

[servers.search.headers]
A = \"b\"

# Files.
[servers.files]
command = 'files'   # odd   spacing

[[hooks]]
on = [\"failed\"]
command = \"notify\"
";

    fn editor(text: &str) -> (tempfile::TempDir, ConfigEditor) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        fs::write(&path, text).unwrap();
        let editor = ConfigEditor::open(&path).unwrap();
        (folder, editor)
    }

    fn entry() -> [(&'static str, EntryValue); 3] {
        [
            ("command", EntryValue::Text("npx".into())),
            ("args", EntryValue::List(vec!["-y".into(), "a \"b\"".into()])),
            ("env", EntryValue::Table(vec![("KEY".into(), "${KEY}".into())])),
        ]
    }

    #[test]
    fn values_have_their_types() {
        let mut editor = ConfigEditor::empty(Path::new("/nowhere/config.toml"));
        let scope = EntryValue::List(vec!["a".into()]);
        let auth = EntryValue::Keys(vec![("redirect_port", EntryValue::Number(8976)), ("scope", scope)]);
        editor.set_server("a b", &[("enabled", EntryValue::Flag(false)), ("auth", auth)]);
        let expected =
            "[servers.\"a b\"]\nenabled = false\nauth = { redirect_port = 8976, scope = [\"a\"] }\n";
        assert_eq!(editor.text(), expected);
    }

    #[test]
    fn a_server_is_added_after_the_others() {
        let (_folder, mut editor) = editor(FILE);
        editor.set_server("new", &entry());
        let added =
            "[servers.new]\ncommand = \"npx\"\nargs = [\"-y\", 'a \"b\"']\nenv = { KEY = \"${KEY}\" }\n";
        assert_eq!(editor.text(), FILE.replace("\n[[hooks]]", &format!("\n{added}\n[[hooks]]")));
        let (_folder, mut empty) = self::editor("");
        empty.set_server("new", &entry());
        assert_eq!(empty.text(), added);
        empty.set_server("next", &[("url", EntryValue::Text("u".into()))]);
        assert_eq!(empty.text(), format!("{added}\n[servers.next]\nurl = \"u\"\n"));
    }

    #[test]
    fn a_server_is_replaced_in_its_place() {
        let (_folder, mut editor) = editor(FILE);
        editor.set_server("search", &[("url", EntryValue::Text("https://other/".into()))]);
        let expected = FILE.replace(
            "url = \"https://example.com/mcp\" # the test one\nenabled = true # for now\n\n[servers.search.headers]\nA = \"b\"\n",
            "url = \"https://other/\"\n",
        );
        assert_eq!(editor.text(), expected);
    }

    #[test]
    fn a_server_is_removed_with_its_own_comment() {
        let (_folder, mut editor) = editor(FILE);
        assert!(editor.remove_server("search") && !editor.remove_server("search"));
        let rest = "# My servers.\n\n# Files.\n[servers.files]\ncommand = 'files'   # odd   spacing\n\n[[hooks]]\non = [\"failed\"]\ncommand = \"notify\"\n";
        assert_eq!(editor.text(), rest);
        assert!(editor.remove_server("files"));
        assert_eq!(editor.text(), "# My servers.\n\n[[hooks]]\non = [\"failed\"]\ncommand = \"notify\"\n");
        let (_folder, mut only) = self::editor("# Mine.\n\n[servers.a]\nurl = \"u\"\n# The end.\n");
        assert!(only.remove_server("a"));
        assert_eq!(only.text(), "# Mine.\n\n# The end.\n");
    }

    #[test]
    fn the_head_of_a_file_outlives_its_first_server() {
        let [a, b] = ["[servers.a]\nurl = \"u\"\n", "[servers.b]\nurl = \"v\"\n"];
        for (text, rest) in [
            (format!("# Head.\n# More.\n{a}\n# Two.\n{b}"), format!("# Head.\n# More.\n\n# Two.\n{b}")),
            (format!("# Head.\n{a}{b}"), format!("# Head.\n\n{b}")),
            (format!("# Head.\n{a}"), "# Head.\n".to_owned()),
            (format!("# Head.\n{a}\n# The end.\n"), "# Head.\n\n# The end.\n".to_owned()),
            (format!("# Head.\n[servers]\n\n# One.\n{a}"), "# Head.\n".to_owned()),
            (format!("# Head.\n\n# One.\n{a}\n{b}"), format!("# Head.\n\n{b}")),
            (format!("# Key.\nkey = 1\n# One.\n{a}\n{b}"), format!("# Key.\nkey = 1\n\n{b}")),
            (format!("# Head.\n{b}\n# One.\n{a}"), format!("# Head.\n{b}")),
        ] {
            for end in ["\n", "\r\n"] {
                let (_folder, mut editor) = editor(&text.replace('\n', end));
                assert!(editor.remove_server("a"));
                assert_eq!(editor.text(), rest.replace('\n', end), "{text:?}");
            }
        }
    }

    #[test]
    fn a_server_is_added_below_the_comments_of_a_file_that_has_nothing_else() {
        for (text, head) in [("# Mine.\n", "# Mine.\n\n"), ("\n# Mine.\n\n# Two.", "\n# Mine.\n\n# Two.\n\n")]
        {
            let (_folder, mut editor) = editor(text);
            editor.set_server("a", &[("url", EntryValue::Text("u".into()))]);
            editor.set_server("b", &[("url", EntryValue::Text("v".into()))]);
            let expected = format!("{head}[servers.a]\nurl = \"u\"\n\n[servers.b]\nurl = \"v\"\n");
            assert_eq!(editor.text(), expected);
        }
    }

    #[test]
    fn files_in_strings_are_found() {
        let text = "# {file:comment}\n[servers.a]\nargs = [\"x={file:secrets/a} {file: b }\", '${file:c}']\n\
                    env = { A = \"$${ {file:d}\" }\n[[hooks]]\ncommand = '{file:e}'\n";
        let (_folder, editor) = editor(text);
        assert_eq!(editor.file_references().into_iter().collect::<Vec<_>>(), ["b", "d", "e", "secrets/a"]);
    }

    #[test]
    fn a_server_is_disabled_and_enabled() {
        let (_folder, mut editor) = editor(FILE);
        assert!(editor.set_enabled("search", false) && editor.set_enabled("files", false));
        let disabled = FILE.replace("enabled = true #", "enabled = false #").replace(
            "command = 'files'   # odd   spacing\n",
            "command = 'files'   # odd   spacing\nenabled = false\n",
        );
        assert_eq!(editor.text(), disabled);
        assert!(editor.set_enabled("search", true) && !editor.set_enabled("nobody", true));
        assert!(editor.text().contains("enabled = true # for now"));
    }

    #[test]
    fn other_ways_to_write_a_server() {
        for text in [
            "servers = { a = { url = \"u\" } }\n",
            "servers.a.url = \"u\"\n",
            "[servers]\na = { url = \"u\" }\n",
            "[servers]\na.url = \"u\"\n",
        ] {
            let (_folder, mut editor) = editor(text);
            assert!(editor.has_server("a"), "{text}");
            editor.set_server("b", &[("url", EntryValue::Text("v".into()))]);
            assert!(editor.set_enabled("a", false), "{text}");
            let changed: DocumentMut = editor.text().parse().unwrap();
            assert_eq!(changed["servers"]["a"]["enabled"].as_bool(), Some(false), "{}", editor.text());
            assert_eq!(changed["servers"]["b"]["url"].as_str(), Some("v"), "{}", editor.text());
            assert!(editor.remove_server("a") && editor.remove_server("b"), "{text}");
            let changed: DocumentMut = editor.text().parse().unwrap();
            assert!(changed.get("servers").is_none(), "{}", editor.text());
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_saved_keeps_its_place_and_permissions() {
        use std::os::unix::fs::PermissionsExt as _;
        let (folder, mut editor) = editor(FILE);
        let path = editor.path().to_owned();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let link = folder.path().join("link.toml");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut linked = ConfigEditor::open(&link).unwrap();
        linked.set_server("new", &entry());
        linked.save().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), linked.text());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        // It was changed since it was read.
        assert!(editor.remove_server("files"));
        assert!(editor.save().unwrap_err().message.contains("changed by somebody else"));
        assert_eq!(fs::read_to_string(&path).unwrap(), linked.text());
        let new = folder.path().join("below").join("new.toml");
        let mut created = ConfigEditor::open(&new).unwrap();
        created.set_server("new", &entry());
        created.save().unwrap();
        assert_eq!(fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn files_that_cannot_be_changed() {
        for text in ["{\"mcpServers\": {}}", "[servers"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("config.toml");
            fs::write(&path, text).unwrap();
            assert!(ConfigEditor::open(&path).unwrap_err().hint.is_some(), "{text}");
        }
    }

    #[test]
    fn a_byte_order_mark_and_ends_of_lines_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let text = "\u{feff}# Mine\r\n[servers.a]\r\nurl = \"http://localhost/\" # here\r\n\r\n[servers.b]\r\ncommand = \"b\"\r\n";
        fs::write(&path, text).unwrap();
        let mut editor = ConfigEditor::open(&path).unwrap();
        assert_eq!(editor.text(), text);
        assert!(editor.set_enabled("b", false));
        editor.set_server("c", &[("command", EntryValue::Text("c".into()))]);
        editor.save().unwrap();
        let added = "enabled = false\r\n\r\n[servers.c]\r\ncommand = \"c\"\r\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{text}{added}"));
    }

    /// A file in which two programs have written.
    #[test]
    fn lines_of_a_file_with_mixed_ends_stay_as_they_are() {
        let first = "\u{feff}# Mine\r\n[servers.a]\r\ncommand = \"a\"\r\n";
        let strings = "args = [\"\"\"x\ny\r\n\"\"\", '''\nz''']\r\n";
        let last = "\n[servers.c]\r\ncommand = \"c\"\n# The end.\r\n";
        let text = format!("{first}{strings}{last}");
        let (_folder, mut disabled) = editor(&text);
        assert_eq!(disabled.text(), text);
        assert!(disabled.set_enabled("a", false));
        assert_eq!(disabled.text(), format!("{first}{strings}enabled = false\n{last}"));
        let (_folder, mut more) = editor(&text);
        more.set_server("d", &[("command", EntryValue::Text("d".into()))]);
        let added = "\n[servers.d]\ncommand = \"d\"\n";
        let end = "# The end.\r\n";
        assert_eq!(more.text(), text.replace(end, &format!("{added}{end}")));
        // The first line alone says nothing about the others.
        for text in ["a = 1\r\nb = \"\"\"x\ny\"\"\"\n", "a = 1\nb = \"\"\"x\r\ny\"\"\"\r\n"] {
            let (_folder, mut editor) = editor(text);
            editor.set_server("s", &[("url", EntryValue::Text("u".into()))]);
            assert_eq!(editor.text(), format!("{text}\n[servers.s]\nurl = \"u\"\n"));
        }
    }
}
