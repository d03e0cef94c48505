//! Owns where output goes: data to stdout, everything else to stderr; and how much of it.

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

/// Writes for a person or for a machine.
#[derive(Clone)]
pub(crate) struct Printer {
    format: Format,
    quiet: bool,
    dumb: bool,
    width: usize,
    out: Sink,
    err: Sink,
}

/// What is known of one of the two streams.
#[derive(Clone)]
struct Sink {
    terminal: bool,
    color: bool,
}

/// A table's header, a label.
pub(crate) const STRONG: Style = Style::new().bold();
/// Less important.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Names of things.
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default();
/// Good news.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Bad news.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Something to look at.
pub(crate) const HINT: Style = AnsiColor::Yellow.on_default();

impl Printer {
    /// For this process's streams.
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

    /// Whether a machine reads.
    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Whether stdout is a terminal: only then are texts cut, wrapped and escaped.
    pub(crate) fn on_terminal(&self) -> bool {
        self.out.terminal
    }

    /// Whether stderr can show something that moves.
    pub(crate) fn can_animate(&self) -> bool {
        self.err.terminal && !self.quiet && !self.dumb && !self.is_json()
    }

    /// Whether the terminal understands nothing but text.
    pub(crate) fn is_dumb(&self) -> bool {
        self.dumb
    }

    /// Whether stderr has colour.
    pub(crate) fn notes_in_color(&self) -> bool {
        self.err.color
    }

    /// Whether stdout can show something that is drawn in place.
    pub(crate) fn can_draw(&self) -> bool {
        self.out.terminal && !self.dumb && !self.is_json()
    }

    /// How many columns stdout has. Only meaningful on a terminal.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// `text` in `style`, where stdout has colour.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        if self.out.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Our own layout on stdout: any server text in it has been escaped.
    pub(crate) fn layout(&self, text: &str) -> io::Result<()> {
        if self.out.terminal && curtain::holds(curtain::To::Stdout, text, choice(self.out.color)) {
            return Ok(());
        }
        let mut out = AutoStream::new(io::stdout().lock(), choice(self.out.color));
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// One line of our own on stdout, or one JSON object: any server text in it has been escaped.
    pub(crate) fn line(&self, line: &str) -> io::Result<()> {
        self.layout(&format!("{line}\n"))
    }

    /// One JSON object on one line of stdout, harmless on a terminal.
    pub(crate) fn json_line(&self, json: &str) -> io::Result<()> {
        if self.out.terminal { self.line(&json::inert(json)) } else { self.line(json) }
    }

    /// A server's text on stdout: exact in a pipe, harmless on a terminal, and with a line end.
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

    /// A picture as the terminal draws it, which is not to be looked into.
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

    /// Valid JSON on stdout: as it came in a pipe, indented on a terminal.
    pub(crate) fn json(&self, json: &str) -> io::Result<()> {
        if self.out.terminal { self.text(&json::pretty(json)) } else { self.text(json) }
    }

    /// Something worth knowing, on stderr.
    pub(crate) fn note(&self, text: &str) {
        if self.quiet || self.is_json() {
            return;
        }
        self.say(FAINT, "note:", &escape::hanging(text));
    }

    /// The same, and for machines an object on a line: they cannot ask again.
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

    /// JSON for stderr, harmless on a terminal.
    fn inert_aside(&self, json: &str) -> String {
        if self.err.terminal { json::inert(json) } else { json.to_owned() }
    }

    /// One line of our own on stderr: any server text in it has been escaped.
    pub(crate) fn aside(&self, line: &str) {
        self.stderr(&format!("{line}\n"));
    }

    /// `text` in `style`, where stderr has colour.
    pub(crate) fn paint_aside(&self, style: Style, text: &str) -> String {
        if self.err.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// A failure, on stderr.
    pub(crate) fn failure(&self, report: &Report) {
        let text = if self.is_json() {
            self.inert_aside(&report.to_json())
        } else {
            let (bad, hint) = if self.err.color { (BAD, HINT) } else { Default::default() };
            report.to_text(bad, hint)
        };
        self.stderr(&text);
        // Nothing comes after it.
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

/// Bytes of our own on stdout, as they are, from verbs that connect to no server: nobody is asked meanwhile.
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

    /// While a person is asked, neither a server's text nor a picture is drawn into the question.
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
