//! A prompt for commands: a line with history and completion.

use std::cell::RefCell;

use anstyle::Style;

use super::frame::{Frame, Row, TerminalSize};
use super::key::Key;
use super::line_editor::LineEditor;
use super::query::Query;
use super::suggestion_list::common_prefix;
use super::terminal::Dialog;
use crate::print::text_width::display_width;
use crate::print::{FAINT, NAME, escape};

/// What a person entered at the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PromptInput {
    Line(String),
    /// Ctrl-D on an empty line.
    End,
}

/// The lines that were entered before, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct PromptHistory {
    lines: RefCell<Vec<String>>,
}

/// How many lines are remembered.
const MAX_LINES: usize = 1000;

impl PromptHistory {
    pub(crate) fn new(lines: Vec<String>) -> Self {
        let history = Self::default();
        for line in lines {
            history.push(line);
        }
        history
    }

    /// Adds a line, unless it repeats the last one.
    pub(crate) fn push(&self, line: String) {
        let mut lines = self.lines.borrow_mut();
        if lines.last() != Some(&line) {
            lines.push(line);
        }
        let excess = lines.len().saturating_sub(MAX_LINES);
        lines.drain(..excess);
    }

    /// Returns the lines, the oldest first.
    #[cfg(test)]
    fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// Finds the nearest line before or after `at` that begins with `prefix` and is not `shown`.
    fn find(&self, at: usize, direction: Direction, prefix: &str, shown: &str) -> Option<(usize, String)> {
        let lines = self.lines.borrow();
        let fits = |(_, line): &(usize, &String)| line.starts_with(prefix) && *line != shown;
        let all = lines.iter().enumerate();
        let found = match direction {
            Direction::Back => all.take(at).rfind(fits),
            Direction::Forward => all.skip(at + 1).find(fits),
        };
        found.map(|(at, line)| (at, line.clone()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Back,
    Forward,
}

/// A prompt that waits for a line.
pub(super) struct PromptDialog<'a> {
    prompt: String,
    line: LineEditor,
    history: &'a PromptHistory,
    /// The place in the history and what was typed before it was looked into, while it is.
    recalled: Option<(usize, String)>,
    query: Option<Query>,
    /// Candidates for the word at the cursor, after Tab was pressed.
    candidates: Vec<String>,
}

/// How many rows of candidates are shown.
const MAX_CANDIDATE_ROWS: usize = 8;

impl<'a> PromptDialog<'a> {
    pub(super) fn new(prompt: &str, history: &'a PromptHistory) -> Self {
        Self {
            prompt: escape::line(prompt).into_owned(),
            line: LineEditor::default(),
            history,
            recalled: None,
            query: None,
            candidates: Vec::new(),
        }
    }

    /// Recalls a line that begins with what was typed.
    fn recall(&mut self, direction: Direction) {
        let text = self.line.text();
        let (at, prefix) =
            self.recalled.clone().unwrap_or_else(|| (self.history.lines.borrow().len(), text.clone()));
        match self.history.find(at, direction, &prefix, &text) {
            Some((found, line)) => {
                self.line = LineEditor::new(&line);
                self.recalled = Some((found, prefix));
            }
            None if direction == Direction::Forward && self.recalled.is_some() => {
                self.line = LineEditor::new(&prefix);
                self.recalled = None;
            }
            None => {}
        }
    }
}

impl Dialog for PromptDialog<'_> {
    type Output = PromptInput;

    fn handle_key(&mut self, key: &Key) -> Option<PromptInput> {
        if *key != Key::Resized {
            self.candidates.clear();
            self.query = None;
        }
        match key {
            Key::Enter => return Some(PromptInput::Line(self.line.text())),
            Key::Up => self.recall(Direction::Back),
            Key::Down => self.recall(Direction::Forward),
            Key::Tab => {
                self.query = Some(Query { text: self.line.text_before_cursor(), ..Query::default() });
            }
            _ => {
                if self.line.handle_key(key) && !matches!(key, Key::Left | Key::Right | Key::Home | Key::End)
                {
                    self.recalled = None;
                }
            }
        }
        None
    }

    fn handle_interrupt(&mut self) -> bool {
        self.line = LineEditor::default();
        self.recalled = None;
        self.candidates.clear();
        true
    }

    fn handle_end_of_input(&mut self) -> Option<PromptInput> {
        if self.line.text().is_empty() {
            return Some(PromptInput::End);
        }
        self.line.handle_key(&Key::Delete);
        None
    }

    fn take_query(&mut self) -> Option<Query> {
        self.query.take()
    }

    /// Takes candidates for the end of the line up to the cursor. Each is that line, completed.
    fn handle_suggestions(&mut self, found: Vec<String>) {
        let before = self.line.text_before_cursor();
        let Some(common) = Some(common_prefix(found.iter().map(String::as_str))).filter(|it| !it.is_empty())
        else {
            return;
        };
        // Of a single candidate the whole is taken, also where it quotes what was typed.
        if found.len() == 1 || common.len() > before.len() {
            self.line.replace_before_cursor(before.chars().count(), common);
        }
        if found.len() > 1 {
            let begin = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
            self.candidates = found.iter().map(|line| line.get(begin..).unwrap_or(line).to_owned()).collect();
        }
    }

    fn draw(&self, room: TerminalSize) -> Frame {
        let mut picture = Frame::default();
        let width = display_width(&self.prompt);
        let (text, column) = self.line.window(room.columns.saturating_sub(width));
        picture.cursor = Some((0, width + column));
        picture.push_row(Row::new(NAME, &self.prompt).with(Style::new(), &text));
        for row in candidate_rows(&self.candidates, room) {
            picture.push_row(Row::new(FAINT, &row));
        }
        picture
    }
}

/// Lays candidates out in columns of the same width.
fn candidate_rows(candidates: &[String], room: TerminalSize) -> Vec<String> {
    let shown: Vec<String> = candidates.iter().map(|value| escape::line(value).into_owned()).collect();
    let width = shown.iter().map(|value| display_width(value)).max().unwrap_or(0) + 2;
    let columns = ((room.columns.saturating_sub(2)) / width).max(1);
    let rows = MAX_CANDIDATE_ROWS.min(room.rows.saturating_sub(2)).max(1);
    let mut out: Vec<String> = shown
        .chunks(columns)
        .take(rows)
        .map(|row| {
            let cells =
                row.iter().map(|value| format!("{value}{}", " ".repeat(width - display_width(value))));
            format!("  {}", cells.collect::<String>().trim_end())
        })
        .collect();
    let left = shown.len().saturating_sub(columns * rows);
    if left > 0 {
        out.push(format!("  … {left} more"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(dialog: &PromptDialog<'_>) -> Vec<String> {
        let room = TerminalSize { columns: 40, rows: 10 };
        dialog.draw(room).rows.iter().map(|row| row.to_plain(40)).collect()
    }

    fn press(dialog: &mut PromptDialog<'_>, text: &str) {
        for c in text.chars() {
            assert_eq!(dialog.handle_key(&Key::Char(c)), None);
        }
    }

    #[test]
    fn history_is_searched_by_what_was_typed() {
        let history =
            PromptHistory::new(["call a", "tools", "tools", "call b", "call b"].map(String::from).into());
        assert_eq!(history.lines(), ["call a", "tools", "call b"]);
        let mut dialog = PromptDialog::new("> ", &history);
        dialog.handle_key(&Key::Up);
        dialog.handle_key(&Key::Up);
        assert_eq!(screen(&dialog), ["> tools"]);
        dialog.handle_key(&Key::Down);
        dialog.handle_key(&Key::Down);
        assert_eq!(screen(&dialog), ["> "]);
        press(&mut dialog, "ca");
        dialog.handle_key(&Key::Up);
        dialog.handle_key(&Key::Up);
        dialog.handle_key(&Key::Up);
        assert_eq!(screen(&dialog), ["> call a"]);
        assert_eq!(dialog.handle_key(&Key::Enter), Some(PromptInput::Line("call a".into())));
    }

    #[test]
    fn tab_completes_as_far_as_it_is_clear() {
        let history = PromptHistory::default();
        let mut dialog = PromptDialog::new("> ", &history);
        press(&mut dialog, "call se");
        dialog.handle_key(&Key::Tab);
        assert_eq!(dialog.take_query().map(|query| query.text).as_deref(), Some("call se"));
        dialog.handle_suggestions(vec!["call search".into(), "call search_files".into()]);
        assert_eq!(screen(&dialog), ["> call search", "  search        search_files"]);
        press(&mut dialog, "_");
        assert_eq!(screen(&dialog), ["> call search_"]);
        dialog.handle_suggestions(vec!["call search_files ".into()]);
        assert_eq!(screen(&dialog), ["> call search_files "]);
    }

    #[test]
    fn ctrl_c_clears_and_ctrl_d_leaves() {
        let history = PromptHistory::default();
        let mut dialog = PromptDialog::new("> ", &history);
        press(&mut dialog, "x");
        assert_eq!(dialog.handle_end_of_input(), None);
        assert!(dialog.handle_interrupt());
        assert_eq!(screen(&dialog), ["> "]);
        assert_eq!(dialog.handle_end_of_input(), Some(PromptInput::End));
        assert_eq!(dialog.handle_key(&Key::Escape), None);
    }

    #[test]
    fn many_candidates_are_cut() {
        let many: Vec<String> = (0..100).map(|n| format!("candidate{n}")).collect();
        let rows = candidate_rows(&many, TerminalSize { columns: 30, rows: 20 });
        assert_eq!(rows.len(), 9);
        assert_eq!(rows[8], "  … 84 more");
        assert_eq!(rows[0], "  candidate0   candidate1");
    }
}
