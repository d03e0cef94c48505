//! Guides a person through a login: shows the whole URL, opens a browser where the person can see
//! it, and offers a line to paste the callback URL into, for logins on another machine.

use std::io::{self, BufRead as _, Read as _};
use std::sync::Arc;

use anstyle::Style;
use bowline::auth::{
    DeviceCode, ForeignHostChoice, ForeignLoginHost, LoginPage, LoginPrompt, PageReply, PromptFuture,
};
use bowline::host::url_preview::UrlPreview;
use serde_json::json;

use super::browser::{Browser, Reach};
use super::elicit::From;
use super::host_consent::{self, HostConsent};
use super::key::Key;
use super::line::Line;
use super::look::{Picture, Room, Row, Wrap, bounded, wrapped};
use super::terminal::{Absent, Dialog, Terminal, room};
use crate::print::{BAD, FAINT, HINT, NAME, Printer, STRONG, clock};

/// Asks the person at the terminal to log in.
pub(crate) struct Login {
    pub(super) terminal: Result<Arc<Terminal>, Absent>,
    pub(super) browser: Browser,
    pub(super) reach: Reach,
    pub(super) printer: Printer,
}

/// How many characters of an authorization server's text are shown.
const LONGEST: usize = 300;

impl Login {
    async fn ask_page(&self, page: LoginPage) -> PageReply {
        match &page.rejection {
            Some(why) => self.ask_again(&page, why).await,
            None => self.ask_first(&page).await,
        }
    }

    async fn ask_first(&self, page: &LoginPage) -> PageReply {
        let from = From { server: &page.server, during: None };
        let columns = room().columns;
        let mut heading = asked(from, &page.issuer, columns);
        heading.extend(asked_for(&page.scopes, columns));
        let how = match self.reach {
            Reach::Here => "your browser is opened at this address; if it is not, open it yourself:",
            Reach::Ssh | Reach::NoDisplay | Reach::Unwanted => {
                "open this address in a browser, on any machine:"
            }
        };
        heading.extend(address(how, page.url.as_str(), columns));
        if let Some(why) = &page.listen_error {
            let text = format!("it does not come back by itself: {}", bounded(why, LONGEST));
            heading.extend(wrapped(HINT, &text, Wrap { columns, indent: 2, most: 4 }));
        }
        match &self.terminal {
            Ok(terminal) => self.ask_at(terminal, page, &heading).await,
            Err(Absent::Dumb) => {
                self.tell(&heading);
                let opening = async {
                    if let Some(why) = self.open(page.url.as_str()).await {
                        self.tell(&[failed(&why)]);
                    }
                    std::future::pending().await
                };
                self.tell(&[Row::of(Style::new(), PASTE)]);
                tokio::select! {
                    reply = pasted() => reply,
                    never = opening => never,
                }
            }
            // The login began although nobody can be asked.
            Err(Absent::NoTerminal) => PageReply::GaveUp,
        }
    }

    /// Asks again after the pasted URL was rejected.
    async fn ask_again(&self, page: &LoginPage, why: &str) -> PageReply {
        let rows = wrapped(HINT, why, Wrap { columns: room().columns, indent: 2, most: 4 });
        match &self.terminal {
            Ok(terminal) => {
                let reply = terminal.ask(&rows, Paste::new(self.is_away(page), page)).await;
                reply.unwrap_or(PageReply::GaveUp)
            }
            Err(Absent::Dumb) => {
                self.tell(&rows);
                pasted().await
            }
            Err(Absent::NoTerminal) => PageReply::GaveUp,
        }
    }

    /// Returns whether the callback cannot reach us: over SSH, it goes to the machine that the
    /// person sits at.
    fn is_away(&self, page: &LoginPage) -> bool {
        !page.listening || self.reach != Reach::Here
    }

    /// Shows the paste dialog until a URL is pasted or the login is completed otherwise.
    async fn ask_at(&self, terminal: &Terminal, page: &LoginPage, heading: &[Row]) -> PageReply {
        let paste = || Paste::new(self.is_away(page), page);
        let failure = {
            let mut asking = std::pin::pin!(terminal.ask(heading, paste()));
            tokio::select! {
                // Biased, so that the URL is on the screen before the browser can fail.
                biased;
                reply = &mut asking => return reply.unwrap_or(PageReply::GaveUp),
                why = self.open(page.url.as_str()) => match why {
                    None => return asking.await.unwrap_or(PageReply::GaveUp),
                    Some(why) => why,
                },
            }
        };
        // Shown above the dialog, which is started anew.
        let reply = terminal.ask(&[failed(&failure)], paste()).await;
        reply.unwrap_or(PageReply::GaveUp)
    }

