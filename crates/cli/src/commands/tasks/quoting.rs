//! Quotes suggested commands, so that they can be typed as printed.

use crate::print::escape;
use crate::suggested_command::shell_quote;

/// Returns the server as it can be typed again, or a placeholder. A URL with a query, user or
/// fragment may hold a key, and a command is long.
pub(super) fn server_argument(typed: Option<&str>) -> String {
    typed.filter(|typed| !typed.contains(['?', '@', '#'])).map_or_else(|| "SERVER".to_owned(), quote_word)
}

/// Formats a flag with its value. A value that begins with `-` is joined by `=`, or it would be
/// taken for a flag.
pub(super) fn format_flag(name: &str, value: &str) -> String {
    let tie = if value.starts_with('-') { "=" } else { " " };
    format!("{name}{tie}{}", quote_word(value))
}

/// Quotes a word that may come from a server: what could control the terminal is escaped.
fn quote_word(text: &str) -> String {
    shell_quote(&escape::line(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_typed() {
        assert_eq!(format_flag("--wait", "7f3a"), "--wait 7f3a");
        assert_eq!(format_flag("--wait", "-7f"), "--wait=-7f");
        assert_eq!(format_flag("--wait", "-a b"), "--wait='-a b'");
        assert_eq!(server_argument(Some("https://h/mcp?key=1")), "SERVER");
    }
}
