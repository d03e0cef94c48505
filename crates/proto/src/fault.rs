//! [`Fault`]: a failure between us and a server, whose fault it is, and what it costs the
//! connection.
//!
//! A fault concerns the connection or the exchange. A server that answers with a JSON-RPC error has
//! not failed in this sense: that is an [`RpcError`](crate::wire::RpcError), and the two never mix.
// BM-08

use std::fmt;
use std::time::Duration;

use crate::wire::Defect;

/// A failure, with everything that is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// What happened.
    pub cause: Cause,
    /// Whether the server can have acted on the request.
    pub execution: Execution,
    /// Text that helps a person: the server's, or the system's.
    pub evidence: Box<Evidence>,
}

impl std::error::Error for Fault {}

/// Whether a failed request can have had an effect.
///
/// Complete: what is not proven is unknown, so a caller handles both and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Execution {
    /// The server provably did not act on it.
    NotExecuted,
    /// The server may have acted on it.
    Unknown,
}

/// The cause of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The connection was refused: nothing listens at the address.
    Refused,
    /// The host's name does not resolve.
    Dns,
    /// No route, or another failure below TCP.
    Unreachable,
    /// The TLS handshake failed; retrying will not change a certificate.
    Tls,
    /// The connection was cut.
    Cut,
    /// A time limit ran out.
    Timeout(Limit),
    /// An HTTP error status without a JSON-RPC error.
    Status {
        /// The status code.
        code: u16,
        /// The server's `Retry-After`, if it sent one.
        retry_after: Option<Duration>,
    },
    /// The server requires credentials (401, or 403 with a challenge).
    LoginRequired {
        /// The HTTP status.
        code: u16,
        /// The `WWW-Authenticate` values.
        challenge: Vec<String>,
    },
    /// The server requires credentials, and the authorization server cannot be reached at the
    /// moment.
    LoginUnavailable,
    /// The store of logins cannot be read or written, so there are no credentials.
    StoreUnavailable,
    /// The command that produces request headers failed; nothing is sent without them.
    HeadersCommand,
    /// Credentials would be sent over plain `http` to another machine, which the configuration
    /// forbids; nothing is sent.
    PlainHttp,
    /// The program was built without the cargo feature that this transport needs.
    NotBuilt {
        /// The name of the feature.
        feature: &'static str,
    },
    /// A redirect that must not be followed.
    Redirect {
        /// The target of the redirect.
        location: String,
    },
    /// The program could not be started.
    Spawn(SpawnError),
    /// The process ended.
    Exited(Exit),
    /// The server broke the protocol.
    Protocol(Misbehavior),
    /// The server no longer knows the session.
    SessionLost,
    /// The server loses sessions as soon as it opens them.
    NotAffine,
    /// There is no protocol revision that both sides speak.
    NoCommonVersion {
        /// The revisions that the server says it speaks.
        supported: Vec<String>,
    },
    /// The server is the gateway that connects to it, or leads back to it.
    Loop,
    /// Our side ended it: the caller left, or the client was closed.
    Closed,
}

/// The time limit that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// The idle limit of the call: the time without a sign of life.
    Idle,
    /// The total limit of the call.
    Total,
    /// The limit for opening and negotiating a connection.
    Connect,
}

/// Why a program did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnError {
    /// The program was not found on the search path.
    NotFound,
    /// The program exists but may not be run.
    Denied,
    /// Any other error of the system.
    Other,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was ended by this signal.
    Signal(i32),
    /// It closed its output; how it ended is not known, or not yet.
    Eof,
}

/// How the process of a server ended, and what it took to end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessEnd {
    /// How the process itself ended.
    pub exit: Exit,
    /// The last step of the shutdown that was taken before it ended.
    pub step: ShutdownStep,
    /// Whether processes that it had started were still running, and had to be ended as well.
    pub left_processes: bool,
}

/// A step by which a process is ended, the mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ShutdownStep {
    /// None: it ended before it was asked to, or as soon as its input was closed.
    Unasked,
    /// Its input was closed, as the protocol prescribes.
    InputClosed,
    /// It was sent SIGTERM.
    Terminated,
    /// It was killed.
    Killed,
}

