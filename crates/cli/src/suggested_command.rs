//! Formats the commands that are suggested to the user: quoted for a shell, and with the options of
//! this command line that are needed to reach the same server.

use std::ffi::OsString;
use std::path::Path;
use std::sync::OnceLock;

use url::Url;

use crate::args::GlobalArgs;

/// The command line of this process, as far as suggested commands repeat it. It is set once before
/// anything runs, since failures are reported far from the arguments.
static COMMAND_LINE: OnceLock<CommandLine> = OnceLock::new();

struct CommandLine {
    /// Global options to repeat.
    repeated_options: Vec<String>,
    urls: Vec<Url>,
}

/// Records what a suggested command has to repeat. Variables need not be repeated: they stay set.
pub(crate) fn record_command_line(typed: &GlobalArgs, argv: &[OsString]) {
    let repeated = repeated_options(typed.config.as_deref(), typed.trust_project);
    let urls = argv.iter().filter_map(|word| word.to_str()).filter(|word| word.contains("://"));
    let _ = COMMAND_LINE.set(CommandLine {
        repeated_options: repeated,
        urls: urls.filter_map(|url| Url::parse(url).ok()).collect(),
    });
}

/// Returns whether this URL is on the command line. Queries often hold keys: one from a file is not
/// repeated, one that the user typed is.
pub(crate) fn was_typed(url: &Url) -> bool {
    COMMAND_LINE.get().is_some_and(|typed| typed.urls.contains(url))
}

/// Returns the global options to repeat. The path is made absolute, since the command may be run
/// from another folder.
fn repeated_options(config: Option<&Path>, trust_project: bool) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(config) = config {
        let whole = std::path::absolute(config);
        let config = whole.as_deref().unwrap_or(config);
        words.extend(["--config".to_owned(), config.display().to_string()]);
    }
    words.extend(trust_project.then(|| "--trust-project".to_owned()));
    words
}

/// Formats a `bowline` command with these words, for a shell.
pub(crate) fn format_command<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let repeated = COMMAND_LINE.get().into_iter().flat_map(|typed| &typed.repeated_options);
    join_words(words.into_iter().chain(repeated.map(String::as_str)))
}

fn join_words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.fold("bowline".to_owned(), |line, word| line + " " + &shell_quote(word))
}

/// Quotes a word for a shell.
pub(crate) fn shell_quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_it_for_one_word() {
        for (word, shown) in [
            ("docs", "docs"),
            ("https://h:1/mcp", "https://h:1/mcp"),
            ("https://h/?a=b&c", "'https://h/?a=b&c'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(shell_quote(word), shown);
        }
    }

    #[test]
    #[cfg(unix)]
    fn what_was_typed_is_typed_again() {
        let again = |config: Option<&str>, trust| {
            let repeated = repeated_options(config.map(Path::new), trust);
            join_words(["login", "docs"].into_iter().chain(repeated.iter().map(String::as_str)))
        };
        assert_eq!(again(None, false), "bowline login docs");
        assert_eq!(
            again(Some("/a b/c.toml"), true),
            "bowline login docs --config '/a b/c.toml' --trust-project"
        );
        let here = std::env::current_dir().unwrap().join("c.toml");
        let here = shell_quote(&here.display().to_string());
        assert_eq!(again(Some("c.toml"), false), format!("bowline login docs --config {here}"));
    }
}
