//! Shows the demo: a picture that is redrawn on a terminal, elsewhere a line for each event, and
//! the table at the end.

use std::io;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::callers::CALLERS;
use super::ledger::ExecutionCounts;
use super::plan::Trouble;
use super::recorder::{CauseStats, LossCause};
use super::signature::SIGNATURES;
use super::summary::Summary;
use crate::print::screen::AlternateScreen;
use crate::print::text_width::fitting_bytes;
use crate::print::{FAINT, GOOD, Printer, STRONG, escape, units};

/// Shows a run while it happens.
pub(crate) enum DemoView<'a> {
    /// Redraws a picture in place.
    Picture(&'a Printer, AlternateScreen),
    /// Prints a line for each event.
    Lines(&'a Printer),
    /// Shows nothing: machines get the summary.
    Nothing,
}

type StyledLine = (Style, String);

const PLAIN: Style = Style::new();
const BAD: Style = AnsiColor::Red.on_default().bold();

impl<'a> DemoView<'a> {
    /// Chooses the view for this printer.
    pub(crate) fn start(printer: &'a Printer) -> io::Result<Self> {
        Ok(if printer.is_json() {
            Self::Nothing
        } else if printer.on_terminal() && printer.can_animate() {
            Self::Picture(printer, AlternateScreen::enter()?)
        } else {
            Self::Lines(printer)
        })
    }

    pub(crate) fn print_event(&self, at: Duration, what: &str) -> io::Result<()> {
        match self {
            Self::Lines(printer) => printer.write_layout(&format!("{:6.2} s  {what}\n", at.as_secs_f64())),
            Self::Picture(..) | Self::Nothing => Ok(()),
        }
    }

    /// Draws the current state. `now` is what happened last.
    pub(crate) fn draw(&mut self, summary: &Summary, length: Duration, now: &str) -> io::Result<()> {
        let Self::Picture(printer, screen) = self else { return Ok(()) };
        let elapsed = summary.elapsed.min(length).as_secs_f64();
        let mut lines = vec![
            (
                STRONG,
                format!("bowline demo   {elapsed:.1} of {} s   seed {}", length.as_secs(), summary.seed),
            ),
            (AnsiColor::Yellow.on_default(), format!("the server {now}")),
            (PLAIN, String::new()),
        ];
        lines.extend(summary_lines(summary));
        let (width, height) = AlternateScreen::size();
        lines.truncate(height);
        let painted: Vec<String> = lines
            .iter()
            .map(|(style, text)| printer.paint(*style, &text[..fitting_bytes(text, width)]))
            .collect();
        screen.draw(&painted)
    }
}

/// Describes what the server does.
pub(crate) fn describe_trouble(trouble: Trouble) -> String {
    match trouble {
        Trouble::Expire(signature) => format!("forgets all sessions: {}", SIGNATURES[signature].name),
        Trouble::Restart(down) => format!("restarts, and is away for {}", units::time(down)),
        Trouble::Cut(connections) => format!("cuts {connections} connections under calls that only read"),
        Trouble::CutStreams(calls) => {
            format!("cuts {} in the middle", units::count(calls, "stream"))
        }
    }
}

pub(crate) fn render_summary(printer: &Printer, summary: &Summary) -> String {
    let mut lines = summary_lines(summary);
    lines.push((PLAIN, String::new()));
    let total = summary.tally.total();
    for (at, why) in &summary.tally.failures {
        lines.push((PLAIN, format!("  failed at {:.2} s: {}", at.as_secs_f64(), escape::line(why))));
    }
    if summary.is_success() {
        let held = format!(
            "It held: {} calls, {} of {} losses recovered, none failed, none ran twice.",
            summary.tally.calls, total.recovered, total.lost
        );
        lines.push((GOOD, held));
    } else {
        let what = format!(
            "It did not hold: {} failed, {} ran twice, {} ran unanswered, {} never ran.",
            summary.tally.failed,
            summary.executions.twice,
            summary.unanswered(),
            summary.never_ran
        );
        lines.push((BAD, what));
    }
    let painted: Vec<String> = lines.iter().map(|(style, text)| printer.paint(*style, text)).collect();
    painted.join("\n") + "\n"
}

/// Returns the numbers as a table.
fn summary_lines(summary: &Summary) -> Vec<StyledLine> {
    let Summary { tally, executions, counters: done, .. } = summary;
    let [median, p99, longest] = summary.latency().map(units::time);
    let zero = |count: u64| if count == 0 { GOOD } else { BAD };
    let number = |label: &str, count: u64, note: &str| {
        format!("  {label:<10} {count:>7}   {note}").trim_end().to_owned()
    };
    let calls = format!("{} answered; {CALLERS} callers, up to 50 a second", tally.answered.len());
    let ExecutionCounts { once, twice, repeatable, repeated } = *executions;
    let runs = format!("of {once} that must not; {repeated} of {repeatable} reads ran again");
    let mut lines = vec![
        (PLAIN, number("calls", tally.calls, &calls)),
        (zero(tally.failed), number("failed", tally.failed, "")),
        (zero(twice), number("ran twice", twice, &runs)),
        (PLAIN, format!("  {:<10} {:>7}   {median} median, {p99} p99, {longest} longest", "time", "")),
        (PLAIN, String::new()),
        (
            FAINT,
            format!(
                "  {:<42}{:>6}{:>8}{:>11}{:>11}",
                "what the server did", "times", "losses", "recovered", "longest"
            ),
        ),
    ];
    let row = |name: &str, bout: CauseStats| {
        let CauseStats { times, lost, recovered, longest_outage: longest } = bout;
        let longest = if recovered == 0 { String::new() } else { units::time(longest) };
        format!("  {name:<42}{times:>6}{lost:>8}{recovered:>11}{longest:>11}").trim_end().to_owned()
    };
    let others = [
        (LossCause::Restart, "restarted".to_owned()),
        (LossCause::Cut, format!("cut {} under a call", units::count(count(done.cuts), "connection"))),
        (
            LossCause::Stream,
            format!(
                "cut {}, {} taken up again",
                units::count(count(done.streams_cut), "stream"),
                done.resumed
            ),
        ),
        (LossCause::Other, "nothing that was planned".to_owned()),
    ];
    let signatures = SIGNATURES.iter().enumerate().map(|(at, signature)| (at, signature.name.to_owned()));
    let others = others.into_iter().map(|(cause, name)| (cause.index(), name));
    let bouts = signatures.chain(others).map(|(at, name)| (name, tally.by_cause[at]));
    lines.extend(
        bouts
            .filter(|(_, bout)| *bout != CauseStats::default())
            .map(|(name, bout)| (PLAIN, row(&name, bout))),
    );
    lines.push((STRONG, row("in all", tally.total())));
    lines
}

fn count(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::super::recorder::Tally;
    use super::super::state::ServerCounters;
    use super::*;

    #[test]
    fn an_hour_of_everything_fits_into_eighty_columns() {
        let bout = CauseStats {
            times: 9_999,
            lost: 9_999,
            recovered: 9_999,
            longest_outage: Duration::from_secs(9),
        };
        let tally = Tally { calls: 180_000, by_cause: [bout; LossCause::COUNT], ..Tally::default() };
        let summary = Summary {
            seed: 1,
            elapsed: Duration::from_secs(3600),
            interrupted: None,
            tally,
            counters: ServerCounters {
                cuts: 9_999,
                streams_cut: 9_999,
                resumed: 9_999,
                ..ServerCounters::default()
            },
            executions: ExecutionCounts { once: 180_000, repeatable: 90_000, ..ExecutionCounts::default() },
            never_ran: 0,
        };
        let lines = summary_lines(&summary);
        assert!(lines.iter().all(|(_, line)| line.width() <= 80), "{lines:#?}");
        // With the three lines above it, it fits a terminal of the usual height.
        assert!(lines.len() + 3 <= 24, "{}", lines.len());
    }
}
