//! Owns the validated form of one server: what the rest of the engine may rely on.

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::auth::{AuthSettings, HeadersCommand, Program};
use crate::check::InvalidValue;
use crate::exposure::Exposure;
use crate::hook::Hook;
use crate::sampling::SamplingPolicy;
use crate::secret::{RedactedText, Secret, redacted_debug};
use crate::words::words;

/// One server, ready to be connected to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Server {
    /// Its name. In a [`Config`](crate::Config) it is 1 to 64 characters of `A-Z a-z 0-9 _ . -`;
    /// for a server made by a program and used alone it is only a label.
    pub name: String,
    /// Whether it is used. A disabled server is known by name and never connected to.
    pub enabled: bool,
    /// How it is reached.
    pub transport: Transport,
    /// Its time limits.
    pub timeouts: Timeouts,
    /// Which era of the protocol it is spoken to in.
    pub protocol: Protocol,
    /// Idle time after which a keepalive probe is sent (default 180 s); `None` sends none. From a
    /// file and from [`Server::with_keepalive`] it is at least [`Server::KEEPALIVE_FLOOR`].
    pub keepalive: Option<Duration>,
    /// How long a call waits for a connection that is down before it fails, within its own deadline
    /// (default 10 s). Zero fails it at once.
    pub reconnect_wait: Duration,
    /// The largest message that it may send, in bytes (default 64 MiB). A larger one is refused as a
    /// whole.
    pub message_limit: usize,
    /// Which hosts of a gateway share a connection to it.
    pub share: Share,
    /// After how long without a call a gateway closes a connection to it, until the next call (default
    /// never).
    pub idle_stop: Option<Duration>,
    /// What a gateway exposes of it.
    pub exposure: Exposure,
    /// Who must approve sampling requests of this server; `None` uses
    /// [`Sampling::policy`](crate::Sampling::policy).
    pub sampling: Option<SamplingPolicy>,
    /// Roots announced to this server; `None` uses [`Config::roots`](crate::Config::roots), and an
    /// empty list announces none.
    pub roots: Option<Vec<PathBuf>>,
    /// Hooks run on events of this server, in this order.
    pub hooks: Vec<Hook>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// A child process, spoken to over its standard input and output.
    Stdio(Program),
    /// Streamable HTTP, or what [`Http::fallback`] allows in its place.
    Http(Http),
    /// HTTP+SSE, the transport of revision 2024-11-05: one stream to read, and an endpoint that
    /// the stream names to write to. [`Http::url`] is that of the stream.
    Sse(Http),
}

impl Transport {
    /// Returns the transport's name as files write it: `stdio`, `http` or `sse`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "http",
            Self::Sse(_) => "sse",
        }
    }

    /// Returns the program, if the server is one.
    pub fn program(&self) -> Option<&Program> {
        match self {
            Self::Stdio(program) => Some(program),
            Self::Http(_) | Self::Sse(_) => None,
        }
    }

    /// Returns how the server is reached over HTTP, if it is.
    pub fn http(&self) -> Option<&Http> {
        match self {
            Self::Stdio(_) => None,
            Self::Http(http) | Self::Sse(http) => Some(http),
        }
    }
}

/// A server that is reached by URL. `Debug` shows the origin only: people put keys into paths
/// and queries.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Http {
    /// The endpoint: `http` or `https`, no credentials, no fragment.
    pub url: Url,
    /// The Unix socket on which the server is reached, in place of the host and port of `url`
    /// (default: none). It is an absolute path, and `url` is `http`. No proxy is used.
    pub socket: Option<PathBuf>,
    /// Headers added to every request, in this order. Names are HTTP tokens, unique without
    /// regard to case, and none is one the transport sets; values have no control characters but
    /// tab, and may go beyond ASCII.
    pub headers: Vec<(String, Secret)>,
    /// Certificate authorities and client certificate in addition to the system's.
    pub tls: Tls,
    /// Whether HTTP+SSE is tried when Streamable HTTP is refused. From a file it is true, unless
    /// the file names the transport. Has no meaning in [`Transport::Sse`].
    pub fallback: bool,
    /// How tokens are obtained if the server requires a login.
    pub auth: AuthSettings,
    /// A program that prints further headers. If it is set, or if `headers` contain an
    /// `Authorization`, no login is started.
    pub headers_command: Option<HeadersCommand>,
    /// Whether tokens and other credentials may be sent over plain `http` to another machine, where
    /// everybody on the way can read them. Has no meaning for `https` and for this machine.
    pub allow_http: bool,
}

