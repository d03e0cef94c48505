//! Implements `bowline logs`.

use std::time::Instant;

use bowline::types::LogMessage;
use bowline::{ConnectionEventKind, Era, Event};

use crate::args::LogsArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, Report};
use crate::print::log_line::{self, Admission, RateLimiter};
use crate::print::{Printer, units};
use crate::session;
use crate::settings::Settings;

pub(super) async fn run(args: LogsArgs, settings: &Settings) -> Outcome {
    let LogsArgs { level, host: _, server } = args;
    let (_, server) = settings.resolve_server_args("logs", server)?;
    let printer = &settings.printer;
    let ended: Outcome = session::with_outcome(settings, &server, async |client| {
        let failed = |error: bowline::Error| Failure::call(&error, &server, &settings.command_line);
        // Subscribed before the level is set: a message may arrive before the response.
        let mut events = client.events();
        let peer = client.peer().await.map_err(failed)?;
        if peer.era() == Era::Modern {
            return Err(no_log_stream_failure(&server.name, peer.revision.as_str()));
        }
        client.set_log_level(level).await.map_err(failed)?;
        printer.note(&format!("listening to `{}` from `{}` up; Ctrl-C ends it", server.name, level.as_str()));
        let mut flood = RateLimiter::new();
        loop {
            match events.next().await {
                Some(Event::Connection(life)) => {
                    note_connection_event(printer, &server.name, life.kind, life.outage.map(units::time));
                }
                Some(Event::Missed(count)) => log_line::note_missed(printer, count),
                // Some servers send messages below the requested level.
                Some(event) => {
                    let Some(message) = log_line::log_message(&event).filter(|said| said.level >= level)
                    else {
                        continue;
                    };
                    if let Admission::Print { left_out } = flood.admit(Instant::now()) {
                        log_line::note_left_out(printer, left_out);
                        print_message(printer, &message, &server.name)?;
                    }
                }
                None => return Ok(Exit::Ok),
            }
        }
    })
    .await;
    match ended {
        // Ctrl-C is the only way to end the command.
        Err(Failure::Signal(Exit::Interrupted)) => Ok(Exit::Ok),
        ended => ended,
    }
}

fn print_message(printer: &Printer, message: &LogMessage, server: &str) -> Outcome<()> {
    if printer.is_json() {
        printer.write_json_line(&log_line::to_json(message, server))?;
    } else if printer.on_terminal() {
        printer.write_line(&log_line::to_text(message, |style, text| printer.paint(style, text)))?;
    } else {
        printer.write_line(&log_line::to_tabs(message))?;
    }
    Ok(())
}

// LG-02: a modern server logs only in response to requests.
fn no_log_stream_failure(server: &str, revision: &str) -> Failure {
    let message =
        format!("`{server}` speaks {revision}, where a server logs only what it does for a request");
    let hint = "use `bowline call --log-level LEVEL`, or --protocol legacy here if it speaks that too";
    Report { hint: Some(hint.to_owned()), ..Report::new(Exit::Server, message) }.into()
}

pub(super) fn note_connection_event(
    printer: &Printer,
    server: &str,
    turn: ConnectionEventKind,
    outage: Option<String>,
) {
    let after = outage.map(|outage| format!(" after {outage}")).unwrap_or_default();
    match turn {
        ConnectionEventKind::Disconnected | ConnectionEventKind::SessionLost => {
            printer.note(&format!("`{server}` cannot be reached; reconnecting"));
        }
        ConnectionEventKind::Recovered => printer.note(&format!("`{server}` is back{after}")),
        ConnectionEventKind::NeedsLogin | ConnectionEventKind::Failed => {
            printer.note(&format!("`{server}` cannot be used any more"));
        }
        _ => {}
    }
}
