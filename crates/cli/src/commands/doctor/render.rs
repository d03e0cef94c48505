//! Formats what was found: blocks for people, lines for pipes, JSON for machines.

use std::fmt::Write as _;

use anstyle::Style;
use serde_json::{Value, json};

use super::Examination;
use super::check::{Check, Remedy, Status};
use crate::print::table::{Table, wrap};
use crate::print::{BAD, FAINT, GOOD, HINT, NAME, Printer, STRONG, escape, units};

/// How many checks ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) ok: usize,
    pub(super) warnings: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
}

impl Summary {
    pub(super) fn of<'a>(checks: impl IntoIterator<Item = &'a Check>) -> Self {
        let mut summary = Self::default();
        for check in checks {
            match check.finding.status {
                Status::Ok => summary.ok += 1,
                Status::Warning => summary.warnings += 1,
                Status::Failed => summary.failed += 1,
                Status::Skipped => summary.skipped += 1,
            }
        }
        summary
    }

    /// Describes it in one line: `2 checks failed, 1 warning`.
    pub(super) fn describe(self) -> String {
        match (self.failed, self.warnings) {
            (0, 0) => "all is well".to_owned(),
            (0, warnings) => format!("nothing failed, {}", units::count(warnings, "warning")),
            (failed, 0) => format!("{} failed", units::count(failed, "check")),
            (failed, warnings) => {
                format!("{} failed, {}", units::count(failed, "check"), units::count(warnings, "warning"))
            }
        }
    }
}

/// Formats everything as JSON.
pub(super) fn to_json(examination: &Examination) -> Value {
    let checks = |checks: &[Check]| checks.iter().map(Check::to_json).collect::<Vec<_>>();
    let servers = examination.servers.iter().map(|server| {
        json!({
            "name": server.name,
            "transport": server.transport,
            "target": server.target,
            "ok": Summary::of(&server.checks).failed == 0,
            "checks": checks(&server.checks),
        })
    });
    let Summary { ok, warnings, failed, skipped } = Summary::of(examination.checks());
    json!({
        "ok": failed == 0,
        "version": env!("CARGO_PKG_VERSION"),
        "checks": checks(&examination.installation),
        "servers": servers.collect::<Vec<_>>(),
        "summary": { "ok": ok, "warnings": warnings, "failed": failed, "skipped": skipped },
    })
}

/// Formats everything for stdout.
pub(super) fn render(examination: &Examination, printer: &Printer) -> String {
    if !printer.on_terminal() {
        return tab_lines(examination, printer);
    }
    let layout = Layout { width: printer.width, is_plain: printer.dumb };
    layout.draw(examination, &|style, text| printer.paint(style, text))
}

/// Formats everything as plain text of this width, for files.
pub(super) fn plain_text(examination: &Examination, width: usize) -> String {
    Layout { width, is_plain: true }.draw(examination, &|_, text| text.to_owned())
}

fn tab_lines(examination: &Examination, printer: &Printer) -> String {
    let mut table = Table::new([""; 8]);
    let mut push = |server: &str, check: &Check| {
        let finding = &check.finding;
        let (text, command) = match &finding.remedy {
            Some(Remedy { text, command }) => (text.clone(), command.clone().unwrap_or_default()),
            None => Default::default(),
        };
        table.push_row([
            server.to_owned(),
            check.name.to_owned(),
            finding.status.name().to_owned(),
            if finding.status == Status::Skipped { String::new() } else { units::time(check.duration) },
            finding.blame.map(|blame| blame.name().to_owned()).unwrap_or_default(),
            finding.seen.clone(),
            text,
            command,
        ]);
    };
    examination.installation.iter().for_each(|check| push("-", check));
    for server in &examination.servers {
        server.checks.iter().for_each(|check| push(&server.name, check));
    }
    table.render(printer)
}

/// The form of text for people.
struct Layout {
    width: usize,
    /// Without marks that some terminals cannot show.
    is_plain: bool,
}

type Paint<'a> = &'a dyn Fn(Style, &str) -> String;

