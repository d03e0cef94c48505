//! Asks for a passphrase without showing it, and twice where a typo would lock its owner out.

use anstyle::Style;
use bowline::config::Secret;

use super::key::Key;
use super::line::Line;
use super::look::{Picture, Room, Row};
use super::terminal::{Dialog, NoAnswer, Terminal};
use crate::print::{FAINT, HINT};

/// Asks for a passphrase; a new one twice until both are equal. `None` means that the person gave
/// up.
pub(super) async fn ask(terminal: &Terminal, new: bool) -> Result<Option<Secret>, NoAnswer> {
    let mut trouble = None;
    loop {
        let Some(first) = terminal.ask(&[], Hidden::new("passphrase", trouble)).await? else {
            return Ok(None);
        };
        if !new {
            return Ok(Some(Secret::new(first)));
        }
        if let Err(why) = is_enough(&first) {
            trouble = Some(why);
            continue;
        }
        let Some(second) = terminal.ask(&[], Hidden::new("once more", None)).await? else { return Ok(None) };
        if first == second {
            return Ok(Some(Secret::new(first)));
        }
        trouble = Some("they are not the same");
    }
}

/// Checks that a new passphrase is strong enough.
pub(super) fn is_enough(passphrase: &str) -> Result<(), &'static str> {
    if passphrase.chars().count() < SHORTEST { Err("it has to have 8 characters at least") } else { Ok(()) }
}

const SHORTEST: usize = 8;

/// A line of input that is not shown.
struct Hidden {
    label: &'static str,
    trouble: Option<&'static str>,
    line: Line,
}

impl Hidden {
    fn new(label: &'static str, trouble: Option<&'static str>) -> Self {
        Self { label, trouble, line: Line::default() }
    }
}

impl Dialog for Hidden {
    type Answer = Option<String>;

    fn press(&mut self, key: &Key) -> Option<Option<String>> {
        match key {
            Key::Escape => Some(None),
            Key::Enter => Some(Some(self.line.text())).filter(|text| text.as_deref() != Some("")),
            _ => {
                self.line.handle(key);
                None
            }
        }
    }

    fn draw(&self, _: Room) -> Picture {
        let mut picture = Picture::default();
        let label = format!("{}: ", self.label);
        if let Some(trouble) = self.trouble {
            picture.row(Row::of(HINT, trouble));
        }
        picture.cursor = Some((picture.rows.len(), label.len()));
        picture.row(Row::of(Style::new(), &label));
        picture.row(Row::of(FAINT, "what you type is not shown; esc gives up"));
        picture
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_it_is_drawn() {
        let mut dialog = Hidden::new("passphrase", Some("once more"));
        let room = Room { columns: 60, rows: 20 };
        let before = dialog.draw(room);
        assert_eq!(dialog.press(&Key::Enter), None);
        for key in "s3cret".chars().map(Key::Char) {
            assert_eq!(dialog.press(&key), None);
            assert_eq!(dialog.draw(room), before);
        }
        assert_eq!(dialog.press(&Key::Enter), Some(Some("s3cret".to_owned())));
        assert_eq!(dialog.press(&Key::Escape), Some(None));
    }

    #[test]
    fn a_short_one_keeps_nobody_out() {
        assert!(is_enough("1234567").is_err());
        assert!(is_enough("größer 8").is_ok());
    }
}
