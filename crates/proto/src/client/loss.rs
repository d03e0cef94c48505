//! [`judge`]: whether the reply to a request means that the server lost the session.
//!
//! It looks at the whole exchange and never at one field: a JSON-RPC code alone proves nothing,
//! since `-32001` is "session not found" to one server and "access token expired" to another. This
//! is the only place where the text of a server decides anything (`text.rs` splits it into words,
//! `grammar.rs` reads them with `lexicon.rs`). The text of our own errors decides nothing at all.
//!
//! The verdict never says that a request may be sent again: text only raises a suspicion, which
//! `retry` settles with a probe. [`Lost`](Verdict::Lost) requires a status that means it;
//! everything that may mean it is [`Suspect`](Verdict::Suspect), which costs a probe.

mod grammar;
mod lexicon;
mod text;

use crate::wire::{RpcError, code, method};
use grammar::{LossClarity, TextReading};

/// One exchange on a legacy connection, reduced to what the verdict needs.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The method of the request.
    pub method: &'a str,
    /// Whether the request named a session, by its header or for HTTP+SSE by its URL.
    pub session: bool,
    /// Whether the request carried configured credentials.
    pub credentials: bool,
    /// The HTTP status.
    pub status: u16,
    /// The `WWW-Authenticate` values.
    pub challenge: &'a [String],
    /// The beginning of the body. It is read only if there is no JSON-RPC error.
    pub body: BodyHead<'a>,
    /// The JSON-RPC error in the reply, in whatever framing it came.
    pub error: Option<&'a RpcError>,
    /// Whether that error names our request: its id is not null, missing, or another's.
    pub own_id: bool,
}

/// The beginning of a response body.
#[derive(Clone, Copy, Debug, Default)]
pub struct BodyHead<'a> {
    /// The bytes that were read.
    pub bytes: &'a [u8],
    /// Whether there was more, or the body could not be read to its end.
    pub is_cut: bool,
}

/// What a reply means for the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The session is lost and the request was refused for it: 404 or 410 without an error for our
    /// id.
    Lost,
    /// The session may be lost. A probe on it decides before anything is discarded or sent again.
    Suspect(LossWording),
    /// Credentials were refused, which is not a loss by itself. Some servers answer so to a lost
    /// session: with good credentials, one `initialize` without session id is tried before a person
    /// is asked.
    Login,
    /// The reply says nothing about the session.
    Answer,
}

/// How plainly a suspect reply says that the session is lost. It selects the probe, and nothing
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossWording {
    /// It gives no reason, or none that excludes a session loss.
    None,
    /// It may mean the session, or something else that is called a session.
    Hint,
    /// It plainly says that the session is lost.
    Plain,
    /// It says that there was no handshake. Such a server still answers `ping`, so a list is
    /// requested.
    Handshake,
}

/// Judges whether the reply to a POST means that its session is lost.
///
/// It must not be used for a result, a tool's `isError`, or a GET.
pub fn judge(exchange: &Exchange<'_>) -> Verdict {
    let handshake = matches!(exchange.method, method::INITIALIZE | method::INITIALIZED);
    if !exchange.session || handshake {
        return if exchange.status == 401 { Verdict::Login } else { Verdict::Answer };
    }
    let said = exchange.read_text();
    match exchange.status {
        200..300 => exchange.judge_success(said),
        401 | 403 => exchange.judge_denial(said),
        404 | 410 => exchange.judge_not_found(said),
        // A rate limit. If it mentions sessions, it says that there are too many.
        429 => Verdict::Answer,
        400..600 => exchange.judge_refusal(said),
        _ => Verdict::Answer,
    }
}

/// Judges whether the reply to a POST means that a legacy server without session ids wants its handshake again, as after
/// a restart. There is no session that could be lost, so nothing else counts.
pub fn judge_without_session(exchange: &Exchange<'_>) -> Verdict {
    let handshake = matches!(exchange.method, method::INITIALIZE | method::INITIALIZED);
    match exchange.status {
        401 => Verdict::Login,
        // A rate limit says nothing about the handshake.
        429 => Verdict::Answer,
        200..300 | 400..600
            if !handshake && exchange.wording(exchange.read_text()) == LossWording::Handshake =>
        {
            Verdict::Suspect(LossWording::Handshake)
        }
        _ => Verdict::Answer,
    }
}

// === impl Exchange ===

