//! Asks the person to approve sampling: before the model sees a request, and before the server sees
//! the model's answer.
// SA-02.

use std::sync::Arc;

use anstyle::Style;
use bowline::host::{HostFuture, SampleRequest};
use bowline::sampling::{Approve, Decision, SamplingPlan};
use bowline::view::{Content, SamplingBlock, SamplingRequest, SamplingResult};

use super::elicit::From;
use super::key::Key;
use super::line::Line;
use super::look::{Picture, Room, Row, Wrap, bounded, wrapped};
use super::menu::{Item, Menu};
use super::terminal::{Absent, Dialog, Terminal, room};
use crate::print::{FAINT, HINT, NAME, Printer, STRONG};

/// Approves sampling requests at the terminal, if there is one.
pub(super) struct Person {
    terminal: Result<Arc<Terminal>, Absent>,
    printer: Printer,
}

/// How many rows of one message are shown.
const LONGEST: usize = 60;
/// How many messages are shown. Of more, the last ones, since they hold the question.
const MOST_MESSAGES: usize = 20;

impl Person {
    pub(super) fn new(terminal: Result<Arc<Terminal>, Absent>, printer: Printer) -> Self {
        Self { terminal, printer }
    }

    async fn judge_request(&self, asked: &SampleRequest, plan: &SamplingPlan) -> Decision<SamplingRequest> {
        let from = From { server: &asked.server, during: asked.purpose.as_deref() };
        let terminal = match &self.terminal {
            Ok(terminal) => terminal,
            Err(absent) => {
                let (model, why, hint) = (&plan.model, absent.why(), "to let it, use --sampling allow");
                let text =
                    format!("{from} wanted to ask your model {model}\nit was refused, as {why}\n{hint}");
                let mut members = from.json(&format!("the model {model}"));
                members["why"] = why.into();
                members["hint"] = hint.into();
                self.printer.event(&text, "refused", &members);
                return Decision::Refuse;
            }
        };
        let columns = room().columns;
        let mut heading = from.heading("wants to ask your model", columns);
        let facts = format!("{} at {}, at most {} tokens", plan.model, plan.endpoint, plan.max_tokens);
        heading.extend(wrapped(FAINT, &facts, Wrap { columns, indent: 2, most: 3 }));
        let request = &asked.request;
        if let Some(system) = &request.system_prompt {
            heading.extend(said("system", system, columns));
        }
        let skipped = request.messages.len().saturating_sub(MOST_MESSAGES);
        if skipped > 0 {
            heading.push(Row::of(HINT, &format!("  {skipped} earlier messages are not shown")));
        }
        for message in request.messages.iter().skip(skipped) {
            heading.extend(said(message.role.as_str(), &text(&message.content), columns));
        }
        for tool in request.tools.iter().take(MOST_MESSAGES) {
            heading.push(Row::of(FAINT, "  it may call ").then(NAME, &tool.name));
        }
        match terminal.ask(&heading, Request::new(request.system_prompt.as_deref())).await {
            Ok(Judged::Yes) => Decision::Accept,
            Ok(Judged::Changed(system)) => {
                let system_prompt = (!system.is_empty()).then(|| system.into());
                Decision::Replace(Box::new(SamplingRequest { system_prompt, ..request.clone() }))
            }
            Ok(Judged::No) | Err(_) => Decision::Refuse,
        }
    }

    async fn judge_result(&self, asked: &SampleRequest, result: &SamplingResult) -> Decision<SamplingResult> {
        let Ok(terminal) = &self.terminal else { return Decision::Refuse };
        let columns = room().columns;
        let mut heading = vec![
            Row::of(STRONG, "? ")
                .then(NAME, &result.model)
                .then(STRONG, " answers ")
                .then(NAME, &asked.server),
        ];
        heading.extend(said("assistant", &text(&result.content), columns));
        match terminal.ask(&heading, Review::new(&asked.server)).await {
            Ok(true) => Decision::Accept,
            Ok(false) | Err(_) => Decision::Refuse,
        }
    }
}

impl Approve for Person {
    fn request<'a>(
        &'a self,
        request: &'a SampleRequest,
        plan: &'a SamplingPlan,
    ) -> HostFuture<'a, Decision<SamplingRequest>> {
        Box::pin(self.judge_request(request, plan))
    }

    fn result<'a>(
        &'a self,
        request: &'a SampleRequest,
        result: &'a SamplingResult,
    ) -> HostFuture<'a, Decision<SamplingResult>> {
        Box::pin(self.judge_result(request, result))
    }
}

