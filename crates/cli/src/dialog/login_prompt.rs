//! Guides a person through a login: shows the whole URL, opens a browser where the person can see
//! it, and offers a line to paste the callback URL into, for logins on another machine.

use std::sync::Arc;

use anstyle::Style;
use bowline::auth::{
    DeviceCode, ForeignHostChoice, ForeignLoginHost, LoginPage, LoginPrompt, PageReply, PromptFuture,
};
use bowline::host::url_preview::UrlPreview;
use serde_json::json;

use super::browser::{Browser, BrowserAccess};
use super::elicitation::Requester;
use super::foreign_login_host;
use super::frame::{Frame, Row, TerminalSize, WrapOptions, truncate, wrap_text};
use super::key::Key;
use super::line_editor::LineEditor;
use super::stdin_line::read_line;
use super::terminal::{Dialog, Terminal, TerminalUnavailable, dialog_size};
use crate::print::{BAD, FAINT, HINT, NAME, Printer, STRONG, clock};

/// Asks the person at the terminal to log in.
pub(crate) struct TerminalLoginPrompt {
    pub(super) terminal: Result<Arc<Terminal>, TerminalUnavailable>,
    pub(super) browser: Browser,
    pub(super) browser_access: BrowserAccess,
    pub(super) printer: Printer,
}

/// How many characters of an authorization server's text are shown.
const MAX_QUOTED_CHARS: usize = 300;

impl TerminalLoginPrompt {
    async fn ask_page(&self, page: LoginPage) -> PageReply {
        match &page.rejection {
            Some(why) => self.ask_again(&page, why).await,
            None => self.ask_first(&page).await,
        }
    }

    async fn ask_first(&self, page: &LoginPage) -> PageReply {
        let from = Requester { server: &page.server, during: None };
        let columns = dialog_size().columns;
        let mut heading = login_heading(from, &page.issuer, columns);
        heading.extend(scope_rows(&page.scopes, columns));
        let how = match self.browser_access {
            BrowserAccess::Local => "your browser is opened at this address; if it is not, open it yourself:",
            BrowserAccess::Ssh | BrowserAccess::NoDisplay | BrowserAccess::Disabled => {
                "open this address in a browser, on any machine:"
            }
        };
        heading.extend(url_rows(how, page.url.as_str(), columns));
        if let Some(why) = &page.listen_error {
            let text =
                format!("the browser cannot return here by itself: {}", truncate(why, MAX_QUOTED_CHARS));
            heading.extend(wrap_text(HINT, &text, WrapOptions { columns, indent: 2, max_rows: 4 }));
        }
        match &self.terminal {
            Ok(terminal) => self.ask_in_terminal(terminal, page, &heading).await,
            Err(TerminalUnavailable::Dumb) => {
                self.print_rows(&heading);
                let opening = async {
                    if let Some(why) = self.open_browser(page.url.as_str()).await {
                        self.print_rows(&[browser_failure_row(&why)]);
                    }
                    std::future::pending().await
                };
                self.print_rows(&[Row::new(Style::new(), PASTE_PROMPT)]);
                tokio::select! {
                    reply = read_pasted_url() => reply,
                    never = opening => never,
                }
            }
            // The login began although nobody can be asked.
            Err(TerminalUnavailable::NoTerminal) => PageReply::GaveUp,
        }
    }

    /// Asks again after the pasted URL was rejected.
    async fn ask_again(&self, page: &LoginPage, why: &str) -> PageReply {
        let rows =
            wrap_text(HINT, why, WrapOptions { columns: dialog_size().columns, indent: 2, max_rows: 4 });
        match &self.terminal {
            Ok(terminal) => {
                let reply = terminal
                    .ask(&rows, PasteDialog::checked(self.needs_paste(page), |text: &str| page.check(text)))
                    .await;
                reply.unwrap_or(PageReply::GaveUp)
            }
            Err(TerminalUnavailable::Dumb) => {
                self.print_rows(&rows);
                read_pasted_url().await
            }
            Err(TerminalUnavailable::NoTerminal) => PageReply::GaveUp,
        }
    }

