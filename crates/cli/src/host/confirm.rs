//! Asks a yes-or-no question. The cursor starts at the no, so that a yes takes more than one key.

use anstyle::Style;

use super::key::Key;
use super::look::{Picture, Room, Row};
use super::menu::{Item, Menu};
use super::terminal::{Dialog, NoAnswer, Terminal};
use crate::print::FAINT;

/// Asks the question. Dismissing it means no.
pub(super) async fn ask(
    terminal: &Terminal,
    question: &str,
    yes: &'static str,
    no: &'static str,
) -> Result<bool, NoAnswer> {
    terminal.ask(&[Row::whole(Style::new(), question)], Confirm::new(yes, no)).await
}

struct Confirm(Menu);

impl Confirm {
    fn new(yes: &'static str, no: &'static str) -> Self {
        Self(Menu::one(vec![Item::new(no), Item::new(yes)], 0))
    }
}

impl Dialog for Confirm {
    type Answer = bool;

    fn press(&mut self, key: &Key) -> Option<bool> {
        match key {
            Key::Escape => Some(false),
            Key::Enter => Some(self.0.at() == 1),
            _ => {
                self.0.handle(key);
                None
            }
        }
    }

    fn draw(&self, room: Room) -> Picture {
        let mut picture = Picture { rows: self.0.rows(room.rows), cursor: None };
        picture.row(Row::of(FAINT, "  enter chooses, esc says no"));
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
            let mut dialog = Confirm::new("Yes", "No");
            let mut given = None;
            for key in &keys {
                given = dialog.press(key);
            }
            assert_eq!(given, answer, "{keys:?}");
        }
    }
}
