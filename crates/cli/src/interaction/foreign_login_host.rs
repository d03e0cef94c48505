//! Asks for consent to a login page whose host differs from that of the authorization server. Both
//! hosts are shown, and a yes takes more than one key.

use anstyle::Style;
use bowline::auth::{ForeignHostChoice, ForeignLoginHost};

use super::frame::{Frame, Row, TerminalSize, WrapOptions, truncate, wrap_text};
use super::key::Key;
use super::menu::{Menu, MenuItem};
use super::terminal::Dialog;
use crate::print::{BAD, FAINT, STRONG};

/// Asks whether to log in at the other host.
pub(super) struct ForeignHostDialog(Menu);

/// How many characters of a host are shown.
const MAX_HOST_CHARS: usize = 120;

impl ForeignHostDialog {
    /// Creates the dialog with the cursor at the no.
    pub(super) fn new() -> Self {
        let items = vec![
            MenuItem::new("Log in there").more("I know that they belong together"),
            MenuItem::new("Give up").more("nobody is told who I am"),
        ];
        Self(Menu::single_choice(items, 1))
    }
}

impl Dialog for ForeignHostDialog {
    type Output = ForeignHostChoice;

    fn handle_key(&mut self, key: &Key) -> Option<ForeignHostChoice> {
        match key {
            Key::Escape => Some(ForeignHostChoice::Refused),
            Key::Enter => {
                Some(if self.0.at() == 0 { ForeignHostChoice::Allowed } else { ForeignHostChoice::Refused })
            }
            _ => {
                self.0.handle_key(key);
                None
            }
        }
    }

    fn draw(&self, room: TerminalSize) -> Frame {
        let mut picture = Frame { rows: self.0.rows(room.rows), cursor: None };
        picture.push_row(Row::new(FAINT, "  enter chooses, esc gives up"));
        picture
    }
}

/// Formats both hosts, one below the other, and a warning.
pub(super) fn heading_rows(question: &ForeignLoginHost, columns: usize) -> Vec<Row> {
    let line =
        |label: &str, host: &str| Row::new(Style::new(), label).with(STRONG, &truncate(host, MAX_HOST_CHARS));
    let text = "careful: the login page is at another host than who gives out the login. Whoever you log in to there \
                may not be who you think of";
    let mut rows = wrap_text(BAD, text, WrapOptions { columns, indent: 4, max_rows: 4 });
    rows.push(line("    the authorization server is at ", &question.issuer_host));
    rows.push(line("    its login page is at           ", &question.page_host));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yes_takes_more_than_a_key() {
        let press = |keys: &[Key]| {
            let mut dialog = ForeignHostDialog::new();
            keys.iter().find_map(|key| dialog.handle_key(key))
        };
        assert_eq!(press(&[Key::Enter]), Some(ForeignHostChoice::Refused));
        assert_eq!(press(&[Key::Escape]), Some(ForeignHostChoice::Refused));
        assert_eq!(press(&[Key::Up, Key::Enter]), Some(ForeignHostChoice::Allowed));
        assert_eq!(press(&[Key::Char('x')]), None);
    }
}
