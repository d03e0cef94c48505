//! Authorization on one connection: before a request is sent, when one is refused, and when the
//! credentials change.
//!
//! `bowline_auth` decides how a login is obtained. This file asks for it and applies the outcome to
//! links and calls.

pub(super) mod prompt_clock;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bowline_proto::client::session::{Command, Event, Status};
use bowline_proto::fault::{Cause, Fault, Limit};
use bowline_transport::http::HttpResponse;
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};

use super::server::ServerSettings;
use super::{Connection, Failure};
use crate::auth::{AuthError, AuthErrorKind, RefreshState, RefusedRequest};
use crate::clock;
use prompt_clock::PromptClock;

/// The login of one connection.
pub(crate) struct Login {
    /// The login identity used with this server; `None` if it needs no login.
    identity: Option<crate::auth::Identity>,
    /// Measures how long login prompts have been shown to a person.
    prompt_clock: Arc<PromptClock>,
    /// Generation of the credentials that the last link was opened with.
    link_generation: AtomicU64,
    /// Whether a person was not prompted when a login was last missing.
    prompt_skipped: AtomicBool,
}

/// Whether a login may prompt a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginMode {
    /// A caller waits for the login, so a person may be prompted.
    Interactive,
    /// No caller waits, or the refusal may have another reason: a person is not prompted.
    Silent,
}

impl Login {
    pub(crate) fn new(identity: Option<crate::auth::Identity>, prompt_clock: Arc<PromptClock>) -> Self {
        Self {
            identity,
            prompt_clock,
            link_generation: AtomicU64::new(0),
            prompt_skipped: AtomicBool::new(false),
        }
    }

    /// Generation of the current credentials. It must be read before a request is sent.
    pub(crate) fn credentials_generation(&self) -> u64 {
        self.identity.as_ref().map_or(0, crate::auth::Identity::generation)
    }

    /// The login identity used with this server; `None` if it needs no login.
    pub(crate) fn identity(&self) -> Option<&crate::auth::Identity> {
        self.identity.as_ref()
    }

    /// Whether requests carry the credentials of a login.
    pub(crate) fn has_credentials(&self) -> bool {
        self.identity.as_ref().is_some_and(crate::auth::Identity::has_credentials)
    }

    /// Total time for which login prompts were open.
    pub(crate) fn prompt_time(&self) -> Duration {
        self.prompt_clock.total()
    }

    /// Waits for a token refresh in progress and prevents new ones. `Ok` means that everything was
    /// stored.
    #[cfg(feature = "auth")]
    pub(crate) async fn settle(&self) -> Result<(), AuthError> {
        match &self.identity {
            Some(auth) => auth.shut_down().await,
            None => Ok(()),
        }
    }

    /// Refreshes an expired token before a request is sent, within the time that the call has.
    pub(crate) async fn ensure_fresh_token(&self, limit: Duration) -> Result<(), Failure> {
        let Some(auth) = &self.identity else { return Ok(()) };
        let Ok(fresh) = timeout(limit, auth.refresh_if_due()).await else {
            let note = "refreshing it takes longer than the call may";
            return Err(Failure::Fault(Fault::before_sending(Cause::LoginUnavailable).with_note(note)));
        };
        fresh.map_err(|error| Failure::Fault(fault_from_auth_error(&error, 401, &[])))
    }

    /// Runs `future` until `deadline`, extended by the time that login prompts are open. Returns
    /// its output, or `None` on timeout or close, and the time by which the deadline was extended.
    pub(crate) async fn run_until_deadline<T>(
        &self,
        mut status: watch::Receiver<Status>,
        deadline: Instant,
        future: impl Future<Output = T>,
    ) -> (Option<T>, Duration) {
        let before = self.prompt_clock.total();
        let aside = || self.prompt_clock.total().saturating_sub(before);
        tokio::pin!(future);
        loop {
            let mut until = deadline + aside();
            if self.prompt_clock.is_running() {
                // The deadline moves with the clock, and would be reached again and again.
                until = until.max(clock::now() + PROMPT_POLL_INTERVAL);
            }
            tokio::select! {
                biased;
                done = &mut future => return (Some(done), aside()),
                _ = status.wait_for(|status| *status == Status::Closed) => return (None, aside()),
                () = sleep_until(until.into()) => {}
            }
            if clock::now() >= deadline + aside() {
                return (None, aside());
            }
        }
    }

