//! Formats lists: a table that fits the terminal, or in a pipe one line per row with tabs.
//!
//! It is our own, since the table crates neither escape what a server writes nor keep the one-line
//! form for pipes, and measure colored text themselves.

use super::escape;
use super::text_width::{display_width, fitting_bytes};
use super::{FAINT, NAME, Printer, STRONG};

/// Rows of equal length. The last column is wrapped to the remaining width.
pub(crate) struct Table<const N: usize> {
    headers: [&'static str; N],
    rows: Vec<[String; N]>,
    /// Greatest width of a column other than the last.
    max_column_width: usize,
    /// How many columns say what a row is about, if there is no room for columns.
    name_columns: usize,
}

impl<const N: usize> Table<N> {
    /// Creates a table without rows.
    pub(crate) fn new(headers: [&'static str; N]) -> Self {
        Self { headers, rows: Vec::new(), max_column_width: MAX_COLUMN_WIDTH, name_columns: 1 }
    }

    /// Leaves more room to the last column.
    pub(crate) fn with_max_column_width(self, max_column_width: usize) -> Self {
        Self { max_column_width, ..self }
    }

    /// Says how many columns stand on the first line of a row, if there is no room for columns.
    pub(crate) fn with_name_columns(self, name_columns: usize) -> Self {
        Self { name_columns, ..self }
    }

    /// Adds a row, which may hold server text.
    pub(crate) fn push_row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    /// Returns whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Renders the table for stdout.
    pub(crate) fn render(&self, printer: &Printer) -> String {
        if printer.on_terminal() {
            let paint = |kind: Kind, text: &str| match kind {
                Kind::Header => printer.paint(STRONG, text),
                Kind::Name => printer.paint(NAME, text),
                Kind::Detail => printer.paint(FAINT, text),
                Kind::Plain => text.to_owned(),
            };
            self.draw(printer.width, paint)
        } else {
            self.tab_lines()
        }
    }

    /// Formats one line per row with whole cells separated by tabs: stable, and easy to parse.
    fn tab_lines(&self) -> String {
        let mut out = String::new();
        for row in &self.rows {
            let cells = row.each_ref().map(|cell| escape::line(cell));
            out.push_str(cells.join("\t").trim_end_matches('\t'));
            out.push('\n');
        }
        out
    }

    fn draw(&self, width: usize, paint: impl Fn(Kind, &str) -> String) -> String {
        let rows: Vec<[String; N]> =
            self.rows.iter().map(|row| row.each_ref().map(|cell| flatten_text(cell))).collect();
        let widest = |column: usize| {
            let cells = rows.iter().map(|row| display_width(&row[column]));
            cells.chain([self.headers[column].len()]).max().unwrap_or(0)
        };
        // The first column names things that a person copies, so that its cells are never cut.
        let widths: [usize; N] = std::array::from_fn(|column| match column {
            0 => widest(0),
            column => widest(column).min(self.max_column_width),
        });
        let before: usize = widths[..N - 1].iter().map(|width| width + GAP).sum();
        let room = width.saturating_sub(before);
        if room < MIN_LAST_COLUMN_WIDTH.min(widest(N - 1)) {
            return draw_stacked(&rows, self.name_columns, width, paint);
        }
        let mut out = String::new();
        let mut line = |cells: [&str; N], kinds: [Kind; N]| {
            let mut padding = 0;
            for (column, cell) in cells.into_iter().enumerate() {
                if cell.is_empty() {
                    padding += widths[column] + GAP;
                    continue;
                }
                out.extend(std::iter::repeat_n(' ', padding));
                out.push_str(&paint(kinds[column], cell));
                padding = widths[column].saturating_sub(display_width(cell)) + GAP;
            }
            out.push('\n');
        };
        line(self.headers, [Kind::Header; N]);
        let kinds = std::array::from_fn(|column| match column {
            0 => Kind::Name,
            column if column == N - 1 => Kind::Plain,
            _ => Kind::Detail,
        });
        for row in &rows {
            let wrapped: Vec<Vec<&str>> = row
                .iter()
                .enumerate()
                .map(|(column, cell)| wrap(cell, if column == N - 1 { room } else { widths[column] }))
                .collect();
            let height = wrapped.iter().map(Vec::len).max().unwrap_or(1).max(1);
            for at in 0..height {
                line(std::array::from_fn(|column| wrapped[column].get(at).copied().unwrap_or("")), kinds);
            }
        }
        out
    }
}

/// Draws rows that are too wide for columns: the name on a line of its own, the other cells below.
fn draw_stacked<const N: usize>(
    rows: &[[String; N]],
    name_columns: usize,
    width: usize,
    paint: impl Fn(Kind, &str) -> String,
) -> String {
    let mut out = String::new();
    let mut push = |indent: usize, kind: Kind, text: &str| {
        for line in wrap(text, width.saturating_sub(indent)) {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(&paint(kind, line));
            out.push('\n');
        }
    };
    for row in rows {
        push(0, Kind::Name, &row[..name_columns].join(" "));
        let details: Vec<&str> =
            row[name_columns..N - 1].iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
        push(STACKED_INDENT, Kind::Detail, &details.join(" · "));
        push(STACKED_INDENT, Kind::Plain, &row[N - 1]);
    }
    out
}

/// How far the cells below the first one are indented.
const STACKED_INDENT: usize = 4;

#[derive(Clone, Copy)]
enum Kind {
    Header,
    Name,
    Detail,
    Plain,
}

/// Space between two columns.
const GAP: usize = 2;
/// Greatest width of a column other than the last, unless the table has its own.
const MAX_COLUMN_WIDTH: usize = 36;
/// Smallest width of the last column; on a narrower terminal there are no columns.
const MIN_LAST_COLUMN_WIDTH: usize = 20;

/// Returns the first paragraph on one line; the rest is for models, and in the machine output.
pub(crate) fn flatten_text(text: &str) -> String {
    let paragraph = text.trim().split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    escape::line(&words.join(" ")).into_owned()
}

/// Wraps at spaces where there are any, and otherwise inside a word.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        // At least one character, however narrow the column is.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let fits = fitting_bytes(rest, width).max(first);
        if fits == rest.len() {
            lines.push(rest);
            break;
        }
        // A space right after what fits is a good place too.
        let cut = if rest[fits..].starts_with(' ') { Some(fits) } else { rest[..fits].rfind(' ') };
        let cut = cut.filter(|cut| *cut > 0).unwrap_or(fits);
        lines.push(rest[..cut].trim_end());
        rest = rest[cut..].trim_start();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table<3> {
        let mut table = Table::new(["NAME", "HINTS", "DESCRIPTION"]);
        table.push_row([
            "echo".into(),
            "read-only".into(),
            "Gives back what it is given, word for word".into(),
        ]);
        table.push_row(["日本語".into(), String::new(), "a\x1b[31m\tb\n\nsecond paragraph".into()]);
        table
    }