    /// Returns whether the callback cannot reach us: over SSH, it goes to the machine that the
    /// person sits at.
    fn needs_paste(&self, page: &LoginPage) -> bool {
        !page.listening || self.browser_access != BrowserAccess::Local
    }

    /// Shows the paste dialog until a URL is pasted or the login is completed otherwise.
    async fn ask_in_terminal(&self, terminal: &Terminal, page: &LoginPage, heading: &[Row]) -> PageReply {
        let paste = || PasteDialog::checked(self.needs_paste(page), |text: &str| page.check(text));
        let failure = {
            let mut asking = std::pin::pin!(terminal.ask(heading, paste()));
            tokio::select! {
                // Biased, so that the URL is on the screen before the browser can fail.
                biased;
                reply = &mut asking => return reply.unwrap_or(PageReply::GaveUp),
                why = self.open_browser(page.url.as_str()) => match why {
                    None => return asking.await.unwrap_or(PageReply::GaveUp),
                    Some(why) => why,
                },
            }
        };
        // Shown above the dialog, which is started anew.
        let reply = terminal.ask(&[browser_failure_row(&failure)], paste()).await;
        reply.unwrap_or(PageReply::GaveUp)
    }

    /// Asks whether a login page at another host is acceptable. On a dumb terminal, `yes` has to be
    /// typed.
    async fn ask_host(&self, question: ForeignLoginHost) -> ForeignHostChoice {
        let columns = dialog_size().columns;
        let from = Requester { server: &question.server, during: None };
        let mut heading = login_heading(from, &question.issuer, columns);
        heading.extend(foreign_login_host::heading_rows(&question, columns));
        match &self.terminal {
            Ok(terminal) => match terminal.ask(&heading, foreign_login_host::consent_dialog()).await {
                Ok(true) => ForeignHostChoice::Allowed,
                Ok(false) | Err(_) => ForeignHostChoice::Refused,
            },
            Err(TerminalUnavailable::Dumb) => {
                self.print_rows(&heading);
                self.print_rows(&[Row::new(Style::new(), "  type yes to log in there anyway:")]);
                match read_pasted_url().await {
                    PageReply::Pasted(text) if text.trim() == "yes" => ForeignHostChoice::Allowed,
                    _ => ForeignHostChoice::Refused,
                }
            }
            Err(TerminalUnavailable::NoTerminal) => ForeignHostChoice::NotAsked,
        }
    }

    async fn show_code(&self, code: DeviceCode) {
        let from = Requester { server: &code.server, during: None };
        let columns = dialog_size().columns;
        let mut heading = login_heading(from, &code.issuer, columns);
        heading.extend(scope_rows(&code.scopes, columns));
        heading.extend(url_rows("open this address on any device:", code.url.as_str(), columns));
        heading
            .push(Row::new(Style::new(), "  and enter this code: ").with(STRONG, &truncate(&code.code, 100)));
        if let Some(complete) = &code.complete_url {
            heading.extend(url_rows(
                "or open this one, which has the code in it:",
                complete.as_str(),
                columns,
            ));
        }
        let good = format!("the code is valid for {}", clock::format_span(code.expires_in));
        if let Ok(terminal) = &self.terminal {
            let _ = terminal.ask(&heading, DeviceCodeDialog(good)).await;
            return;
        }
        if self.printer.is_json() {
            let members = json!({
                "server": &*code.server, "issuer": code.issuer, "url": code.url.as_str(), "code": code.code,
                "complete_url": code.complete_url.as_ref().map(url::Url::as_str),
                "expires_in": code.expires_in.as_secs(), "scopes": code.scopes,
            });
            self.printer.write_event("", "device_code", &members);
        } else {
            heading.push(Row::new(FAINT, "  ").with(FAINT, &good));
            self.print_rows(&heading);
        }
        std::future::pending::<()>().await;
    }

    /// Opens the browser, and returns the error if that fails.
    async fn open_browser(&self, url: &str) -> Option<String> {
        match self.browser_access {
            BrowserAccess::Local => self.browser.open(url).await.err(),
            BrowserAccess::Ssh | BrowserAccess::NoDisplay | BrowserAccess::Disabled => None,
        }
    }

