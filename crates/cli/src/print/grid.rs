//! Draws tables whose columns come from a server, fitted to the width, each row on one line.

use super::text_width::{display_width, truncate};
use super::{FAINT, Printer, STRONG, escape};

/// A table. Its texts come from a server.
pub(crate) struct Grid {
    pub(crate) columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Note about the rows that are left out.
    pub(crate) omitted_note: Option<String>,
}

#[derive(Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    number: bool,
}

impl Cell {
    pub(crate) fn text(text: String) -> Self {
        Self { text, number: false }
    }

    /// Creates a cell that is aligned to the right.
    pub(crate) fn number(text: String) -> Self {
        Self { text, number: true }
    }
}

impl Grid {
    /// Renders the table for the terminal, or returns `None` if it is too narrow for the columns.
    pub(crate) fn render(&self, printer: &Printer) -> Option<String> {
        self.draw(printer.width, |kind, text| match kind {
            Kind::Header => printer.paint(STRONG, text),
            Kind::Rest => printer.paint(FAINT, text),
            Kind::Plain => text.to_owned(),
        })
    }

    fn draw(&self, width: usize, paint: impl Fn(Kind, &str) -> String) -> Option<String> {
        let headers: Vec<String> = self.columns.iter().map(|name| flatten_text(name)).collect();
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(|cell| flatten_text(&cell.text)).collect()).collect();
        let natural = |column: usize| {
            let cells = rows.iter().map(|row| display_width(&row[column]));
            cells.chain([display_width(&headers[column])]).max().unwrap_or(0).max(1)
        };
        let widths = fit_widths((0..headers.len()).map(natural).collect(), width)?;
        let right: Vec<bool> = (0..headers.len())
            .map(|column| {
                let filled = || self.rows.iter().map(|row| &row[column]).filter(|cell| !cell.text.is_empty());
                filled().count() > 0 && filled().all(|cell| cell.number)
            })
            .collect();
        let mut out = String::new();
        let mut line = |cells: &[String], kind: Kind| {
            let mut text = String::new();
            for (column, cell) in cells.iter().enumerate() {
                let cell = truncate(cell, widths[column]);
                let padding = " ".repeat(widths[column] - display_width(&cell));
                let gap = if column == 0 { "" } else { GAP };
                let [before, after] = if right[column] { [&*padding, ""] } else { ["", &*padding] };
                for part in [gap, before, &paint(kind, &cell), after] {
                    text.push_str(part);
                }
            }
            out.push_str(text.trim_end());
            out.push('\n');
        };
        line(&headers, Kind::Header);
        for row in &rows {
            line(row, Kind::Plain);
        }
        if let Some(rest) = &self.omitted_note {
            out.push_str(&paint(Kind::Rest, rest));
            out.push('\n');
        }
        Some(out)
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Header,
    Rest,
    Plain,
}

/// Space between two columns.
const GAP: &str = "  ";
/// Smallest width of a column.
const MIN_COLUMN_WIDTH: usize = 6;
/// How much of a cell is inspected: no terminal is wider.
const MAX_CELL_CHARS: usize = 400;

/// Shrinks the widest columns until all of them fit, or returns `None`.
fn fit_widths(mut widths: Vec<usize>, width: usize) -> Option<Vec<usize>> {
    let room = width.checked_sub(GAP.len() * (widths.len() - 1))?;
    while widths.iter().sum::<usize>() > room {
        let (widest, second) = widths.iter().fold((0, 0), |(first, second), width| match *width {
            width if width > first => (width, first),
            width => (first, if width < first { second.max(width) } else { second }),
        });
        if widest <= MIN_COLUMN_WIDTH {
            return None;
        }
        let excess = widths.iter().sum::<usize>() - room;
        let many = widths.iter().filter(|width| **width == widest).count();
        // Shrinks to the next widest column, or as far as needed.
        let by = excess.div_ceil(many).min(widest - second.max(MIN_COLUMN_WIDTH).min(widest - 1));
        widths.iter_mut().filter(|width| **width == widest).for_each(|width| *width -= by);
    }
    Some(widths)
}

/// Joins the text on one escaped line.
fn flatten_text(text: &str) -> String {
    let short: String = text.chars().take(MAX_CELL_CHARS).collect();
    let words: Vec<&str> = short.split_whitespace().collect();
    escape::line(&words.join(" ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let row = |name: &str, size: &str, what: &str| {
            vec![Cell::text(name.into()), Cell::number(size.into()), Cell::text(what.into())]
        };
        Grid {
            columns: ["name", "size", "what"].map(String::from).to_vec(),
            rows: vec![
                row("rope.txt", "12", "a\x1b[31m long\nstory about knots and what they hold"),
                row("日本語", "1024", ""),
            ],
            omitted_note: Some("… and 3 rows more".into()),
        }
    }

    fn drawn(width: usize) -> Option<String> {
        grid().draw(width, |_, text| text.to_owned())
    }

    #[test]
    fn drawn_within_the_width() {
        let expected = "\
name      size  what
rope.txt    12  a\\u{1b}[31m long story…
日本語    1024
… and 3 rows more
";
        assert_eq!(drawn(40).unwrap(), expected);
        for width in 22..90 {
            let drawn = drawn(width).unwrap();
            assert!(drawn.lines().all(|line| display_width(line) <= width), "{width}:\n{drawn}");
        }
        assert_eq!(drawn(12), None);
    }

    #[test]
    fn widest_columns_shrink_first() {
        assert_eq!(fit_widths(vec![4, 30, 30], 44), Some(vec![4, 18, 18]));
        assert_eq!(fit_widths(vec![10, 50], 32), Some(vec![10, 20]));
        assert_eq!(fit_widths(vec![4, 4], 20), Some(vec![4, 4]));
        assert_eq!(fit_widths(vec![9; 20], 80), None);
    }
}