impl Layout {
    fn draw(&self, examination: &Examination, paint: Paint<'_>) -> String {
        let mut out = String::new();
        if !examination.installation.is_empty() {
            out.push_str(&paint(STRONG, "installation"));
            out.push('\n');
            self.draw_checks(&mut out, &examination.installation, paint);
        }
        for server in &examination.servers {
            let name = paint(NAME, &escape::line(&server.name));
            let target = paint(FAINT, &escape::line(&format!("{} {}", server.transport, server.target)));
            writeln!(out, "{name} {target}").expect("writing to a string");
            self.draw_checks(&mut out, &server.checks, paint);
        }
        out
    }

    fn draw_checks(&self, out: &mut String, checks: &[Check], paint: Paint<'_>) {
        for check in checks.iter().filter(|check| check.finding.status != Status::Skipped) {
            self.draw_check(out, check, paint);
        }
        // Each reason once, with all that it kept from being made.
        let skipped: Vec<&Check> =
            checks.iter().filter(|check| check.finding.status == Status::Skipped).collect();
        for group in skipped.chunk_by(|one, next| one.finding.seen == next.finding.seen) {
            let names: Vec<String> = group.iter().map(|check| display_name(check.name)).collect();
            let text = format!("skipped, since {}: {}", group[0].finding.seen, names.join(", "));
            self.lines(out, &self.lead(Status::Skipped), MARK_INDENT, &text, &|text| paint(FAINT, text));
        }
    }

    fn draw_check(&self, out: &mut String, check: &Check, paint: Paint<'_>) {
        let finding = &check.finding;
        let style = status_style(finding.status);
        let lead = format!("  {} ", paint(style, self.mark(finding.status)));
        let name = display_name(check.name);
        let time = units::time(check.duration);
        // Beside each other where there is room, else below each other.
        let indent = if self.width >= MIN_WIDE { WIDE_INDENT } else { NARROW_INDENT };
        if self.width >= MIN_WIDE {
            let time = paint(FAINT, &format!("{time:>8}"));
            let head = format!("{lead}{name:<NAME_WIDTH$} {time}  ");
            self.lines(out, &head, indent, &finding.seen, &str::to_owned);
        } else {
            writeln!(out, "{lead}{name} {}", paint(FAINT, &format!("({time})")))
                .expect("writing to a string");
            self.lines(out, &" ".repeat(indent), indent, &finding.seen, &str::to_owned);
        }
        let spaces = " ".repeat(indent);
        let mut more = |text: &str, painted: &dyn Fn(&str) -> String| {
            self.lines(out, &spaces, indent, text, painted);
        };
        if finding.status != Status::Ok {
            for line in &finding.details {
                more(line, &|text| paint(FAINT, text));
            }
        }
        if let Some(blame) = finding.blame {
            more(&format!("fault of: {}", blame.describe()), &|text| paint(style, text));
        }
        if let Some(Remedy { text, command }) = &finding.remedy {
            more(&format!("to fix it: {text}"), &str::to_owned);
            if let Some(command) = command {
                // A command is not wrapped, so that it can be copied.
                let command = paint(STRONG, &escape::line(command));
                writeln!(out, "{spaces}run: {command}").expect("writing to a string");
            }
        }
    }

    /// Appends a text that may be the server's, wrapped, after `head`.
    fn lines(&self, out: &mut String, head: &str, indent: usize, text: &str, paint: &dyn Fn(&str) -> String) {
        let text = escape::line(text);
        let room = self.width.saturating_sub(indent).max(MIN_ROOM);
        let mut head = head.to_owned();
        for line in wrap(&text, room) {
            writeln!(out, "{head}{}", paint(line)).expect("writing to a string");
            head = " ".repeat(indent);
        }
    }

    fn lead(&self, status: Status) -> String {
        format!("  {} ", self.mark(status))
    }

