//! Owns the validated form of a hook: which events it waits for, and what is then run or called.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use url::Url;

use crate::check::{self, InvalidValue};
use crate::secret::Secret;

/// Something to do when an event happens to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Events that trigger it; empty means all. From a file, each event is in it once.
    pub events: Vec<HookEvent>,
    /// The program to start or the URL to call.
    pub action: HookAction,
    /// How long the action may take before it is ended (default 10 s).
    pub timeout: Duration,
}

/// An event of a server that can trigger a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
#[schemars(rename_all = "snake_case", inline)]
pub enum HookEvent {
    /// A connection was negotiated.
    Connected,
    /// The connection ended, whoever ended it.
    Disconnected,
    /// The server no longer knows the session.
    SessionLost,
    /// A lost connection or session has been restored.
    Recovered,
    /// The server wants a person to log in.
    NeedsLogin,
    /// The list of tools has changed.
    ToolsChanged,
    /// Connecting failed.
    Failed,
}

/// What a hook does. `Debug` shows neither arguments nor more of a URL than its origin: people
/// put keys into both.
#[derive(Clone, PartialEq, Eq)]
pub enum HookAction {
    /// A program is started.
    Command {
        /// The program: a path, or a name to be searched for. From a file it is not empty and has
        /// no NUL.
        command: String,
        /// Its arguments. From a file they have no NUL.
        args: Vec<String>,
        /// Variables added to its environment. Names have no `=`; neither names nor values have
        /// NUL.
        env: BTreeMap<String, Secret>,
        /// The folder it runs in. `None` is the folder of the process that starts it.
        cwd: Option<PathBuf>,
    },
    /// A request is sent to a URL.
    Webhook {
        /// The URL: `http` or `https`, no credentials, no fragment.
        url: Url,
        /// Headers added to the request, in this order, with the rules of
        /// [`Http::headers`](crate::Http::headers).
        headers: Vec<(String, Secret)>,
    },
}

/// The error for a word that names no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an event; there are: {}", HookEvent::list())]
pub struct UnknownEvent;

// === impl Hook ===

impl Hook {
    /// The default of `timeout`, in seconds; the schema gives it too.
    pub(crate) const TIMEOUT: u64 = 10;

    /// A hook that starts a program on every event. Nothing is checked: a command that cannot be
    /// started fails when it is.
    pub fn command<A: Into<String>>(command: impl Into<String>, args: impl IntoIterator<Item = A>) -> Self {
        Self::new(HookAction::Command {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            cwd: None,
        })
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
        let (name, value) = (name.into(), value.into());
        check::env_name(&name)?;
        check::no_nul(value.expose())?;
        let HookAction::Command { env, .. } = &mut self.action else {
            return Err(InvalidValue::NotHookCommand);
        };
        env.insert(name, value);
        Ok(self)
    }

    /// Sets the folder the program runs in.
    pub fn with_cwd(mut self, folder: impl Into<PathBuf>) -> Result<Self, InvalidValue> {
        let HookAction::Command { cwd, .. } = &mut self.action else {
            return Err(InvalidValue::NotHookCommand);
        };
        *cwd = Some(folder.into());
        Ok(self)
    }

    /// Adds a header to the request, replacing one of the same name.
    pub fn with_header(
        mut self,
        name: impl Into<String>,
        value: impl Into<Secret>,
    ) -> Result<Self, InvalidValue> {
        let (name, value) = (name.into(), value.into());
        check::header_name(&name)?;
        check::header_value(value.expose())?;
        let HookAction::Webhook { headers, .. } = &mut self.action else {
            return Err(InvalidValue::NotWebhook);
        };
        headers.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
        headers.push((name, value));
        Ok(self)
    }

    /// Whether `event` triggers the hook.
    pub fn waits_for(&self, event: HookEvent) -> bool {
        self.events.is_empty() || self.events.contains(&event)
    }
}

// === impl HookEvent ===

impl HookEvent {
    /// Every event.
    pub const ALL: [Self; 7] = [
        Self::Connected,
        Self::Disconnected,
        Self::SessionLost,
        Self::Recovered,
        Self::NeedsLogin,
        Self::ToolsChanged,
        Self::Failed,
    ];

    /// Returns its name in files and in what hooks receive.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Disconnected => "disconnected",
            Self::SessionLost => "session_lost",
            Self::Recovered => "recovered",
            Self::NeedsLogin => "needs_login",
            Self::ToolsChanged => "tools_changed",
            Self::Failed => "failed",
        }
    }

    /// All names, for messages.
    pub(crate) fn list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

impl FromStr for HookEvent {
    type Err = UnknownEvent;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|event| event.as_str() == name).ok_or(UnknownEvent)
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

// === impl HookAction ===

impl fmt::Debug for HookAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { command, args, env, cwd } => f
                .debug_struct("Command")
                .field("command", command)
                .field("args", &format_args!("[{} redacted]", args.len()))
                .field("env", env)
                .field("cwd", cwd)
                .finish(),
            Self::Webhook { url, headers } => {
                let origin = url.origin().ascii_serialization();
                f.debug_struct("Webhook")
                    .field("url", &format_args!("{origin}/[redacted]"))
                    .field("headers", headers)
                    .finish()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_as_it_is_written() {
        for event in HookEvent::ALL {
            assert_eq!(event.as_str().parse(), Ok(event));
            assert_eq!(event.to_string(), event.as_str());
        }
        for word in ["", "Connected", "session-lost", "session_lost ", "all"] {
            assert_eq!(word.parse::<HookEvent>(), Err(UnknownEvent), "{word}");
        }
        assert_eq!(
            UnknownEvent.to_string(),
            "not an event; there are: connected, disconnected, session_lost, recovered, needs_login, \
             tools_changed, failed"
        );
    }

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
