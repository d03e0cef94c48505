//! [`Server`]: the scripted server, with its protocol, its sessions, and its executions.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::session::NegotiationMessage;
use bowline_proto::fault::{Cause, Fault, Misbehavior};
use bowline_proto::wire::{Json, RpcError};
use fastrand::Rng;

use crate::oracle::Author;

/// The protocol that a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Modern,
    Legacy,
    /// A legacy server that exits on `server/discover`.
    LegacyExits,
    /// A legacy server that does not answer unknown methods.
    LegacySilent,
    /// A server that speaks both eras.
    Dual,
    /// A server that knows only HTTP+SSE.
    HttpSseOnly,
    /// A server that answers nothing at all.
    Dead,
}

/// Which requests find their session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Affinity {
    Always,
    /// Every other request goes to a node that does not know the session.
    Half,
    /// No node knows a session that another opened.
    Never,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a trouble that comes and goes by itself")]
pub(crate) struct Server {
    pub(crate) kind: ServerKind,
    pub(crate) affinity: Affinity,
    /// Time after which unused sessions are collected.
    pub(crate) idle: Option<Duration>,
    /// Whether a session lasts for one call only, and a process for about a second.
    pub(crate) fragile: bool,
    /// Whether it has session ids at all.
    pub(crate) names_sessions: bool,
    /// Whether it is down, so that connections are refused.
    pub(crate) down: bool,
    /// Whether a gateway answers for it while it is down.
    pub(crate) behind_gateway: bool,
    /// The number of its reply to a request with an unknown session.
    pub(crate) wording: usize,
    /// Whether something else answers at its address.
    pub(crate) misplaced: bool,
    /// Whether it requires a new login.
    pub(crate) wants_login: bool,
    /// The method of the list that it offers.
    pub(crate) list: Option<&'static str>,
    /// Whether it checks the session of a `ping`, as of every other method.
    pub(crate) checks_ping: bool,
    /// Whether it has one session for all clients, and refuses `initialize` as long as that is open.
    pub(crate) has_single_session: bool,
    /// The version of the annotations of its tools.
    pub(crate) annotations: u32,
    /// The end of a rate limit.
    pub(crate) limited_until: Option<Instant>,
    /// The known sessions, with the time of their last use.
    sessions: BTreeMap<u64, Instant>,
    opened: u64,
    /// Number of executions of each call.
    runs: Vec<u32>,
}

impl Server {
    pub(crate) fn random(rng: &mut Rng, piped: bool) -> Self {
        let affinity = match rng.u8(..16) {
            0 => Affinity::Never,
            1 => Affinity::Half,
            _ => Affinity::Always,
        };
        let idle = (rng.u8(..3) == 0).then(|| Duration::from_secs(rng.u64(3..40)));
        let list = (rng.u8(..4) > 0).then_some("tools/list");
        Self {
            kind: ServerKind::random(rng, piped),
            affinity,
            idle,
            fragile: false,
            names_sessions: rng.u8(..10) > 0,
            down: rng.u8(..8) == 0,
            behind_gateway: rng.u8(..3) == 0,
            wording: rng.usize(..WORDING_COUNT),
            misplaced: rng.u8(..20) == 0,
            wants_login: false,
            list,
            // Without a list, a client could not notice the loss if `ping` were not checked.
            checks_ping: list.is_none() || rng.u8(..4) > 0,
            has_single_session: rng.u8(..10) == 0,
            annotations: 0,
            limited_until: None,
            sessions: BTreeMap::new(),
            opened: 0,
            runs: Vec::new(),
        }
    }

    /// Removes all faults but the collection of idle sessions.
    pub(crate) fn make_calm(&mut self, idle: Duration) {
        self.kind = ServerKind::Legacy;
        self.affinity = Affinity::Always;
        self.idle = Some(idle);
        self.names_sessions = true;
        self.down = false;
        self.misplaced = false;
        self.checks_ping = true;
        self.has_single_session = false;
        self.wording = 0;
    }