    fn mark(&self, status: Status) -> &'static str {
        match (status, self.is_plain) {
            (Status::Ok, false) => "✓",
            (Status::Failed, false) => "✗",
            (Status::Ok, true) => "+",
            (Status::Failed, true) => "x",
            (Status::Warning, _) => "!",
            (Status::Skipped, _) => "-",
        }
    }
}

fn display_name(name: &str) -> String {
    name.replace('_', " ")
}

fn status_style(status: Status) -> Style {
    match status {
        Status::Ok => GOOD,
        Status::Warning => HINT,
        Status::Failed => BAD,
        Status::Skipped => FAINT,
    }
}

/// Width of the longest name of a check.
const NAME_WIDTH: usize = 20;
/// Columns before what was seen, where that is beside the name: mark, name and time.
const WIDE_INDENT: usize = 4 + NAME_WIDTH + 1 + 8 + 2;
const NARROW_INDENT: usize = 6;
const MARK_INDENT: usize = 4;
/// From this width on, what was seen is beside the name.
const MIN_WIDE: usize = 76;
/// The least room that text is given, however narrow the terminal is.
const MIN_ROOM: usize = 20;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::ServerExamination;
    use super::super::check::{Blame, Finding};
    use super::*;
    use crate::exit::Exit;
    use crate::print::text_width::display_width;

    fn examination() -> Examination {
        let check = |name, finding| Check { name, duration: Duration::from_micros(1230), finding };
        let failed =
            Finding::failed(Blame::AuthorizationServer, Exit::Login, "it said \x1b[2Jno\nand more of it")
                .fix("ask who runs it")
                .run("bowline login docs".to_owned())
                .details(["stderr: bad".to_owned()]);
        let checks = vec![
            check("dns", Finding::ok("docs.example is 192.0.2.1")),
            check("authorization_server", failed),
            check("era", Finding::skipped("an earlier check failed")),
            check("session", Finding::skipped("an earlier check failed")),
        ];
        let server = ServerExamination {
            name: "docs".to_owned(),
            transport: "http",
            target: "https://docs.example/mcp".to_owned(),
            checks,
        };
        Examination { installation: vec![check("version", Finding::ok("bowline 1"))], servers: vec![server] }
    }

    #[test]
    fn layout_fits_every_width_and_shows_nothing_active() {
        for width in [40, 60, 80, 120] {
            let text = plain_text(&examination(), width);
            assert!(!text.contains('\x1b') && text.contains("\\u{1b}[2Jno"), "{text}");
            assert!(text.lines().all(|line| display_width(line) <= width), "{width}:\n{text}");
        }
    }

    #[test]
    fn wide_layout() {
        insta::assert_snapshot!(plain_text(&examination(), 80), @r"
        installation
          + version               1.23 ms  bowline 1
        docs http https://docs.example/mcp
          + dns                   1.23 ms  docs.example is 192.0.2.1
          x authorization server  1.23 ms  it said \u{1b}[2Jno\nand more of it
                                           stderr: bad
                                           fault of: the authorization server
                                           to fix it: ask who runs it
                                           run: bowline login docs
          - skipped, since an earlier check failed: era, session
        ");
    }

    #[test]
    fn narrow_layout() {
        insta::assert_snapshot!(plain_text(&examination(), 60), @r"
        installation
          + version (1.23 ms)
              bowline 1
        docs http https://docs.example/mcp
          + dns (1.23 ms)
              docs.example is 192.0.2.1
          x authorization server (1.23 ms)
              it said \u{1b}[2Jno\nand more of it
              stderr: bad
              fault of: the authorization server
              to fix it: ask who runs it
              run: bowline login docs
          - skipped, since an earlier check failed: era, session
        ");
    }

    #[test]
    fn summary_counts() {
        let summary = Summary::of(examination().checks());
        assert_eq!(summary, Summary { ok: 2, warnings: 0, failed: 1, skipped: 2 });
        assert_eq!(summary.describe(), "1 check failed");
        assert_eq!(Summary { warnings: 2, ..Summary::default() }.describe(), "nothing failed, 2 warnings");
        assert_eq!(Summary::default().describe(), "all is well");
    }
}