/// TLS settings of one server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Tls {
    /// PEM file of certificate authorities to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// PEM file of a client certificate chain; given together with `client_key`.
    pub client_cert: Option<PathBuf>,
    /// PEM file of the client certificate's key; given together with `client_cert`.
    pub client_key: Option<PathBuf>,
}

/// Time limits of one server. Every wait has one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Timeouts {
    /// Time from starting or dialing to a negotiated connection (default 30 s).
    pub connect: Duration,
    /// Longest silence within a call; progress restarts it (default 60 s).
    pub idle: Duration,
    /// Longest duration of a call, with or without progress (default 600 s). At least `idle`.
    pub total: Duration,
    /// How long to wait for an answer in the modern era before the legacy one is tried (default 3
    /// s).
    pub probe: Duration,
}

words! {
    /// Which era of the protocol a server is spoken to in.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Protocol {
        /// Probe which one the server speaks.
        #[default]
        Auto = "auto",
        /// Revisions up to 2025-11-25: a handshake and a session.
        Legacy = "legacy",
        /// Revision 2026-07-28 and later: no handshake, no session.
        Modern = "modern",
    }
}

words! {
    /// Which hosts of a gateway share a connection to a server.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Share {
        /// Hosts share it if the server keeps nothing for one of them: it speaks a revision without
        /// sessions, or all its tools only read and it has asked no host anything.
        #[default]
        Auto = "auto",
        /// Each session of a host has its own.
        Session = "session",
        /// All sessions of one user's hosts with the same name, version and capabilities share one. The
        /// server is not told of the roots of any of them.
        All = "all",
    }
}

// === impl Server ===

impl Server {
    /// Shortest keepalive interval: probing more often is load without benefit.
    pub const KEEPALIVE_FLOOR: Duration = Duration::from_secs(5);

    /// The defaults, in seconds; the schema gives them too.
    pub(crate) const KEEPALIVE: u64 = 180;
    pub(crate) const RECONNECT_WAIT: u64 = 10;
    /// The default of [`Server::message_limit`], in MiB.
    pub(crate) const MESSAGE_LIMIT_MIB: u32 = 64;

    pub(crate) fn new(name: String, transport: Transport) -> Self {
        Self {
            name,
            enabled: true,
            transport,
            timeouts: Timeouts::default(),
            protocol: Protocol::default(),
            keepalive: Some(Duration::from_secs(Self::KEEPALIVE)),
            reconnect_wait: Duration::from_secs(Self::RECONNECT_WAIT),
            message_limit: bytes_of_mib(Self::MESSAGE_LIMIT_MIB),
            share: Share::default(),
            idle_stop: None,
            exposure: Exposure::default(),
            sampling: None,
            roots: None,
            hooks: Vec::new(),
        }
    }

    /// Sets how long a call may be silent (default 60 s). Raises the cap of
    /// [`Server::with_timeout`] where that is lower. Configuration files call this `timeout`, as hosts do.
    #[must_use]
    pub fn with_idle_timeout(mut self, idle: Duration) -> Self {
        self.timeouts.idle = idle;
        self.timeouts.total = self.timeouts.total.max(idle);
        self
    }

    /// Sets how long a call may take in all (default 600 s). Lowers the time of
    /// [`Server::with_idle_timeout`] where that is higher. Configuration files call this `max_timeout`;
    /// their `timeout` is the idle limit.
    #[must_use]
    pub fn with_timeout(mut self, total: Duration) -> Self {
        self.timeouts.total = total;
        self.timeouts.idle = self.timeouts.idle.min(total);
        self
    }

    /// Sets how long connecting may take (default 30 s).
    #[must_use]
    pub fn with_connect_timeout(mut self, connect: Duration) -> Self {
        self.timeouts.connect = connect;
        self
    }

    /// Sets how long the modern era is waited for before the legacy one is tried (default 3 s).
    #[must_use]
    pub fn with_probe_timeout(mut self, probe: Duration) -> Self {
        self.timeouts.probe = probe;
        self
    }

    /// Pins the era, or leaves it to be negotiated.
    #[must_use]
    pub fn with_protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Sets the idle time after which a keepalive probe is sent (default 180 s); `None` or zero
    /// turns it off. Anything shorter than [`Server::KEEPALIVE_FLOOR`] is raised to it.
    #[must_use]
    pub fn with_keepalive(mut self, interval: Option<Duration>) -> Self {
        self.keepalive =
            interval.filter(|interval| !interval.is_zero()).map(|it| it.max(Self::KEEPALIVE_FLOOR));
        self
    }