    /// Prints rows on a terminal that cannot draw dialogs.
    fn print_rows(&self, rows: &[Row]) {
        let color = self.printer.stderr_has_color();
        for row in rows {
            self.printer.write_stderr_line(&row.render(usize::MAX, color));
        }
    }
}

impl LoginPrompt for TerminalLoginPrompt {
    fn show_page(&self, page: LoginPage) -> PromptFuture<'_, PageReply> {
        Box::pin(self.ask_page(page))
    }

    fn confirm_foreign_host(&self, question: ForeignLoginHost) -> PromptFuture<'_, ForeignHostChoice> {
        Box::pin(self.ask_host(question))
    }

    fn show_device_code(&self, code: DeviceCode) -> PromptFuture<'_, ()> {
        Box::pin(self.show_code(code))
    }

    fn has_browser(&self) -> bool {
        // A person who disabled the browser for this command has one all the same.
        matches!(self.browser_access, BrowserAccess::Local | BrowserAccess::Disabled)
    }

    fn can_paste(&self) -> bool {
        !matches!(self.terminal, Err(TerminalUnavailable::NoTerminal))
    }
}

/// Formats the server that wants the login, and the authorization server.
fn login_heading(from: Requester<'_>, issuer: &str, columns: usize) -> Vec<Row> {
    let mut rows = from.heading("wants you to log in", columns);
    rows.push(Row::new(Style::new(), "    at ").with(NAME, &truncate(issuer, MAX_QUOTED_CHARS)));
    rows
}

/// Formats the requested scopes, if there are any.
fn scope_rows(scopes: &[String], columns: usize) -> Vec<Row> {
    if scopes.is_empty() {
        return Vec::new();
    }
    let scopes = truncate(&format!("it asks for: {}", scopes.join(", ")), MAX_QUOTED_CHARS);
    wrap_text(FAINT, &scopes, WrapOptions { columns, indent: 4, max_rows: 6 })
}

/// Formats a URL on a line of its own, unbroken: terminals make it clickable.
fn url_rows(how: &str, url: &str, columns: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for warning in UrlPreview::parse(url).map(|look| look.warnings).unwrap_or_default() {
        let text = format!("careful: {warning}");
        rows.extend(wrap_text(BAD, &text, WrapOptions { columns, indent: 4, max_rows: 4 }));
    }
    rows.push(Row::new(Style::new(), "  ").with(Style::new(), how));
    rows.push(Row::whole(Style::new(), url));
    rows
}

fn browser_failure_row(why: &str) -> Row {
    Row::new(HINT, "  no browser could be opened: ").with(HINT, &truncate(why, MAX_QUOTED_CHARS))
}

const PASTE_PROMPT: &str = "  once you have logged in, paste the URL you were redirected to:";

/// A line to paste the callback URL into.
struct PasteDialog<C> {
    line: LineEditor,
    needs_paste: bool,
    /// Validates the pasted text.
    check: C,
    /// Problem of the last pasted text.
    problem: Option<String>,
}

impl<C: Fn(&str) -> Result<(), String>> PasteDialog<C> {
    fn checked(away: bool, check: C) -> Self {
        Self { line: LineEditor::default(), needs_paste: away, check, problem: None }
    }
}

impl<C: Fn(&str) -> Result<(), String>> Dialog for PasteDialog<C> {
    type Output = PageReply;

    fn handle_key(&mut self, key: &Key) -> Option<PageReply> {
        match key {
            Key::Escape => Some(PageReply::GaveUp),
            Key::Enter => {
                let text = self.line.text().trim().to_owned();
                if text.is_empty() {
                    return None;
                }
                // Checked here, where it can be corrected: people paste the URL of the login page,
                // or half of a URL.
                self.problem = (self.check)(&text).err();
                self.problem.is_none().then_some(PageReply::Pasted(text))
            }
            _ => {
                self.line.handle_key(key);
                None
            }
        }
    }

