//! Asks a yes-or-no question by a menu of two items.

use super::frame::{Frame, Row, TerminalSize};
use super::key::Key;
use super::menu::{Menu, MenuItem};
use super::terminal::Dialog;
use crate::print::FAINT;

/// A menu of a yes and a no. Dismissing it means no.
pub(super) struct YesNoDialog {
    menu: Menu,
    /// Line below the menu.
    footer: &'static str,
}

impl YesNoDialog {
    /// Creates the dialog with the cursor at the no, so that a yes takes more than one key.
    pub(super) fn new(yes: MenuItem, no: MenuItem, footer: &'static str) -> Self {
        Self { menu: Menu::single_choice(vec![yes, no], 1), footer }
    }

    /// Creates the dialog with the cursor at the yes, for questions without a risk.
    pub(super) fn with_yes_preselected(yes: MenuItem, no: MenuItem, footer: &'static str) -> Self {
        Self { menu: Menu::single_choice(vec![yes, no], 0), footer }
    }
}

impl Dialog for YesNoDialog {
    type Output = bool;

    fn handle_key(&mut self, key: &Key) -> Option<bool> {
        match key {
            Key::Escape => Some(false),
            Key::Enter => Some(self.menu.at == 0),
            _ => {
                self.menu.handle_key(key);
                None
            }
        }
    }

    fn draw(&self, room: TerminalSize) -> Frame {
        let mut picture = Frame { rows: self.menu.rows(room.rows), cursor: None };
        picture.push_row(Row::new(FAINT, "  ").with(FAINT, self.footer));
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
            (vec![Key::Char('x')], None),
            (vec![Key::Up, Key::Enter], Some(true)),
            (vec![Key::Down, Key::Enter], Some(true)),
            (vec![Key::Down, Key::Escape], Some(false)),
        ] {
            let mut dialog = YesNoDialog::new(MenuItem::new("Yes"), MenuItem::new("No"), "");
            let mut given = None;
            for key in &keys {
                given = dialog.handle_key(key);
            }
            assert_eq!(given, answer, "{keys:?}");
        }
    }
}