    /// Sets how long a call waits for a connection that is down (default 10 s).
    #[must_use]
    pub fn with_reconnect_wait(mut self, wait: Duration) -> Self {
        self.reconnect_wait = wait;
        self
    }

    /// Sets how many bytes a message of it may have (default 64 MiB). Messages are held in memory as a
    /// whole.
    #[must_use]
    pub fn with_message_limit(mut self, bytes: usize) -> Self {
        self.message_limit = bytes;
        self
    }

    /// Sets which hosts of a gateway share a connection to it.
    #[must_use]
    pub fn with_share(mut self, share: Share) -> Self {
        self.share = share;
        self
    }

    /// Sets after how long without a call a gateway closes a connection to it, until the next call.
    /// `None` or zero is never.
    #[must_use]
    pub fn with_idle_stop(mut self, after: Option<Duration>) -> Self {
        self.idle_stop = after.filter(|after| !after.is_zero());
        self
    }

    /// Sets what a gateway exposes of it.
    #[must_use]
    pub fn with_exposure(mut self, exposure: Exposure) -> Self {
        self.exposure = exposure;
        self
    }

    /// Sets who must approve sampling requests of this server, overriding
    /// [`Sampling::policy`](crate::Sampling::policy).
    #[must_use]
    pub fn with_sampling(mut self, policy: SamplingPolicy) -> Self {
        self.sampling = Some(policy);
        self
    }

    /// Sets the roots announced to this server, overriding [`Config::roots`](crate::Config::roots).
    #[must_use]
    pub fn with_roots(mut self, folders: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.roots = Some(folders.into_iter().map(Into::into).collect());
        self
    }

    /// Appends a hook.
    #[must_use]
    pub fn with_hook(mut self, hook: Hook) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Inserts hooks for all servers before its own.
    #[must_use]
    pub fn with_common_hooks(mut self, hooks: &[Hook]) -> Self {
        self.hooks.splice(..0, hooks.iter().cloned());
        self
    }

    /// Disables the server: it stays known by name and is never connected to.
    #[must_use]
    pub fn disabled(mut self) -> Self {
        self.enabled = false;
        self
    }

    pub(crate) fn stdio_mut(&mut self) -> Result<&mut Program, InvalidValue> {
        match &mut self.transport {
            Transport::Stdio(stdio) => Ok(stdio),
            Transport::Http(_) | Transport::Sse(_) => Err(InvalidValue::NotStdio),
        }
    }

    pub(crate) fn http_mut(&mut self) -> Result<&mut Http, InvalidValue> {
        match &mut self.transport {
            Transport::Stdio(_) => Err(InvalidValue::NotHttp),
            Transport::Http(http) | Transport::Sse(http) => Ok(http),
        }
    }
}

/// Returns the number of bytes of so many MiB.
pub(crate) fn bytes_of_mib(mib: u32) -> usize {
    usize::try_from(mib).unwrap_or(usize::MAX).saturating_mul(1024 * 1024)
}

// === impl Tls ===

impl Tls {
    /// These settings for another machine than the server, which must not see the certificate.
    #[must_use]
    pub fn without_client_certificate(&self) -> Self {
        Self { client_cert: None, client_key: None, ..self.clone() }
    }
}

// === impl Http ===

impl Http {
    /// Creates settings with this URL, which is not checked: no headers, the system's trust, no
    /// fallback.
    pub fn from_url(url: Url) -> Self {
        Self::new(url, false)
    }

    pub(crate) fn new(url: Url, fallback: bool) -> Self {
        Self {
            url,
            socket: None,
            headers: Vec::new(),
            tls: Tls::default(),
            fallback,
            auth: AuthSettings::default(),
            headers_command: None,
            allow_http: false,
        }
    }
}

redacted_debug!(Http {
    url = RedactedText::url(url),
    socket,
    headers,
    tls,
    fallback,
    auth,
    headers_command,
    allow_http,
});

// === impl Timeouts ===

impl Timeouts {
    /// The defaults, in seconds; the schema gives them too.
    pub(crate) const CONNECT: u64 = 30;
    pub(crate) const IDLE: u64 = 60;
    pub(crate) const TOTAL: u64 = 600;
    pub(crate) const PROBE: u64 = 3;
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(Self::CONNECT),
            idle: Duration::from_secs(Self::IDLE),
            total: Duration::from_secs(Self::TOTAL),
            probe: Duration::from_secs(Self::PROBE),
        }
    }
}

#[cfg(test)]
mod tests;
