//! Answers the completion requests of shells. It has to be fast and safe: untrusted servers are not
//! started, slow ones are not waited for, and nothing is offered that a shell would act on.

mod command_line;
mod cursor;
pub(crate) mod names;
mod values;

use clap::CommandFactory as _;
use clap_complete::Shell;

use self::cursor::{CursorContext, WordKind};
use self::names::{NameStore, ServerNames};
use crate::args::{Cli, ShellArgs};
use crate::settings::Settings;

/// A candidate for the word at the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) value: String,
    /// Short description, for shells that show one.
    pub(crate) about: String,
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

/// Returns the candidates for the word at the cursor, one per line, with a description after a tab.
pub(crate) async fn complete(args: ShellArgs, settings: &Settings) -> String {
    let ShellArgs { line, breaks, words } = args;
    let words = match &line {
        Some(line) => command_line::split_words(line).split_off(1),
        None => words,
    };
    let Some((typed, before)) = words.split_last() else { return String::new() };
    let found = match cursor::locate_cursor(&Cli::command(), before, typed) {
        CursorContext::Fixed(found) => found,
        CursorContext::Word(word) => complete_word(&word, typed, settings).await,
        CursorContext::Unknown => Vec::new(),
    };
    // Bash replaces only what follows the last of these characters.
    let is_break = |breaks: &str, c: char| breaks.contains(c) && c != '"' && c != '\'';
    let last = breaks.as_ref().and_then(|breaks| typed.char_indices().rfind(|(_, c)| is_break(breaks, *c)));
    let cut = last.map_or(0, |(at, c)| at + c.len_utf8());
    let offered = found.iter().filter(|one| one.value.starts_with(&**typed) && is_shell_safe(&one.value));
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

/// Completes a word that depends on the configuration or on a server.
async fn complete_word(word: &WordKind<'_>, typed: &str, settings: &Settings) -> Vec<Candidate> {
    let names = |pick: fn(&ServerNames) -> &[names::NameRecord], server: &str| -> Vec<Candidate> {
        let known = NameStore::open(settings, server).map(|names| names.read()).unwrap_or_default();
        pick(&known)
            .iter()
            .map(|entry| Candidate { value: entry.name.clone(), about: entry.about.clone() })
            .collect()
    };
    match word {
        WordKind::Server => names::server_candidates(settings),
        WordKind::Tool { server } => names(|known| &known.tools, server),
        WordKind::Prompt { server } => names(|known| &known.prompts, server),
        WordKind::Resource { server } => names(|known| &known.resources, server),
        WordKind::Template { server } => names(|known| &known.templates, server),
        WordKind::ArgumentName { server, of, name, given } => {
            let known = NameStore::open(settings, server).map(|names| names.read()).unwrap_or_default();
            let entries = match of {
                cursor::ArgumentOwner::Tool => &known.tools,
                cursor::ArgumentOwner::Prompt => &known.prompts,
            };
            let entry = entries.iter().find(|entry| entry.name == *name);
            if let (cursor::ArgumentOwner::Prompt, Some((argument, value))) = (of, typed.split_once('=')) {
                return values::suggest_values(settings, server, name, argument, value, given).await;
            }
            if let (Some(entry), Some((argument, _))) = (entry, typed.split_once('=')) {
                let values = entry.choices.get(argument).into_iter().flatten();
                let candidate =
                    |value| Candidate { value: format!("{argument}={value}"), about: String::new() };
                return values.map(candidate).collect();
            }
            let all = entry.into_iter().flat_map(|entry| &entry.arguments);
            let free = all.filter(|argument| !given.iter().any(|(key, _)| key == *argument));
            free.map(|argument| Candidate { value: format!("{argument}="), about: String::new() }).collect()
        }
        WordKind::Argument { server, name } => {
            let known = NameStore::open(settings, server).map(|names| names.read()).unwrap_or_default();
            let entry = known.prompts.iter().find(|entry| entry.name == *name);
            let all = entry.into_iter().flat_map(|entry| &entry.arguments);
            all.map(|argument| Candidate { value: argument.clone(), about: String::new() }).collect()
        }
    }
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
