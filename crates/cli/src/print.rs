//! Writes the output: data to stdout, everything else to stderr, for people or for machines.

pub(crate) mod accounts;
pub(crate) mod clock;
pub(crate) mod content;
pub(crate) mod escape;
mod grid;
pub(crate) mod json;
pub(crate) mod log_line;
pub(crate) mod media;
pub(crate) mod output_hold;
pub(crate) mod processes;
pub(crate) mod progress;
mod report;
pub(crate) mod save;
pub(crate) mod screen;
pub(crate) mod stderr;
mod structured;
pub(crate) mod table;
pub(crate) mod text_width;
pub(crate) mod units;
pub(crate) mod window_size;

use std::io::{self, IsTerminal as _, Write as _};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use bowline::config::Environment;
use serde_json::{Map, Value, json};

use crate::args::{Color, Format};
use crate::env;
use crate::failure::Report;

/// Prints for a person or a machine.
#[derive(Clone)]
pub(crate) struct Printer {
    format: Format,
    quiet: bool,
    /// The terminal supports nothing but text.
    pub(crate) dumb: bool,
    /// Columns of stdout, which are only meaningful on a terminal.
    pub(crate) width: usize,
    out: StreamInfo,
    err: StreamInfo,
}

/// Properties of stdout or stderr.
#[derive(Clone)]
struct StreamInfo {
    terminal: bool,
    color: bool,
}

/// Headers of tables, and labels.
pub(crate) const STRONG: Style = Style::new().bold();
/// Less important text.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Names of things.
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Something that needs attention.
pub(crate) const HINT: Style = AnsiColor::Yellow.on_default();

