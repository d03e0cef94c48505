//! The file with the lines that were entered at the prompt: private, bounded, and without secrets as far as
//! they can be told.

use std::fs;
use std::path::PathBuf;

use bowline_hosts::has_secret;
use bowline_settings::private_folder;
use bowline_store::private::replace_file;
use serde_json::Value;

use crate::settings::Settings;
use crate::shell::command_line::split_words;

/// The file, which all prompts of the user share.
pub(super) struct HistoryFile {
    path: PathBuf,
}

/// Most lines that are kept, and the longest of them.
const MAX_LINES: usize = 1000;
const MAX_LINE_BYTES: usize = 4096;
/// Larger files are not ours.
const MAX_FILE_BYTES: u64 = (MAX_LINES as u64 + 1) * (MAX_LINE_BYTES as u64 + 1);

impl HistoryFile {
    /// Opens the file, if there is a folder of the user's alone for it.
    pub(super) fn open(settings: &Settings) -> Option<Self> {
        Some(Self { path: settings.state()?.join("repl").join("history") })
    }

    /// Reads the lines, the oldest first. Any problem yields none.
    pub(super) fn read(&self) -> Vec<String> {
        let is_ours =
            fs::symlink_metadata(&self.path).is_ok_and(|file| file.is_file() && file.len() <= MAX_FILE_BYTES);
        let text = is_ours.then(|| fs::read_to_string(&self.path).ok()).flatten().unwrap_or_default();
        text.lines().map(ToOwned::to_owned).collect()
    }

    /// Appends a line. The file is read again first, since another prompt may have written to it. Failure is
    /// only logged, since a prompt works without.
    pub(super) fn append(&self, line: &str) {
        let mut lines = self.read();
        if lines.last().is_some_and(|last| last == line) {
            return;
        }
        lines.push(line.to_owned());
        let kept = &lines[lines.len().saturating_sub(MAX_LINES)..];
        let text: String = kept.iter().flat_map(|line| [line, "\n"]).collect();
        let folder = self.path.parent().map_or(Ok(()), private_folder::create_folder);
        if let Err(error) = folder.and_then(|()| replace_file(&self.path, text.as_bytes())) {
            tracing::debug!(%error, "the line could not be remembered");
        }
    }
}

/// Returns whether a line may be written to the file: it does not begin with a space, and no argument in it is
/// called or looks like a secret.
pub(super) fn is_storable(line: &str) -> bool {
    if line.starts_with(char::is_whitespace) || line.len() > MAX_LINE_BYTES {
        return false;
    }
    let words: Vec<String> = split_words(line).words.iter().map(|word| word.replacen(":=", "=", 1)).collect();
    let is_secret_object = |word: &String| {
        let value = word.split_once('=').map_or(word.as_str(), |(_, value)| value);
        serde_json::from_str::<Value>(value).is_ok_and(|value| has_secret_member(&value))
    };
    // A value is also looked at by itself: `text='Bearer …'`.
    let is_secret_value =
        |word: &String| word.split_once('=').is_some_and(|(_, value)| has_secret(&[value.to_owned()]));
    !has_secret(&words) && !words.iter().any(|word| is_secret_value(word) || is_secret_object(word))
}

fn has_secret_member(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| match value {
            Value::String(text) => has_secret(&[format!("{name}={text}")]),
            other => has_secret_member(other),
        }),
        Value::Array(elements) => elements.iter().any(has_secret_member),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_secrets_are_not_written() {
        for line in [
            "tools",
            "call search query=knots",
            "add a=1 b:=2",
            r#"call x --args '{"query": "key lime pie"}'"#,
        ] {
            assert!(is_storable(line), "{line}");
        }
        for line in [
            " call search query=knots",
            "login password=hunter2hunter2",
            "set api_key=abc123def456",
            r#"set token:='"abc123def456"'"#,
            r#"call x --args '{"auth": {"password": "hunter2hunter2"}}'"#,
            "fetch url=https://user:hunter2hunter2@example.com/",
            "say header='Bearer abcdefghijklmnop1234'",
        ] {
            assert!(!is_storable(line), "{line}");
        }
        assert!(!is_storable(&"x".repeat(MAX_LINE_BYTES + 1)));
    }

    #[test]
    fn the_file_is_private_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let file = HistoryFile { path: folder.path().join("repl").join("history") };
        assert!(file.read().is_empty());
        for n in 0..MAX_LINES + 5 {
            file.append(&format!("line {n}"));
        }
        file.append(&format!("line {}", MAX_LINES + 4));
        let lines = file.read();
        assert_eq!((lines.len(), &*lines[0]), (MAX_LINES, "line 5"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&folder.path().join("repl")), mode(&file.path)), (0o700, 0o600));
        }
    }
}