    fn draw(&self, room: TerminalSize) -> Frame {
        let mut picture = Frame::default();
        if let Some(why) = &self.problem {
            picture.push_text(HINT, why, WrapOptions { columns: room.columns, indent: 2, max_rows: 4 });
        }
        let (text, more) = if self.needs_paste {
            (
                "once you have logged in, you are sent to a page that cannot be shown there: copy its address from \
                 the browser and paste it here",
                "enter sends it, esc gives up",
            )
        } else {
            (
                "it continues by itself once you have logged in; if it does not, paste the URL you were redirected to",
                "esc gives up",
            )
        };
        picture.push_text(Style::new(), text, WrapOptions { columns: room.columns, indent: 2, max_rows: 4 });
        let (shown, column) = self.line.window(room.columns.saturating_sub(4));
        picture.cursor = Some((picture.rows.len(), 4 + column));
        picture.push_row(Row::new(NAME, "  > ").with(Style::new(), &shown));
        picture.push_row(Row::new(FAINT, "  ").with(FAINT, more));
        picture
    }
}

/// Shown until the device code was entered elsewhere.
struct DeviceCodeDialog(String);

impl Dialog for DeviceCodeDialog {
    type Output = ();

    fn handle_key(&mut self, key: &Key) -> Option<()> {
        (*key == Key::Escape).then_some(())
    }

    fn draw(&self, room: TerminalSize) -> Frame {
        let mut picture = Frame::default();
        let text = format!("it continues by itself once you have; {}; esc gives up", self.0);
        picture.push_text(FAINT, &text, WrapOptions { columns: room.columns, indent: 2, max_rows: 3 });
        picture
    }
}

/// Reads the next line of stdin that is not blank.
async fn read_pasted_url() -> PageReply {
    loop {
        match read_line().await {
            None => return PageReply::GaveUp,
            Some(line) if line.is_empty() => {}
            Some(line) => return PageReply::Pasted(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: TerminalSize = TerminalSize { columns: 60, rows: 20 };

    fn check(text: &str) -> Result<(), String> {
        if text.starts_with("https://as.example") { Err("another address".to_owned()) } else { Ok(()) }
    }

    fn press(keys: &[Key]) -> Option<String> {
        let mut dialog = PasteDialog::checked(true, check);
        keys.iter().find_map(|key| dialog.handle_key(key)).map(|reply| match reply {
            PageReply::Pasted(text) => text,
            _ => "gave up".to_owned(),
        })
    }

    #[test]
    fn what_is_pasted_is_sent_by_enter() {
        let pasted = Key::Paste(" http://127.0.0.1:1/callback?code=a&state=b\r\n".to_owned());
        assert_eq!(press(std::slice::from_ref(&pasted)), None);
        assert_eq!(
            press(&[Key::Enter, pasted, Key::Enter]).unwrap(),
            "http://127.0.0.1:1/callback?code=a&state=b"
        );
        assert_eq!(press(&[Key::Char('x'), Key::Escape]).unwrap(), "gave up");
        assert_eq!(press(&[Key::Char('x'), Key::Enter]).unwrap(), "x");
        let other = Key::Paste("https://as.example/authorize?state=b".to_owned());
        assert_eq!(press(&[other, Key::Enter]), None);
    }

    /// The authorization server's name cannot move the cursor, and its URL is not broken.
    #[test]
    fn an_address_stays_whole_and_a_name_harmless() {
        let url = format!("https://as.example/{}", "a".repeat(200));
        let rows = url_rows("open:", &url, 40);
        assert_eq!(rows.last().unwrap().render(40, false), url);
        let from = Requester { server: "docs", during: None };
        let rows = login_heading(from, "https://as.example/\x1b[2J", 60);
        assert_eq!(rows[1].to_plain(60), "    at https://as.example/\\u{1b}[2J");
        assert!(url_rows("open:", "https://xn--evl-hoa.example/", 80).len() > 2);
    }

    #[test]
    fn a_long_paste_keeps_to_its_line() {
        let mut dialog = PasteDialog::checked(false, check);
        dialog.handle_key(&Key::Paste("x".repeat(500)));
        let picture = dialog.draw(ROOM);
        assert!(picture.rows.iter().all(|row| row.width() <= ROOM.columns), "{picture:?}");
    }
}