    /// Loads stored credentials before opening the link and refreshes them if they are due; a
    /// missing login surfaces later as 401. Fails only if nothing may be sent: the headers command
    /// failed, or credentials would travel over plain HTTP.
    pub(crate) async fn load_credentials(&self, server: &ServerSettings) -> Result<(), Fault> {
        let Some(auth) = &self.identity else { return Ok(()) };
        let preparing = async {
            auth.load().await?;
            auth.refresh_if_due().await
        };
        tokio::pin!(preparing);
        // End shortly before the connect timeout, whose fault could not say what was waited for.
        let limit = server.timeouts.connect.mul_f64(0.9);
        let prepared = if let Ok(prepared) = timeout(limit, &mut preparing).await {
            prepared
        } else {
            let state = auth.refresh_state().current();
            match slow_refresh_fault(&state, limit) {
                Some(fault) => return Err(fault),
                None => preparing.await,
            }
        };
        match prepared {
            Err(error) if matches!(error.kind, AuthErrorKind::Command | AuthErrorKind::PlainHttp) => {
                Err(fault_from_auth_error(&error, 401, &[]))
            }
            Err(error) => {
                tracing::debug!(server = %server.name, %error, "connecting without a login");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Whether a caller that waits can cause a missing login to be retried: a person was not
    /// prompted yet, or another process has stored other credentials.
    pub(crate) async fn can_log_in_now(&self) -> bool {
        let Some(auth) = &self.identity else { return false };
        if auth.is_interactive() && self.prompt_skipped.swap(false, Ordering::Relaxed) {
            return true;
        }
        let before = auth.generation();
        Box::pin(auth.load()).await.is_ok() && auth.generation() != before
    }

    /// Re-authenticates after a 401 or 403. `Ok` means: retry on the same link.
    pub(crate) async fn reauthenticate(
        &self,
        refused: &Fault,
        generation: u64,
        operation: &str,
        ask: LoginMode,
    ) -> Result<(), Fault> {
        let (Some(auth), Cause::LoginRequired { code, challenge }) = (&self.identity, &refused.cause) else {
            return Err(refused.clone());
        };
        let refusal = RefusedRequest::new(*code, challenge.clone(), generation, operation);
        let refusal = if ask == LoginMode::Silent { refusal.in_background() } else { refusal };
        // Rare and large: boxed to keep it out of other futures.
        Box::pin(auth.reauthenticate(&refusal)).await.map_err(|error| {
            let mut fault = fault_from_auth_error(&error, *code, challenge);
            fault.evidence.body.clone_from(&refused.evidence.body);
            fault
        })
    }

    /// Records the credentials generation with which a link is opened.
    pub(crate) fn record_link_generation(&self) {
        self.link_generation.store(self.credentials_generation(), Ordering::Relaxed);
    }

    /// Re-authenticates after a 401 or 403 while a link is opened. Returns the event for the
    /// session.
    pub(crate) async fn authorize_link(&self, refused: &Fault, mode: LoginMode) -> Event {
        self.prompt_skipped.store(mode == LoginMode::Silent, Ordering::Relaxed);
        let generation = self.link_generation.load(Ordering::Relaxed);
        match self.reauthenticate(refused, generation, "connect", mode).await {
            Ok(()) => Event::Authorized,
            Err(fault) => Event::Denied(fault),
        }
    }
}

impl Connection {
    /// Keeps the token refreshed and tells the session about new credentials. Runs until dropped.
    pub(crate) async fn maintain_login(self: Arc<Self>) {
        let Some(auth) = self.login.identity.clone() else { return };
        let mut changes = auth.watch_generation();
        let mut standing = auth.login_fingerprint();
        let watch = async {
            while changes.changed().await.is_some() {
                let now = auth.login_fingerprint();
                if std::mem::replace(&mut standing, now) != now {
                    // CA-03, TL-10: another account, or other scopes, may see other results.
                    self.lists.invalidate_all();
                    self.spawn_list_refresh();
                }
                self.engine.send_command(Command::LoggedIn);
            }
        };
        tokio::join!(auth.keep_refreshed(), watch);
    }

    /// Fetches the known and tracked lists again, after the credentials changed.
    fn spawn_list_refresh(self: &Arc<Self>) {
        if let Some(live) = self.links.live() {
            let connection = Arc::clone(self);
            self.background.spawn(async move { connection.refresh_lists(live).await });
        }
    }
}

/// The fault of a response that requires a login (401, or 403 with a challenge).
pub(crate) fn auth_refusal(answer: &HttpResponse) -> Option<Fault> {
    if !matches!(answer.status, 401 | 403) {
        return None;
    }
    Some(answer.status_fault()).filter(|fault| matches!(fault.cause, Cause::LoginRequired { .. }))
}

/// Converts an authorization error into a fault of the connection.
fn fault_from_auth_error(error: &AuthError, code: u16, challenge: &[String]) -> Fault {
    let words = match &error.hint {
        // How to log in is for the host to say.
        Some(hint) if error.kind != AuthErrorKind::LoginNeeded => format!("{}; {hint}", error.what),
        _ => error.what.clone(),
    };
    let cause = match error.kind {
        AuthErrorKind::Unavailable => Cause::LoginUnavailable,
        AuthErrorKind::Store => Cause::StoreUnavailable,
        AuthErrorKind::Command => Cause::HeadersCommand,
        AuthErrorKind::PlainHttp => Cause::PlainHttp,
        _ => Cause::LoginRequired { code, challenge: challenge.to_vec() },
    };
    Fault::before_sending(cause).with_note(words)
}

/// The fault of a connection that waits for a token refresh, naming what the refresh waits for.
/// `None` if no refresh is in progress.
pub(crate) fn slow_refresh_fault(state: &RefreshState, waited: Duration) -> Option<Fault> {
    let seconds = waited.as_secs();
    let what = match state {
        RefreshState::AuthorizationServer => {
            format!("the token endpoint of its authorization server has not answered for {seconds} s")
        }
        RefreshState::OtherProcess(Some(process)) => {
            format!("process {process}, which does that, is not done after {seconds} s")
        }
        RefreshState::OtherProcess(None) => {
            format!("another process, which does that, is not done after {seconds} s")
        }
        RefreshState::Store(error) => error.what.clone(),
        _ => return None,
    };
    let note = format!("the login is refreshed first, and {what}; nothing is lost: try again later");
    Some(Fault::before_sending(Cause::Timeout(Limit::Connect)).with_note(note))
}

/// How often an expired deadline is checked again while a prompt may be open.
const PROMPT_POLL_INTERVAL: Duration = Duration::from_millis(20);
