//! Does this answer mean that the session is gone?
//!
//! [`judge`] looks at the whole exchange and never at one field: a JSON-RPC code alone proves nothing, since
//! `-32001` is "session not found" to one server and "access token expired" to another. Nowhere else does
//! the text of a server decide anything (`text.rs` finds its words, `words.rs` reads them with `lexicon.rs`); the text of our own
//! errors decides nothing at all.
//!
//! A wrong [`Lost`](Verdict::Lost) costs a handshake and sends a request again that was answered, so it takes
//! a refusal and plain words, or a status that says it. Everything that may mean it is
//! [`Suspect`](Verdict::Suspect), which costs a probe.

mod lexicon;
mod text;
mod words;

use crate::wire::{RpcError, code, method};
use words::{Gone, Said};

/// One exchange on a legacy connection, as far as the verdict needs it.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The method of the request.
    pub method: &'a str,
    /// The request named a session: by its header, or for HTTP+SSE by the URL it was posted to.
    pub session: bool,
    /// The request carried configured credentials.
    pub credentials: bool,
    /// The HTTP status.
    pub status: u16,
    /// The `WWW-Authenticate` values.
    pub challenge: &'a [String],
    /// How the body begins. Only looked at where it holds no JSON-RPC error.
    pub body: &'a [u8],
    /// The JSON-RPC error in the answer, whatever the framing.
    pub error: Option<&'a RpcError>,
    /// That error named our request: its id is neither null nor missing nor another's.
    pub own_id: bool,
}

/// What an answer means for the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Gone, and the request was refused for it: drop the id, `initialize`, send it again once.
    Lost,
    /// Perhaps gone. Ask the same session something without effect before anything is thrown away. If that
    /// fails too the session is lost, but this answer is no proof that the request was not executed.
    Suspect,
    /// The same, and it speaks of the handshake. A server that was never initialized answers `ping` all the
    /// same: ask for a list.
    Uninitialized,
    /// Credentials were refused, which is no loss by itself. Some servers say it of a lost session too:
    /// with good credentials, one `initialize` without session id comes before a person is asked.
    Login,
    /// An answer like any other.
    Answer,
}

/// Whether an answer that is [`Suspect`](Verdict::Suspect) says by itself that the request was refused for its
/// session, so that it was not executed if the session turns out to be gone.
///
/// A server that answers a request by its id may have worked on it, and what stands in front of a server knows
/// nothing of what went on behind: neither is a refusal, whatever it says.
pub fn is_refusal(exchange: &Exchange<'_>) -> bool {
    let said = exchange.said();
    // No handler is reached before the handshake.
    if said.handshake || exchange.is_python_before_handshake() {
        return true;
    }
    let early = exchange.error.is_some_and(|error| !exchange.own_id && error.code == code::INVALID_REQUEST);
    let ours_failed = exchange.status >= 500 && exchange.own_code().is_some();
    let in_front = matches!(exchange.status, 502 | 504 | 520..600) || ours_failed;
    let plainly = said.gone == Gone::Plainly;
    (plainly && !exchange.was_dispatched() && !said.interrupted && !in_front) || early
}

/// Whether the answer to a POST means that its session is gone.
///
/// Not to be asked of a result, of a tool's `isError`, nor of a GET.
pub fn judge(exchange: &Exchange<'_>) -> Verdict {
    let handshake = matches!(exchange.method, method::INITIALIZE | method::INITIALIZED);
    if !exchange.session || handshake {
        return if exchange.status == 401 { Verdict::Login } else { Verdict::Answer };
    }
    let said = exchange.said();
    match exchange.status {
        200..300 => exchange.judge_success(said),
        401 | 403 => exchange.judge_denial(said),
        404 | 410 => exchange.judge_not_found(said),
        // Whatever it says of sessions, it says that there are too many.
        429 => Verdict::Answer,
        400..600 => exchange.judge_refusal(said),
        _ => Verdict::Answer,
    }
}

// === impl Exchange ===

