//! Answers elicitation requests: by the person, if there is a terminal and the policy is to ask; by
//! prepared answers; or by the policy. No answer is ever invented.

use std::sync::Arc;

use anstyle::Style;
use bowline::UrlElicitationOutcome;
use bowline::config::ElicitationPolicy;
use bowline::host::url_preview::UrlPreview;
use bowline::host::{DeclinedRequest, Elicit, FormRequest, HostFuture, UrlRequest};
use bowline::view::ElicitResult;
use serde_json::{Value, json};

use super::answers::Answers;
use super::browser::Browser;
use super::form::Filling;
use super::look::{Row, Wrap, bounded, wrapped};
use super::page::{self, Choice, Consent, Waiting};
use super::terminal::{Absent, Terminal, room};
use crate::print::{FAINT, GOOD, HINT, NAME, Printer, STRONG};

/// Handles `elicitation/create`.
pub(super) struct Asker {
    pub(super) policy: ElicitationPolicy,
    pub(super) terminal: Result<Arc<Terminal>, Absent>,
    pub(super) answers: Answers,
    pub(super) browser: Browser,
    pub(super) printer: Printer,
}

/// The server that asks, and the call of ours that it belongs to.
#[derive(Clone, Copy)]
pub(super) struct From<'a> {
    pub(super) server: &'a str,
    pub(super) during: Option<&'a str>,
}

/// How many rows of a message are shown.
const LONGEST_MESSAGE: usize = 40;
/// How much of a declined URL is shown; its beginning shows the reason.
const MAX_DECLINED_URL: usize = 200;
const MAX_DECLINED_REASON: usize = 400;

impl Asker {
    /// Returns the terminal, if the person is to be asked.
    fn person(&self) -> Option<&Terminal> {
        self.terminal.as_deref().ok().filter(|_| self.policy == ElicitationPolicy::Ask)
    }

    async fn ask_form(&self, request: FormRequest) -> ElicitResult {
        let FormRequest { server, purpose: during, form } = request;
        let from = From { server: &server, during: during.as_deref() };
        let Some(terminal) = self.person() else {
            return match self.answers.fill(&form) {
                Ok(answer) => {
                    let asked = brief(&form.message);
                    let text = format!("{from} asked: {asked}\nyour --answer was sent");
                    self.printer.event(&text, "answered", &from.json(&asked));
                    answer
                }
                Err(why) => {
                    let needed = form.fields.iter().filter(|field| field.required);
                    let needed: Vec<String> =
                        needed.map(|field| format!("--answer {}=…", field.name)).collect();
                    let how = match (why.is_empty(), needed.is_empty()) {
                        (false, _) => format!("--answer does not fit: {}", why.join("; ")),
                        (true, true) => self.in_terminal(),
                        (true, false) => format!("{}, or give {}", self.in_terminal(), needed.join(" ")),
                    };
                    self.refused(from, &form.message, &bounded(&how, 1000))
                }
            };
        };
        let columns = room().columns;
        let mut heading = from.heading("asks you something", columns);
        heading.extend(message(&form.message, columns));
        let caution = "what you answer goes to that server; passwords and keys do not belong in a form";
        heading.extend(wrapped(FAINT, caution, Wrap { columns, indent: 2, most: 3 }));
        let (given, wrong) = self.answers.values(&form);
        for why in wrong {
            heading.push(Row::of(HINT, "  --answer does not fit: ").then(HINT, &why));
        }
        let answer = terminal.ask(&heading, Filling::new(form, &given)).await.unwrap_or(ElicitResult::Cancel);
        terminal.tell(&outcome(&answer, &server));
        answer
    }

    async fn ask_page(&self, request: UrlRequest) -> ElicitResult {
        let from = From { server: &request.server, during: request.purpose.as_deref() };
        let Ok(look) = UrlPreview::parse(&request.elicitation.url) else { return ElicitResult::Decline };
        let Some(terminal) = self.person() else {
            let how = format!("it wanted you to open {}\n{}", look.url, self.in_terminal());
            return self.refused(from, &request.elicitation.message, &how);
        };
        let columns = room().columns;
        let mut heading = from.heading("wants you to open a page", columns);
        heading.extend(message(&request.elicitation.message, columns));
        heading.extend(page::heading(&look, columns));
        let choice = terminal.ask(&heading, Consent::new()).await.unwrap_or(Choice::Cancel);
        let answer = match choice {
            Choice::Open | Choice::ByHand => ElicitResult::Accept(None),
            Choice::Decline => ElicitResult::Decline,
            Choice::Cancel => ElicitResult::Cancel,
        };
        let mut told = outcome(&answer, &request.server);
        if choice == Choice::Open
            && let Err(why) = self.browser.open(look.url.as_str()).await
        {
            let text = format!("no browser could be opened ({why}). Open it yourself:");
            told.extend(wrapped(HINT, &text, Wrap { columns, indent: 2, most: 4 }));
            told.extend(page::address(&look, columns));
        }
        if matches!(answer, ElicitResult::Accept(_)) {
            told.extend(page::onward(&request, columns));
        }
        terminal.tell(&told);
        answer
    }

