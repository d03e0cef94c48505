//! Writes the output: data to stdout, everything else to stderr, for people or for machines.

pub(crate) mod accounts;
pub(crate) mod clock;
pub(crate) mod content;
pub(crate) mod curtain;
pub(crate) mod escape;
mod grid;
pub(crate) mod json;
pub(crate) mod logline;
pub(crate) mod media;
pub(crate) mod processes;
pub(crate) mod progress;
mod report;
pub(crate) mod save;
pub(crate) mod screen;
pub(crate) mod status;
pub(crate) mod stderr;
mod structured;
pub(crate) mod table;
pub(crate) mod units;

use std::io::{self, IsTerminal as _, Write as _};

use anstream::AutoStream;
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
    dumb: bool,
    width: usize,
    out: Sink,
    err: Sink,
}

/// Properties of stdout or stderr.
#[derive(Clone)]
struct Sink {
    terminal: bool,
    color: bool,
}

/// Headers of tables, and labels.
pub(crate) const STRONG: Style = Style::new().bold();
/// Less important text.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Names of things.
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default();
/// Success.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Failure.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Something that needs attention.
pub(crate) const HINT: Style = AnsiColor::Yellow.on_default();

impl Printer {
    /// Creates a printer for the streams of this process.
    pub(crate) fn new(format: Format, color: Color, quiet: bool, env: &dyn Environment) -> Self {
        let dumb = env::given(env, env::TERM).is_some_and(|term| term == "dumb");
        let wanted = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !dumb && env::given(env, env::NO_COLOR).is_none(),
        };
        let sink = |terminal: bool| Sink { terminal, color: wanted(terminal) };
        let (out, err) = (sink(io::stdout().is_terminal()), sink(io::stderr().is_terminal()));
        let width =
            terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0).clamp(40, 240));
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

    /// Returns whether the terminal supports nothing but text.
    pub(crate) fn is_dumb(&self) -> bool {
        self.dumb
    }

    /// Returns whether stderr has color.
    pub(crate) fn notes_in_color(&self) -> bool {
        self.err.color
    }

    /// Returns whether stdout can show a picture that is redrawn in place.
    pub(crate) fn can_draw(&self) -> bool {
        self.out.terminal && !self.dumb && !self.is_json()
    }

    /// Returns the columns of stdout. It is only meaningful on a terminal.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Returns `text` in `style`, if stdout has color.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        if self.out.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Prints our own layout to stdout. Server text in it must be escaped already.
    pub(crate) fn layout(&self, text: &str) -> io::Result<()> {
        if self.out.terminal && curtain::holds(curtain::To::Stdout, text, choice(self.out.color)) {
            return Ok(());
        }
        let mut out = AutoStream::new(io::stdout().lock(), choice(self.out.color));
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Prints a line of our own to stdout. Server text in it must be escaped already.
    pub(crate) fn line(&self, line: &str) -> io::Result<()> {
        self.layout(&format!("{line}\n"))
    }

    /// Prints a JSON object on one line of stdout, with active characters escaped on a terminal.
    pub(crate) fn json_line(&self, json: &str) -> io::Result<()> {
        if self.out.terminal { self.line(&json::inert(json)) } else { self.line(json) }
    }

    /// Prints a server's text to stdout: exact in a pipe, escaped on a terminal, and with a line
    /// end.
    pub(crate) fn text(&self, text: &str) -> io::Result<()> {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        if self.out.terminal {
            return self.layout(&format!("{}{end}", escape::text(text)));
        }
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.write_all(end.as_bytes())?;
        out.flush()
    }

    /// Prints a picture in the terminal's graphics protocol, unescaped.
    pub(crate) fn drawing(&self, drawing: &str) -> io::Result<()> {
        if self.out.terminal
            && curtain::holds(curtain::To::Stdout, drawing, anstream::ColorChoice::AlwaysAnsi)
        {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(drawing.as_bytes())?;
        out.flush()
    }

    /// Prints JSON to stdout: unchanged in a pipe, indented on a terminal.
    pub(crate) fn json(&self, json: &str) -> io::Result<()> {
        if self.out.terminal { self.text(&json::pretty(json)) } else { self.text(json) }
    }

    /// Prints a note to stderr, unless quiet or for a machine.
    pub(crate) fn note(&self, text: &str) {
        if self.quiet || self.is_json() {
            return;
        }
        self.say(FAINT, "note:", &escape::hanging(text));
    }

    /// Prints a note to stderr, for machines as a JSON object on one line.
    pub(crate) fn event(&self, text: &str, kind: &str, members: &Value) {
        if !self.is_json() {
            return self.note(text);
        }
        if self.quiet {
            return;
        }
        let mut note = Map::from_iter([("kind".to_owned(), Value::from(kind))]);
        note.extend(members.as_object().cloned().unwrap_or_default());
        self.stderr(&self.inert_aside(&format!("{}\n", json!({ "note": note }))));
    }

    /// Returns JSON for stderr, with active characters escaped on a terminal.
    fn inert_aside(&self, json: &str) -> String {
        if self.err.terminal { json::inert(json) } else { json.to_owned() }
    }

    /// Prints a line of our own to stderr. Server text in it must be escaped already.
    pub(crate) fn aside(&self, line: &str) {
        self.stderr(&format!("{line}\n"));
    }

    /// Returns `text` in `style`, if stderr has color.
    pub(crate) fn paint_aside(&self, style: Style, text: &str) -> String {
        if self.err.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Prints a failure to stderr.
    pub(crate) fn failure(&self, report: &Report) {
        let text = if self.is_json() {
            self.inert_aside(&report.to_json())
        } else {
            let (bad, hint) = if self.err.color { (BAD, HINT) } else { Default::default() };
            report.to_text(bad, hint)
        };
        self.stderr(&text);
        // The process ends after this, so queued output is written now.
        stderr::drain();
    }

    fn say(&self, style: Style, label: &str, text: &str) {
        let style = if self.err.color { style } else { Style::new() };
        self.stderr(&format!("{style}{label}{style:#} {text}\n"));
    }

    fn stderr(&self, text: &str) {
        stderr::write(text, choice(self.err.color));
    }
}

/// Writes bytes to stdout unchanged. It is for verbs that connect to no server, so no dialog can be
/// open.
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

fn choice(color: bool) -> anstream::ColorChoice {
    if color { anstream::ColorChoice::Always } else { anstream::ColorChoice::Never }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While a dialog is open, neither a server's text nor a picture is drawn into it.
    #[test]
    fn all_of_stdout_waits_behind_the_curtain() {
        let terminal = Sink { terminal: true, color: false };
        let (out, err) = (terminal.clone(), terminal);
        let printer = Printer { format: Format::Text, quiet: false, dumb: false, width: 80, out, err };
        let fallen = curtain::Curtain::fall();
        printer.text("a server's text").unwrap();
        printer.json("{}").unwrap();
        printer.layout("a table\n").unwrap();
        printer.drawing("\x1b_Ga=T;\x1b\\").unwrap();
        assert_eq!(curtain::waiting(), ["a server's text\n", "{}\n", "a table\n", "\x1b_Ga=T;\x1b\\"]);
        drop(fallen);
    }
}
