//! Does this answer mean that the session is gone?
//!
//! [`judge`] looks at the whole exchange and never at one field: a JSON-RPC code alone proves nothing, since
//! `-32001` is "session not found" to one server and "access token expired" to another. Nowhere else does
//! the text of a server decide anything (`text.rs` finds its words, `words.rs` reads them with `lexicon.rs`); the text of our own
//! errors decides nothing at all.
//!
//! The verdict never says that a request may be sent again: words are a doubt, and only `retry` turns a doubt into
//! a decision, by a probe. [`Lost`](Verdict::Lost) takes a status that means it; everything that may mean it is
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
    pub body: BodyHead<'a>,
    /// The JSON-RPC error in the answer, whatever the framing.
    pub error: Option<&'a RpcError>,
    /// That error named our request: its id is neither null nor missing nor another's.
    pub own_id: bool,
}

/// The beginning of a body.
#[derive(Clone, Copy, Debug, Default)]
pub struct BodyHead<'a> {
    /// What was read of it.
    pub bytes: &'a [u8],
    /// There was more, or it could not be read to its end.
    pub is_cut: bool,
}

/// What an answer means for the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// 404 or 410 without an error for our id: the session is gone, and the request was refused for it.
    Lost,
    /// Perhaps gone. A probe on the same session decides before anything is thrown away or sent again.
    Suspect(Words),
    /// Credentials were refused, which is no loss by itself. Some servers say it of a lost session too:
    /// with good credentials, one `initialize` without session id comes before a person is asked.
    Login,
    /// An answer like any other.
    Answer,
}

/// How plainly a suspect answer speaks of the session. It decides which probe is asked, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// It gives no reason that excludes the session.
    None,
    /// It may speak of the session, or of something else that is called so.
    Hint,
    /// It plainly says that the session is gone.
    Plain,
    /// It says that there was no handshake. Such a server answers `ping` all the same, so a list is asked for.
    Handshake,
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
            None => words::read(&[self.body.bytes]),
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

    fn words(&self, said: Said) -> Words {
        match said.gone {
            _ if said.handshake || self.is_python_before_handshake() => Words::Handshake,
            // "Your session has expired, please log in" is most often of a website.
            Gone::Plainly if !said.login => Words::Plain,
            Gone::Plainly | Gone::Hint => Words::Hint,
            Gone::No => Words::None,
        }
    }

    /// Some servers put everything into a 200; so do tools that have sessions of their own.
    fn judge_success(&self, said: Said) -> Verdict {
        let unaddressed = self.error.is_some() && !self.own_id;
        match self.words(said) {
            Words::None if !unaddressed => Verdict::Answer,
            words => Verdict::Suspect(words),
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
        // Who never had credentials and is asked for them has to bring some first.
        let asked = !self.challenge.is_empty() && !self.credentials;
        match self.words(said) {
            words @ (Words::Plain | Words::Handshake) if !asked => Verdict::Suspect(words),
            words if words != Words::None && self.status == 403 && self.challenge.is_empty() => {
                Verdict::Suspect(words)
            }
            _ if self.status == 401 => Verdict::Login,
            _ => Verdict::Answer,
        }
    }

    /// 404 and 410: what the protocol says for a lost session (HL-03).
    fn judge_not_found(&self, said: Said) -> Verdict {
        // A modern server, or one that gives each JSON-RPC error a status, says this of the method. Without
        // a parsed error the body may have been cut.
        let of_method = match self.error {
            Some(error) => error.code == code::METHOD_NOT_FOUND,
            None => mentions(self.body.bytes, b"-32601"),
        };
        let of_params = self.own_code() == Some(code::INVALID_PARAMS);
        match self.words(said) {
            // An error that names no request may have been written before anybody looked at it.
            Words::None if (of_method || of_params) && (self.error.is_none() || self.own_id) => {
                Verdict::Answer
            }
            // What was not found may be the method, a resource, or a session of the tool's own. A message that could
            // not be read whole may name our request.
            words if of_method || of_params || self.own_code().is_some() || self.is_unread_message() => {
                Verdict::Suspect(words)
            }
            _ => Verdict::Lost,
        }
    }

    /// A JSON-RPC message of which only the beginning could be read, or a body that may be one: whose it is, is not
    /// known.
    fn is_unread_message(&self) -> bool {
        let start = self.body.bytes.trim_ascii_start();
        let byte_order_mark = "\u{feff}".as_bytes();
        let beginnings = [&b"{"[..], b"[", b"data:", b"event:", byte_order_mark];
        let framed = beginnings.iter().any(|frame| start.starts_with(frame));
        let may_be_one = self.body.is_cut && (framed || start.is_empty());
        // In another encoding, as a batch, or behind a byte order mark it was not found, and is one all the same.
        let is_text = !start.contains(&0) && !mentions(start, "\u{fffd}".as_bytes());
        self.error.is_none() && (may_be_one || !is_text || framed && mentions(start, b"\"jsonrpc\""))
    }

    /// Every other status that is no success.
    fn judge_refusal(&self, said: Said) -> Verdict {
        match self.words(said) {
            // There are more wordings than anybody knows. A probe is cheaper than a connection that fails until
            // a restart.
            Words::None if self.leaves_all_open(said) => Verdict::Suspect(Words::None),
            Words::None => Verdict::Answer,
            words => Verdict::Suspect(words),
        }
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
