//! Runs what serves a host, with notes about its servers, until it ends or a signal arrives.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bowline::auth::missing_scopes;
use bowline::{Cause, ConnectionEvent, ConnectionEventKind, Fault};
use bowline_settings::ProjectTrust;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interrupt::{ControllingTerminal, Interrupt};
use crate::print::{Printer, units};
use crate::suggested_command::with_scopes;

/// What serves a host, and what it reports meanwhile.
pub(super) struct Serving<'a> {
    printer: &'a Printer,
    interrupt: Interrupt,
    hangups: Option<(Arc<Notify>, ControllingTerminal)>,
    reporter: mpsc::Sender<Report>,
    reports: mpsc::Receiver<Report>,
}

/// The commands that log in, by server, where a login can help. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct LoginCommands(Arc<Mutex<HashMap<String, String>>>);

impl LoginCommands {
    /// Replaces all commands.
    pub(super) fn set(&self, commands: HashMap<String, String>) {
        *self.0.lock() = commands;
    }

    fn get(&self, server: &str) -> Option<String> {
        self.0.lock().get(server).cloned()
    }
}

impl FromIterator<(String, String)> for LoginCommands {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(commands: I) -> Self {
        Self(Arc::new(Mutex::new(commands.into_iter().collect())))
    }
}

/// Something to note.
enum Report {
    Event(ConnectionEvent),
    /// A call of this server was denied.
    Denied(String, Fault),
}

/// Resolves when serving has to stop.
pub(super) type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<'a> Serving<'a> {
    /// Listens for signals from now on.
    pub(super) fn new(printer: &'a Printer) -> Self {
        let (reporter, reports) = mpsc::channel(REPORT_QUEUE_CAPACITY);
        Self { printer, interrupt: Interrupt::listen(), hangups: None, reporter, reports }
    }

    /// From now on SIGHUP does not end it, unless it comes from a terminal that is gone. The result is
    /// notified instead.
    pub(super) fn take_hangups(&mut self) -> Arc<Notify> {
        let hangups = Arc::<Notify>::default();
        self.hangups = Some((Arc::clone(&hangups), self.interrupt.hear_hangups()));
        hangups
    }

    /// Notes events of connections. One is dropped if the queue is full.
    pub(super) fn event_callback(&self) -> impl Fn(&ConnectionEvent) + Send + Sync + 'static {
        let reporter = self.reporter.clone();
        move |event| {
            let _ = reporter.try_send(Report::Event(event.clone()));
        }
    }

    /// Notes calls of `server` that another login would help. One is dropped if the queue is full.
    pub(super) fn denial_callback(&self, server: &str) -> impl Fn(&Fault) + Send + Sync + 'static {
        let (reporter, server) = (self.reporter.clone(), server.to_owned());
        move |fault| {
            let _ = reporter.try_send(Report::Denied(server.clone(), fault.clone()));
        }
    }

    /// Runs until the future of `run` ends. A signal ends it in order. The same signal again, as a
    /// person sends it, ends it at once. A different signal does not: hosts send SIGINT and right
    /// after it SIGTERM.
    pub(super) async fn drive<F: Future<Output = ()>>(
        self,
        login_commands: LoginCommands,
        run: impl FnOnce(Stop) -> F,
    ) {
        let Self { printer, mut interrupt, hangups, reporter, mut reports } = self;
        let (stop, stopped) = oneshot::channel::<()>();
        let mut stop = Some(stop);
        let mut first = None;
        let run = run(Box::pin(async move {
            let _ = stopped.await;
        }));
        tokio::pin!(run);
        let mut notes = StatusNotes { printer, down: HashSet::new(), login_commands, last_denial: None };
        loop {
            tokio::select! {
                biased;
                Some(report) = reports.recv() => notes.note(&report),
                () = &mut run => break,
                exit = interrupt.next() => match (&hangups, stop.take()) {
                    (Some((hangups, terminal)), still) if exit == Exit::HungUp && !terminal.is_gone() => {
                        stop = still;
                        hangups.notify_one();
                    }
                    (_, Some(stop)) => {
                        first = Some(exit);
                        // It may already be ending.
                        let _ = stop.send(());
                    }
                    (_, None) if first == Some(exit) => break,
                    (_, None) => {}
                },
            }
        }
        drop(reporter);
        while let Ok(report) = reports.try_recv() {
            notes.note(&report);
        }
        // Signals that arrive from here on are ignored: it has already ended.
        interrupt.ignore();
    }
}