/// Formats a message as rows, with its role as heading.
fn said(role: &str, text: &str, columns: usize) -> Vec<Row> {
    let mut rows = vec![Row::of(STRONG, "  ").then(STRONG, role).then(STRONG, ":")];
    let text = bounded(text, LONGEST * columns);
    rows.extend(wrapped(Style::new(), &text, Wrap { columns, indent: 4, most: LONGEST }));
    rows
}

/// Converts blocks to text, with a placeholder for those that are not text.
fn text(blocks: &[SamplingBlock]) -> String {
    let shown = |block: &SamplingBlock| match block {
        SamplingBlock::Content(content) => words(content),
        SamplingBlock::ToolUse { name, input, .. } => format!("[calls {name} with {input}]"),
        SamplingBlock::ToolResult { content, is_error, .. } => {
            let kind = if *is_error { "error" } else { "result" };
            format!("[{kind} of a call: {}]", content.iter().map(words).collect::<Vec<_>>().join(" "))
        }
    };
    blocks.iter().map(shown).collect::<Vec<_>>().join("\n")
}

fn words(content: &Content) -> String {
    match content {
        Content::Text(text) => text.text.get().into_owned(),
        Content::Image(_) => "[a picture]".to_owned(),
        Content::Audio(_) => "[a sound]".to_owned(),
        Content::ResourceLink(resource) => format!("[a link to {}]", resource.uri),
        Content::Resource(_) => "[a resource]".to_owned(),
        Content::Unknown(_) => "[something of an unknown kind]".to_owned(),
    }
}

/// The person's decision about a sampling request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Yes,
    /// Approved, with this system prompt.
    Changed(String),
    No,
}

/// Asks whether the model may be asked, and lets the person edit the system prompt.
pub(super) struct Request {
    menu: Menu,
    system: Option<String>,
    edited: bool,
    editing: Option<Line>,
}

impl Request {
    pub(super) fn new(system: Option<&str>) -> Self {
        let items = ["Ask the model", "Edit the system prompt", "Decline"].map(Item::new);
        let menu = Menu::one(items.into(), 2);
        Self { menu, system: system.map(Into::into), edited: false, editing: None }
    }
}

impl Dialog for Request {
    type Answer = Judged;

    fn press(&mut self, key: &Key) -> Option<Judged> {
        if let Some(line) = &mut self.editing {
            match key {
                Key::Escape => self.editing = None,
                Key::Enter => {
                    self.edited = true;
                    self.system = Some(line.text());
                    self.editing = None;
                }
                _ => drop(line.handle(key)),
            }
            return None;
        }
        match (key, self.menu.at()) {
            (Key::Escape, _) => return Some(Judged::No),
            (Key::Enter, 0) if self.edited => {
                return Some(Judged::Changed(self.system.take().unwrap_or_default()));
            }
            (Key::Enter, 0) => return Some(Judged::Yes),
            (Key::Enter, 1) => self.editing = Some(Line::new(self.system.as_deref().unwrap_or_default())),
            (Key::Enter, _) => return Some(Judged::No),
            _ => drop(self.menu.handle(key)),
        }
        None
    }

    fn draw(&self, room: Room) -> Picture {
        let mut picture = Picture::default();
        if let Some(line) = &self.editing {
            picture.row(Row::of(STRONG, "System prompt"));
            let (text, column) = line.window(room.columns.saturating_sub(4));
            picture.cursor = Some((1, 4 + column));
            picture.row(Row::of(NAME, "  > ").then(Style::new(), &text));
            picture.row(Row::of(FAINT, "  enter takes it, esc leaves it as it was"));
            return picture;
        }
        if self.edited {
            let system = self.system.as_deref().unwrap_or_default();
            picture.row(Row::of(FAINT, "  system prompt: ").then(Style::new(), system));
        }
        picture.rows.extend(self.menu.rows(room.rows));
        picture.row(Row::of(FAINT, "  enter chooses, esc declines"));
        picture
    }
}

/// Asks whether the server may see the model's answer.
pub(super) struct Review(Menu);

impl Review {
    pub(super) fn new(server: &str) -> Self {
        let items = vec![Item::new(format!("Send it to {server}")), Item::new("Keep it back")];
        Self(Menu::one(items, 1))
    }
}

impl Dialog for Review {
    type Answer = bool;

    fn press(&mut self, key: &Key) -> Option<bool> {
        match key {
            Key::Escape => Some(false),
            Key::Enter => Some(self.0.at() == 0),
            _ => {
                self.0.handle(key);
                None
            }
        }
    }

    fn draw(&self, room: Room) -> Picture {
        let mut picture = Picture { rows: self.0.rows(room.rows), cursor: None };
        picture.row(Row::of(FAINT, "  enter chooses, esc keeps it back"));
        picture
    }
}
