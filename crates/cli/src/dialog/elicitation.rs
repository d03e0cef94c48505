//! Answers elicitation requests: by the person, if there is a terminal and the policy is to ask; by
//! prepared answers; or by the policy. No answer is ever invented.

use std::sync::Arc;

use anstyle::Style;
use bowline::UrlElicitationOutcome;
use bowline::config::ElicitationPolicy;
use bowline::host::url_preview::UrlPreview;
use bowline::host::{DeclinedRequest, Elicit, FormRequest, HostFuture, UrlRequest};
use bowline::types::ElicitResult;
use serde_json::{Value, json};

use super::browser::Browser;
use super::form::FormDialog;
use super::frame::{Row, WrapOptions, truncate, wrap_text};
use super::prepared_answers::PreparedAnswers;
use super::terminal::{Terminal, TerminalUnavailable, dialog_size};
use super::url_elicitation::{self, UrlConsent, UrlConsentDialog};
use crate::print::{FAINT, GOOD, HINT, NAME, Printer, STRONG};

/// Handles `elicitation/create`.
pub(super) struct ElicitationHandler {
    pub(super) policy: ElicitationPolicy,
    pub(super) terminal: Result<Arc<Terminal>, TerminalUnavailable>,
    pub(super) answers: PreparedAnswers,
    pub(super) browser: Browser,
    pub(super) printer: Printer,
}

/// The server that asks, and the call of ours that it belongs to.
#[derive(Clone, Copy)]
pub(super) struct Requester<'a> {
    pub(super) server: &'a str,
    pub(super) during: Option<&'a str>,
}

/// How many rows of a message are shown.
const MAX_MESSAGE_ROWS: usize = 40;
/// How much of a declined URL is shown; its beginning shows the reason.
const MAX_DECLINED_URL: usize = 200;
const MAX_DECLINED_REASON: usize = 400;

impl ElicitationHandler {
    /// Returns the terminal, if the person is to be asked.
    fn asking_terminal(&self) -> Option<&Terminal> {
        self.terminal.as_deref().ok().filter(|_| self.policy == ElicitationPolicy::Ask)
    }

    async fn ask_form(&self, request: FormRequest) -> ElicitResult {
        let FormRequest { server, purpose: during, form, .. } = request;
        let from = Requester { server: &server, during: during.as_deref() };
        let Some(terminal) = self.asking_terminal() else {
            return match self.answers.fill_form(&form) {
                Ok(answer) => {
                    let asked = shorten_message(&form.message);
                    let text = format!("{from} asked: {asked}\nyour --answer was sent");
                    self.printer.write_event(&text, "answered", &from.to_json(&asked));
                    answer
                }
                Err(why) => {
                    let needed = form.fields.iter().filter(|field| field.required);
                    let needed: Vec<String> =
                        needed.map(|field| format!("--answer {}=…", field.name)).collect();
                    let how = match (why.is_empty(), needed.is_empty()) {
                        (false, _) => format!("--answer does not fit: {}", why.join("; ")),
                        (true, true) => self.terminal_hint(),
                        (true, false) => format!("{}, or give {}", self.terminal_hint(), needed.join(" ")),
                    };
                    self.apply_policy(from, &form.message, &truncate(&how, 1000))
                }
            };
        };
        let columns = dialog_size().columns;
        let mut heading = from.heading("asks for your input", columns);
        heading.extend(message_rows(&form.message, columns));
        let caution = "your answer is sent to that server; never enter passwords or keys in a form";
        heading.extend(wrap_text(FAINT, caution, WrapOptions { columns, indent: 2, max_rows: 3 }));
        let (given, wrong) = self.answers.values_for(&form);
        for why in wrong {
            heading.push(Row::new(HINT, "  --answer does not fit: ").with(HINT, &why));
        }
        let answer =
            terminal.ask(&heading, FormDialog::new(form, &given)).await.unwrap_or(ElicitResult::Cancel);
        terminal.print_rows(&outcome_rows(&answer, &server));
        answer
    }

    async fn ask_url(&self, request: UrlRequest) -> ElicitResult {
        let from = Requester { server: &request.server, during: request.purpose.as_deref() };
        let Ok(look) = UrlPreview::parse(&request.elicitation.url) else { return ElicitResult::Decline };
        let Some(terminal) = self.asking_terminal() else {
            let how = format!("it wanted you to open {}\n{}", look.url, self.terminal_hint());
            return self.apply_policy(from, &request.elicitation.message, &how);
        };
        let columns = dialog_size().columns;
        let mut heading = from.heading("wants you to open a page", columns);
        heading.extend(message_rows(&request.elicitation.message, columns));
        heading.extend(url_elicitation::heading_rows(&look, columns));
        let choice = terminal.ask(&heading, UrlConsentDialog::new()).await.unwrap_or(UrlConsent::Cancel);
        let answer = match choice {
            UrlConsent::Open | UrlConsent::OpenManually => ElicitResult::Accept(None),
            UrlConsent::Decline => ElicitResult::Decline,
            UrlConsent::Cancel => ElicitResult::Cancel,
        };
        let mut told = outcome_rows(&answer, &request.server);
        if choice == UrlConsent::Open
            && let Err(why) = self.browser.open(look.url.as_str()).await
        {
            let text = format!("no browser could be opened ({why}). Open it yourself:");
            told.extend(wrap_text(HINT, &text, WrapOptions { columns, indent: 2, max_rows: 4 }));
            told.extend(url_elicitation::url_rows(&look, columns));
        }
        if matches!(answer, ElicitResult::Accept(_)) {
            told.extend(url_elicitation::next_step_rows(&request, columns));
        }
        terminal.print_rows(&told);
        answer
    }

