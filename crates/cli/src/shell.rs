//! Answers the completion requests of shells. It has to be fast and safe: untrusted servers are not
//! started, slow ones are not waited for, and nothing is offered that a shell would act on.

pub(crate) mod command_line;
mod cursor;
mod files;
pub(crate) mod names;
mod values;

use clap::CommandFactory as _;
use clap_complete::Shell;
use serde_json::Value;

use self::cursor::{ArgumentOwner, CursorContext, WordKind};
use self::names::{NameKind, NameRecord, NameStore};
pub(crate) use self::values::PromptValueQuery;
use crate::args::{Cli, ShellArgs};
use crate::settings::Settings;

/// A candidate for the word at the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) value: String,
    /// Short description, for shells that show one.
    pub(crate) about: String,
}

impl Candidate {
    /// Creates a candidate without a description.
    pub(crate) fn new(value: String) -> Self {
        Self { value, about: String::new() }
    }
}

/// Returns the script for a shell that calls back for completion, if there is one.
pub(crate) fn script(shell: Shell) -> Option<&'static str> {
    match shell {
        Shell::Bash => Some(include_str!("shell/bowline.bash")),
        Shell::Zsh => Some(include_str!("shell/bowline.zsh")),
        Shell::Fish => Some(include_str!("shell/bowline.fish")),
        _ => None,
    }
}

/// Where completion finds what there is.
pub(crate) trait NameSource {
    /// Returns the servers.
    fn servers(&self) -> Vec<Candidate>;

    /// Returns what a server offers of one kind.
    async fn names(&self, server: &str, kind: NameKind) -> Vec<NameRecord>;

    /// Returns the values that a server suggests for an argument of a prompt.
    async fn prompt_values(&self, server: &str, query: PromptValueQuery<'_>) -> Vec<String>;
}

/// What remains of earlier commands, for a shell that must not wait.
struct StoredNames<'a>(&'a Settings);

impl NameSource for StoredNames<'_> {
    fn servers(&self) -> Vec<Candidate> {
        names::server_candidates(self.0)
    }

    async fn names(&self, server: &str, kind: NameKind) -> Vec<NameRecord> {
        let known = NameStore::open(self.0, server).map(|names| names.read()).unwrap_or_default();
        known.into_records(kind)
    }

    async fn prompt_values(&self, server: &str, query: PromptValueQuery<'_>) -> Vec<String> {
        values::suggest_values(self.0, server, query).await
    }
}

/// Returns the candidates for the word at the cursor, one per line, with a description after a tab.
pub(crate) async fn complete(args: ShellArgs, settings: &Settings) -> String {
    let ShellArgs { line, breaks, words } = args;
    let words = match &line {
        Some(line) => command_line::split_words(line).words.split_off(1),
        None => words,
    };
    let Some((typed, before)) = words.split_last() else { return String::new() };
    let found = candidates(before, typed, &StoredNames(settings)).await;
    // Bash replaces only what follows the last of these characters. An `@` it replaces as well: to bash, that begins the
    // name of a machine.
    let is_break = |breaks: &str, c: char| breaks.contains(c) && c != '"' && c != '\'';
    let last = breaks.as_ref().and_then(|breaks| typed.char_indices().rfind(|(_, c)| is_break(breaks, *c)));
    let cut = last.map_or(0, |(at, c)| if c == '@' { at } else { at + c.len_utf8() });
    let offered = found.iter().filter(|one| is_shell_safe(&one.value));
    let lines = offered.take(MAX_CANDIDATES).map(|one| {
        let value = &one.value[cut..];
        // Bash inserts the whole line, so no description is added.
        if line.is_some() || one.about.is_empty() {
            return format!("{value}\n");
        }
        format!("{value}\t{}\n", short_description(&one.about))
    });
    lines.collect()
}

/// Returns the candidates for a word of a command line, after the words before it.
pub(crate) async fn candidates(before: &[String], typed: &str, source: &impl NameSource) -> Vec<Candidate> {
    let mut found = match cursor::locate_cursor(&Cli::command(), before, typed) {
        CursorContext::Fixed(found) => found,
        CursorContext::Word(word) => {
            let mut found = complete_word(&word, typed, source).await;
            // Servers choose these words. One that begins with `-` would be an option, other than a name after `--`.
            let is_name = matches!(word, WordKind::Tool { .. } | WordKind::Prompt { .. });
            let is_hyphen_name = is_name && before.iter().any(|word| word == "--");
            found.retain(|one| one.value.starts_with('-') == is_hyphen_name);
            found
        }
        CursorContext::Unknown => Vec::new(),
    };
    found.retain(|one| one.value.starts_with(typed));
    found
}

