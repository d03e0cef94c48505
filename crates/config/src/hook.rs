//! Owns the validated form of a hook: which events it waits for, and what is then run or called.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::auth::Program;
use crate::check::{self, InvalidValue};
use crate::secret::{RedactedText, Secret};
use crate::words::words;

/// Something to do when an event happens to a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Hook {
    /// Events that trigger it; empty means all. From a file, each event is in it once.
    pub events: Vec<HookEvent>,
    /// The program to start or the URL to call.
    pub action: HookAction,
    /// How long the action may take before it is ended (default 10 s).
    pub timeout: Duration,
}

words! {
    /// An event of a server that can trigger a hook. Its name is used in files and in what hooks
    /// receive.
    #[derive(PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum HookEvent {
        /// A connection was negotiated.
        Connected = "connected",
        /// The connection ended, whoever ended it.
        Disconnected = "disconnected",
        /// The server no longer knows the session.
        SessionLost = "session_lost",
        /// A lost connection or session has been restored.
        Recovered = "recovered",
        /// The server wants a person to log in.
        NeedsLogin = "needs_login",
        /// The list of tools has changed.
        ToolsChanged = "tools_changed",
        /// Connecting failed.
        Failed = "failed",
    }
}

/// What a hook does. `Debug` shows neither arguments nor more of a URL than its origin: people
/// put keys into both.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HookAction {
    /// A program is started.
    Command(Program),
    /// A request is sent to a URL.
    #[non_exhaustive]
    Webhook {
        /// The URL: `http` or `https`, no credentials, no fragment.
        url: Url,
        /// Headers added to the request, in this order, with the rules of
        /// [`Http::headers`](crate::Http::headers).
        headers: Vec<(String, Secret)>,
    },
}

// === impl Hook ===

impl Hook {
    /// The default of `timeout`, in seconds; the schema gives it too.
    pub(crate) const TIMEOUT: u64 = 10;

    /// A hook that starts a program on every event. Nothing is checked: a command that cannot be
    /// started fails when it is.
    pub fn command<A: Into<String>>(command: impl Into<String>, args: impl IntoIterator<Item = A>) -> Self {
        Self::new(HookAction::Command(Program::new(command, args)))
    }

    /// A hook that sends a request on every event.
    pub fn webhook(url: impl AsRef<str>) -> Result<Self, InvalidValue> {
        Ok(Self::new(HookAction::Webhook { url: check::url(url.as_ref())?, headers: Vec::new() }))
    }

    fn new(run: HookAction) -> Self {
        Self { events: Vec::new(), action: run, timeout: Duration::from_secs(Self::TIMEOUT) }
    }

    /// Restricts the hook to these events, in addition to those named before.
    #[must_use]
    pub fn on(mut self, events: impl IntoIterator<Item = HookEvent>) -> Self {
        for event in events {
            if !self.events.contains(&event) {
                self.events.push(event);
            }
        }
        self
    }

    /// Sets how long the action may take (default 10 s).
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Adds a variable to the program's environment, replacing one of the same name.
    pub fn with_env(
        mut self,
        name: impl Into<String>,
        value: impl Into<Secret>,
    ) -> Result<Self, InvalidValue> {
        self.program_mut()?.set_variable(name.into(), value.into())?;
        Ok(self)
    }

    /// Sets the folder the program runs in.
    pub fn with_cwd(mut self, folder: impl Into<PathBuf>) -> Result<Self, InvalidValue> {
        self.program_mut()?.cwd = Some(folder.into());
        Ok(self)
    }

    /// Adds a header to the request, replacing one of the same name.
    pub fn with_header(
        mut self,
        name: impl Into<String>,
        value: impl Into<Secret>,
    ) -> Result<Self, InvalidValue> {
        let HookAction::Webhook { headers, .. } = &mut self.action else {
            return Err(InvalidValue::NotWebhook);
        };
        check::set_header(headers, name.into(), value.into())?;
        Ok(self)
    }

    fn program_mut(&mut self) -> Result<&mut Program, InvalidValue> {
        match &mut self.action {
            HookAction::Command(program) => Ok(program),
            HookAction::Webhook { .. } => Err(InvalidValue::NotHookCommand),
        }
    }

    /// Whether `event` triggers the hook.
    pub fn waits_for(&self, event: HookEvent) -> bool {
        self.events.is_empty() || self.events.contains(&event)
    }
}

// === impl HookAction ===

impl fmt::Debug for HookAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(program) => f.debug_tuple("Command").field(program).finish(),
            Self::Webhook { url, headers } => {
                let url = RedactedText::url(url);
                f.debug_struct("Webhook").field("url", &url).field("headers", headers).finish()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_event_named_means_every_event() {
        let hook = Hook::command("x", [""; 0]);
        assert!(HookEvent::ALL.into_iter().all(|event| hook.waits_for(event)));
        let hook = hook.on([HookEvent::Failed]).on([HookEvent::Failed, HookEvent::Recovered]);
        assert_eq!(hook.events, [HookEvent::Failed, HookEvent::Recovered]);
        assert!(hook.waits_for(HookEvent::Recovered) && !hook.waits_for(HookEvent::Connected));
    }

    #[test]
    fn debug_shows_no_secret() {
        let command = Hook::command("notify", ["hunter2"]).with_env("TOKEN", "hunter2").unwrap();
        let webhook = Hook::webhook("https://h:8443/hunter2?k=hunter2")
            .and_then(|hook| hook.with_header("Authorization", "hunter2"))
            .unwrap();
        let shown = format!("{command:?} {webhook:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        for kept in ["notify", "TOKEN", "https://h:8443", "Authorization"] {
            assert!(shown.contains(kept), "{kept} in {shown}");
        }
    }

    #[test]
    fn setters_of_the_other_kind_are_refused() {
        let command = || Hook::command("x", [""; 0]);
        let webhook = || Hook::webhook("http://h/").unwrap();
        assert_eq!(command().with_header("A", "b"), Err(InvalidValue::NotWebhook));
        assert_eq!(webhook().with_env("A", "b"), Err(InvalidValue::NotHookCommand));
        assert_eq!(webhook().with_cwd("/"), Err(InvalidValue::NotHookCommand));
    }

    #[test]
    fn a_webhook_is_checked_like_a_server() {
        assert_eq!(Hook::webhook("ftp://h/"), Err(InvalidValue::UrlScheme));
        assert_eq!(Hook::webhook("https://me:key@h/"), Err(InvalidValue::UrlCredentials));
        let hook = Hook::webhook("https://h/").and_then(|hook| hook.with_header("Content-Type", "a"));
        assert_eq!(hook, Err(InvalidValue::ReservedHeader));
    }
}