impl ProcessEnd {
    /// Creates the end of a process that left no others behind.
    pub fn new(exit: Exit, step: ShutdownStep) -> Self {
        Self { exit, step, left_processes: false }
    }
}

/// How a server broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misbehavior {
    /// A malformed message.
    Malformed(Defect),
    /// Our own request came back: the program copies its input to its output.
    Echo,
    /// A message over the size limit.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// A media type that is neither JSON nor an event stream.
    ContentType,
    /// A body that could not be decompressed.
    Encoding,
    /// The stream ended without the response.
    NoAnswer,
    /// A result that does not fit its method.
    BadResult,
    // BM-05
    /// A result with an unknown `resultType`.
    UnknownResultType,
    // PA-02
    /// A list whose cursor repeats, or that has too many pages.
    EndlessList,
    // MR-06
    /// Input was requested too often for one request.
    TooManyInputRounds,
    // MR-07
    /// Input was requested that the client did not offer.
    UndeclaredInput,
    // HS-02
    /// An event stream of HTTP+SSE names an endpoint for messages that is elsewhere.
    ForeignEndpoint {
        /// The origin of the endpoint. Nothing else is kept of it: its path may hold a session.
        origin: String,
    },
}

/// Text that helps a person to understand a fault. Server text in it is untrusted and bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Evidence {
    /// One sentence from the system or from us.
    pub note: Option<String>,
    /// What happens next, such as the time of the next attempt, if it was known when the fault was
    /// reported.
    pub next_step: Option<String>,
    /// The beginning of the body, at most [`MAX_EVIDENCE_BODY`] bytes.
    pub body: Option<String>,
    /// Whether the body was longer, or could not be read to its end.
    pub body_is_cut: bool,
    /// The last lines of stderr.
    pub stderr: Vec<String>,
    /// The last lines of non-MCP output on stdout, if the process has ended.
    pub stdout: Vec<String>,
}

/// What a fault costs the connection as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// Retrying may help.
    #[non_exhaustive]
    Retry {
        /// The minimum wait, from now.
        not_before: Duration,
    },
    /// A login is needed.
    Login,
    /// Retrying cannot help.
    GiveUp,
}

// === impl Fault ===

impl Fault {
    /// Creates a fault with an unknown outcome, which is the safe assumption.
    pub fn new(cause: Cause) -> Self {
        Self { cause, execution: Execution::Unknown, evidence: Box::default() }
    }

    /// Creates a fault that happened before the request can have reached the server.
    pub fn before_sending(cause: Cause) -> Self {
        Self { execution: Execution::NotExecuted, ..Self::new(cause) }
    }

    /// Creates a fault for a server that broke the protocol.
    pub fn protocol(misbehavior: Misbehavior) -> Self {
        Self::new(Cause::Protocol(misbehavior))
    }