    async fn ask_onward(&self, server: &str) -> UrlElicitationOutcome {
        // Without a person, only the server can report the end.
        let Some(terminal) = self.person() else { return std::future::pending().await };
        let columns = room().columns;
        let text = format!("`{server}` waits until you are done at that page");
        let heading = wrapped(Style::new(), &text, Wrap { columns, indent: 0, most: 2 });
        terminal.ask(&heading, Waiting::new()).await.unwrap_or(UrlElicitationOutcome::GiveUp)
    }

    /// Returns how to run the command so that the person is asked.
    fn in_terminal(&self) -> String {
        let place = self.terminal.as_ref().err().copied().map(Absent::elsewhere);
        match self.policy {
            ElicitationPolicy::Ask => format!("to answer, run it {}", place.unwrap_or("in a terminal")),
            ElicitationPolicy::Decline | ElicitationPolicy::Cancel => {
                format!("to answer, use --elicit ask {}", place.unwrap_or("in a terminal"))
            }
        }
    }

    /// Answers by the policy, and notes that on stderr.
    fn refused(&self, from: From<'_>, asked: &str, how: &str) -> ElicitResult {
        let (kind, why) = match self.policy {
            ElicitationPolicy::Ask => {
                ("declined", self.terminal.as_ref().err().copied().unwrap_or(Absent::NoTerminal).why())
            }
            ElicitationPolicy::Decline => ("declined", "you wanted"),
            ElicitationPolicy::Cancel => ("cancelled", "you wanted"),
        };
        tracing::info!(server = from.server, policy = %self.policy, "a question was not put to anybody");
        let asked = brief(asked);
        let mut members = from.json(&asked);
        members["why"] = why.into();
        members["hint"] = how.into();
        let text = format!("{from} asked: {asked}\nit was {kind}, as {why}\n{how}");
        self.printer.event(&text, kind, &members);
        match self.policy {
            ElicitationPolicy::Ask | ElicitationPolicy::Decline => ElicitResult::Decline,
            ElicitationPolicy::Cancel => ElicitResult::Cancel,
        }
    }
}

impl Elicit for Asker {
    fn form(&self, request: FormRequest) -> HostFuture<'_, ElicitResult> {
        Box::pin(self.ask_form(request))
    }

    fn url(&self, request: UrlRequest) -> HostFuture<'_, ElicitResult> {
        Box::pin(self.ask_page(request))
    }

    fn declined(&self, declined: DeclinedRequest) {
        let DeclinedRequest { server, purpose: during, message, url, reason: why, .. } = declined;
        let from = From { server: &server, during: during.as_deref() };
        let (wanted, asked) = match &url {
            Some(url) => ("wanted you to open ", bounded(url, MAX_DECLINED_URL)),
            None => ("asked: ", brief(&message)),
        };
        let mut members = from.json(&asked);
        members["why"] = why.as_str().into();
        let text = format!("{from} {wanted}{asked}\nit was declined: {}", bounded(&why, MAX_DECLINED_REASON));
        self.printer.event(&text, "declined", &members);
    }

    fn url_completed(&self, server: &str, _: &str) {
        let text = format!("`{server}` says that you are done at the page");
        match self.person() {
            Some(terminal) => terminal.tell(&[Row::of(GOOD, "  ").then(GOOD, &text)]),
            None => self.printer.note(&text),
        }
    }

    fn await_url(&self, server: Arc<str>, _: Vec<Box<str>>) -> HostFuture<'_, UrlElicitationOutcome> {
        Box::pin(async move { self.ask_onward(&server).await })
    }
}

impl From<'_> {
    /// Formats the heading: the server by its configured name, and the call that it belongs to.
    // EL-03, MR-08.
    pub(super) fn heading(self, what: &str, columns: usize) -> Vec<Row> {
        let mut row = Row::of(STRONG, "? ").then(NAME, self.server).then(STRONG, " ").then(STRONG, what);
        let mut rows = Vec::new();
        if let Some(during) = self.during {
            let text = format!("during {during}");
            if row.width() + 2 + text.len() <= columns {
                row = row.then(FAINT, ", ").then(FAINT, &text);
            } else {
                rows = wrapped(FAINT, &text, Wrap { columns, indent: 2, most: 3 });
            }
        }
        rows.insert(0, row);
        rows
    }

    /// Formats the requester as JSON.
    pub(super) fn json(self, asked: &str) -> Value {
        json!({ "server": self.server, "during": self.during, "asked": asked })
    }
}

impl std::fmt::Display for From<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`", self.server)?;
        self.during.map_or(Ok(()), |during| write!(f, ", during {during},"))
    }
}

fn message(text: &str, columns: usize) -> Vec<Row> {
    wrapped(Style::new(), text, Wrap { columns, indent: 4, most: LONGEST_MESSAGE })
}

/// Shortens a message for a note.
fn brief(text: &str) -> String {
    bounded(text.trim(), 400)
}

/// Formats the rows that stay on the screen after the answer.
fn outcome(answer: &ElicitResult, server: &str) -> Vec<Row> {
    let (style, text) = match answer {
        ElicitResult::Accept(Some(_)) => (GOOD, "sent to "),
        ElicitResult::Accept(None) => (GOOD, "agreed, for "),
        ElicitResult::Decline => (HINT, "declined, for "),
        ElicitResult::Cancel => (HINT, "cancelled, for "),
    };
    vec![Row::of(style, "  ").then(style, text).then(NAME, server)]
}
