//! Asks for a passphrase without showing it, and twice where a typo would lock its owner out.

use anstyle::Style;
use bowline::config::Secret;

use super::frame::{Frame, Row, TerminalSize};
use super::key::Key;
use super::line_editor::LineEditor;
use super::terminal::{Dialog, NoAnswer, Terminal};
use crate::print::{FAINT, HINT};

/// Asks for a passphrase; a new one twice until both are equal. `None` means that the person gave
/// up.
pub(super) async fn ask_passphrase(terminal: &Terminal, new: bool) -> Result<Option<Secret>, NoAnswer> {
    let mut trouble = None;
    loop {
        let Some(first) = terminal.ask(&[], PassphraseDialog::new("passphrase".to_owned(), trouble)).await?
        else {
            return Ok(None);
        };
        if !new {
            return Ok(Some(Secret::new(first)));
        }
        if let Err(why) = check_strength(&first) {
            trouble = Some(why);
            continue;
        }
        let Some(second) = terminal.ask(&[], PassphraseDialog::new("once more".to_owned(), None)).await?
        else {
            return Ok(None);
        };
        if first == second {
            return Ok(Some(Secret::new(first)));
        }
        trouble = Some("the passphrases do not match");
    }
}

/// Asks for a value without showing it. `None` means that the person gave up.
pub(super) async fn ask_secret(
    terminal: &Terminal,
    heading: &[Row],
    label: &str,
) -> Result<Option<Secret>, NoAnswer> {
    let answer = terminal.ask(heading, PassphraseDialog::new(label.to_owned(), None)).await?;
    Ok(answer.map(Secret::new))
}

/// Checks that a new passphrase is strong enough.
pub(super) fn check_strength(passphrase: &str) -> Result<(), &'static str> {
    if passphrase.chars().count() < MIN_PASSPHRASE_CHARS {
        Err("it must have at least 8 characters")
    } else {
        Ok(())
    }
}

const MIN_PASSPHRASE_CHARS: usize = 8;

/// A line of input that is not shown.
struct PassphraseDialog {
    label: String,
    problem: Option<&'static str>,
    line: LineEditor,
}

impl PassphraseDialog {
    fn new(label: String, trouble: Option<&'static str>) -> Self {
        Self { label, problem: trouble, line: LineEditor::default() }
    }
}

impl Dialog for PassphraseDialog {
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

    fn draw(&self, _: TerminalSize) -> Frame {
        let mut picture = Frame::default();
        let label = format!("{}: ", self.label);
        if let Some(trouble) = self.problem {
            picture.push_row(Row::new(HINT, trouble));
        }
        picture.cursor = Some((picture.rows.len(), label.len()));
        picture.push_row(Row::new(Style::new(), &label));
        picture.push_row(Row::new(FAINT, "what you type is not shown; esc gives up"));
        picture
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passphrase_is_never_drawn() {
        let mut dialog = PassphraseDialog::new("passphrase".to_owned(), Some("once more"));
        let room = TerminalSize { columns: 60, rows: 20 };
        let before = dialog.draw(room);
        assert_eq!(dialog.handle_key(&Key::Enter), None);
        for key in "s3cret".chars().map(Key::Char) {
            assert_eq!(dialog.handle_key(&key), None);
            assert_eq!(dialog.draw(room), before);
        }
        assert_eq!(dialog.handle_key(&Key::Enter), Some(Some("s3cret".to_owned())));
        assert_eq!(dialog.handle_key(&Key::Escape), Some(None));
    }

    #[test]
    fn short_passphrase_is_rejected() {
        assert!(check_strength("1234567").is_err());
        assert!(check_strength("größer 8").is_ok());
    }
}