    /// Adds a sentence for people.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.evidence.note = Some(note.into());
        self
    }

    /// Adds what happens next, for people.
    #[must_use]
    pub fn with_next_step(mut self, next: impl Into<String>) -> Self {
        self.evidence.next_step = Some(next.into());
        self
    }

    /// Adds the beginning of a body, cut to [`MAX_EVIDENCE_BODY`] bytes.
    #[must_use]
    pub fn with_body(mut self, body: &[u8]) -> Self {
        let head = &body[..body.len().min(MAX_EVIDENCE_BODY)];
        self.evidence.body = (!head.is_empty()).then(|| String::from_utf8_lossy(head).into_owned());
        self.evidence.body_is_cut |= body.len() > MAX_EVIDENCE_BODY;
        self
    }

    /// Marks the body as one that could not be read to its end.
    #[must_use]
    pub fn with_cut_body(mut self) -> Self {
        self.evidence.body_is_cut = true;
        self
    }

    /// Adds the last lines of stderr.
    #[must_use]
    pub fn with_stderr(mut self, lines: Vec<String>) -> Self {
        self.evidence.stderr = lines;
        self
    }

    /// Adds the last lines of non-MCP output on stdout.
    #[must_use]
    pub fn with_stdout(mut self, lines: Vec<String>) -> Self {
        self.evidence.stdout = lines;
        self
    }

    /// Marks the request as provably not executed.
    #[must_use]
    pub fn not_executed(self) -> Self {
        self.with_execution(Execution::NotExecuted)
    }

    /// Sets whether the server can have acted on the request.
    #[must_use]
    pub fn with_execution(mut self, execution: Execution) -> Self {
        self.execution = execution;
        self
    }

    /// Whether the server as a whole may be down, and not just the exchange that failed.
    pub fn is_outage(&self) -> bool {
        match &self.cause {
            Cause::Refused
            | Cause::Dns
            | Cause::Unreachable
            | Cause::Tls
            | Cause::Cut
            | Cause::Timeout(Limit::Connect)
            | Cause::Exited(_)
            // A server that shuts down in good order ends its streams before they are answered.
            | Cause::Protocol(Misbehavior::NoAnswer)
            | Cause::SessionLost
            | Cause::NotAffine => true,
            // Proxies send these when the server does not answer.
            Cause::Status { code, .. } => matches!(code, 502..=504 | 520..=527 | 530),
            _ => false,
        }
    }

    /// Whether the server could not be reached. A server that broke the protocol was reached.
    pub fn is_unreachable(&self) -> bool {
        self.is_outage() && !matches!(self.cause, Cause::Protocol(_))
    }

    /// The fault with which the calls end that are pending when a link is closed for this one. A
    /// status that the server sent to another request or to a probe does not apply to them.
    #[must_use]
    pub fn for_pending_calls(&self) -> Self {
        match &self.cause {
            Cause::Status { .. } | Cause::LoginRequired { .. } | Cause::Timeout(_) => {
                Self::new(Cause::Cut).with_note(format!("the link was closed: {}", self.cause))
            }
            _ => Self { execution: Execution::Unknown, ..self.clone() },
        }
    }

    /// Whether no connection came about, so there is no reader that could notice its loss.
    pub fn is_connect_failure(&self) -> bool {
        matches!(self.cause, Cause::Refused | Cause::Dns | Cause::Unreachable | Cause::Tls)
    }

    /// The one place that decides what a fault costs the connection.
    pub fn recovery(&self) -> Recovery {
        let now = Recovery::Retry { not_before: Duration::ZERO };
        match &self.cause {
            Cause::Status { code: 429, retry_after } => {
                Recovery::Retry { not_before: retry_after.unwrap_or_default().max(MIN_WAIT_AFTER_429) }
            }
            Cause::Status { retry_after: Some(not_before), .. } => {
                Recovery::Retry { not_before: *not_before }
            }
            // A server that is not fully deployed yet answers 404 through its proxy.
            Cause::Status { .. } => now,
            Cause::LoginRequired { .. } => Recovery::Login,
            Cause::LoginUnavailable
            | Cause::StoreUnavailable
            | Cause::HeadersCommand
            | Cause::Refused
            | Cause::Dns
            | Cause::Unreachable
            | Cause::Tls
            | Cause::Cut
            | Cause::Timeout(_) => now,
            Cause::PlainHttp
            | Cause::NotBuilt { .. }
            | Cause::Protocol(Misbehavior::Echo | Misbehavior::ForeignEndpoint { .. })
            | Cause::Redirect { .. }
            | Cause::Spawn(_)
            | Cause::NoCommonVersion { .. }
            | Cause::Loop
            | Cause::Closed => Recovery::GiveUp,
            Cause::Exited(_) | Cause::Protocol(_) | Cause::SessionLost | Cause::NotAffine => now,
        }
    }
}

/// Minimum wait after a 429, even if its `Retry-After` is in the past. The server is up and
/// overloaded, so even a waiting caller does not get the short waits meant for a server that may
/// return any moment.
const MIN_WAIT_AFTER_429: Duration = Duration::from_secs(1);

/// Maximum number of body bytes kept as evidence: enough for a verdict on session loss. Less of it
/// is shown to people.
pub const MAX_EVIDENCE_BODY: usize = 4_096;

/// Prints the cause, the note and the next step. Body and stderr are left to the caller's layout.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)?;
        match (&self.evidence.note, &self.evidence.next_step) {
            (Some(note), Some(next)) => write!(f, ": {note}; {next}"),
            (Some(words), None) | (None, Some(words)) => write!(f, ": {words}"),
            (None, None) => Ok(()),
        }
    }
}

