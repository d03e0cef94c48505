//! Implements `bowline repl`: a prompt that stays connected, and whose commands are those of the shell.

mod command;
mod completion;
mod history;
mod notices;

use std::io::{self, BufRead as _, Read as _};
use std::rc::Rc;
use std::time::SystemTime;

use bowline::{Client, ServerState, Status};

use self::command::{HELP, ReplCommand, ServerWord};
use self::history::HistoryFile;
use crate::args::{Cli, Format, GlobalArgs, HandlerArgs, ReplArgs, TargetArgs};
use crate::dialog::{Dialogs, PromptHistory, PromptInput, Query};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::kept_sessions::{BusyFlag, KeptSessions};
use crate::print::table::Table;
use crate::print::{clock, escape};
use crate::settings::Settings;
use crate::settings::positional::PositionalArgs;

pub(super) async fn run(args: ReplArgs, settings: &Settings) -> Outcome {
    let ReplArgs { words, host: _, target } = args;
    let mut named = None;
    if words.is_empty() && target.command.is_empty() {
        if target.has_overrides() {
            return Err(Failure::usage_hint(
                "SERVER is missing: connection options apply to one server",
                "write `bowline repl SERVER`",
            ));
        }
    } else {
        let word = PositionalArgs::new("repl", "", words, &target.command)?
            .finish(|name| settings.is_configured(name))?;
        let server = settings.resolve_server(word.as_deref(), target)?;
        // A command has no name of its own. This word is none that could be configured.
        let word = word.unwrap_or_else(|| format!("command://{}", server.name));
        named = Some((word, server));
    }
    let dialogs = Dialogs::open(&settings.printer, &*settings.env);
    let is_interactive = dialogs.unavailable_reason().is_none();
    let printer = settings.printer.clone();
    let watch = move |client: &Client, busy: &BusyFlag| {
        if is_interactive {
            notices::print_notices(client, printer.clone(), busy.clone());
        }
    };
    let current =
        named.as_ref().map(|(word, server)| ServerWord { word: word.clone(), name: server.name.clone() });
    let kept = Rc::new(KeptSessions::new(dialogs, settings.handler_args.clone(), named, Box::new(watch)));
    let mut repl = Repl { settings, kept: Rc::clone(&kept), current };
    let outcome = if is_interactive { repl.run_at_terminal().await } else { repl.run_script().await };
    kept.dialogs.dismiss().await;
    kept.close(settings).await;
    outcome
}

struct Repl<'a> {
    settings: &'a Settings,
    kept: Rc<KeptSessions>,
    /// The server that commands are about.
    current: Option<ServerWord>,
}

/// Whether the prompt goes on after a command.
enum Flow {
    Continue(Exit),
    Leave,
}

