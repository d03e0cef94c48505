//! Implements `bowline status`.

mod rows;
mod stale_lists;

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use bowline::{Registry, ServerState, ServerStatus};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use self::rows::{CurrentTime, StatusRow};
use self::stale_lists::ServerStaleLists;
use crate::args::StatusArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, exit_for_cause};
use crate::interrupt::Interrupt;
use crate::print::progress::Bar;
use crate::print::screen::AlternateScreen;
use crate::print::{Printer, escape, units};
use crate::session;
use crate::settings::Settings;
use crate::settings::server_selection::{ServerSelection, SkipReason, SkippedServer};

pub(super) async fn run(args: StatusArgs, settings: &Settings) -> Outcome {
    let StatusArgs { servers, watch, timeout, url } = args;
    let meant = settings.select_servers(&servers)?.apply(&url)?;
    settings.note_doubts(&meant.servers)?;
    if watch {
        watch_servers(meant, settings).await
    } else {
        show_once(meant.without_hooks(), timeout, settings).await
    }
}

/// Connects, prints the status once, and closes.
async fn show_once(meant: ServerSelection, limit: Duration, settings: &Settings) -> Outcome {
    let printer = &settings.printer;
    let mut interrupt = Interrupt::listen();
    let count = units::count(meant.servers.iter().filter(|server| server.enabled).count(), "server");
    let bar = Bar::start(printer, &format!("connecting to {count}"));
    let logins: HashMap<String, String> = meant
        .servers
        .iter()
        .filter_map(|it| Some((it.name.clone(), settings.command_line.login_command(it)?)))
        .collect();
    let registry = session::registry_builder(settings).open(meant.servers);
    let known = async {
        tokio::join!(timeout(limit, registry.settled()), timeout(limit, stale_lists::read(settings)))
    };
    let outcome = tokio::select! {
        (_, stale) = known => {
            bar.finish();
            let statuses = registry.statuses();
            let shown = print_statuses((&statuses, &meant.skipped), stale.unwrap_or_default(), printer);
            let wanting = statuses.iter().filter(|status| status.state == ServerState::NeedsLogin);
            for command in wanting.filter_map(|status| logins.get(&*status.name)) {
                printer.note(&format!("log in with `{command}`"));
            }
            shown
        }
        exit = interrupt.next() => {
            bar.finish();
            Err(Failure::Signal(exit))
        }
    };
    close_registry(&registry, &mut interrupt).await;
    outcome
}

/// Prints the statuses, and returns the exit code of the worst.
fn print_statuses(
    (statuses, others): (&[ServerStatus], &[SkippedServer]),
    mut stale: ServerStaleLists,
    printer: &Printer,
) -> Outcome {
    let now = CurrentTime::read();
    let mut rows = build_rows(statuses, others);
    for row in &mut rows {
        row.stale_lists = Some(stale.remove(&row.name).unwrap_or_default());
    }
    let wanted = statuses.iter().filter(|status| status.state != ServerState::Disabled);
    let ready = statuses.iter().filter(|status| status.state == ServerState::Ready).count();
    let total = wanted.count();
    if printer.is_json() {
        let servers: Vec<_> = rows.iter().map(|row| row.to_json(now)).collect();
        printer.write_json(&json!({ "servers": servers, "ready": ready, "enabled": total }).to_string())?;
    } else {
        printer.write_layout(&rows::render(&rows, now, printer))?;
        if ready < total {
            printer.note(&format!("{ready} of {} ready", units::count(total, "enabled server")));
        }
    }
    Ok(worst_exit(statuses, others))
}

fn build_rows(statuses: &[ServerStatus], others: &[SkippedServer]) -> Vec<StatusRow> {
    let mut rows: Vec<_> =
        statuses.iter().map(StatusRow::from).chain(others.iter().map(StatusRow::from)).collect();
    // Skipped servers occur only if no names were given, so there is no typed order to keep.
    if !others.is_empty() {
        rows.sort_by(|a, b| a.name.cmp(&b.name));
    }
    rows
}

/// Returns the exit code of the worst status. Disabled and untrusted servers are not failures.
fn worst_exit(statuses: &[ServerStatus], others: &[SkippedServer]) -> Exit {
    let of_status = |status: &ServerStatus| match status.state {
        ServerState::Ready | ServerState::Disabled => Exit::Ok,
        state => match &status.health.last_fault {
            Some((_, fault)) => exit_for_cause(&fault.cause),
            None if is_passing(state) => Exit::Timeout,
            None => Exit::Connection,
        },
    };
    let of_other =
        |other: &SkippedServer| if other.reason == SkipReason::Unusable { Exit::Usage } else { Exit::Ok };
    let exits: Vec<_> = statuses.iter().map(of_status).chain(others.iter().map(of_other)).collect();
    let worst = [Exit::Connection, Exit::Timeout, Exit::Login, Exit::Usage];
    worst.into_iter().find(|exit| exits.contains(exit)).unwrap_or(Exit::Ok)
}

/// Stays connected and shows changes until a signal arrives.
async fn watch_servers(meant: ServerSelection, settings: &Settings) -> Outcome {
    let printer = &settings.printer;
    let mut interrupt = Interrupt::listen();
    let builder = session::registry_builder(settings);
    let events = builder.events();
    let registry = builder.open(meant.servers);
    let outcome = if printer.can_draw() {
        draw(&registry, &meant.skipped, events, &mut interrupt, printer).await
    } else {
        print_changes(&registry, events, &mut interrupt, printer).await
    };
    close_registry(&registry, &mut interrupt).await;
    outcome
}

type Events = bowline::EventReceiver<bowline::ServerEvent>;

