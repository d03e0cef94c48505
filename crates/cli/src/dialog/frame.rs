//! Lays out dialogs: rows of styled text that never exceed the window, so that the terminal can
//! count and erase what was drawn.

use anstyle::Style;
use unicode_width::UnicodeWidthChar as _;

use crate::print::escape;
use crate::print::text_width::{display_width, fitting_bytes};

/// One row of styled text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    parts: Vec<(Style, String)>,
    whole: bool,
}

/// What a dialog shows at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// Rows from top to bottom.
    pub(super) rows: Vec<Row>,
    /// Row and column of the cursor, if there is an input.
    pub(super) cursor: Option<(usize, usize)>,
}

/// Columns and rows that a dialog may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TerminalSize {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

impl Row {
    /// Creates a row of one style. `text` may come from a server.
    pub(super) fn new(style: Style, text: &str) -> Self {
        Self::default().with(style, text)
    }

    /// Creates a row that is never truncated, and so may take several lines. It is only for
    /// headings, which are not erased: an unbroken URL can be clicked and copied.
    pub(super) fn whole(style: Style, text: &str) -> Self {
        Self { whole: true, ..Self::new(style, text) }
    }

    /// Appends text. `text` may come from a server.
    #[must_use]
    pub(super) fn with(mut self, style: Style, text: &str) -> Self {
        self.parts.push((style, escape::line(text).into_owned()));
        self
    }

    /// Returns the text without styles, truncated to `columns`.
    #[cfg(test)]
    pub(super) fn to_plain(&self, columns: usize) -> String {
        self.truncated(columns).parts.into_iter().map(|(_, text)| text).collect()
    }

    /// Renders the row for a terminal, truncated to `columns`.
    pub(super) fn render(&self, columns: usize, color: bool) -> String {
        let paint = |(style, text): (Style, String)| {
            if color { format!("{style}{text}{style:#}") } else { text }
        };
        self.truncated(columns).parts.into_iter().map(paint).collect()
    }

    /// Returns the width in columns, untruncated.
    pub(super) fn width(&self) -> usize {
        self.parts.iter().map(|(_, text)| display_width(text)).sum()
    }

    fn truncated(&self, columns: usize) -> Self {
        if self.whole {
            return self.clone();
        }
        let mut left = columns;
        let mut out = Vec::new();
        for (style, text) in &self.parts {
            let whole = display_width(text);
            if whole <= left {
                left -= whole;
                out.push((*style, text.clone()));
                continue;
            }
            // One column is left for the ellipsis.
            if left > 0 {
                out.push((*style, format!("{}…", &text[..fitting_bytes(text, left - 1)])));
            }
            break;
        }
        Self { parts: out, whole: false }
    }
}

impl Frame {
    pub(super) fn push_row(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Adds text as wrapped and indented rows.
    pub(super) fn push_text(&mut self, style: Style, text: &str, room: WrapOptions) {
        self.rows.extend(wrap_text(style, text, room));
    }
}

/// How text is wrapped into rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrapOptions {
    /// Width of the window.
    pub(super) columns: usize,
    /// Indentation of each row.
    pub(super) indent: usize,
    /// Most rows. Longer text is truncated with a note.
    pub(super) max_rows: usize,
}

/// Wraps text into rows. All are indented, so that no row of a server's text can pass for ours.
pub(super) fn wrap_text(style: Style, text: &str, wrap: WrapOptions) -> Vec<Row> {
    let columns = wrap.columns.saturating_sub(wrap.indent).max(10);
    let text = escape::text(text.trim_end());
    let mut lines = Vec::new();
    for line in text.lines() {
        wrap_line(&line.replace('\t', "    "), columns, &mut lines);
        if lines.len() > wrap.max_rows {
            break;
        }
    }
    if lines.len() > wrap.max_rows {
        lines.truncate(wrap.max_rows.saturating_sub(1));
        lines.push("… (too long to be shown whole)".to_owned());
    }
    let indent = " ".repeat(wrap.indent);
    lines.into_iter().map(|line| Row::new(Style::new(), &indent).with(style, &line)).collect()
}

/// Wraps a line, between words where possible.
fn wrap_line(line: &str, columns: usize, out: &mut Vec<String>) {
    let mut row = String::new();
    let mut used = 0;
    for word in line.split_inclusive(' ') {
        let wide = display_width(word.trim_end());
        if used > 0 && used + wide > columns {
            out.push(std::mem::take(&mut row).trim_end().to_owned());
            used = 0;
        }
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            if used + wide > columns {
                out.push(std::mem::take(&mut row).trim_end().to_owned());
                used = 0;
                if c == ' ' {
                    continue;
                }
            }
            row.push(c);
            used += wide;
        }
    }
    out.push(row.trim_end().to_owned());
}

/// Truncates text that may be endless, and says how much is missing.
pub(super) fn truncate(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        None => text.to_owned(),
        Some((end, _)) => {
            let missing = text[end..].chars().count();
            format!("{}… ({missing} more characters)", &text[..end])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(rows: &[Row]) -> Vec<String> {
        rows.iter().map(|row| row.to_plain(80)).collect()
    }

    #[test]
    fn a_row_fits_whatever_is_in_it() {
        let row = Row::new(Style::new(), "ab").with(Style::new().bold(), "日本語");
        assert_eq!(row.to_plain(8), "ab日本語");
        assert_eq!(row.to_plain(7), "ab日本…");
        assert_eq!(row.to_plain(6), "ab日…");
        assert_eq!(row.to_plain(1), "…");
        assert_eq!(row.to_plain(0), "");
        assert_eq!(Row::whole(Style::new(), "https://h/long").to_plain(3), "https://h/long");
        assert_eq!(Row::new(Style::new(), "a\x1b[2J\nb").to_plain(80), "a\\u{1b}[2J\\nb");
    }

    #[test]
    fn words_are_kept_whole_where_they_can_be() {
        let wrap = WrapOptions { columns: 12, indent: 2, max_rows: 9 };
        let rows = wrap_text(Style::new(), "one two three four\nabcdefghijklmno x", wrap);
        assert_eq!(plain(&rows), ["  one two", "  three four", "  abcdefghij", "  klmno x"]);
    }

    #[test]
    fn a_long_text_says_that_it_is_cut() {
        let wrap = WrapOptions { columns: 80, indent: 0, max_rows: 3 };
        let rows = wrap_text(Style::new(), &"line\n".repeat(1000), wrap);
        assert_eq!(plain(&rows), ["line", "line", "… (too long to be shown whole)"]);
        assert_eq!(truncate("abcde", 3), "abc… (2 more characters)");
        assert_eq!(truncate("abc", 3), "abc");
    }
}
