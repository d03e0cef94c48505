//! Asks for consent to open a URL, and shows what it leads to. Nothing is fetched, and nothing is
//! opened without a yes.
// EL-09.

use anstyle::Style;
use bowline::host::UrlRequest;
use bowline::host::url_preview::UrlPreview;

use super::frame::{Frame, Row, TerminalSize, WrapOptions, wrap_text};
use super::key::Key;
use super::menu::{Menu, MenuItem};
use super::terminal::Dialog;
use super::yes_no::YesNoDialog;
use crate::print::{BAD, FAINT, HINT, STRONG};

/// Asks whether to open the URL.
pub(super) struct UrlConsentDialog(Menu);

/// The person's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UrlConsent {
    /// Accept, and open the URL.
    Open,
    /// Accept; the person opens the URL.
    OpenManually,
    Decline,
    /// Dismiss without an answer.
    Cancel,
}

const CHOICES: [(&str, &str, UrlConsent); 4] = [
    ("Open it in the browser", "", UrlConsent::Open),
    ("I open it myself", "it is not opened for you", UrlConsent::OpenManually),
    ("Decline", "tell the server no", UrlConsent::Decline),
    ("Cancel", "dismiss it", UrlConsent::Cancel),
];

impl UrlConsentDialog {
    /// Creates the dialog with the cursor at the no, so that a yes takes more than one key.
    pub(super) fn new() -> Self {
        let items = CHOICES.map(|(title, more, _)| MenuItem::new(title).more(more));
        Self(Menu::single_choice(items.into(), 2))
    }
}

impl Dialog for UrlConsentDialog {
    type Output = UrlConsent;

    fn handle_key(&mut self, key: &Key) -> Option<UrlConsent> {
        match key {
            Key::Escape => Some(UrlConsent::Cancel),
            Key::Enter => CHOICES.get(self.0.at).map(|(_, _, choice)| *choice),
            _ => {
                self.0.handle_key(key);
                None
            }
        }
    }

    fn draw(&self, room: TerminalSize) -> Frame {
        let mut picture = Frame { rows: self.0.rows(room.rows), cursor: None };
        picture.push_row(Row::new(FAINT, "  enter chooses, esc cancels"));
        picture
    }
}

/// Formats the whole URL with its host emphasized, and the warnings.
pub(super) fn heading_rows(look: &UrlPreview, columns: usize) -> Vec<Row> {
    let mut rows = url_rows(look, columns);
    rows.push(Row::new(Style::new(), "    it leads to ").with(STRONG, &look.host));
    for warning in &look.warnings {
        let wrap = WrapOptions { columns, indent: 4, max_rows: 4 };
        rows.extend(wrap_text(BAD, &format!("careful: {warning}"), wrap));
    }
    rows
}

/// Formats the whole URL with its host emphasized.
pub(super) fn url_rows(look: &UrlPreview, columns: usize) -> Vec<Row> {
    let url = look.url.as_str();
    // The host follows the last `@` of the authority; what stands before it may be a decoy.
    let authority = url.find("://").map_or(0, |at| at + 3);
    let end = url[authority..].find(['/', '?', '#']).map_or(url.len(), |at| authority + at);
    let host = url[authority..end].rfind('@').map_or(authority, |at| authority + at + 1);
    let mut rows = Vec::new();
    let (mut row, mut used) = (Row::new(Style::new(), "    "), 4);
    for (at, c) in url.char_indices() {
        // The URL is ASCII, so each character is one column wide.
        if used + 1 > columns {
            rows.push(std::mem::take(&mut row));
            (row, used) = (Row::new(Style::new(), "    "), 4);
        }
        let style = if (host..end).contains(&at) { STRONG.underline() } else { Style::new() };
        row = row.with(style, c.encode_utf8(&mut [0; 4]));
        used += 1;
    }
    rows.push(row);
    rows
}

/// Formats what happens after a yes.
pub(super) fn next_step_rows(request: &UrlRequest, columns: usize) -> Vec<Row> {
    let text = format!(
        "What you do there is between you and `{}`, which goes on when you are done. Ctrl-C gives up.",
        request.server
    );
    wrap_text(HINT, &text, WrapOptions { columns, indent: 2, max_rows: 4 })
}

/// Returns the dialog that asks whether the person is done at a URL that a call waits for.
pub(super) fn done_dialog() -> YesNoDialog {
    let yes = MenuItem::new("I am done there").more("try again");
    let footer = "it continues by itself if the server reports that you have finished";
    YesNoDialog::with_yes_preselected(yes, MenuItem::new("Give up"), footer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> (Vec<String>, String) {
        let rows = heading_rows(&UrlPreview::parse(url).unwrap(), 40);
        let painted = rows.iter().map(|row| row.render(40, true)).collect();
        (rows.iter().map(|row| row.to_plain(40)).collect(), painted)
    }

    /// Returns the emphasized host.
    fn highlighted(painted: &str) -> String {
        let marked = STRONG.underline().to_string();
        painted.split(&marked).skip(1).filter_map(|part| part.chars().next()).collect()
    }

    /// EL-09: the whole URL is shown, with the right part emphasized.
    #[test]
    fn the_whole_address_is_shown_and_its_host_set_off() {
        let long = format!("https://example.org/{}", "a".repeat(100));
        let (rows, painted) = shown(&long);
        let joined: String = rows[..rows.len() - 1].iter().map(|row| row.trim_start()).collect();
        assert_eq!(joined, long);
        assert!(rows.iter().all(|row| row.len() <= 40), "{rows:?}");
        assert_eq!(highlighted(&painted), "example.org");
        let (rows, painted) = shown("http://bank.example@xn--evl-hoa.example/?u=https://bank.example/");
        assert_eq!(highlighted(&painted), "xn--evl-hoa.example");
        let all = rows.iter().map(|row| row.trim()).collect::<Vec<_>>().join(" ");
        for warning in
            ["it leads to xn--evl-hoa.example", "look like others", "before the @", "not encrypted"]
        {
            assert!(all.contains(warning), "{warning} in {rows:?}");
        }
    }

    #[test]
    fn a_yes_takes_more_than_a_key() {
        let press = |keys: &[Key]| {
            let mut dialog = UrlConsentDialog::new();
            keys.iter().find_map(|key| dialog.handle_key(key))
        };
        assert_eq!(press(&[Key::Enter]), Some(UrlConsent::Decline));
        assert_eq!(press(&[Key::Escape]), Some(UrlConsent::Cancel));
        assert_eq!(press(&[Key::Char('o'), Key::Enter]), Some(UrlConsent::Open));
        assert_eq!(press(&[Key::Up, Key::Enter]), Some(UrlConsent::OpenManually));
        assert_eq!(press(&[Key::Down, Key::Enter]), Some(UrlConsent::Cancel));
    }
}