impl Exchange<'_> {
    fn said(&self) -> Said {
        match self.error {
            Some(error) => {
                let data = error.data.as_ref().map_or(&[][..], |data| data.as_bytes());
                words::read(&[error.message.as_bytes(), data])
            }
            None => words::read(&[self.body]),
        }
    }

    /// The code of an error for our own request: the server knew the request well enough to answer it.
    fn own_code(&self) -> Option<i64> {
        self.error.filter(|_| self.own_id).map(|error| error.code)
    }

    /// The request got as far as a handler, so that the words may be those of a tool.
    fn was_dispatched(&self) -> bool {
        let codes = [code::METHOD_NOT_FOUND, code::INVALID_PARAMS, code::INTERNAL_ERROR];
        self.own_code().is_some_and(|code| codes.contains(&code))
    }

    /// Some servers put everything into a 200; so do tools that have sessions of their own.
    fn judge_success(&self, said: Said) -> Verdict {
        let unaddressed = self.error.is_some() && !self.own_id;
        if said.handshake || self.is_python_before_handshake() {
            Verdict::Uninitialized
        } else if unaddressed || said.gone > Gone::No {
            Verdict::Suspect
        } else {
            Verdict::Answer
        }
    }

    /// What the Python SDK says to every request on a stream that was opened again without a handshake. It
    /// says it of bad parameters too, but then a probe succeeds.
    fn is_python_before_handshake(&self) -> bool {
        self.error.is_some_and(|error| {
            error.code == code::INVALID_PARAMS
                && error.message.trim().eq_ignore_ascii_case("invalid request parameters")
                && error.data.as_ref().is_none_or(|data| matches!(data.as_str(), "null" | "\"\""))
        })
    }

    /// 401 and 403. An old session can be refused in the same way as an old token; only plain words of the
    /// session, and none of credentials, tell them apart.
    fn judge_denial(&self, said: Said) -> Verdict {
        let other = if self.status == 401 { Verdict::Login } else { Verdict::Answer };
        // Who never had credentials and is asked for them has to bring some first.
        let asked = !self.challenge.is_empty() && !self.credentials;
        match said.gone {
            Gone::Plainly if !said.login && !asked => Verdict::Lost,
            Gone::Plainly | Gone::Hint if self.status == 403 && self.challenge.is_empty() => Verdict::Suspect,
            _ => other,
        }
    }

    /// 404 and 410: what the protocol says for a lost session (HL-03).
    fn judge_not_found(&self, said: Said) -> Verdict {
        // A modern server, or one that gives each JSON-RPC error a status, says this of the method. Without
        // a parsed error the body may have been cut.
        let of_method = match self.error {
            Some(error) => error.code == code::METHOD_NOT_FOUND,
            None => mentions(self.body, b"-32601"),
        };
        match (of_method || self.own_code() == Some(code::INVALID_PARAMS), said.gone) {
            // An error that names no request may have been written before anybody looked at it.
            (true, Gone::No) if self.error.is_none() || self.own_id => Verdict::Answer,
            (true, _) => Verdict::Suspect,
            // It names our request, and what was not found may be a resource, or a session of the tool's own.
            (false, _) if self.own_code().is_some() => Verdict::Suspect,
            (false, _) => Verdict::Lost,
        }
    }

    /// Every other status that is no success.
    fn judge_refusal(&self, said: Said) -> Verdict {
        match said.gone {
            // An error with our id, or one of what stands in front of the server, may come after the work.
            Gone::Plainly if !said.login && self.own_code().is_none() && !self.may_follow_work(said) => {
                Verdict::Lost
            }
            Gone::Plainly | Gone::Hint => Verdict::Suspect,
            // There are more wordings than anybody knows. A question is cheaper than a connection that fails until
            // a restart.
            Gone::No if self.leaves_all_open(said) => Verdict::Suspect,
            Gone::No => Verdict::Answer,
        }
    }

    fn may_follow_work(&self, said: Said) -> bool {
        matches!(self.status, 502 | 504 | 520..600) || (self.status >= 500 && said.interrupted)
    }

    /// Whether the status leaves the reason open. 406, 413, 415 and the like are a reason by themselves; a
    /// server that stumbles over a session it does not have gives a 500, and old ones a 400.
    fn leaves_all_open(&self, said: Said) -> bool {
        let status = matches!(self.status, 400 | 409 | 412 | 419 | 421 | 422 | 440 | 500)
            || (said.nothing && self.status >= 500);
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