    /// Opens a session. Returns its id if this server has session ids.
    pub(crate) fn open_session(&mut self, now: Instant) -> Option<u64> {
        if !self.names_sessions {
            return None;
        }
        self.opened += 1;
        self.sessions.insert(self.opened, now);
        Some(self.opened)
    }

    /// Whether the session that a request names is known. If so, the session counts as used.
    pub(crate) fn touch_session(&mut self, now: Instant, session: u64, rng: &mut Rng) -> bool {
        let there = match self.affinity {
            Affinity::Always => true,
            Affinity::Half => rng.bool(),
            Affinity::Never => false,
        };
        let Some(used) = self.sessions.get_mut(&session) else { return false };
        if self.idle.is_some_and(|idle| now.duration_since(*used) > idle) {
            self.sessions.remove(&session);
            return false;
        }
        if there {
            *used = now;
        }
        there
    }

    /// Drops all sessions, as after a restart.
    pub(crate) fn drop_sessions(&mut self) {
        self.sessions.clear();
    }

    pub(crate) fn record_run(&mut self, call: usize) {
        if self.runs.len() <= call {
            self.runs.resize(call + 1, 0);
        }
        self.runs[call] += 1;
    }

    pub(crate) fn runs(&self, call: usize) -> u32 {
        self.runs.get(call).copied().unwrap_or(0)
    }

    /// Whether `ping` is answered even on an unknown session.
    pub(crate) fn answers_any_ping(&self) -> bool {
        !self.checks_ping || self.wording == 12
    }

    /// The refusal of `initialize`, if its only session is open.
    pub(crate) fn handshake_refusal(&self, rng: &mut Rng) -> Option<Reply> {
        if !self.has_single_session || self.sessions.is_empty() {
            return None;
        }
        let status = [None, Some(400), Some(404)][rng.usize(..3)];
        Some(error(status, -32600, "Invalid Request: Server already initialized", false))
    }

    /// Whether the headers of a tool call are wrong, for a client that knows this version of the
    /// annotations. A server that offers no list of tools has none that could be annotated.
    pub(crate) fn finds_headers_wrong(&self, known_annotations: u32) -> bool {
        let is_modern = matches!(self.kind, ServerKind::Modern | ServerKind::Dual);
        is_modern && self.list.is_some() && known_annotations != self.annotations
    }

    /// The remaining time of the rate limit.
    pub(crate) fn limit(&self, now: Instant) -> Option<Duration> {
        self.limited_until.filter(|until| *until > now).map(|until| until.duration_since(now))
    }

    /// The author of [`Self::unknown_session_reply`].
    pub(crate) fn session_check_author(&self) -> Author {
        match self.wording {
            0 | 1 | 5 | 8 => Author::NotFound,
            9 | 10 => Author::VagueSessionCheck,
            11 => Author::Status,
            _ => Author::SessionCheck,
        }
    }

    /// Whether its reply to an unknown session does not show that the session is lost.
    pub(crate) fn has_vague_wording(&self) -> bool {
        (9..12).contains(&self.wording) || (!self.speaks_plainly() && self.answers_any_ping())
    }

    /// Whether its reply to an unknown session names the session, so that a client that is answered
    /// a `ping` nevertheless has a reason to ask for a list.
    pub(crate) fn speaks_plainly(&self) -> bool {
        !matches!(self.wording, 9..12 | 20)
    }

