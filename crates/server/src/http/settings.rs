//! [`HttpSettings`]: what a listener for hosts over HTTP accepts, and its limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::frame::DEFAULT_MESSAGE_LIMIT;
use bowline_proto::server::event_streams::LogLimits;
use bowline_proto::server::http::HttpGuard;

use super::bearer::BearerToken;
use super::resource_server::ResourceServer;
use crate::limits::HostLimits;
use crate::session_store::SessionStore;

/// The settings of an [`HttpListener`](super::HttpListener).
#[must_use]
#[derive(Clone, Debug)]
pub struct HttpSettings {
    pub(crate) endpoint: String,
    pub(crate) sse_paths: Option<SsePaths>,
    pub(crate) guard: HttpGuard,
    pub(crate) bearer_token: Option<BearerToken>,
    /// The views by name, each with its token.
    pub(crate) views: BTreeMap<Arc<str>, Option<BearerToken>>,
    pub(crate) resource_server: Option<ResourceServer>,
    pub(crate) max_sessions: usize,
    pub(crate) max_stateless_requests: usize,
    pub(crate) host_limits: HostLimits,
    pub(crate) max_connections: usize,
    pub(crate) idle_timeout: Duration,
    pub(crate) header_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) stall_timeout: Duration,
    pub(crate) keep_alive_interval: Duration,
    pub(crate) message_limit: usize,
    pub(crate) body_memory: usize,
    pub(crate) log_limits: LogLimits,
    pub(crate) session_store: Option<Arc<dyn SessionStore>>,
    pub(crate) is_socket_inherited: bool,
    /// Whether requests are accepted that a process relays for a host on a pipe.
    pub(crate) relays_pipes: bool,
}

/// The endpoints for hosts of 2024-11-05.
#[derive(Clone, Debug)]
pub(crate) struct SsePaths {
    /// Where they open their event stream.
    pub(crate) stream: String,
    /// Where they send messages.
    pub(crate) messages: String,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpSettings {
    /// Creates the default settings: the endpoint `/mcp`, for hosts on this machine, without a
    /// token.
    pub fn new() -> Self {
        Self {
            endpoint: "/mcp".to_owned(),
            sse_paths: None,
            guard: HttpGuard::default(),
            bearer_token: None,
            views: BTreeMap::new(),
            resource_server: None,
            max_sessions: 10_000,
            max_stateless_requests: 10_000,
            host_limits: HostLimits::new(),
            max_connections: 16_384,
            idle_timeout: Duration::from_secs(30 * 60),
            header_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(30),
            keep_alive_interval: Duration::from_secs(15),
            message_limit: DEFAULT_MESSAGE_LIMIT,
            body_memory: 512 * 1024 * 1024,
            log_limits: LogLimits { events: 1024, bytes: 4 * 1024 * 1024 },
            session_store: None,
            is_socket_inherited: false,
            relays_pipes: false,
        }
    }

    /// Sets the path of the endpoint (default `/mcp`).
    pub fn with_endpoint(mut self, path: impl Into<String>) -> Self {
        self.endpoint = path.into();
        self
    }

    /// Serves hosts that know only HTTP+SSE of 2024-11-05 as well (default: not). They open their
    /// event stream at the path `stream`, such as `/sse`, and send messages to the path `messages`.
    pub fn with_sse(mut self, stream: impl Into<String>, messages: impl Into<String>) -> Self {
        self.sse_paths = Some(SsePaths { stream: stream.into(), messages: messages.into() });
        self
    }

    /// These settings, with those of `next` that can be changed while hosts are served.
    pub(crate) fn with_reloaded(&self, next: Self, checks_host: bool) -> Self {
        let mut settings = Self {
            bearer_token: next.bearer_token,
            views: next.views,
            resource_server: next.resource_server,
            guard: next.guard,
            host_limits: next.host_limits,
            message_limit: next.message_limit,
            ..self.clone()
        };
        if !checks_host {
            settings.guard.allow_any_host();
        }
        settings
    }

    /// Says that another process accepts connections from the socket when this one has ended. Then this
    /// one leaves new connections to it as soon as it is shut down, and none is refused.
    pub fn with_inherited_socket(mut self) -> Self {
        self.is_socket_inherited = true;
        self
    }

    /// Accepts requests of hosts of revision 2026-07-28 that a process relays for a host on a pipe
    /// (default: none). They have the header [`RELAYED_PIPE_HEADER`](crate::RELAYED_PIPE_HEADER), and
    /// no headers that repeat their body, which a pipe does not have. Only for a listener that no proxy
    /// is in front of: a proxy may rely on such headers.
    ///
    /// A path may name any view then: a host on a pipe cannot select another one when its own was removed. Whoever
    /// serves the host has to refuse its requests.
    pub fn with_relayed_pipes(mut self) -> Self {
        self.relays_pipes = true;
        self
    }

    /// Records sessions in this store, so that another process can go on with them (default: they end
    /// with the process). A host that comes back with the id of such a session does not notice; a
    /// request of it that [`OpenRequest::record`](crate::OpenRequest::record) was called for gets its
    /// response, if the host resumes its stream.
    pub fn with_session_store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.session_store = Some(store);
        self
    }

