//! Owns how a dialog looks: rows of styled text that never run past the window, so that what was drawn can
//! be counted and taken away again.

use anstyle::Style;
use unicode_width::UnicodeWidthChar as _;

use crate::print::escape;

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    parts: Vec<(Style, String)>,
    whole: bool,
}

/// What is shown at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Picture {
    /// From top to bottom.
    pub(super) rows: Vec<Row>,
    /// Where the cursor stands, as row and column, if something is typed.
    pub(super) cursor: Option<(usize, usize)>,
}

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

impl Row {
    /// A row of one style. `text` may be a server's.
    pub(super) fn of(style: Style, text: &str) -> Self {
        Self::default().then(style, text)
    }

    /// A row that is never cut, and so may take several lines. Only in a heading, which is not taken away again: what
    /// is whole can be clicked on and copied.
    pub(super) fn whole(style: Style, text: &str) -> Self {
        Self { whole: true, ..Self::of(style, text) }
    }

    /// More of it. `text` may be a server's.
    #[must_use]
    pub(super) fn then(mut self, style: Style, text: &str) -> Self {
        self.parts.push((style, escape::line(text).into_owned()));
        self
    }

    /// The text alone, cut to so many columns.
    #[cfg(test)]
    pub(super) fn plain(&self, columns: usize) -> String {
        self.cut(columns).parts.into_iter().map(|(_, text)| text).collect()
    }

    /// As it is written to a terminal, cut to so many columns.
    pub(super) fn painted(&self, columns: usize, color: bool) -> String {
        let paint = |(style, text): (Style, String)| {
            if color { format!("{style}{text}{style:#}") } else { text }
        };
        self.cut(columns).parts.into_iter().map(paint).collect()
    }

    /// How many columns it takes, uncut.
    pub(super) fn width(&self) -> usize {
        self.parts.iter().map(|(_, text)| width(text)).sum()
    }

    fn cut(&self, columns: usize) -> Self {
        if self.whole {
            return self.clone();
        }
        let mut left = columns;
        let mut out = Vec::new();
        for (style, text) in &self.parts {
            let whole = width(text);
            if whole <= left {
                left -= whole;
                out.push((*style, text.clone()));
                continue;
            }
            let mut kept = String::new();
            for c in text.chars() {
                let wide = c.width().unwrap_or(0);
                // One column stays for the sign that something is missing.
                if wide + 1 > left {
                    break;
                }
                left -= wide;
                kept.push(c);
            }
            if left > 0 {
                kept.push('…');
            }
            out.push((*style, kept));
            break;
        }
        Self { parts: out, whole: false }
    }
}

impl Picture {
    /// Adds a row.
    pub(super) fn row(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Adds a text of several lines, wrapped, indented, and no more than `most` rows of it.
    pub(super) fn block(&mut self, style: Style, text: &str, room: Wrap) {
        self.rows.extend(wrapped(style, text, room));
    }
}

/// How a text is fitted in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrap {
    /// Of the window.
    pub(super) columns: usize,
    /// Before each row.
    pub(super) indent: usize,
    /// Rows. What does not fit is said to be missing.
    pub(super) most: usize,
}

/// A text in rows. No row of it begins at the edge, so none can pass for ours.
pub(super) fn wrapped(style: Style, text: &str, wrap: Wrap) -> Vec<Row> {
    let columns = wrap.columns.saturating_sub(wrap.indent).max(10);
    let text = escape::text(text.trim_end());
    let mut lines = Vec::new();
    for line in text.lines() {
        fold(&line.replace('\t', "    "), columns, &mut lines);
        if lines.len() > wrap.most {
            break;
        }
    }
    if lines.len() > wrap.most {
        lines.truncate(wrap.most.saturating_sub(1));
        lines.push("… (too long to be shown whole)".to_owned());
    }
    let indent = " ".repeat(wrap.indent);
    lines.into_iter().map(|line| Row::of(Style::new(), &indent).then(style, &line)).collect()
}

/// Breaks a line between words where it can.
fn fold(line: &str, columns: usize, out: &mut Vec<String>) {
    let mut row = String::new();
    let mut used = 0;
    for word in line.split_inclusive(' ') {
        let wide = width(word.trim_end());
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

/// How many columns a text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// At most so many characters of something that may be endless, with what is missing told.
pub(super) fn bounded(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
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
        rows.iter().map(|row| row.plain(80)).collect()
    }

    #[test]
    fn a_row_fits_whatever_is_in_it() {
        let row = Row::of(Style::new(), "ab").then(Style::new().bold(), "日本語");
        assert_eq!(row.plain(8), "ab日本語");
        assert_eq!(row.plain(7), "ab日本…");
        assert_eq!(row.plain(6), "ab日…");
        assert_eq!(row.plain(1), "…");
        assert_eq!(row.plain(0), "");
        assert_eq!(Row::whole(Style::new(), "https://h/long").plain(3), "https://h/long");
        assert_eq!(Row::of(Style::new(), "a\x1b[2J\nb").plain(80), "a\\u{1b}[2J\\nb");
    }

    #[test]
    fn words_are_kept_whole_where_they_can_be() {
        let wrap = Wrap { columns: 12, indent: 2, most: 9 };
        let rows = wrapped(Style::new(), "one two three four\nabcdefghijklmno x", wrap);
        assert_eq!(plain(&rows), ["  one two", "  three four", "  abcdefghij", "  klmno x"]);
    }

    #[test]
    fn a_long_text_says_that_it_is_cut() {
        let wrap = Wrap { columns: 80, indent: 0, most: 3 };
        let rows = wrapped(Style::new(), &"line\n".repeat(1000), wrap);
        assert_eq!(plain(&rows), ["line", "line", "… (too long to be shown whole)"]);
        assert_eq!(bounded("abcde", 3), "abc… (2 more characters)");
        assert_eq!(bounded("abc", 3), "abc");
    }
}
