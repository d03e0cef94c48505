//! [`Fault`]: an injected failure of the MCP server.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::armed_faults::{FaultBehavior, InjectedFault, MatchedFaults};
use crate::canned_response::CannedResponse;

/// An injected failure of the MCP server, to be armed with [`Control::arm`](crate::Control::arm).
///
/// By default a fault strikes the next request of any kind, once, *before* the request is executed:
///
/// ```
/// use bowline_testkit::Fault;
///
/// Fault::status(503);                                       // the next request
/// Fault::status(503).on("tools/call").times(3);             // the next three calls
/// Fault::reset().on_tool("counter").executed();             // executed, but the response is lost
/// Fault::silent().on("GET").always();                       // no event stream ever opens
/// Fault::cut_after(10).on("tools/list").skip(1);            // the second page breaks
/// ```
///
/// Faults that only add something (`delay`, `noise`, `stderr`, `drop_sessions`, `grandchild`)
/// combine with others that match the same request. Of those that decide the response, the one
/// armed first wins and the rest stay armed.
pub type Fault = InjectedFault<FaultKind>;

/// What a fault of the MCP server does.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    Answer(CannedResponse),
    CutAfter(u64),
    EndAfter(u32),
    Reset,
    Close,
    Silent,
    DelayMs(u64),
    Raw { bytes: Vec<u8>, content_type: String },
    DropSessions,
    Reply(Value),
    Error(Value),
    Exit(i32),
    Noise(String),
    Stderr(u64),
    IgnoreEof,
    IgnoreTerm,
    Grandchild,
}

/// The transport of a server, which decides the faults that are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportKind {
    Http,
    Stdio,
}

impl Fault {
    /// HTTP: responds with this status and an empty body. See [`Fault::response`] for more.
    pub fn status(code: u16) -> Self {
        Self::response(CannedResponse::new(code))
    }

    /// HTTP: responds with exactly this.
    pub fn response(answer: CannedResponse) -> Self {
        Self::from_kind(FaultKind::Answer(answer))
    }

    /// Executes the request and cuts its response off.
    ///
    /// HTTP: `bytes` of the body are sent, then the connection closes. Stdio: `bytes` of the line
    /// are sent, then the process exits with code 1.
    pub fn cut_after(bytes: u64) -> Self {
        Self::from_kind(FaultKind::CutAfter(bytes))
    }

    /// HTTP: ends the event stream in good order after this many events. The work continues, and
    /// with [`event_ids`](crate::Script::event_ids) the client gets the rest by resuming.
    pub fn end_after(events: u32) -> Self {
        Self::from_kind(FaultKind::EndAfter(events))
    }

    /// HTTP: resets the connection (RST). On `"accept"` it is reset before anything is read.
    pub fn reset() -> Self {
        Self::from_kind(FaultKind::Reset)
    }

    /// HTTP: closes the connection (FIN) without a response.
    pub fn close() -> Self {
        Self::from_kind(FaultKind::Close)
    }

    /// Reads the request and never responds.
    pub fn silent() -> Self {
        Self::from_kind(FaultKind::Silent)
    }

