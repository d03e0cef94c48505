//! Implements `bowline status`.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use bowline::{Registry, ServerState, ServerStatus};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use crate::args::StatusArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, exit_of};
use crate::interrupt::Interrupt;
use crate::logins;
use crate::print::progress::Bar;
use crate::print::screen::Screen;
use crate::print::status::{self, Now, Row};
use crate::print::{Printer, escape, units};
use crate::settings::Settings;
use crate::settings::many::{Many, Other, Why};

pub(super) async fn run(args: StatusArgs, settings: &Settings) -> Outcome {
    let StatusArgs { servers, watch, timeout } = args;
    let meant = settings.many(&servers)?;
    if watch { stay(meant, settings).await } else { look(meant.without_hooks(), timeout, settings).await }
}

/// Connects, prints the status once, and closes.
async fn look(meant: Many, limit: Duration, settings: &Settings) -> Outcome {
    let printer = &settings.printer;
    let mut interrupt = Interrupt::listen();
    let count = units::count(meant.servers.iter().filter(|server| server.enabled).count(), "server");
    let bar = Bar::start(printer, &format!("connecting to {count}"));
    let logins: HashMap<String, String> =
        meant.servers.iter().filter_map(|it| Some((it.name.clone(), logins::command(it)?))).collect();
    let registry = settings.registry().open(meant.servers);
    let outcome = tokio::select! {
        _ = timeout(limit, registry.settled()) => {
            bar.finish();
            let statuses = registry.statuses();
            let shown = show(&statuses, &meant.others, printer);
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
    leave(&registry, &mut interrupt).await;
    outcome
}

/// Prints the statuses, and returns the exit code of the worst.
fn show(statuses: &[ServerStatus], others: &[Other], printer: &Printer) -> Outcome {
    let now = Now::read();
    let rows = rows(statuses, others);
    let wanted = statuses.iter().filter(|status| status.state != ServerState::Disabled);
    let ready = statuses.iter().filter(|status| status.state == ServerState::Ready).count();
    let total = wanted.count();
    if printer.is_json() {
        let servers: Vec<_> = rows.iter().map(|row| row.to_json(now)).collect();
        printer.json(&json!({ "servers": servers, "ready": ready, "enabled": total }).to_string())?;
    } else {
        printer.layout(&status::render(&rows, now, printer))?;
        if ready < total {
            printer.note(&format!("{ready} of {} ready", units::count(total, "server")));
        }
    }
    Ok(worst(statuses, others))
}

fn rows(statuses: &[ServerStatus], others: &[Other]) -> Vec<Row> {
    let mut rows: Vec<_> = statuses.iter().map(Row::from).chain(others.iter().map(Row::from)).collect();
    // Skipped servers occur only if no names were given, so there is no typed order to keep.
    if !others.is_empty() {
        rows.sort_by(|a, b| a.name().cmp(b.name()));
    }
    rows
}

/// Returns the exit code of the worst status. Disabled and untrusted servers are not failures.
fn worst(statuses: &[ServerStatus], others: &[Other]) -> Exit {
    let of_status = |status: &ServerStatus| match status.state {
        ServerState::Ready | ServerState::Disabled => Exit::Ok,
        state => match &status.health.last_fault {
            Some((_, fault)) => exit_of(&fault.cause),
            None if matches!(
                state,
                ServerState::Waiting | ServerState::Connecting | ServerState::LoggingIn
            ) =>
            {
                Exit::Timeout
            }
            None => Exit::Connection,
        },
    };
    let of_other = |other: &Other| if other.why == Why::Unusable { Exit::Usage } else { Exit::Ok };
    let exits: Vec<_> = statuses.iter().map(of_status).chain(others.iter().map(of_other)).collect();
    let worst = [Exit::Connection, Exit::Timeout, Exit::Login, Exit::Usage];
    worst.into_iter().find(|exit| exits.contains(exit)).unwrap_or(Exit::Ok)
}

/// Stays connected and shows changes until a signal arrives.
async fn stay(meant: Many, settings: &Settings) -> Outcome {
    let printer = &settings.printer;
    let mut interrupt = Interrupt::listen();
    let builder = settings.registry();
    let events = builder.events();
    let registry = builder.open(meant.servers);
    let outcome = if printer.can_draw() {
        draw(&registry, &meant.others, events, &mut interrupt, printer).await
    } else {
        tell(&registry, events, &mut interrupt, printer).await
    };
    leave(&registry, &mut interrupt).await;
    outcome
}

type Events = bowline::EventReceiver<bowline::ServerEvent>;

/// Shortest time between two frames.
const PICTURE: Duration = Duration::from_millis(250);
/// How often the picture is redrawn without an event, as it shows times in seconds.
const TICK: Duration = Duration::from_secs(1);

/// Redraws the table in place until a signal arrives.
async fn draw(
    registry: &Registry,
    others: &[Other],
    mut events: Events,
    interrupt: &mut Interrupt,
    printer: &Printer,
) -> Outcome {
    let mut screen = Screen::enter()?;
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let exit = loop {
        let (width, height) = Screen::size();
        screen.draw(&picture(rows(&registry.statuses(), others), width, height, printer))?;
        let drawn = Instant::now();
        tokio::select! {
            exit = interrupt.next() => break exit,
            _ = tick.tick() => {}
            _ = events.recv() => {}
        }
        tokio::select! {
            exit = interrupt.next() => break exit,
            () = sleep_until(drawn + PICTURE) => {}
        }
        // The next frame shows everything that has happened since, so pending events are skipped.
        events = events.resubscribe();
    };
    drop(screen);
    // The last state stays on the screen.
    let now = Now::read();
    printer.layout(&status::render(&rows(&registry.statuses(), others), now, printer))?;
    end(exit)
}

/// Returns the lines that fit, with troubled servers first if not all of them do.
fn picture(mut rows: Vec<Row>, width: usize, height: usize, printer: &Printer) -> Vec<String> {
    let now = Now::read();
    let mut lines = status::drawn(&rows, now, width, printer);
    if lines.len() > height {
        rows.sort_by_key(|row| !row.is_troubled());
        lines = status::drawn(&rows, now, width, printer);
        let more = lines.len() - (height - 1);
        lines.truncate(height - 1);
        lines.push(format!("… {more} more lines"));
    }
    lines
}

/// Prints a line, or a JSON object, for each change of a server, without transient states.
async fn tell(
    registry: &Registry,
    mut events: Events,
    interrupt: &mut Interrupt,
    printer: &Printer,
) -> Outcome {
    let mut told = HashMap::new();
    loop {
        for status in registry.statuses() {
            let passing = matches!(
                status.state,
                ServerState::Waiting | ServerState::Connecting | ServerState::LoggingIn
            );
            if !passing && told.get(&status.name) != Some(&gist(&status)) {
                tell_one(&status, printer)?;
                told.insert(status.name.clone(), gist(&status));
            }
        }
        tokio::select! {
            exit = interrupt.next() => return end(exit),
            // An event arrives shortly before the state that it leads to.
            () = sleep(PICTURE) => {}
            _ = events.recv() => {}
        }
    }
}

/// Returns what has to differ for a server to be printed again.
fn gist(status: &ServerStatus) -> impl PartialEq + use<> {
    let health = &status.health;
    (status.state, health.connected_since, health.recoveries, health.last_fault.as_ref().map(|(at, _)| *at))
}

fn tell_one(status: &ServerStatus, printer: &Printer) -> io::Result<()> {
    let (now, row) = (Now::read(), Row::from(status));
    if printer.is_json() {
        let mut object = row.to_json(now);
        object["time"] = now.utc().into();
        return printer.json_line(&object.to_string());
    }
    let cells = row.cells(now).map(|cell| escape::line(&cell).into_owned());
    printer.line(&format!("{}\t{}", now.utc(), cells.join("\t").trim_end()))
}

/// Maps a signal to the outcome: Ctrl-C is the regular end.
pub(super) fn end(exit: Exit) -> Outcome {
    if exit == Exit::Interrupted { Ok(Exit::Ok) } else { Err(Failure::Signal(exit)) }
}

/// Closes all connections. A second signal cuts that short.
pub(super) async fn leave(registry: &Registry, interrupt: &mut Interrupt) {
    tokio::select! {
        () = registry.close() => {}
        _ = interrupt.next() => {}
    }
}

#[cfg(test)]
mod tests {
    use bowline::config::Fixed;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;
    use crate::args::{Color, Format};

    #[test]
    fn a_picture_fits_and_shows_the_troubled_first() {
        let printer = Printer::new(Format::Text, Color::Never, true, &Fixed::default());
        let others = |count: usize| {
            let other = |at: usize| {
                let why = if at == 40 { Why::Unusable } else { Why::NotTrusted };
                let detail = (at == 40).then(|| "wrong ".repeat(50));
                Other { name: format!("server-{at:02}"), why, detail }
            };
            (0..count).map(other).collect::<Vec<_>>()
        };
        let lines = picture(rows(&[], &others(10)), 80, 24, &printer);
        assert_eq!(lines.len(), 11);
        assert!(lines[1].starts_with("server-00") && lines[10].starts_with("server-09"), "{lines:#?}");

        let lines = picture(rows(&[], &others(50)), 80, 24, &printer);
        assert_eq!(lines.len(), 24);
        assert!(lines[1].starts_with("server-40") && lines[2].starts_with("    wrong"), "{lines:#?}");
        assert!(lines[23].starts_with("… 29 more lines"), "{lines:#?}");
        for width in [40, 80] {
            let lines = picture(rows(&[], &others(50)), width, 24, &printer);
            assert!(lines.iter().all(|line| line.width() <= width), "{lines:#?}");
        }
    }
}
