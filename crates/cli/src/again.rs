//! Owns the commands that are suggested: words that mean the same in a shell, with everything of this command line
//! that they need to mean the same server.

use std::ffi::OsString;
use std::path::Path;
use std::sync::OnceLock;

use url::Url;

use crate::args::GlobalArgs;

/// What was typed, as far as it is needed again. What is told of a failure is far from the arguments, and these never
/// change: they are written once, before anything runs.
static TYPED: OnceLock<Typed> = OnceLock::new();

struct Typed {
    /// What is for any verb.
    repeated: Vec<String>,
    urls: Vec<Url>,
}

/// Keeps what a suggested command has to repeat. A variable need not be repeated: it is still set.
pub(crate) fn remember(typed: &GlobalArgs, argv: &[OsString]) {
    let repeated = repeated(typed.config.as_deref(), typed.trust_project);
    let urls = argv.iter().filter_map(|word| word.to_str()).filter(|word| word.contains("://"));
    let _ = TYPED.set(Typed { repeated, urls: urls.filter_map(|url| Url::parse(url).ok()).collect() });
}

/// Whether this very address is on the command line. People put keys into queries: what a file says is not repeated,
/// what they typed themselves is.
pub(crate) fn was_typed(url: &Url) -> bool {
    TYPED.get().is_some_and(|typed| typed.urls.contains(url))
}

/// Somebody else may run it, elsewhere: a path does not depend on where that is.
fn repeated(config: Option<&Path>, trust_project: bool) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(config) = config {
        let whole = std::path::absolute(config);
        let config = whole.as_deref().unwrap_or(config);
        words.extend(["--config".to_owned(), config.display().to_string()]);
    }
    words.extend(trust_project.then(|| "--trust-project".to_owned()));
    words
}

/// `bowline` with these words, to be typed into a shell.
pub(crate) fn command<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let repeated = TYPED.get().into_iter().flat_map(|typed| &typed.repeated);
    written(words.into_iter().chain(repeated.map(String::as_str)))
}

fn written<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.fold("bowline".to_owned(), |line, word| line + " " + &quoted(word))
}

/// One word for a shell.
pub(crate) fn quoted(word: &str) -> String {
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
            assert_eq!(quoted(word), shown);
        }
    }

    #[test]
    #[cfg(unix)]
    fn what_was_typed_is_typed_again() {
        let again = |config: Option<&str>, trust| {
            let repeated = repeated(config.map(Path::new), trust);
            written(["login", "docs"].into_iter().chain(repeated.iter().map(String::as_str)))
        };
        assert_eq!(again(None, false), "bowline login docs");
        assert_eq!(
            again(Some("/a b/c.toml"), true),
            "bowline login docs --config '/a b/c.toml' --trust-project"
        );
        let here = std::env::current_dir().unwrap().join("c.toml");
        let here = quoted(&here.display().to_string());
        assert_eq!(again(Some("c.toml"), false), format!("bowline login docs --config {here}"));
    }
}
