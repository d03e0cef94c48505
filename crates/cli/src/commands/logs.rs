//! Implements `bowline logs`.

use std::time::Instant;

use bowline::types::{LogLevel, LogMessage};
use bowline::{Client, ConnectionEventKind, Era, ErrorKind, Event, Server};

use crate::args::LogsArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, Report};
use crate::print::log_line::{self, Admission, RateLimiter};
use crate::print::{Printer, units};
use crate::session;
use crate::settings::Settings;
use crate::suggested_command::CommandLine;

pub(super) async fn run(args: LogsArgs, settings: &Settings) -> Outcome {
    let LogsArgs { level, host: _, server } = args;
    let (_, server) = settings.resolve_server_args("logs", server)?;
    // What a server writes as it starts is of interest here.
    settings.pool_use.set_allowed(false);
    let printer = &settings.printer;
    let ended: Outcome = session::with_outcome(settings, &server, async |client| {
        // Subscribed before the level is set: a message may arrive before the response.
        let mut events = client.events();
        client.report_stderr();
        let sources = LogSources::open(client, &server, level, &settings.command_line).await?;
        printer.note(&format!("{}; Ctrl-C ends it", sources.describe(&server.name, level)));
        let mut flood = RateLimiter::new();
        loop {
            match events.next().await {
                Some(Event::Connection(life)) => {
                    note_connection_event(printer, &server.name, life.kind, life.outage.map(units::time));
                }
                Some(Event::Missed(count)) => log_line::note_missed(printer, count),
                Some(Event::Stderr(line)) => {
                    log_line::note_left_out(printer, line.skipped);
                    if let Admission::Print { left_out } = flood.admit(Instant::now()) {
                        log_line::note_left_out(printer, left_out);
                        print_stderr_line(printer, &line.text, &server.name)?;
                    }
                }
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

fn print_stderr_line(printer: &Printer, line: &str, server: &str) -> Outcome<()> {
    if printer.is_json() {
        printer.write_json_line(&log_line::stderr_to_json(line, server))?;
    } else if printer.on_terminal() {
        printer.write_line(&log_line::stderr_to_text(line, |style, text| printer.paint(style, text)))?;
    } else {
        printer.write_line(&log_line::stderr_to_tabs(line))?;
    }
    Ok(())
}

/// Where the lines come from.
#[derive(Clone, Copy)]
enum LogSources {
    /// The server's log messages.
    Messages,
    /// The server's log messages, and the stderr of its process.
    MessagesAndStderr,
    /// The stderr of its process: it has no log messages.
    Stderr,
}

impl LogSources {
    /// Requests the log messages. A server that has none is good for its stderr, if it is a process.
    async fn open(
        client: &Client,
        server: &Server,
        level: LogLevel,
        command_line: &CommandLine,
    ) -> Outcome<Self> {
        let failed = |error: bowline::Error| Failure::call(&error, server, command_line);
        let is_process = server.transport.program().is_some();
        let peer = client.peer().await.map_err(failed)?;
        if peer.era() == Era::Modern {
            let none = || no_log_stream_failure(&server.name, peer.revision.as_str());
            return if is_process { Ok(Self::Stderr) } else { Err(none()) };
        }
        match client.set_log_level(level).await {
            Ok(()) if is_process => Ok(Self::MessagesAndStderr),
            Ok(()) => Ok(Self::Messages),
            Err(error) if is_process && matches!(error.kind(), ErrorKind::NotOffered(_)) => Ok(Self::Stderr),
            Err(error) => Err(failed(error)),
        }
    }

    fn describe(self, server: &str, level: LogLevel) -> String {
        let level = level.as_str();
        match self {
            Self::Messages => format!("printing log messages of `{server}` from level `{level}` up"),
            Self::MessagesAndStderr => {
                format!("printing log messages of `{server}` from level `{level}` up, and its stderr")
            }
            Self::Stderr => format!("printing the stderr of `{server}`, which sends no log messages"),
        }
    }
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