    async fn ask_url_outcome(&self, server: &str) -> UrlElicitationOutcome {
        // Without a person, only the server can report the end.
        let Some(terminal) = self.asking_terminal() else { return std::future::pending().await };
        let columns = dialog_size().columns;
        let text = format!("`{server}` is waiting for you to finish on that page");
        let heading = wrap_text(Style::new(), &text, WrapOptions { columns, indent: 0, max_rows: 2 });
        match terminal.ask(&heading, url_elicitation::done_dialog()).await {
            Ok(true) => UrlElicitationOutcome::Retry,
            Ok(false) | Err(_) => UrlElicitationOutcome::GiveUp,
        }
    }

    /// Returns how to run the command so that the person is asked.
    fn terminal_hint(&self) -> String {
        let place = self.terminal.as_ref().err().copied().map(TerminalUnavailable::remedy);
        match self.policy {
            ElicitationPolicy::Ask => format!("to answer, run it {}", place.unwrap_or("in a terminal")),
            _ => {
                format!("to answer, use --elicit ask {}", place.unwrap_or("in a terminal"))
            }
        }
    }

    /// Answers by the policy, and notes that on stderr.
    fn apply_policy(&self, from: Requester<'_>, asked: &str, how: &str) -> ElicitResult {
        let (kind, done, why) = match self.policy {
            ElicitationPolicy::Ask => (
                "declined",
                "declined",
                self.terminal.as_ref().err().copied().unwrap_or(TerminalUnavailable::NoTerminal).reason(),
            ),
            ElicitationPolicy::Cancel => ("cancelled", "canceled", "you wanted"),
            _ => ("declined", "declined", "you wanted"),
        };
        tracing::info!(server = from.server, policy = %self.policy, "a question was not put to anybody");
        let asked = shorten_message(asked);
        let mut members = from.to_json(&asked);
        members["why"] = why.into();
        members["hint"] = how.into();
        let text = format!("{from} asked: {asked}\nit was {done}, as {why}\n{how}");
        self.printer.write_event(&text, kind, &members);
        match self.policy {
            ElicitationPolicy::Cancel => ElicitResult::Cancel,
            _ => ElicitResult::Decline,
        }
    }
}

impl Elicit for ElicitationHandler {
    fn form(&self, request: FormRequest) -> HostFuture<'_, ElicitResult> {
        Box::pin(self.ask_form(request))
    }

    fn url(&self, request: UrlRequest) -> HostFuture<'_, ElicitResult> {
        Box::pin(self.ask_url(request))
    }

    fn declined(&self, declined: DeclinedRequest) {
        let DeclinedRequest { server, purpose: during, message, url, reason: why, .. } = declined;
        let from = Requester { server: &server, during: during.as_deref() };
        let (wanted, asked) = match &url {
            Some(url) => ("wanted you to open ", truncate(url, MAX_DECLINED_URL)),
            None => ("asked: ", shorten_message(&message)),
        };
        let mut members = from.to_json(&asked);
        members["why"] = why.as_str().into();
        let text =
            format!("{from} {wanted}{asked}\nit was declined: {}", truncate(&why, MAX_DECLINED_REASON));
        self.printer.write_event(&text, "declined", &members);
    }

    fn url_completed(&self, server: &str, _: &str) {
        let text = format!("`{server}` reports that you have finished on the page");
        match self.asking_terminal() {
            Some(terminal) => terminal.print_rows(&[Row::new(GOOD, "  ").with(GOOD, &text)]),
            None => self.printer.note(&text),
        }
    }

    fn await_url(&self, server: Arc<str>, _: Vec<Box<str>>) -> HostFuture<'_, UrlElicitationOutcome> {
        Box::pin(async move { self.ask_url_outcome(&server).await })
    }
}

impl Requester<'_> {
    /// Formats the heading: the server by its configured name, and the call that it belongs to.
    // EL-03, MR-08.
    pub(super) fn heading(self, what: &str, columns: usize) -> Vec<Row> {
        let mut row = Row::new(STRONG, "? ").with(NAME, self.server).with(STRONG, " ").with(STRONG, what);
        let mut rows = Vec::new();
        if let Some(during) = self.during {
            let text = format!("during {during}");
            if row.width() + 2 + text.len() <= columns {
                row = row.with(FAINT, ", ").with(FAINT, &text);
            } else {
                rows = wrap_text(FAINT, &text, WrapOptions { columns, indent: 2, max_rows: 3 });
            }
        }
        rows.insert(0, row);
        rows
    }

    pub(super) fn to_json(self, asked: &str) -> Value {
        json!({ "server": self.server, "during": self.during, "asked": asked })
    }
}

impl std::fmt::Display for Requester<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`", self.server)?;
        self.during.map_or(Ok(()), |during| write!(f, ", during {during},"))
    }
}

fn message_rows(text: &str, columns: usize) -> Vec<Row> {
    wrap_text(Style::new(), text, WrapOptions { columns, indent: 4, max_rows: MAX_MESSAGE_ROWS })
}

fn shorten_message(text: &str) -> String {
    truncate(text.trim(), 400)
}

/// Formats the rows that stay on the screen after the answer.
fn outcome_rows(answer: &ElicitResult, server: &str) -> Vec<Row> {
    let (style, text) = match answer {
        ElicitResult::Accept(Some(_)) => (GOOD, "sent to "),
        ElicitResult::Accept(None) => (GOOD, "agreed, for "),
        ElicitResult::Decline => (HINT, "declined, for "),
        ElicitResult::Cancel => (HINT, "canceled, for "),
        _ => (HINT, "answered, for "),
    };
    vec![Row::new(style, "  ").with(style, text).with(NAME, server)]
}