    /// The reply to a request with an unknown session, in the variants that were seen in practice.
    pub(crate) fn unknown_session_reply(&self) -> Reply {
        let plain = |code, body: &str| {
            let fault = Fault::new(Cause::Status { code, retry_after: None }).with_body(body.as_bytes());
            Reply::Fault(fault)
        };
        match self.wording {
            0 => error(Some(404), -32001, "Session not found", true),
            1 => plain(404, "Not Found: Session not found"),
            2 => plain(400, "Bad Request: No valid session ID provided"),
            3 => error(Some(400), -32000, "Bad Request: Server not initialized", true),
            4 => error(Some(400), -32600, "Bad Request: Missing session ID", false),
            5 => plain(410, ""),
            6 => plain(422, "session expired"),
            7 => plain(500, r#"{"error":"HTTP 400: No valid session ID provided"}"#),
            8 => plain(404, ""),
            // A balancer that still routes the session to a node that is gone.
            9 => plain(502, "<h1>Bad Gateway</h1>"),
            // An error that is not recognizable as a session loss.
            10 => plain(500, "Internal Server Error: undefined is not a function"),
            11 => plain(405, "Method Not Allowed"),
            // A restarted server that treats the session as new, without a handshake.
            12 => error(None, -32002, "Server not initialized", false),
            // With our id, as a tool would send it.
            13 => error(Some(400), -32000, "Bad Request: No valid session ID provided", false),
            14 => error(Some(404), -32603, "Session not found", false),
            15 => error(Some(400), -32602, "Invalid session", false),
            16 => plain(403, "Forbidden: invalid session"),
            17 => error(Some(503), -32603, "Session not found", false),
            18 => {
                let cause = Cause::LoginRequired { code: 401, challenge: Vec::new() };
                Reply::Fault(Fault::new(cause).with_body(b"Unauthorized: Session not found").not_executed())
            }
            // With a success status: only a probe can tell whether it is the session or the tool.
            19 => error(None, -32600, "missing or invalid Mcp-Session-Id", false),
            20 => error(None, -32600, "Invalid Request", true),
            // A success without a JSON-RPC message.
            21 => {
                let fault = Fault::protocol(Misbehavior::NoAnswer);
                Reply::Fault(fault.with_body(br#"{"error":"Session not found"}"#))
            }
            22 => error(None, -32002, "No active session", false),
            _ => error(None, -32001, "Session not found", true),
        }
    }
}

const WORDING_COUNT: usize = 24;

impl ServerKind {
    pub(crate) fn random(rng: &mut Rng, piped: bool) -> Self {
        match (rng.u8(..20), piped) {
            (0..3, _) => Self::Modern,
            (3..11, false) => Self::Legacy,
            (3..8, true) => Self::Legacy,
            (8..11, true) => Self::LegacyExits,
            (11..13, _) => Self::LegacySilent,
            (13..16, _) => Self::Dual,
            (16..19, false) => Self::HttpSseOnly,
            (16..19, true) => Self::Legacy,
            _ => Self::Dead,
        }
    }

    /// The reply to a negotiation message. `None` if there is none.
    pub(crate) fn reply(self, hello: NegotiationMessage) -> Option<Reply> {
        match (self, hello) {
            (Self::Dead, _) => None,
            (_, NegotiationMessage::Initialized(_)) => Some(Reply::Accepted),
            (_, NegotiationMessage::Resume(_)) => Some(Reply::Result(json("{}"))),
            (Self::Modern | Self::Dual, NegotiationMessage::Discover(_)) => {
                let found = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#;
                Some(Reply::Result(json(found)))
            }
            (Self::LegacySilent, NegotiationMessage::Discover(_)) => None,
            // The exit of `LegacyExits` is handled in `exchange.rs`.
            (Self::Legacy | Self::LegacyExits | Self::HttpSseOnly, NegotiationMessage::Discover(_)) => {
                Some(error(None, -32601, "", false))
            }
            (Self::Modern, NegotiationMessage::Initialize(_)) => Some(error(None, -32022, "", false)),
            (_, NegotiationMessage::Initialize(revision)) => Some(Reply::Result(json(&format!(
                r#"{{"protocolVersion":"{revision}","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}}}}"#
            )))),
        }
    }
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

pub(crate) fn error(status: Option<u16>, code: i64, message: &str, stray: bool) -> Reply {
    Reply::Error { status, error: RpcError { code, message: message.to_owned(), data: None }, stray }
}
