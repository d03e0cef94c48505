//! Asks the person to approve sampling: before the model sees a request, and before the server sees
//! the model's answer.
// SA-02.

use std::sync::Arc;

use anstyle::Style;
use bowline::host::{HostFuture, SampleRequest};
use bowline::sampling::{Approve, Decision, SamplingPlan};
use bowline::types::{Content, SamplingBlock, SamplingRequest, SamplingResult};

use super::elicitation::Requester;
use super::frame::{Frame, Row, TerminalSize, WrapOptions, truncate, wrap_text};
use super::key::Key;
use super::line_editor::LineEditor;
use super::menu::{Menu, MenuItem};
use super::terminal::{Dialog, Terminal, TerminalUnavailable, dialog_size};
use super::yes_no::YesNoDialog;
use crate::print::{FAINT, HINT, NAME, Printer, STRONG};

/// Approves sampling requests at the terminal, if there is one.
pub(super) struct SamplingApprover {
    terminal: Result<Arc<Terminal>, TerminalUnavailable>,
    printer: Printer,
}

/// How many rows of one message are shown.
const MAX_MESSAGE_ROWS: usize = 60;
/// How many messages are shown. Of more, the last ones, since they hold the question.
const MAX_MESSAGES: usize = 20;

impl SamplingApprover {
    pub(super) fn new(terminal: Result<Arc<Terminal>, TerminalUnavailable>, printer: Printer) -> Self {
        Self { terminal, printer }
    }

    async fn judge_request(&self, asked: &SampleRequest, plan: &SamplingPlan) -> Decision<SamplingRequest> {
        let from = Requester { server: &asked.server, during: asked.purpose.as_deref() };
        let terminal = match &self.terminal {
            Ok(terminal) => terminal,
            Err(absent) => {
                let (model, why, hint) = (&plan.model, absent.reason(), "to let it, use --sampling allow");
                let text =
                    format!("{from} wanted to ask your model {model}\nit was refused, as {why}\n{hint}");
                let mut members = from.to_json(&format!("the model {model}"));
                members["why"] = why.into();
                members["hint"] = hint.into();
                self.printer.write_event(&text, "refused", &members);
                return Decision::Refuse;
            }
        };
        let columns = dialog_size().columns;
        let mut heading = from.heading("wants to ask your model", columns);
        let facts = format!("{} at {}, at most {} tokens", plan.model, plan.endpoint, plan.max_tokens);
        heading.extend(wrap_text(FAINT, &facts, WrapOptions { columns, indent: 2, max_rows: 3 }));
        let request = &asked.request;
        if let Some(system) = &request.system_prompt {
            heading.extend(message_rows("system", system, columns));
        }
        let skipped = request.messages.len().saturating_sub(MAX_MESSAGES);
        if skipped > 0 {
            heading.push(Row::new(HINT, &format!("  {skipped} earlier messages are not shown")));
        }
        for message in request.messages.iter().skip(skipped) {
            heading.extend(message_rows(message.role.as_str(), &blocks_text(&message.content), columns));
        }
        for tool in request.tools.iter().take(MAX_MESSAGES) {
            heading.push(Row::new(FAINT, "  it may call ").with(NAME, &tool.name));
        }
        match terminal.ask(&heading, RequestDialog::new(request.system_prompt.as_deref())).await {
            Ok(RequestDecision::Approve) => Decision::Accept,
            Ok(RequestDecision::ApproveWithPrompt(system)) => {
                let mut edited = request.clone();
                edited.system_prompt = (!system.is_empty()).then(|| system.into());
                Decision::Replace(Box::new(edited))
            }
            Ok(RequestDecision::Refuse) | Err(_) => Decision::Refuse,
        }
    }

    async fn judge_result(&self, asked: &SampleRequest, result: &SamplingResult) -> Decision<SamplingResult> {
        let Ok(terminal) = &self.terminal else { return Decision::Refuse };
        let columns = dialog_size().columns;
        let mut heading = vec![
            Row::new(STRONG, "? ")
                .with(NAME, &result.model)
                .with(STRONG, " answers ")
                .with(NAME, &asked.server),
        ];
        heading.extend(message_rows("assistant", &blocks_text(&result.content), columns));
        match terminal.ask(&heading, result_dialog(&asked.server)).await {
            Ok(true) => Decision::Accept,
            Ok(false) | Err(_) => Decision::Refuse,
        }
    }
}

