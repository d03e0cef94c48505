//! Measures and truncates text by the columns that it takes on a terminal.

use unicode_width::UnicodeWidthChar as _;

/// Returns the width of a text in columns.
pub(crate) fn display_width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Returns how many bytes of `text` fit into `width` columns.
pub(crate) fn fitting_bytes(text: &str, width: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > width {
            return at;
        }
    }
    text.len()
}

/// Truncates text to `width` columns, with an ellipsis.
pub(crate) fn truncate(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    if width == 0 {
        return String::new();
    }
    format!("{}…", text[..fitting_bytes(text, width - 1)].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut() {
        for (text, width, cut) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("日本", 3, "日…"),
            ("a bc", 3, "a…"),
            ("ab", 1, "…"),
            ("ab", 0, ""),
        ] {
            assert_eq!(truncate(text, width), cut);
        }
        assert_eq!(fitting_bytes("日本", 3), "日".len());
        assert_eq!(fitting_bytes("abc", 3), 3);
    }
}