impl Cause {
    /// The kind of the cause, as one word for machines. Scripts match on it, so a word never
    /// changes.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Dns => "dns",
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::Cut => "cut",
            Self::Timeout(_) => "timeout",
            Self::Status { .. } => "status",
            Self::LoginRequired { .. } => "login_required",
            Self::LoginUnavailable => "login_unavailable",
            Self::StoreUnavailable => "store",
            Self::HeadersCommand => "headers_command",
            Self::PlainHttp => "plain_http",
            Self::NotBuilt { .. } => "not_built",
            Self::Redirect { .. } => "redirect",
            Self::Spawn(_) => "spawn",
            Self::Exited(_) => "exited",
            Self::Protocol(_) => "protocol",
            Self::SessionLost => "session_lost",
            Self::NotAffine => "not_affine",
            Self::NoCommonVersion { .. } => "versions",
            Self::Loop => "loop",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::Dns => "host name not found",
            Self::Unreachable => "server unreachable",
            Self::Tls => "TLS handshake failed",
            Self::Cut => "connection lost",
            Self::Timeout(Limit::Idle) => "no answer in time",
            Self::Timeout(Limit::Total) => "the call took longer than its limit",
            Self::Timeout(Limit::Connect) => "the server did not become ready in time",
            Self::Status { code, .. } => return write!(f, "HTTP status {code}"),
            Self::LoginRequired { .. } => "the server requires a login",
            Self::LoginUnavailable => "the login could not be refreshed",
            Self::StoreUnavailable => "the login store cannot be used",
            Self::HeadersCommand => "the headers command failed",
            Self::PlainHttp => "credentials are not sent over plain http to another machine",
            Self::NotBuilt { feature } => {
                return write!(f, "this program was built without the feature `{feature}` of bowline");
            }
            Self::Redirect { location } => return write!(f, "refused to follow a redirect to {location}"),
            Self::Spawn(SpawnError::NotFound) => "command not found",
            Self::Spawn(SpawnError::Denied) => "command may not be run",
            Self::Spawn(SpawnError::Other) => "command could not be started",
            Self::Exited(Exit::Code(code)) => return write!(f, "the server exited with code {code}"),
            Self::Exited(Exit::Signal(signal)) => {
                return write!(f, "the server was ended by signal {signal}");
            }
            Self::Exited(Exit::Eof) => "the server closed its output",
            Self::Protocol(misbehavior) => return misbehavior.fmt(f),
            Self::SessionLost => "the server lost the session",
            Self::NotAffine => {
                "the server forgets sessions at once: it is not session-affine behind its load balancer"
            }
            Self::NoCommonVersion { supported } => {
                return write!(f, "no common protocol revision; the server speaks {}", supported.join(", "));
            }
            Self::Loop => "a loop: the server is this gateway itself, or leads back to it",
            Self::Closed => "the connection was closed",
        })
    }
}

impl fmt::Display for Misbehavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed(defect) => return write!(f, "the server sent a bad message: {defect}"),
            Self::Echo => "the program echoes its input and is not an MCP server",
            Self::TooLarge { limit } => {
                return write!(f, "the server sent a message larger than {}", format_limit(*limit));
            }
            Self::ContentType => {
                "the server answered with something that is neither JSON nor an event stream"
            }
            Self::Encoding => "the server's answer could not be decompressed",
            Self::NoAnswer => "the server ended the exchange without an answer",
            Self::BadResult => "the server's result does not fit the request",
            Self::UnknownResultType => "the server sent a result of an unknown type",
            Self::EndlessList => "the server's list does not end",
            Self::TooManyInputRounds => "the server asked for input too often",
            Self::UndeclaredInput => "the server asked for input that was not offered",
            Self::ForeignEndpoint { origin } => {
                return write!(
                    f,
                    "the server names {origin} as the endpoint for messages, which is of another origin"
                );
            }
        })
    }
}

/// Formats a limit in the largest unit that it is a multiple of.
fn format_limit(limit: usize) -> String {
    const KIB: usize = 1024;
    const MIB: usize = 1024 * KIB;
    match limit {
        _ if limit >= MIB && limit.is_multiple_of(MIB) => format!("{} MiB", limit / MIB),
        _ if limit >= KIB && limit.is_multiple_of(KIB) => format!("{} KiB", limit / KIB),
        _ => format!("{limit} bytes"),
    }
}

#[cfg(test)]
mod tests;