    /// Asks whether a login page at another host is acceptable. On a dumb terminal, `yes` has to be
    /// typed.
    async fn ask_host(&self, question: ForeignLoginHost) -> ForeignHostChoice {
        let columns = room().columns;
        let from = From { server: &question.server, during: None };
        let mut heading = asked(from, &question.issuer, columns);
        heading.extend(host_consent::heading(&question, columns));
        match &self.terminal {
            Ok(terminal) => {
                terminal.ask(&heading, HostConsent::new()).await.unwrap_or(ForeignHostChoice::Refused)
            }
            Err(Absent::Dumb) => {
                self.tell(&heading);
                self.tell(&[Row::of(Style::new(), "  type yes to log in there all the same:")]);
                match pasted().await {
                    PageReply::Pasted(text) if text.trim() == "yes" => ForeignHostChoice::Allowed,
                    PageReply::Pasted(_) | PageReply::GaveUp => ForeignHostChoice::Refused,
                }
            }
            Err(Absent::NoTerminal) => ForeignHostChoice::NotAsked,
        }
    }

    async fn show_code(&self, code: DeviceCode) {
        let from = From { server: &code.server, during: None };
        let columns = room().columns;
        let mut heading = asked(from, &code.issuer, columns);
        heading.extend(asked_for(&code.scopes, columns));
        heading.extend(address("open this address on any device:", code.url.as_str(), columns));
        heading
            .push(Row::of(Style::new(), "  and type in this code: ").then(STRONG, &bounded(&code.code, 100)));
        if let Some(complete) = &code.complete_url {
            heading.extend(address(
                "or open this one, which has the code in it:",
                complete.as_str(),
                columns,
            ));
        }
        let good = format!("the code is good for {}", clock::span(code.expires_in));
        if let Ok(terminal) = &self.terminal {
            let _ = terminal.ask(&heading, Waiting(good)).await;
            return;
        }
        if self.printer.is_json() {
            let members = json!({
                "server": &*code.server, "issuer": code.issuer, "url": code.url.as_str(), "code": code.code,
                "complete_url": code.complete_url.as_ref().map(url::Url::as_str),
                "expires_in": code.expires_in.as_secs(), "scopes": code.scopes,
            });
            self.printer.event("", "device_code", &members);
        } else {
            heading.push(Row::of(FAINT, "  ").then(FAINT, &good));
            self.tell(&heading);
        }
        std::future::pending::<()>().await;
    }

    /// Opens the browser, and returns the error if that fails.
    async fn open(&self, url: &str) -> Option<String> {
        match self.reach {
            Reach::Here => self.browser.open(url).await.err(),
            Reach::Ssh | Reach::NoDisplay | Reach::Unwanted => None,
        }
    }

    /// Prints rows on a terminal that cannot draw dialogs.
    fn tell(&self, rows: &[Row]) {
        let color = self.printer.notes_in_color();
        for row in rows {
            self.printer.aside(&row.painted(usize::MAX, color));
        }
    }
}

impl LoginPrompt for Login {
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
        matches!(self.reach, Reach::Here | Reach::Unwanted)
    }

    fn can_paste(&self) -> bool {
        !matches!(self.terminal, Err(Absent::NoTerminal))
    }
}

/// Formats the server that wants the login, and the authorization server.
fn asked(from: From<'_>, issuer: &str, columns: usize) -> Vec<Row> {
    let mut rows = from.heading("wants you to log in", columns);
    rows.push(Row::of(Style::new(), "    at ").then(NAME, &bounded(issuer, LONGEST)));
    rows
}

/// Formats the requested scopes, if there are any.
fn asked_for(scopes: &[String], columns: usize) -> Vec<Row> {
    if scopes.is_empty() {
        return Vec::new();
    }
    let scopes = bounded(&format!("it asks for: {}", scopes.join(", ")), LONGEST);
    wrapped(FAINT, &scopes, Wrap { columns, indent: 4, most: 6 })
}

/// Formats a URL on a line of its own, unbroken: terminals make it clickable.
fn address(how: &str, url: &str, columns: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for warning in UrlPreview::parse(url).map(|look| look.warnings).unwrap_or_default() {
        let text = format!("careful: {warning}");
        rows.extend(wrapped(BAD, &text, Wrap { columns, indent: 4, most: 4 }));
    }
    rows.push(Row::of(Style::new(), "  ").then(Style::new(), how));
    rows.push(Row::whole(Style::new(), url));
    rows
}

fn failed(why: &str) -> Row {
    Row::of(HINT, "  no browser could be opened: ").then(HINT, &bounded(why, LONGEST))
}

const PASTE: &str = "  once you have logged in, paste the address you were sent to:";

