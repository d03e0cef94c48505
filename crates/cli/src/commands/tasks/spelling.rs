//! Owns how a next command is spelled, so that it can be typed as it is printed.

use crate::print::escape;

/// The server as it can be typed again. A URL with more than a path may hold a key, and a command is long.
pub(super) fn spelled(typed: Option<&str>) -> String {
    typed.filter(|typed| !typed.contains(['?', '@', '#'])).map_or_else(|| "SERVER".to_owned(), word)
}

/// A flag with its value. What begins like a flag itself is taken for one, unless it is tied to it.
pub(super) fn flag(name: &str, value: &str) -> String {
    let tie = if value.starts_with('-') { "=" } else { " " };
    format!("{name}{tie}{}", word(value))
}

/// A word for a shell.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", escape::line(text).replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_typed() {
        assert_eq!(flag("--wait", "7f3a"), "--wait 7f3a");
        assert_eq!(flag("--wait", "-7f"), "--wait=-7f");
        assert_eq!(flag("--wait", "-a b"), "--wait='-a b'");
        assert_eq!(spelled(Some("https://h/mcp?key=1")), "SERVER");
    }
}