    /// Delays the response by this much. With [`executed`](Self::executed) the request is executed
    /// first and then waits, otherwise the other way round.
    pub fn delay(by: Duration) -> Self {
        Self::from_kind(FaultKind::DelayMs(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Sends these bytes instead of the response: as the whole HTTP body (status 200,
    /// `application/json`), or as one line on stdout. The request is executed.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::raw_as("application/json", bytes)
    }

    /// Like [`Fault::raw`] with this content type.
    pub fn raw_as(content_type: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self::from_kind(FaultKind::Raw { bytes: bytes.into(), content_type: content_type.into() })
    }

    /// HTTP: forgets all sessions before the request is processed.
    pub fn drop_sessions() -> Self {
        Self::from_kind(FaultKind::DropSessions)
    }

    /// Replaces the `result` of the response. The request is executed.
    pub fn reply(result: Value) -> Self {
        Self::from_kind(FaultKind::Reply(result))
    }

    /// Replaces the response with a JSON-RPC error.
    pub fn error(code: i64, message: &str) -> Self {
        Self::from_kind(FaultKind::Error(json!({"code": code, "message": message})))
    }

    /// Replaces the response with a JSON-RPC error that has `data`.
    pub fn error_with_data(code: i64, message: &str, data: &Value) -> Self {
        Self::from_kind(FaultKind::Error(json!({"code": code, "message": message, "data": data})))
    }

    /// Stdio: exits the process with this code instead of responding.
    pub fn exit(code: i32) -> Self {
        Self::from_kind(FaultKind::Exit(code))
    }

    /// Stdio: writes this text and a newline on stdout before the response.
    pub fn noise(text: &str) -> Self {
        Self::from_kind(FaultKind::Noise(text.into()))
    }

    /// Stdio: writes this many bytes on stderr before the response. The process waits until they
    /// are read.
    pub fn stderr(bytes: u64) -> Self {
        Self::from_kind(FaultKind::Stderr(bytes))
    }

    /// Stdio: keeps the process running when its stdin closes. In force as soon as it is armed.
    pub fn ignore_eof() -> Self {
        Self::from_kind(FaultKind::IgnoreEof)
    }

    /// Stdio: keeps the process running on SIGTERM. In force as soon as it is armed.
    pub fn ignore_term() -> Self {
        Self::from_kind(FaultKind::IgnoreTerm)
    }

    /// Stdio: starts a child of the process that holds stdout and stderr open. Its pid appears in
    /// [`StdioServer::grandchildren`](crate::StdioServer::grandchildren).
    pub fn grandchild() -> Self {
        Self::from_kind(FaultKind::Grandchild)
    }

    /// Limits the fault to `tools/call` of this tool.
    pub fn on_tool(mut self, tool: &str) -> Self {
        self.tool = Some(tool.into());
        self.on("tools/call")
    }

    /// Panics if the fault can never strike on this transport, because a test that arms it proves
    /// nothing.
    pub(crate) fn assert_possible_on(&self, front: TransportKind) {
        let only = match self.kind {
            FaultKind::Answer(_)
            | FaultKind::EndAfter(_)
            | FaultKind::Reset
            | FaultKind::Close
            | FaultKind::DropSessions => TransportKind::Http,
            FaultKind::Exit(_)
            | FaultKind::Noise(_)
            | FaultKind::Stderr(_)
            | FaultKind::IgnoreEof
            | FaultKind::IgnoreTerm
            | FaultKind::Grandchild => TransportKind::Stdio,
            FaultKind::CutAfter(_)
            | FaultKind::Silent
            | FaultKind::DelayMs(_)
            | FaultKind::Raw { .. }
            | FaultKind::Reply(_)
            | FaultKind::Error(_) => front,
        };
        assert!(only == front, "{:?} has no meaning on {front:?}", self.kind);
        if self.on.as_deref() == Some("accept") {
            assert!(
                matches!(self.kind, FaultKind::Reset | FaultKind::Close),
                "only reset and close can strike on accept"
            );
        }
    }
}

impl FaultBehavior for FaultKind {
    // No request exists yet when a connection is accepted.
    const STRUCK_BY_NAME: &'static str = "accept";

    fn decides_response(&self) -> bool {
        !matches!(
            self,
            Self::DelayMs(_) | Self::Noise(_) | Self::Stderr(_) | Self::DropSessions | Self::Grandchild
        )
    }

    fn needs_execution(&self) -> bool {
        matches!(self, Self::CutAfter(_) | Self::EndAfter(_) | Self::Raw { .. } | Self::Reply(_))
    }

    fn is_always_active(&self) -> bool {
        matches!(self, Self::IgnoreEof | Self::IgnoreTerm)
    }
}

impl From<CannedResponse> for Fault {
    fn from(answer: CannedResponse) -> Self {
        Self::response(answer)
    }
}

impl MatchedFaults<FaultKind> {
    pub(crate) fn drops_sessions(&self) -> bool {
        self.additive.iter().any(|fault| fault.kind == FaultKind::DropSessions)
    }

    /// Returns how long to wait before the request is executed, or after it if `executed`.
    pub(crate) fn delay(&self, executed: bool) -> Duration {
        self.additive
            .iter()
            .filter(|fault| fault.executed == executed)
            .filter_map(|fault| match fault.kind {
                FaultKind::DelayMs(ms) => Some(Duration::from_millis(ms)),
                _ => None,
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::armed_faults::ArmedFaults;

    fn kinds(struck: &MatchedFaults<FaultKind>) -> (usize, Option<FaultKind>) {
        (struck.additive.len(), struck.deciding.as_ref().map(|f| f.kind.clone()))
    }

    #[test]
    fn counts_skips_and_matches() {
        let armed = ArmedFaults::default();
        armed.add(Fault::silent().on("tools/call").skip(1).times(2));
        assert_eq!(kinds(&armed.take_matching(&["tools/list"], None)), (0, None));
        assert_eq!(kinds(&armed.take_matching(&["tools/call"], None)), (0, None));
        assert_eq!(kinds(&armed.take_matching(&["tools/call"], None)), (0, Some(FaultKind::Silent)));
        assert_eq!(kinds(&armed.take_matching(&["tools/call"], None)), (0, Some(FaultKind::Silent)));
        assert_eq!(kinds(&armed.take_matching(&["tools/call"], None)), (0, None));
        assert!(armed.remaining().is_empty());
    }

    #[test]
    fn first_armed_decides_and_additions_combine() {
        let armed = ArmedFaults::default();
        armed.add(Fault::status(500));
        armed.add(Fault::status(501));
        armed.add(Fault::delay(Duration::from_millis(5)));
        let struck = armed.take_matching(&["ping"], None);
        assert_eq!(kinds(&struck), (1, Some(FaultKind::Answer(CannedResponse::new(500)))));
        assert_eq!(struck.delay(false), Duration::from_millis(5));
        assert_eq!(
            kinds(&armed.take_matching(&["ping"], None)),
            (0, Some(FaultKind::Answer(CannedResponse::new(501))))
        );
    }

    #[test]
    fn tool_filter_and_accept_are_apart() {
        let armed = ArmedFaults::default();
        armed.add(Fault::reset().on_tool("counter"));
        armed.add(Fault::close());
        assert_eq!(kinds(&armed.take_matching(&["accept"], None)), (0, None));
        assert_eq!(
            kinds(&armed.take_matching(&["tools/call"], Some("counter"))),
            (0, Some(FaultKind::Reset))
        );
        assert_eq!(kinds(&armed.take_matching(&["tools/call"], Some("echo"))), (0, Some(FaultKind::Close)));
    }

    #[test]
    #[should_panic(expected = "no meaning")]
    fn a_fault_that_cannot_strike_is_refused() {
        Fault::exit(1).assert_possible_on(TransportKind::Http);
    }
}
