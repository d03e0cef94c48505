//! Tracks the token refreshes that a command waits for: it notes what they wait for, keeps the
//! process from ending before new tokens are stored, and reports logins that were lost.

use std::mem::discriminant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline::Server;
use bowline::auth::{Auth, AuthError, Identity, RefreshState, Watch};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::exit::Exit;
use crate::failure::Report;
use crate::interrupt::Interrupt;
use crate::print::Printer;
use crate::suggested_command::CommandLine;

/// The logins that this process uses. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct RefreshTracker(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    logins: Vec<Arc<TrackedLogin>>,
    /// Logins that could not be stored.
    lost: Vec<Report>,
    /// Nothing is waited for any more, after a second signal or a failure.
    gave_up: bool,
}

struct TrackedLogin {
    identity: Identity,
    server: String,
    /// Command that logs in again.
    login_command: Option<String>,
    printer: Printer,
    /// A note has said that the authorization server is waited for.
    noted_refreshing: AtomicBool,
    /// A note has said that another process is waited for.
    noted_other_process: AtomicBool,
    /// A note has said that the new tokens cannot be stored.
    noted_unwritten: AtomicBool,
}

impl RefreshTracker {
    /// Tracks every identity that is created with `auth`.
    pub(crate) fn watch(&self, auth: Auth, printer: &Printer, command_line: &CommandLine) -> Auth {
        let (refreshes, printer, command_line) = (self.clone(), printer.clone(), command_line.clone());
        auth.on_identity(move |server, identity| {
            refreshes.add(server, identity, &printer, command_line.login_command(server));
        })
    }

    fn add(&self, server: &Server, identity: &Identity, printer: &Printer, login_command: Option<String>) {
        let used = Arc::new(TrackedLogin {
            identity: identity.clone(),
            server: server.name.clone(),
            login_command,
            printer: printer.clone(),
            noted_refreshing: AtomicBool::new(false),
            noted_other_process: AtomicBool::new(false),
            noted_unwritten: AtomicBool::new(false),
        });
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(watch_refresh(Arc::clone(&used), identity.refresh_state()));
        }
        self.0.lock().logins.push(used);
    }

    /// Notes what a refresh of the login to `server` waits for, unless that was noted before.
    pub(crate) fn note_waiting(&self, server: &str) {
        let used = self.0.lock().logins.clone();
        used.iter().filter(|used| used.server == server).for_each(|used| used.note_waiting());
    }

    /// Records the outcome of a login that was waited for.
    pub(crate) fn record_outcome(&self, server: &str, settled: Result<(), AuthError>) {
        let Err(error) = settled else { return };
        let mut state = self.0.lock();
        let used = state.logins.iter().find(|used| used.server == server).cloned();
        state.gave_up = true;
        state
            .lost
            .push(lost_login_report(&error, used.as_ref().and_then(|used| used.login_command.as_deref())));
    }

    /// Stops waiting, and records the logins that may be lost by that.
    pub(crate) fn give_up(&self) {
        let mut state = self.0.lock();
        state.gave_up = true;
        let at_stake: Vec<_> = state.logins.iter().filter_map(|used| used.possible_loss()).collect();
        state.lost.extend(at_stake);
    }

    /// Waits for every refresh that is still running, and reports the logins that were lost.
    /// Returns whether there are any.
    ///
    /// The second signal ends the wait: hosts send two different signals at once.
    pub(crate) async fn settle(&self, printer: &Printer) -> bool {
        let used = if self.0.lock().gave_up { Vec::new() } else { self.0.lock().logins.clone() };
        let pending = |used: &Arc<TrackedLogin>| used.identity.shut_down().now_or_never().is_none();
        let used: Vec<_> = used.into_iter().filter(pending).collect();
        if !used.is_empty() {
            let mut interrupt = Interrupt::listen();
            let telling = async {
                sleep(NOTE_DELAY).await;
                for used in &used {
                    used.note_waiting();
                }
                std::future::pending::<()>().await;
            };
            let twice = async {
                interrupt.next().await;
                for used in &used {
                    used.note_waiting();
                }
                interrupt.next().await;
            };
            let settling = join_all(used.iter().map(|used| used.identity.shut_down()));
            tokio::select! {
                settled = settling => {
                    used.iter().zip(settled).for_each(|(used, settled)| self.record_outcome(&used.server, settled));
                }
                () = twice => self.give_up(),
                () = telling => {}
            }
        }
        let lost = std::mem::take(&mut self.0.lock().lost);
        for report in &lost {
            printer.write_failure(report);
        }
        !lost.is_empty()
    }
}