impl Approve for SamplingApprover {
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
fn message_rows(role: &str, text: &str, columns: usize) -> Vec<Row> {
    let mut rows = vec![Row::new(STRONG, "  ").with(STRONG, role).with(STRONG, ":")];
    let text = truncate(text, MAX_MESSAGE_ROWS * columns);
    rows.extend(wrap_text(
        Style::new(),
        &text,
        WrapOptions { columns, indent: 4, max_rows: MAX_MESSAGE_ROWS },
    ));
    rows
}

/// Converts blocks to text, with a placeholder for those that are not text.
fn blocks_text(blocks: &[SamplingBlock]) -> String {
    let shown = |block: &SamplingBlock| match block {
        SamplingBlock::Content(content) => content_text(content),
        SamplingBlock::ToolUse { name, input, .. } => format!("[calls {name} with {input}]"),
        SamplingBlock::ToolResult { content, is_error, .. } => {
            let kind = if *is_error { "error" } else { "result" };
            format!("[{kind} of a call: {}]", content.iter().map(content_text).collect::<Vec<_>>().join(" "))
        }
        _ => "[something of an unknown kind]".to_owned(),
    };
    blocks.iter().map(shown).collect::<Vec<_>>().join("\n")
}

fn content_text(content: &Content) -> String {
    match content {
        Content::Text(text) => text.text.get().into_owned(),
        Content::Image(_) => "[a picture]".to_owned(),
        Content::Audio(_) => "[a sound]".to_owned(),
        Content::ResourceLink(resource) => format!("[a link to {}]", resource.uri),
        Content::Resource(_) => "[a resource]".to_owned(),
        _ => "[something of an unknown kind]".to_owned(),
    }
}

/// The person's decision about a sampling request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestDecision {
    Approve,
    /// Approved, with this system prompt.
    ApproveWithPrompt(String),
    Refuse,
}

/// Asks whether the model may be asked, and lets the person edit the system prompt.
pub(super) struct RequestDialog {
    menu: Menu,
    system_prompt: Option<String>,
    edited: bool,
    editing: Option<LineEditor>,
}

impl RequestDialog {
    pub(super) fn new(system: Option<&str>) -> Self {
        let items = ["Ask the model", "Edit the system prompt", "Decline"].map(MenuItem::new);
        let menu = Menu::single_choice(items.into(), 2);
        Self { menu, system_prompt: system.map(Into::into), edited: false, editing: None }
    }
}

impl Dialog for RequestDialog {
    type Output = RequestDecision;

    fn handle_key(&mut self, key: &Key) -> Option<RequestDecision> {
        if let Some(line) = &mut self.editing {
            match key {
                Key::Escape => self.editing = None,
                Key::Enter => {
                    self.edited = true;
                    self.system_prompt = Some(line.text());
                    self.editing = None;
                }
                _ => drop(line.handle_key(key)),
            }
            return None;
        }
        match (key, self.menu.at) {
            (Key::Escape, _) => return Some(RequestDecision::Refuse),
            (Key::Enter, 0) if self.edited => {
                return Some(RequestDecision::ApproveWithPrompt(
                    self.system_prompt.take().unwrap_or_default(),
                ));
            }
            (Key::Enter, 0) => return Some(RequestDecision::Approve),
            (Key::Enter, 1) => {
                self.editing = Some(LineEditor::new(self.system_prompt.as_deref().unwrap_or_default()));
            }
            (Key::Enter, _) => return Some(RequestDecision::Refuse),
            _ => drop(self.menu.handle_key(key)),
        }
        None
    }

    fn draw(&self, room: TerminalSize) -> Frame {
        let mut picture = Frame::default();
        if let Some(line) = &self.editing {
            picture.push_row(Row::new(STRONG, "System prompt"));
            let (text, column) = line.window(room.columns.saturating_sub(4));
            picture.cursor = Some((1, 4 + column));
            picture.push_row(Row::new(NAME, "  > ").with(Style::new(), &text));
            picture.push_row(Row::new(FAINT, "  enter takes it, esc leaves it as it was"));
            return picture;
        }
        if self.edited {
            let system = self.system_prompt.as_deref().unwrap_or_default();
            picture.push_row(Row::new(FAINT, "  system prompt: ").with(Style::new(), system));
        }
        picture.rows.extend(self.menu.rows(room.rows));
        picture.push_row(Row::new(FAINT, "  enter chooses, esc declines"));
        picture
    }
}

/// Returns the dialog that asks whether the server may see the model's answer.
pub(super) fn result_dialog(server: &str) -> YesNoDialog {
    let yes = MenuItem::new(format!("Send it to {server}"));
    YesNoDialog::new(yes, MenuItem::new("Keep it back"), "enter chooses, esc keeps it back")
}
