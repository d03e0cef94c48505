//! Asks for consent to a login page whose host differs from that of the authorization server. Both
//! hosts are shown, and a yes takes more than one key.

use anstyle::Style;
use bowline::auth::ForeignLoginHost;

use super::frame::{Row, WrapOptions, truncate, wrap_text};
use super::menu::MenuItem;
use super::yes_no::YesNoDialog;
use crate::print::{BAD, STRONG};

/// How many characters of a host are shown.
const MAX_HOST_CHARS: usize = 120;

/// Returns the dialog that asks whether to log in at the other host.
pub(super) fn consent_dialog() -> YesNoDialog {
    let yes = MenuItem::new("Log in there").more("I know that they belong together");
    let no = MenuItem::new("Give up").more("do not log in");
    YesNoDialog::new(yes, no, "enter chooses, esc gives up")
}

/// Formats both hosts, one below the other, and a warning.
pub(super) fn heading_rows(question: &ForeignLoginHost, columns: usize) -> Vec<Row> {
    let line =
        |label: &str, host: &str| Row::new(Style::new(), label).with(STRONG, &truncate(host, MAX_HOST_CHARS));
    let text = "careful: the login page is at another host than the authorization server. It may not belong to whom \
                you expect";
    let mut rows = wrap_text(BAD, text, WrapOptions { columns, indent: 4, max_rows: 4 });
    rows.push(line("    the authorization server is at ", &question.issuer_host));
    rows.push(line("    its login page is at           ", &question.page_host));
    rows
}