/// Shortest time between two frames.
const FRAME_INTERVAL: Duration = Duration::from_millis(250);
/// How often the picture is redrawn without an event, as it shows times in seconds.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Redraws the table in place until a signal arrives.
async fn draw(
    registry: &Registry,
    others: &[SkippedServer],
    mut events: Events,
    interrupt: &mut Interrupt,
    printer: &Printer,
) -> Outcome {
    let mut screen = AlternateScreen::enter()?;
    let mut tick = interval(REDRAW_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let exit = loop {
        let (width, height) = AlternateScreen::size();
        screen.draw(&render_frame(build_rows(&registry.statuses(), others), width, height, printer))?;
        let drawn = Instant::now();
        tokio::select! {
            exit = interrupt.next() => break exit,
            _ = tick.tick() => {}
            _ = events.next() => {}
        }
        tokio::select! {
            exit = interrupt.next() => break exit,
            () = sleep_until(drawn + FRAME_INTERVAL) => {}
        }
        // The next frame shows everything that has happened since, so pending events are skipped.
        events = events.resubscribe();
    };
    drop(screen);
    // The last state stays on the screen.
    let now = CurrentTime::read();
    printer.write_layout(&rows::render(&build_rows(&registry.statuses(), others), now, printer))?;
    interrupt_outcome(exit)
}

/// Returns the lines that fit, with troubled servers first if not all of them do.
fn render_frame(mut rows: Vec<StatusRow>, width: usize, height: usize, printer: &Printer) -> Vec<String> {
    let now = CurrentTime::read();
    let mut lines = rows::render_lines(&rows, now, width, printer);
    if lines.len() > height {
        rows.sort_by_key(|row| !row.is_troubled());
        lines = rows::render_lines(&rows, now, width, printer);
        let more = lines.len() - (height - 1);
        lines.truncate(height - 1);
        lines.push(format!("… {more} more lines"));
    }
    lines
}

/// Prints a line, or a JSON object, for each change of a server, without transient states.
async fn print_changes(
    registry: &Registry,
    mut events: Events,
    interrupt: &mut Interrupt,
    printer: &Printer,
) -> Outcome {
    let mut told = HashMap::new();
    loop {
        for status in registry.statuses() {
            if !is_passing(status.state) && told.get(&status.name) != Some(&change_key(&status)) {
                print_status(&status, printer)?;
                told.insert(status.name.clone(), change_key(&status));
            }
        }
        tokio::select! {
            exit = interrupt.next() => return interrupt_outcome(exit),
            // An event arrives shortly before the state that it leads to.
            () = sleep(FRAME_INTERVAL) => {}
            _ = events.next() => {}
        }
    }
}

/// Returns whether the state only lasts until the current attempt has an outcome.
fn is_passing(state: ServerState) -> bool {
    matches!(state, ServerState::Waiting | ServerState::Connecting | ServerState::LoggingIn)
}

/// Returns what has to differ for a server to be printed again.
fn change_key(status: &ServerStatus) -> impl PartialEq + use<> {
    let health = &status.health;
    (status.state, health.connected_since, health.recoveries, health.last_fault.as_ref().map(|(at, _)| *at))
}

fn print_status(status: &ServerStatus, printer: &Printer) -> io::Result<()> {
    let (now, row) = (CurrentTime::read(), StatusRow::from(status));
    if printer.is_json() {
        let mut object = row.to_json(now);
        object["time"] = now.utc().into();
        return printer.write_json_line(&object.to_string());
    }
    let cells = row.cells(now).map(|cell| escape::line(&cell).into_owned());
    printer.write_line(&format!("{}\t{}", now.utc(), cells.join("\t").trim_end()))
}

/// Maps a signal to the outcome: Ctrl-C is the regular end.
pub(super) fn interrupt_outcome(exit: Exit) -> Outcome {
    if exit == Exit::Interrupted { Ok(Exit::Ok) } else { Err(Failure::Signal(exit)) }
}

/// Closes all connections. A second signal cuts that short.
pub(super) async fn close_registry(registry: &Registry, interrupt: &mut Interrupt) {
    tokio::select! {
        () = registry.close() => {}
        _ = interrupt.next() => {}
    }
}

#[cfg(test)]
mod tests {
    use bowline::config::FixedEnvironment;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;
    use crate::args::{Color, Format};

    #[test]
    fn a_picture_fits_and_shows_the_troubled_first() {
        let printer = Printer::new(Format::Text, Color::Never, true, &FixedEnvironment::default());
        let others = |count: usize| {
            let other = |at: usize| {
                let why = if at == 40 { SkipReason::Unusable } else { SkipReason::NotTrusted };
                let detail = (at == 40).then(|| "wrong ".repeat(50));
                SkippedServer { name: format!("server-{at:02}"), reason: why, detail }
            };
            (0..count).map(other).collect::<Vec<_>>()
        };
        let lines = render_frame(build_rows(&[], &others(10)), 80, 24, &printer);
        assert_eq!(lines.len(), 11);
        assert!(lines[1].starts_with("server-00") && lines[10].starts_with("server-09"), "{lines:#?}");

        let lines = render_frame(build_rows(&[], &others(50)), 80, 24, &printer);
        assert_eq!(lines.len(), 24);
        assert!(lines[1].starts_with("server-40") && lines[2].starts_with("    wrong"), "{lines:#?}");
        assert!(lines[23].starts_with("… 29 more lines"), "{lines:#?}");
        for width in [40, 80] {
            let lines = render_frame(build_rows(&[], &others(50)), width, 24, &printer);
            assert!(lines.iter().all(|line| line.width() <= width), "{lines:#?}");
        }
    }
}