    #[test]
    fn drawn_within_the_width() {
        let drawn = table().draw(44, |_, text| text.to_owned());
        let expected = "\
NAME    HINTS      DESCRIPTION
echo    read-only  Gives back what it is
                   given, word for word
日本語             a\\u{1b}[31m b
";
        assert_eq!(drawn, expected);
        assert!(drawn.lines().all(|line| display_width(line) <= 44));
    }

    /// A URI can be copied from any terminal, and no line is wider than it.
    #[test]
    fn what_does_not_fit_into_columns_is_stacked() {
        let mut table = Table::new(["URI", "TYPE", "NAME", "DESCRIPTION"]);
        let uri = "demo://resource/static/document/architecture.md";
        table.push_row([
            uri.into(),
            "text/markdown".into(),
            "architecture".into(),
            "A document about how the parts work together".into(),
        ]);
        table.push_row(["demo://b".into(), String::new(), "b".into(), String::new()]);
        let drawn = table.draw(60, |_, text| text.to_owned());
        let expected = "\
demo://resource/static/document/architecture.md
    text/markdown · architecture
    A document about how the parts work together
demo://b
    b
";
        assert_eq!(drawn, expected);
        for width in [20, 40, 60, 80, 100, 120] {
            let drawn = table.draw(width, |_, text| text.to_owned());
            assert!(drawn.lines().all(|line| display_width(line) <= width), "{width}: {drawn}");
            assert!(drawn.contains(uri) || width < uri.len(), "{width}: {drawn}");
        }
        assert!(table.draw(120, |_, text| text.to_owned()).starts_with("URI  "), "there is room for columns");
    }

    #[test]
    fn a_pipe_gets_whole_cells() {
        let lines = table().tab_lines();
        assert_eq!(
            lines.lines().next().unwrap(),
            "echo\tread-only\tGives back what it is given, word for word"
        );
        assert_eq!(lines.lines().nth(1).unwrap(), "日本語\t\ta\\u{1b}[31m\\tb\\n\\nsecond paragraph");
    }

    #[test]
    fn wrapping() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("日本語", 1), ["日", "本", "語"]);
        assert_eq!(wrap("", 4), [""; 0]);
        assert_eq!(wrap("a b", 1), ["a", "b"]);
    }
}
