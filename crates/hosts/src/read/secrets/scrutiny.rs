//! [`Scrutiny`] keeps code from being taken for a secret: whoever is asked about a command has to see all of
//! it that could run.

use std::collections::HashSet;

use super::{SecretPart, find_literals, has_token_prefix, is_random, is_secret_name};

/// What a value has to look like before it counts as a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scrutiny {
    /// Any value counts, because nothing of it runs.
    Lenient,
    /// Only a word counts: it has no white space and no character that means something in code.
    Words,
    /// Only a token counts: a random word or one of a well-known service. The command line has code in it
    /// that could run any other word.
    Tokens,
}

impl Scrutiny {
    /// Returns the scrutiny for the words of a command line.
    pub(super) fn of_command(words: &[String]) -> Self {
        let can_use_others = |word: &String| {
            find_literals(word, 0).iter().any(|part| word[part.range.clone()].contains(can_use_words))
        };
        if words.iter().any(can_use_others) { Self::Tokens } else { Self::Words }
    }

    /// Returns whether a value may be redacted.
    pub(super) fn accepts(self, value: &str) -> bool {
        match self {
            Self::Lenient => true,
            Self::Words => is_word(value),
            Self::Tokens => is_word(value) && (is_random(value) || has_token_prefix(value)),
        }
    }

    /// Finds what is not a placeholder, from an offset on. `None` if a part of it may not be redacted.
    pub(super) fn find_accepted_literals(self, value: &str, from: usize) -> Option<Vec<SecretPart>> {
        let parts = find_literals(value, from);
        parts.iter().all(|part| self.accepts(&value[part.range.clone()])).then_some(parts)
    }

    /// Finds secrets after `NAME=` inside a longer text, which stays visible around them. `used` are the
    /// names that the command line uses.
    pub(super) fn find_assigned(self, text: &str, used: &HashSet<&str>) -> Vec<SecretPart> {
        let mut found = Vec::new();
        if self == Self::Lenient {
            return found;
        }
        let mut examined = 0;
        for (equals, _) in text.match_indices('=') {
            if equals < examined {
                continue;
            }
            let name_at = text[..equals].trim_end_matches(is_name_char).len();
            let name = text[name_at..equals].trim_start_matches('-');
            if !is_secret_name(name) || used.contains(name) {
                continue;
            }
            let value = &text[equals + 1..];
            let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''));
            let begin = equals + 1 + quote.map_or(0, char::len_utf8);
            let run = leading_run(&text[begin..]);
            let end = begin + run.len();
            examined = end;
            // What follows tells a value from the beginning of an expression.
            let is_whole = match (text[end..].chars().next(), quote) {
                (next, Some(quote)) => next == Some(quote),
                (Some(next), None) => next.is_whitespace() || ";&|\"'".contains(next),
                (None, None) => true,
            };
            if is_whole && self.accepts(run) {
                found.push(SecretPart { range: begin..end, is_storable: true });
            }
        }
        found
    }
}

/// Returns the names in a command line that do more than to set a variable. What such a variable is set to may
/// be run there.
pub(super) fn used_names(words: &[String]) -> HashSet<&str> {
    let mut used = HashSet::new();
    for word in words {
        let mut rest = word.as_str();
        while let Some(begin) = rest.find(is_name_char) {
            let name = &rest[begin..];
            let (name, after) = name.split_at(name.find(|c| !is_name_char(c)).unwrap_or(name.len()));
            if !after.starts_with('=') {
                used.insert(name);
            }
            rest = after;
        }
    }
    used
}

/// Returns the beginning of a text that could be a word.
pub(super) fn leading_run(text: &str) -> &str {
    &text[..text.find(|c| !is_word_char(c)).unwrap_or(text.len())]
}

/// Whether a value has the form of a password or token, and not of code, an option, a path or a URL.
fn is_word(value: &str) -> bool {
    !value.is_empty()
        && value.chars().all(is_word_char)
        && !value.starts_with(['-', '/', '.', '~', '!'])
        && !value.contains(":/")
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || "-_.~+/=:@%,!#*?^".contains(c)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.".contains(c)
}

/// Whether code with this character can run other words of its command line: by a variable, a call, a pipe
/// or a file.
fn can_use_words(c: char) -> bool {
    "$`(|<>\r\n".contains(c)
}
