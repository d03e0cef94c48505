//! Asks one question: for a line of text, or for one of several items.

use anstyle::Style;

use super::frame::{Frame, Row, TerminalSize};
use super::key::Key;
use super::line_editor::LineEditor;
use super::menu::{Menu, MenuItem};
use super::terminal::Dialog;
use crate::print::text_width::display_width;
use crate::print::{FAINT, NAME, escape};

/// A line of text that must not be empty. Dismissing it gives `None`.
pub(super) struct TextDialog {
    label: String,
    line: LineEditor,
}

impl TextDialog {
    /// Creates the dialog with a value that can be taken as it is.
    pub(super) fn new(label: &str, default: &str) -> Self {
        Self { label: escape::line(label).into_owned(), line: LineEditor::new(default) }
    }
}

impl Dialog for TextDialog {
    type Output = Option<String>;

    fn handle_key(&mut self, key: &Key) -> Option<Option<String>> {
        match key {
            Key::Escape => Some(None),
            Key::Enter => Some(Some(self.line.text())).filter(|text| text.as_deref() != Some("")),
            _ => {
                self.line.handle_key(key);
                None
            }
        }
    }

    fn draw(&self, room: TerminalSize) -> Frame {
        let mut picture = Frame::default();
        let label = format!("{}: ", self.label);
        let width = display_width(&label);
        let (text, column) = self.line.window(room.columns.saturating_sub(width));
        picture.cursor = Some((0, width + column));
        picture.push_row(Row::new(NAME, &label).with(Style::new(), &text));
        picture.push_row(Row::new(FAINT, "enter goes on, esc gives up"));
        picture
    }
}

/// A menu of which one item is chosen. Dismissing it gives `None`.
pub(super) struct ChoiceDialog {
    menu: Menu,
}

impl ChoiceDialog {
    /// Creates the dialog with the cursor at an item.
    pub(super) fn new(items: Vec<MenuItem>, at: usize) -> Self {
        Self { menu: Menu::single_choice(items, at) }
    }
}

impl Dialog for ChoiceDialog {
    type Output = Option<usize>;

    fn handle_key(&mut self, key: &Key) -> Option<Option<usize>> {
        match key {
            Key::Escape => Some(None),
            Key::Enter => Some(Some(self.menu.at)),
            _ => {
                self.menu.handle_key(key);
                None
            }
        }
    }

    fn draw(&self, room: TerminalSize) -> Frame {
        let mut picture = Frame { rows: self.menu.rows(room.rows), cursor: None };
        picture.push_row(Row::new(FAINT, "  enter chooses, esc gives up"));
        picture
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_line_is_no_answer() {
        let mut dialog = TextDialog::new("folder", "a");
        let room = TerminalSize { columns: 40, rows: 20 };
        let rows: Vec<_> = dialog.draw(room).rows.iter().map(|row| row.to_plain(40)).collect();
        assert_eq!(rows, ["folder: a", "enter goes on, esc gives up"]);
        assert_eq!(dialog.draw(room).cursor, Some((0, 9)));
        assert_eq!(dialog.handle_key(&Key::Backspace), None);
        assert_eq!(dialog.handle_key(&Key::Enter), None);
        assert_eq!(dialog.handle_key(&Key::Char('b')), None);
        assert_eq!(dialog.handle_key(&Key::Enter), Some(Some("b".to_owned())));
        assert_eq!(dialog.handle_key(&Key::Escape), Some(None));
    }

    #[test]
    fn one_item_is_chosen() {
        let mut dialog = ChoiceDialog::new(vec![MenuItem::new("a"), MenuItem::new("b")], 0);
        assert_eq!(dialog.handle_key(&Key::Down), None);
        assert_eq!(dialog.handle_key(&Key::Enter), Some(Some(1)));
        assert_eq!(dialog.handle_key(&Key::Escape), Some(None));
    }
}