impl Repl<'_> {
    /// Reads commands at the terminal until the person leaves.
    async fn run_at_terminal(&mut self) -> Outcome {
        let mut interrupt = Interrupt::listen();
        let file = HistoryFile::open(self.settings);
        let history = PromptHistory::new(file.as_ref().map(HistoryFile::read).unwrap_or_default());
        self.greet(&mut interrupt).await?;
        loop {
            let prompt = match &self.current {
                Some(server) => format!("{}> ", escape::line(&server.name)),
                None => "bowline> ".to_owned(),
            };
            let this = &*self;
            let suggest = |query: Query| async move { completion::complete(this, &query.text).await };
            let input = tokio::select! {
                biased;
                exit = interrupt.next() => match exit {
                    Exit::Interrupted => continue,
                    exit => return Err(Failure::Signal(exit)),
                },
                input = self.kept.dialogs.read_command(&prompt, &history, suggest) => input,
            };
            let line = match input {
                Some(PromptInput::Line(line)) => line.trim_end().to_owned(),
                Some(PromptInput::End) | None => return Ok(Exit::Ok),
            };
            if line.trim().is_empty() {
                continue;
            }
            if !line.starts_with(char::is_whitespace) {
                history.push(line.clone());
            }
            if let (Some(file), true) = (&file, history::is_storable(&line)) {
                file.append(&line);
            }
            match self.run_line(&line, &mut interrupt).await {
                Ok(Flow::Continue(_)) => {}
                Ok(Flow::Leave) => return Ok(Exit::Ok),
                Err(Failure::Report(report)) => self.settings.printer.write_failure(&report),
                Err(Failure::Signal(Exit::Interrupted)) => self.settings.printer.note("interrupted"),
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Runs the commands of stdin until one fails.
    async fn run_script(&mut self) -> Outcome {
        let mut interrupt = Interrupt::listen();
        loop {
            let line = tokio::select! {
                biased;
                exit = interrupt.next() => return Err(Failure::Signal(exit)),
                line = read_script_line() => line?,
            };
            let Some(line) = line else { return Ok(Exit::Ok) };
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            match self.run_line(&line, &mut interrupt).await? {
                Flow::Continue(Exit::Ok) => {}
                Flow::Continue(failed) => return Ok(failed),
                Flow::Leave => return Ok(Exit::Ok),
            }
        }
    }

    /// Connects to the server that was named, and says how to go on.
    async fn greet(&mut self, interrupt: &mut Interrupt) -> Outcome<()> {
        let printer = &self.settings.printer;
        if let Some(server) = self.current.clone() {
            let connected = tokio::select! {
                biased;
                exit = interrupt.next() => Err(Failure::Signal(exit)),
                connected = self.use_server(server.word) => connected,
            };
            match connected {
                Ok(_) => {}
                // A server that cannot be reached now may be later: the prompt is there all the same.
                Err(Failure::Report(report)) => printer.write_failure(&report),
                Err(failure) => return Err(failure),
            }
        }
        printer.note("`help` lists the commands, Tab completes, Ctrl-D leaves");
        Ok(())
    }

    /// Runs one line. A signal cancels its call on the server.
    async fn run_line(&mut self, line: &str, interrupt: &mut Interrupt) -> Outcome<Flow> {
        let servers = self.settings.read_again().ok();
        let names = servers.as_ref().and_then(|settings| settings.layers().ok());
        let names = names.map(bowline_settings::Layers::server_names).unwrap_or_default();
        let command = ReplCommand::parse(line, self.current.as_ref(), &names)?;
        let running = async {
            match command {
                ReplCommand::Empty => Ok(Flow::Continue(Exit::Ok)),
                ReplCommand::Leave => Ok(Flow::Leave),
                ReplCommand::Help => {
                    self.settings.printer.write_line(HELP)?;
                    Ok(Flow::Continue(Exit::Ok))
                }
                ReplCommand::Text(text) => {
                    self.settings.printer.write_line(text.trim_end())?;
                    Ok(Flow::Continue(Exit::Ok))
                }
                ReplCommand::Servers => self.list_servers(&names),
                ReplCommand::Status => self.show_status(),
                ReplCommand::Use(name) => self.use_server(name).await,
                ReplCommand::Verb(cli) => {
                    let Cli { global, verb } = *cli;
                    let GlobalArgs { config, trust_project, json, output, color: _, verbose: _, quiet } =
                        global;
                    if config.is_some() || trust_project {
                        return Err(Failure::usage(
                            "--config and --trust-project belong to `bowline repl` itself",
                        ));
                    }
                    let printer =
                        self.settings.printer.for_command(json || output == Some(Format::Json), quiet);
                    let handlers = verb.handler_args();
                    let settings = self.settings.for_prompt_command(printer, handlers, &self.kept)?;
                    let outcome = Box::pin(super::run(verb, &settings)).await;
                    settings.pending_closes.wait().await;
                    outcome.map(Flow::Continue)
                }
            }
        };
        let outcome = tokio::select! {
            biased;
            exit = interrupt.next() => Err(Failure::Signal(exit)),
            outcome = running => outcome,
        };
        if matches!(outcome, Err(Failure::Signal(_))) {
            self.kept.dialogs.dismiss_current().await;
        }
        outcome
    }

    async fn use_server(&mut self, name: String) -> Outcome<Flow> {
        let printer = self.settings.printer.clone();
        let settings = self.settings.for_prompt_command(printer, HandlerArgs::default(), &self.kept)?;
        let server = settings.resolve_server(Some(&name), TargetArgs::default())?;
        self.kept.client(&settings, &server).await?;
        self.current = Some(ServerWord { word: name, name: server.name });
        Ok(Flow::Continue(Exit::Ok))
    }

    fn list_servers(&self, configured: &[&str]) -> Outcome<Flow> {
        let connected = self.kept.clients();
        let is_connected = |name: &str| connected.iter().any(|(server, _)| server.name == name);
        let mut names: Vec<&str> = configured.to_vec();
        let others = connected.iter().map(|(server, _)| &*server.name);
        names.extend(others.filter(|name| !configured.contains(name)));
        let mut table = Table::new(["NAME", "STATE"]);
        for name in names {
            let is_current = self.current.as_ref().is_some_and(|current| current.name == name);
            let states = [is_connected(name).then_some("connected"), is_current.then_some("in use")];
            let states: Vec<&str> = states.into_iter().flatten().collect();
            table.push_row([name.to_owned(), states.join(", ")]);
        }
        self.settings.printer.write_layout(&table.render(&self.settings.printer))?;
        Ok(Flow::Continue(Exit::Ok))
    }

    fn show_status(&self) -> Outcome<Flow> {
        let printer = &self.settings.printer;
        let clients = self.kept.clients();
        if clients.is_empty() {
            printer.note("no server is connected");
        }
        let mut table = Table::new(["NAME", "STATE", "UPTIME", "RECOVERIES", "LAST ERROR"]);
        for (server, client) in &clients {
            let health = client.health();
            let uptime = health
                .connected_since
                .map(|since| clock::format_span(clock::since(SystemTime::now(), since)));
            let fault = health.last_fault.map(|(_, fault)| fault.to_string()).unwrap_or_default();
            let state = describe_status(&client.status().current()).to_owned();
            let recoveries = health.recoveries.to_string();
            table.push_row([server.name.clone(), state, uptime.unwrap_or_default(), recoveries, fault]);
        }
        if !clients.is_empty() {
            printer.write_layout(&table.render(printer))?;
        }
        Ok(Flow::Continue(Exit::Ok))
    }
}

/// The state of a connection, in the words of `bowline status`.
fn describe_status(status: &Status) -> &'static str {
    let state = match status {
        Status::LoggingIn(_) => ServerState::LoggingIn,
        Status::Ready(_) => ServerState::Ready,
        Status::NeedsLogin(_) => ServerState::NeedsLogin,
        Status::BackingOff { .. } => ServerState::BackingOff,
        Status::Failed(_) => ServerState::Failed,
        Status::Closed => ServerState::Closed,
        _ => ServerState::Connecting,
    };
    state.as_str()
}

/// Reads the next line of stdin; `None` at its end.
async fn read_script_line() -> Outcome<Option<String>> {
    let read = || {
        let mut line = String::new();
        let count = io::stdin().lock().take(MAX_LINE_BYTES + 1).read_line(&mut line)?;
        if line.len() as u64 > MAX_LINE_BYTES {
            return Err(io::Error::other("a line is longer than 1 MiB"));
        }
        Ok((count > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned()))
    };
    let line = tokio::task::spawn_blocking(read).await.map_err(io::Error::other).flatten();
    line.map_err(|error| Failure::usage(format!("stdin cannot be read: {error}")))
}

/// Longest line of a script, in bytes.
const MAX_LINE_BYTES: u64 = 1024 * 1024;
