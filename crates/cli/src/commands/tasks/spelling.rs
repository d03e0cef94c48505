//! Quotes suggested commands, so that they can be typed as printed.

use crate::print::escape;

/// Returns the server as it can be typed again, or a placeholder. A URL with a query, user or
/// fragment may hold a key, and a command is long.
pub(super) fn spelled(typed: Option<&str>) -> String {
    typed.filter(|typed| !typed.contains(['?', '@', '#'])).map_or_else(|| "SERVER".to_owned(), word)
}

/// Formats a flag with its value. A value that begins with `-` is joined by `=`, or it would be
/// taken for a flag.
pub(super) fn flag(name: &str, value: &str) -> String {
    let tie = if value.starts_with('-') { "=" } else { " " };
    format!("{name}{tie}{}", word(value))
}

/// Quotes a word for a shell.
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