    /// Allows hosts to address the listener by these names, in addition to `localhost`, `127.0.0.1`
    /// and `[::1]`: with a port for that port only, without one for every port. On a Unix socket
    /// names are not checked.
    pub fn with_allowed_hosts(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.guard.allow_hosts(names);
        self
    }

    /// Allows hosts to address the listener by any name: for a listener behind a proxy that checks
    /// it. Otherwise web pages can reach a listener on the machine of their visitor.
    pub fn with_any_host(mut self) -> Self {
        self.guard.allow_any_host();
        self
    }

    /// Allows web pages of these origins, such as `https://app.example.com`, in addition to those
    /// of this machine.
    pub fn with_allowed_origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.guard.allow_origins(origins);
        self
    }

    /// Requires this token as `Authorization: Bearer …` on every request of a host (default: none).
    pub fn with_bearer_token(mut self, token: &str) -> Self {
        self.bearer_token = Some(BearerToken::new(token));
        self
    }

    /// Adds a view of the servers, which hosts select by a path below the endpoint, `/mcp/NAME`, or by
    /// the token of the view. That token opens no other view; the token of
    /// [`HttpSettings::with_bearer_token`] opens all of them, and everything. A session is bound to
    /// its view and to the token that it began with.
    ///
    /// # Panics
    /// If the name is empty or has characters other than A-Z, a-z, 0-9, `_` and `-`.
    pub fn with_view(mut self, name: &str, token: Option<&str>) -> Self {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        assert!(!name.is_empty() && name.bytes().all(is_valid), "{name:?} is not a name of a view");
        self.views.insert(name.into(), token.map(BearerToken::new));
        self
    }

    /// Accepts access tokens of OAuth issuers as well (default: none). Then every request needs one of
    /// them, or a token of [`HttpSettings::with_bearer_token`] or [`HttpSettings::with_view`], if those
    /// are set.
    pub fn with_resource_server(mut self, resource_server: ResourceServer) -> Self {
        self.resource_server = Some(resource_server);
        self
    }

    /// Sets how many sessions may exist at once (default 10,000). More are refused with 503.
    pub fn with_max_sessions(mut self, max_sessions: usize) -> Self {
        self.max_sessions = max_sessions;
        self
    }

    /// Sets how many requests of hosts without a session may be open at once, including their
    /// subscriptions (default 10,000). More are refused with 503.
    pub fn with_max_stateless_requests(mut self, max_requests: usize) -> Self {
        self.max_stateless_requests = max_requests;
        self
    }

    /// Sets what one host, and what one identity may use (default: [`HostLimits::new`]).
    pub fn with_host_limits(mut self, limits: HostLimits) -> Self {
        self.host_limits = limits;
        self
    }

    /// Sets how many connections may be open at once (default 16,384). More wait to be accepted.
    pub fn with_max_connections(mut self, max_connections: usize) -> Self {
        self.max_connections = max_connections;
        self
    }

    /// Sets after how long without a request or an open stream a session ends (default 30 min).
    pub fn with_idle_timeout(mut self, idle_timeout: Duration) -> Self {
        self.idle_timeout = idle_timeout;
        self
    }

    /// Sets how long a connection may take to send the headers of a request, from its beginning or
    /// from the previous response on (default 15 s).
    pub fn with_header_timeout(mut self, header_timeout: Duration) -> Self {
        self.header_timeout = header_timeout;
        self
    }

    /// Sets how long the body of a request may take to arrive (default 60 s).
    pub fn with_body_timeout(mut self, body_timeout: Duration) -> Self {
        self.body_timeout = body_timeout;
        self
    }

    /// Sets for how long a host may read nothing of a full stream before that stream is cut off and
    /// senders no longer wait for it (default 30 s). The host may resume it.
    pub fn with_stall_timeout(mut self, stall_timeout: Duration) -> Self {
        self.stall_timeout = stall_timeout;
        self
    }

    /// Sets the interval of comments on silent event streams (default 15 s). It is also how long a
    /// request may be silent before its response becomes an event stream.
    pub fn with_keep_alive_interval(mut self, keep_alive_interval: Duration) -> Self {
        self.keep_alive_interval = keep_alive_interval;
        self
    }

    /// Sets how many bytes the body of a request may have (default 64 MiB). Larger ones are refused
    /// with 413.
    pub fn with_message_limit(mut self, bytes: usize) -> Self {
        self.message_limit = bytes;
        self
    }

    /// Sets how many bytes of bodies may be in memory at once, of all hosts together, until their
    /// messages are handled (default 512 MiB). More are refused with 503.
    pub fn with_body_memory(mut self, bytes: usize) -> Self {
        self.body_memory = bytes;
        self
    }

    /// Sets how many events, and how many bytes of them, each session keeps for hosts whose
    /// connection broke (default 1,024 events and 4 MiB).
    pub fn with_event_log(mut self, events: usize, bytes: usize) -> Self {
        self.log_limits = LogLimits { events, bytes };
        self
    }
}