/// Capacity of the queue of reports that wait to be printed.
const REPORT_QUEUE_CAPACITY: usize = 64;

/// Prints notes about servers to stderr, which hosts keep in their logs. Losses that are
/// recovered at once are not noted.
struct StatusNotes<'a> {
    printer: &'a Printer,
    /// Servers that were noted as unreachable.
    down: HashSet<Arc<str>>,
    login_commands: LoginCommands,
    /// Last note about a denied call. Hosts retry, and the same note is printed once.
    last_denial: Option<String>,
}

impl StatusNotes<'_> {
    fn note(&mut self, report: &Report) {
        match report {
            Report::Event(event) => self.note_event(event),
            Report::Denied(server, fault) => self.note_denied_call(server, fault),
        }
    }

    fn note_event(&mut self, life: &ConnectionEvent) {
        let cause = life.cause.as_ref().map(ToString::to_string).unwrap_or_default();
        let name = &life.server;
        match life.kind {
            // Several hosts may have connections to the same server.
            ConnectionEventKind::Disconnected if self.down.insert(Arc::clone(&life.server)) => {
                self.printer.note(&format!("`{name}` cannot be reached: {cause}; reconnecting"));
            }
            ConnectionEventKind::Connected | ConnectionEventKind::Recovered
                if self.down.remove(&life.server) =>
            {
                let after =
                    life.outage.map_or(String::new(), |outage| format!(" after {}", units::time(outage)));
                self.printer.note(&format!("`{name}` is back{after}"));
            }
            ConnectionEventKind::NeedsLogin => {
                let run = life.cause.as_ref().map(|cause| self.login_hint(name, cause)).unwrap_or_default();
                self.printer.note(&format!("`{name}` requires a login: {cause}{run}"));
            }
            ConnectionEventKind::Failed => self.printer.note(&format!("`{name}` cannot be used: {cause}")),
            _ => {}
        }
    }

    /// Notes a call that was denied although the server is connected.
    fn note_denied_call(&mut self, server: &str, cause: &Fault) {
        let hint = self.login_hint(server, cause);
        let text = format!("`{server}` requires another login for a call: {cause}{hint}");
        if self.last_denial.as_ref() != Some(&text) {
            self.printer.note(&text);
            self.last_denial = Some(text);
        }
    }

    /// Returns the login command on a line of its own, or nothing if a login cannot help.
    fn login_hint(&self, server: &str, cause: &Fault) -> String {
        let scopes = match &cause.cause {
            Cause::LoginRequired { code: 403, challenge } => missing_scopes(challenge),
            _ => None,
        };
        let scopes = scopes.unwrap_or_default();
        self.login_commands
            .get(server)
            .map(|command| format!("\nrun `{}`", with_scopes(&command, &scopes)))
            .unwrap_or_default()
    }
}

/// Runs what serves a host in a task: the main thread is none of the runtime, and would have to be woken for each
/// message.
pub(super) async fn run_in_task(run: impl Future<Output = ()> + Send + 'static) {
    if let Err(error) = AbortOnDropHandle::new(tokio::spawn(run)).await
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

/// Refuses `--trust-project`: a host starts this command in any project, unseen, so only projects
/// that were reviewed before are used.
pub(super) fn refuse_trust_for_one_run(trust: ProjectTrust, verb: &str) -> Outcome<()> {
    match trust {
        ProjectTrust::Recorded => Ok(()),
        ProjectTrust::ThisRun => Err(Failure::usage_hint(
            format!("--trust-project is for one command that you run yourself, and not for `{verb}`"),
            "run `bowline trust` in the project's folder: it asks you once, and again when the file has changed",
        )),
    }
}