impl Exchange<'_> {
    fn read_text(&self) -> TextReading {
        match self.error {
            Some(error) => {
                let data = error.data.as_ref().map_or(&[][..], |data| data.as_bytes());
                grammar::read_texts(&[error.message.as_bytes(), data])
            }
            None => grammar::read_texts(&[self.body.bytes]),
        }
    }

    /// The code of the error, if it names our request: then the server understood the request.
    fn own_code(&self) -> Option<i64> {
        self.error.filter(|_| self.own_id).map(|error| error.code)
    }

    /// Whether the request reached a handler, so the text may be a tool's.
    fn was_dispatched(&self) -> bool {
        let codes = [code::METHOD_NOT_FOUND, code::INVALID_PARAMS, code::INTERNAL_ERROR];
        self.own_code().is_some_and(|code| codes.contains(&code))
    }

    fn wording(&self, said: TextReading) -> LossWording {
        match said.session_loss {
            _ if said.missing_handshake || self.is_python_before_handshake() => LossWording::Handshake,
            // "Your session has expired, please log in" is most often about a website.
            LossClarity::Plain if !said.mentions_credentials => LossWording::Plain,
            LossClarity::Plain | LossClarity::Hint => LossWording::Hint,
            LossClarity::None => LossWording::None,
        }
    }

    /// Judges a 2xx. Some servers answer everything with 200; so do tools with sessions of their
    /// own.
    fn judge_success(&self, said: TextReading) -> Verdict {
        let unaddressed = self.error.is_some() && !self.own_id;
        match self.wording(said) {
            LossWording::None if !unaddressed => Verdict::Answer,
            words => Verdict::Suspect(words),
        }
    }

    /// Whether this is the Python SDK's answer to every request on a stream that was reopened
    /// without a handshake. It says the same of bad parameters, but then a probe succeeds.
    fn is_python_before_handshake(&self) -> bool {
        self.error.is_some_and(|error| {
            error.code == code::INVALID_PARAMS
                && error.message.trim().eq_ignore_ascii_case("invalid request parameters")
                && error.data.as_ref().is_none_or(|data| matches!(data.as_str(), "null" | "\"\""))
        })
    }

    /// Judges a 401 or 403. An old session can be refused in the same way as an old token; only a
    /// plain mention of the session without one of credentials tells them apart.
    fn judge_denial(&self, said: TextReading) -> Verdict {
        // A client without credentials that is challenged has to log in first.
        let asked = !self.challenge.is_empty() && !self.credentials;
        match self.wording(said) {
            words @ (LossWording::Plain | LossWording::Handshake) if !asked => Verdict::Suspect(words),
            words if words != LossWording::None && self.status == 403 && self.challenge.is_empty() => {
                Verdict::Suspect(words)
            }
            _ if self.status == 401 => Verdict::Login,
            _ => Verdict::Answer,
        }
    }

    /// Judges a 404 or 410, the protocol's status for a lost session.
    // HL-03
    fn judge_not_found(&self, said: TextReading) -> Verdict {
        // A modern server, or one that maps each JSON-RPC error to a status, means the method.
        // Without a parsed error the body may have been cut.
        let of_method = match self.error {
            Some(error) => error.code == code::METHOD_NOT_FOUND,
            None => mentions(self.body.bytes, b"-32601"),
        };
        let of_params = self.own_code() == Some(code::INVALID_PARAMS);
        match self.wording(said) {
            // An error that names no request may have been written before the request was read.
            LossWording::None if (of_method || of_params) && (self.error.is_none() || self.own_id) => {
                Verdict::Answer
            }
            // What was not found may be the method, a resource, or a session of the tool's own. A
            // message that could not be read completely may name our request.
            words if of_method || of_params || self.own_code().is_some() || self.may_be_unread_message() => {
                Verdict::Suspect(words)
            }
            _ => Verdict::Lost,
        }
    }

    /// Whether the body has, or may have, a JSON-RPC message that could not be read, so its id is
    /// unknown.
    fn may_be_unread_message(&self) -> bool {
        let start = self.body.bytes.trim_ascii_start();
        // A page has no message, however long it is. Whatever else was not read to its end may have one.
        let is_cut = self.body.is_cut && !start.starts_with(b"<");
        // The parser finds no message in another encoding, in a batch, or behind something else.
        let is_text = !start.contains(&0) && !mentions(start, "\u{fffd}".as_bytes());
        is_cut || (self.error.is_none() && (!is_text || mentions(start, b"jsonrpc")))
    }

    /// Judges every other 4xx and 5xx.
    fn judge_refusal(&self, said: TextReading) -> Verdict {
        match self.wording(said) {
            // There are more wordings than the grammar knows. A probe is cheaper than a connection
            // that fails until a restart.
            LossWording::None if self.leaves_reason_open(said) => Verdict::Suspect(LossWording::None),
            LossWording::None => Verdict::Answer,
            words => Verdict::Suspect(words),
        }
    }

    /// Whether the status leaves the reason open. 406, 413, 415 and the like are a reason by
    /// themselves; a server that trips over an unknown session answers 500, and old ones 400.
    fn leaves_reason_open(&self, said: TextReading) -> bool {
        let status = matches!(self.status, 400 | 409 | 412 | 419 | 421 | 422 | 440 | 500)
            || (said.is_boilerplate && self.status >= 500);
        let code = self.error.map(|error| error.code);
        status
            && !self.was_dispatched()
            && code != Some(code::PARSE_ERROR)
            && code != Some(code::METHOD_NOT_FOUND)
    }
}

fn mentions(body: &[u8], what: &[u8]) -> bool {
    memchr::memmem::find(body, what).is_some()
}

#[cfg(test)]
mod tests;