/// A line to paste the callback URL into.
struct Paste<C> {
    line: Line,
    away: bool,
    /// Validates the pasted text.
    check: C,
    /// Problem of the last pasted text.
    wrong: Option<String>,
}

impl<'a> Paste<Box<dyn Fn(&str) -> Result<(), String> + Send + 'a>> {
    fn new(away: bool, page: &'a LoginPage) -> Self {
        Self::checked(away, Box::new(|text| page.check(text)))
    }
}

impl<C: Fn(&str) -> Result<(), String>> Paste<C> {
    fn checked(away: bool, check: C) -> Self {
        Self { line: Line::default(), away, check, wrong: None }
    }
}

impl<C: Fn(&str) -> Result<(), String>> Dialog for Paste<C> {
    type Answer = PageReply;

    fn press(&mut self, key: &Key) -> Option<PageReply> {
        match key {
            Key::Escape => Some(PageReply::GaveUp),
            Key::Enter => {
                let text = self.line.text().trim().to_owned();
                if text.is_empty() {
                    return None;
                }
                // Checked here, where it can be corrected: people paste the URL of the login page,
                // or half of a URL.
                self.wrong = (self.check)(&text).err();
                self.wrong.is_none().then_some(PageReply::Pasted(text))
            }
            _ => {
                self.line.handle(key);
                None
            }
        }
    }

    fn draw(&self, room: Room) -> Picture {
        let mut picture = Picture::default();
        if let Some(why) = &self.wrong {
            picture.block(HINT, why, Wrap { columns: room.columns, indent: 2, most: 4 });
        }
        let (text, more) = if self.away {
            (
                "once you have logged in, you are sent to a page that cannot be shown there: copy its address from \
                 the browser and paste it here",
                "enter sends it, esc gives up",
            )
        } else {
            (
                "it goes on by itself once you have logged in; if it does not, paste the address you were sent to",
                "esc gives up",
            )
        };
        picture.block(Style::new(), text, Wrap { columns: room.columns, indent: 2, most: 4 });
        let (shown, column) = self.line.window(room.columns.saturating_sub(4));
        picture.cursor = Some((picture.rows.len(), 4 + column));
        picture.row(Row::of(NAME, "  > ").then(Style::new(), &shown));
        picture.row(Row::of(FAINT, "  ").then(FAINT, more));
        picture
    }
}

/// Shown until the device code was entered elsewhere.
struct Waiting(String);

impl Dialog for Waiting {
    type Answer = ();

    fn press(&mut self, key: &Key) -> Option<()> {
        (*key == Key::Escape).then_some(())
    }

    fn draw(&self, room: Room) -> Picture {
        let mut picture = Picture::default();
        let text = format!("it goes on by itself once you have; {}; esc gives up", self.0);
        picture.block(FAINT, &text, Wrap { columns: room.columns, indent: 2, most: 3 });
        picture
    }
}

/// Longest line of input, in bytes.
const LONGEST_LINE: u64 = 16 * 1024;

async fn pasted() -> PageReply {
    line().await.map_or(PageReply::GaveUp, PageReply::Pasted)
}

/// Reads the next line of stdin that is not blank, or returns `None` at its end.
async fn line() -> Option<String> {
    let read = || {
        loop {
            let mut line = String::new();
            let count = io::stdin().lock().take(LONGEST_LINE).read_line(&mut line).ok()?;
            match line.trim() {
                _ if count == 0 => return None,
                "" => {}
                line => return Some(line.to_owned()),
            }
        }
    };
    tokio::task::spawn_blocking(read).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { columns: 60, rows: 20 };

    fn check(text: &str) -> Result<(), String> {
        if text.starts_with("https://as.example") { Err("another address".to_owned()) } else { Ok(()) }
    }

    fn press(keys: &[Key]) -> Option<String> {
        let mut dialog = Paste::checked(true, check);
        keys.iter().find_map(|key| dialog.press(key)).map(|reply| match reply {
            PageReply::Pasted(text) => text,
            PageReply::GaveUp => "gave up".to_owned(),
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
        let rows = address("open:", &url, 40);
        assert_eq!(rows.last().unwrap().painted(40, false), url);
        let from = From { server: "docs", during: None };
        let rows = asked(from, "https://as.example/\x1b[2J", 60);
        assert_eq!(rows[1].plain(60), "    at https://as.example/\\u{1b}[2J");
        assert!(address("open:", "https://xn--evl-hoa.example/", 80).len() > 2);
    }

    #[test]
    fn a_long_paste_keeps_to_its_line() {
        let mut dialog = Paste::checked(false, check);
        dialog.press(&Key::Paste("x".repeat(500)));
        let picture = dialog.draw(ROOM);
        assert!(picture.rows.iter().all(|row| row.width() <= ROOM.columns), "{picture:?}");
    }
}