/// Completes a word that depends on the configuration or on a server.
async fn complete_word(word: &WordKind<'_>, typed: &str, source: &impl NameSource) -> Vec<Candidate> {
    let (server, kind) = match word {
        WordKind::Server => return source.servers(),
        WordKind::Tool { server } => (server, NameKind::Tools),
        WordKind::Prompt { server } => (server, NameKind::Prompts),
        WordKind::Resource { server } => (server, NameKind::Resources),
        WordKind::Template { server } => (server, NameKind::Templates),
        WordKind::ArgumentName { server, of: ArgumentOwner::Tool, name, given } => {
            if let Some(paths) = files::complete_path(typed) {
                return paths;
            }
            let entry = find_record(source, server, NameKind::Tools, name).await;
            return complete_argument(entry, typed, given);
        }
        WordKind::ArgumentName { server, of: ArgumentOwner::Prompt, name, given } => {
            if let Some((argument, value)) = typed.split_once('=') {
                let query = PromptValueQuery { prompt: name, argument, value, given };
                let values = source.prompt_values(server, query).await;
                return values
                    .into_iter()
                    .map(|value| Candidate::new(format!("{argument}={value}")))
                    .collect();
            }
            let entry = find_record(source, server, NameKind::Prompts, name).await;
            return complete_argument(entry, typed, given);
        }
        WordKind::Argument { server, name } => {
            let entry = find_record(source, server, NameKind::Prompts, name).await.unwrap_or_default();
            return entry.arguments.into_iter().map(Candidate::new).collect();
        }
    };
    let records = source.names(server, kind).await;
    records.into_iter().map(|entry| Candidate { value: entry.name, about: entry.about }).collect()
}

async fn find_record(
    source: &impl NameSource,
    server: &str,
    kind: NameKind,
    name: &str,
) -> Option<NameRecord> {
    source.names(server, kind).await.into_iter().find(|entry| entry.name == name)
}

/// Completes the name of an argument, or its value if it takes one of a few.
fn complete_argument(entry: Option<NameRecord>, typed: &str, given: &[(&str, &str)]) -> Vec<Candidate> {
    let Some(entry) = entry else { return Vec::new() };
    if let Some((before, _)) = typed.split_once('=') {
        let argument = before.strip_suffix(':').unwrap_or(before);
        let values = entry.choices.get(argument).into_iter().flatten();
        // After `:=` comes JSON, so a text would need quotes.
        let fits = |value: &&String| argument == before || serde_json::from_str::<Value>(value).is_ok();
        return values.filter(fits).map(|value| Candidate::new(format!("{before}={value}"))).collect();
    }
    let is_free = |argument: &String| !given.iter().any(|(key, _)| key.trim_end_matches(':') == argument);
    let free = entry.arguments.into_iter().filter(is_free);
    free.map(|argument| Candidate::new(format!("{argument}="))).collect()
}

/// How many candidates are offered.
const MAX_CANDIDATES: usize = 200;

/// Returns whether a shell may insert the word unquoted: it must be one word without special
/// characters.
fn is_shell_safe(value: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "-_.:/@+=%,".contains(c);
    !value.is_empty() && value.chars().count() <= 200 && value.chars().all(plain)
}

/// Returns the beginning of a description, on one line.
fn short_description(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().filter(|c| !crate::print::escape::is_active(*c)).take(70).collect();
    short.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_acts_on_is_not_offered() {
        for good in ["search_files", "file:///a/b.txt", "--timeout", "city=", "city=Paris", "größe"] {
            assert!(is_shell_safe(good), "{good}");
        }
        for bad in [
            "",
            "$(reboot)",
            "a b",
            "a;b",
            "`x`",
            "a'b",
            "a\"b",
            "a\\b",
            "a\nb",
            "*",
            "~",
            "a|b",
            "a&b",
            "!x",
            "{a,b}",
            "#x",
            "a>b",
            "\u{1b}[2J",
            "\u{202e}x",
        ] {
            assert!(!is_shell_safe(bad), "{bad:?}");
        }
    }
}