impl Printer {
    /// Creates a printer for the streams of this process.
    pub(crate) fn new(format: Format, color: Color, quiet: bool, env: &dyn Environment) -> Self {
        let dumb = env::non_empty_var(env, env::TERM).is_some_and(|term| term == "dumb");
        let wanted = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !dumb && env::non_empty_var(env, env::NO_COLOR).is_none(),
        };
        let sink = |terminal: bool| StreamInfo { terminal, color: wanted(terminal) };
        let (out, err) = (sink(io::stdout().is_terminal()), sink(io::stderr().is_terminal()));
        let width = window_size::window_size().map_or(80, |(width, _)| width.clamp(40, 240));
        Self { format, quiet, dumb, width, out, err }
    }

    /// Returns whether the output is for a machine.
    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Returns whether stdout is a terminal: only then is text truncated, wrapped and escaped.
    pub(crate) fn on_terminal(&self) -> bool {
        self.out.terminal
    }

    /// Returns whether stderr can show an animation.
    pub(crate) fn can_animate(&self) -> bool {
        self.err.terminal && !self.quiet && !self.dumb && !self.is_json()
    }

    pub(crate) fn stderr_has_color(&self) -> bool {
        self.err.color
    }

    /// Returns whether stdout can show a picture that is redrawn in place.
    pub(crate) fn can_draw(&self) -> bool {
        self.out.terminal && !self.dumb && !self.is_json()
    }

    /// Returns `text` in `style`, if stdout has color.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        if self.out.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Prints our own layout to stdout. Server text in it must be escaped already.
    pub(crate) fn write_layout(&self, text: &str) -> io::Result<()> {
        self.write_stdout(text, color_choice(self.out.color))
    }

    /// Prints to stdout, or after the dialog that is open on the terminal.
    fn write_stdout(&self, text: &str, color: ColorChoice) -> io::Result<()> {
        if self.out.terminal && output_hold::hold_back(output_hold::Stream::Stdout, text, color) {
            return Ok(());
        }
        let write = || {
            // Looking for colors to remove takes long in a long text.
            if !text.contains('\x1b') {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes())?;
                return out.flush();
            }
            let mut out = AutoStream::new(io::stdout().lock(), color);
            out.write_all(text.as_bytes())?;
            out.flush()
        };
        if self.out.terminal { output_hold::with_bar_erased(write) } else { write() }
    }

    /// Prints a line of our own to stdout. Server text in it must be escaped already.
    pub(crate) fn write_line(&self, line: &str) -> io::Result<()> {
        self.write_layout(&format!("{line}\n"))
    }

    /// Prints a JSON object on one line of stdout, with active characters escaped on a terminal.
    pub(crate) fn write_json_line(&self, json: &str) -> io::Result<()> {
        if self.out.terminal { self.write_line(&json::escape_active(json)) } else { self.write_line(json) }
    }

    /// Prints a server's text to stdout: exact in a pipe, escaped on a terminal, and with a line
    /// end.
    pub(crate) fn write_text(&self, text: &str) -> io::Result<()> {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        if self.out.terminal {
            return self.write_layout(&format!("{}{end}", escape::text(text)));
        }
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.write_all(end.as_bytes())?;
        out.flush()
    }

    /// Prints a picture in the terminal's graphics protocol, unescaped.
    pub(crate) fn write_drawing(&self, drawing: &str) -> io::Result<()> {
        self.write_stdout(drawing, ColorChoice::AlwaysAnsi)
    }

    /// Prints JSON to stdout: unchanged in a pipe, indented on a terminal.
    pub(crate) fn write_json(&self, json: &str) -> io::Result<()> {
        if self.out.terminal { self.write_text(&json::pretty(json)) } else { self.write_text(json) }
    }

    /// Prints a note to stderr, unless quiet or for a machine.
    pub(crate) fn note(&self, text: &str) {
        if self.quiet || self.is_json() {
            return;
        }
        self.write_stderr_line(&format!(
            "{} {}",
            self.paint_stderr(FAINT, "note:"),
            escape::indented_text(text)
        ));
    }

    /// Prints a remark about what happened meanwhile to stderr, for people alone: one faint line.
    pub(crate) fn remark(&self, text: &str) {
        if !self.quiet && !self.is_json() {
            self.write_stderr_line(&self.paint_stderr(FAINT, &escape::line(text)));
        }
    }

    /// Returns a printer for another format, or without notes, for one command of several.
    pub(crate) fn for_command(&self, json: bool, quiet: bool) -> Self {
        let format = if json { Format::Json } else { self.format };
        Self { format, quiet: self.quiet || quiet, ..self.clone() }
    }

    /// Returns a printer that prints no notes.
    pub(crate) fn without_notes(&self) -> Self {
        Self { quiet: true, ..self.clone() }
    }

    /// Prints a note to stderr, for machines as a JSON object on one line.
    pub(crate) fn write_event(&self, text: &str, kind: &str, members: &Value) {
        if !self.is_json() {
            return self.note(text);
        }
        if self.quiet {
            return;
        }
        let mut note = Map::from_iter([("kind".to_owned(), Value::from(kind))]);
        note.extend(members.as_object().cloned().unwrap_or_default());
        self.write_stderr(&self.inert_stderr_json(&format!("{}\n", json!({ "note": note }))));
    }

    /// Returns JSON for stderr, with active characters escaped on a terminal.
    fn inert_stderr_json(&self, json: &str) -> String {
        if self.err.terminal { json::escape_active(json) } else { json.to_owned() }
    }

    /// Prints a line of our own to stderr. Server text in it must be escaped already.
    pub(crate) fn write_stderr_line(&self, line: &str) {
        self.write_stderr(&format!("{line}\n"));
    }

    /// Returns `text` in `style`, if stderr has color.
    pub(crate) fn paint_stderr(&self, style: Style, text: &str) -> String {
        if self.err.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Prints a failure to stderr.
    pub(crate) fn write_failure(&self, report: &Report) {
        let text = if self.is_json() {
            self.inert_stderr_json(&report.to_json())
        } else {
            let (bad, hint) = if self.err.color { (BAD, HINT) } else { Default::default() };
            report.to_text(bad, hint)
        };
        self.write_stderr(&text);
        // The process ends after this, so queued output is written now.
        stderr::drain();
    }

    fn write_stderr(&self, text: &str) {
        stderr::write(text, color_choice(self.err.color));
    }
}

/// Writes bytes to stdout unchanged. It is for verbs that connect to no server, so no dialog can be
/// open.
pub(crate) fn write_stdout_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

fn color_choice(color: bool) -> ColorChoice {
    if color { ColorChoice::Always } else { ColorChoice::Never }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While a dialog is open, neither a server's text nor a picture is drawn into it.
    #[test]
    fn stdout_is_held_back_during_a_dialog() {
        let terminal = StreamInfo { terminal: true, color: false };
        let (out, err) = (terminal.clone(), terminal);
        let printer = Printer { format: Format::Text, quiet: false, dumb: false, width: 80, out, err };
        let fallen = stderr::hold_output();
        printer.write_text("a server's text").unwrap();
        printer.write_json("{}").unwrap();
        printer.write_layout("a table\n").unwrap();
        printer.write_drawing("\x1b_Ga=T;\x1b\\").unwrap();
        assert_eq!(output_hold::held_texts(), ["a server's text\n", "{}\n", "a table\n", "\x1b_Ga=T;\x1b\\"]);
        drop(fallen);
    }
}
