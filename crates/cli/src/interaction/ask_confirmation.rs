//! Asks a yes-or-no question. The cursor starts at the no, so that a yes takes more than one key.

use anstyle::Style;

use super::frame::{Frame, Row, TerminalSize};
use super::key::Key;
use super::menu::{Menu, MenuItem};
use super::terminal::{Dialog, NoAnswer, Terminal};
use crate::print::FAINT;

/// Asks the question. Dismissing it means no.
pub(super) async fn ask_confirmation(
    terminal: &Terminal,
    question: &str,
    yes: &'static str,
    no: &'static str,
) -> Result<bool, NoAnswer> {
    terminal.ask(&[Row::whole(Style::new(), question)], ConfirmDialog::new(yes, no)).await
}

struct ConfirmDialog(Menu);

impl ConfirmDialog {
    fn new(yes: &'static str, no: &'static str) -> Self {
        Self(Menu::single_choice(vec![MenuItem::new(no), MenuItem::new(yes)], 0))
    }
}

impl Dialog for ConfirmDialog {
    type Output = bool;

    fn handle_key(&mut self, key: &Key) -> Option<bool> {
        match key {
            Key::Escape => Some(false),
            Key::Enter => Some(self.0.at() == 1),
            _ => {
                self.0.handle_key(key);
                None
            }
        }
    }

    fn draw(&self, room: TerminalSize) -> Frame {
        let mut picture = Frame { rows: self.0.rows(room.rows), cursor: None };
        picture.push_row(Row::new(FAINT, "  enter chooses, esc says no"));
        picture
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yes_takes_more_than_one_key() {
        for (keys, answer) in [
            (vec![Key::Enter], Some(false)),
            (vec![Key::Escape], Some(false)),
            (vec![Key::Char('y')], None),
            (vec![Key::Down, Key::Enter], Some(true)),
            (vec![Key::Down, Key::Escape], Some(false)),
        ] {
            let mut dialog = ConfirmDialog::new("Yes", "No");
            let mut given = None;
            for key in &keys {
                given = dialog.handle_key(key);
            }
            assert_eq!(given, answer, "{keys:?}");
        }
    }
}