impl TrackedLogin {
    /// Notes what is waited for, once.
    fn note_waiting(&self) {
        let state = self.identity.refresh_state().current();
        match state {
            RefreshState::Store(error) => self.note_unwritten(&error),
            RefreshState::OtherProcess(by) => self.note_other_process(by),
            _ if !self.noted_refreshing.swap(true, Ordering::Relaxed) => {
                self.printer.write_event(
                    REFRESHING_NOTE,
                    "login_refreshing",
                    &json!({ "server": self.server }),
                );
            }
            _ => {}
        }
    }

    fn note_other_process(&self, by: Option<u32>) {
        if self.noted_other_process.swap(true, Ordering::Relaxed) {
            return;
        }
        let text = match by {
            Some(process) => {
                format!(
                    "waiting for another process ({process}) that is refreshing the login of `{}`",
                    self.server
                )
            }
            // The other process holds the lease, but not the lock of this machine.
            None => format!(
                "waiting for another process that is refreshing the login of `{}`, or was killed meanwhile: that is \
                 known within 30 s",
                self.server
            ),
        };
        self.printer.write_event(
            &text,
            "login_refreshed_elsewhere",
            &json!({ "server": self.server, "pid": by }),
        );
    }

    fn note_unwritten(&self, error: &AuthError) {
        if self.noted_unwritten.swap(true, Ordering::Relaxed) {
            return;
        }
        let text = format!("{error}; {UNWRITABLE_STORE_NOTE}");
        let members = json!({ "server": self.server, "message": error.to_string() });
        self.printer.write_event(&text, "login_not_written", &members);
    }

    /// Returns a report of what is, or may be, lost if the process ends now.
    fn possible_loss(&self) -> Option<Report> {
        match &self.identity.refresh_state().current() {
            RefreshState::Store(error) => Some(lost_login_report(error, self.login_command.as_deref())),
            RefreshState::AuthorizationServer => {
                let text = format!("the login of `{}` was being refreshed; it may be lost", self.server);
                let mut report = Report::new(Exit::Login, text);
                report.hint = self
                    .login_command
                    .as_ref()
                    .map(|login| format!("if a login is required next time, run `{login}`"));
                Some(report)
            }
            _ => None,
        }
    }
}

/// Notes what a refresh waits for whenever it waits longer than [`NOTE_DELAY`].
async fn watch_refresh(used: Arc<TrackedLogin>, mut states: Watch<RefreshState>) {
    loop {
        let state = states.current();
        let kind = discriminant(&state);
        if let Ok(changed) = timeout(NOTE_DELAY, states.wait_for(|now| discriminant(now) != kind)).await {
            match changed {
                Some(_) => continue,
                None => return,
            }
        }
        match &state {
            RefreshState::Store(error) => used.note_unwritten(error),
            RefreshState::OtherProcess(by) => used.note_other_process(*by),
            RefreshState::Idle if used.noted_unwritten.swap(false, Ordering::Relaxed) => {
                used.printer.note(&format!("the login of `{}` has now been stored", used.server));
            }
            _ => {}
        }
        if states.wait_for(|now| discriminant(now) != kind).await.is_none() {
            return;
        }
    }
}

/// Builds the report for a login that is lost because it could not be stored.
fn lost_login_report(error: &AuthError, login: Option<&str>) -> Report {
    let mut report = Report::new(Exit::Login, format!("{error}; it is lost"));
    report.hint =
        login.map(|login| format!("make sure that it can be written, then log in again with `{login}`"));
    report
}

const REFRESHING_NOTE: &str = "the login is being refreshed; that is finished first, so that it is not lost. Pressing Ctrl-C \
                          several times ends the command at once, and the login is lost";
const UNWRITABLE_STORE_NOTE: &str = "storing it is retried: make sure that it can be written, and that its disk has room. If \
                             this command ends before that, as it does when Ctrl-C is pressed several times, the \
                             login is lost";

/// How long something is waited for before a note is printed.
pub(crate) const NOTE_DELAY: Duration = Duration::from_secs(2);
