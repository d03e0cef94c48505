//! Parses the JSON-RPC envelope into one of four kinds of message, or finds the id of a malformed
//! one.
//!
//! Only the envelope is parsed. `params`, `result` and `error.data` stay slices of the buffer.

use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::params::ParamsCheck;
use super::validate::Validator;
use super::{Id, Json, code, scan};

/// One well-formed JSON-RPC message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A request, which expects a response.
    Request {
        /// The id to echo in the response.
        id: Id,
        /// The method's name.
        method: Box<str>,
        /// An object or array, if given.
        params: Option<Json>,
    },
    /// A notification, which expects no response.
    Notification {
        /// The method's name.
        method: Box<str>,
        /// An object or array, if given.
        params: Option<Json>,
    },
    /// A successful response.
    Result {
        /// The id of the request.
        id: Id,
        /// The result of the method.
        result: Json,
    },
    /// An error response.
    Error {
        /// The id of the request, unless the peer could not read it.
        id: Option<Id>,
        /// The error of the peer.
        error: RpcError,
    },
}

/// The error of a response, as the peer wrote it.
///
/// Complete: JSON-RPC gives an error these members, and no revision of the protocol adds one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    /// The error code; see [`super::code`].
    pub code: i64,
    /// The message. Untrusted.
    pub message: String,
    /// Any further data. Untrusted.
    pub data: Option<Json>,
}

impl RpcError {
    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

impl std::error::Error for RpcError {}

/// Shows at most [`MAX_SHOWN_CHARS`] characters of the message.
impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", ShortenedText(&self.message), self.code)
    }
}

/// Shows the beginning of untrusted text, which may be as long as a message: what is shown ends up
/// in logs, and in the messages of further errors.
#[derive(Clone, Copy, Debug)]
pub struct ShortenedText<'a>(pub &'a str);

/// Number of characters that [`ShortenedText`] shows.
pub const MAX_SHOWN_CHARS: usize = 2_000;

impl fmt::Display for ShortenedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(MAX_SHOWN_CHARS) {
            Some((end, _)) => write!(f, "{}…", &self.0[..end]),
            None => f.write_str(self.0),
        }
    }
}

/// Text that is not a JSON-RPC message, with the id of the call that it was probably meant for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedMessage {
    /// The id, if it could be read, so that its caller need not wait for the deadline. `None` if
    /// there is no `jsonrpc`: servers print log records to stdout that have an `id`, a `result` or
    /// an `error`. A request whose params are refused needs none.
    pub id: Option<Id>,
    /// What is wrong.
    pub defect: Defect,
}

/// The defect of a malformed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Defect {
    /// Invalid JSON, or not UTF-8.
    NotJson,
    /// Valid JSON, but no object, or an empty batch.
    NotAnObject,
    /// A member of the envelope, such as `id` or `result`, occurs twice.
    DuplicateMember,
    /// Both `result` and `error`.
    ResultAndError,
    /// None of `method`, `result` and `error`.
    NoShape,
    /// A result without an id, which matches no request.
    ResultWithoutId,
    /// A batch of more than 1,000 messages.
    TooMany,
    /// An `error` that is not an object with a numeric code.
    InvalidError,
    /// Members that JSON-RPC does not define, and no `jsonrpc`.
    LogRecord,
    /// A request whose id is `null`, or another value that is no id.
    InvalidId,
    /// A request or notification of a host with two members of one name, of which some servers read
    /// the first and others the last.
    RepeatedParam {
        /// The object that has them: `params`, or a path such as `params._meta`.
        object: &'static str,
        /// The name, if it is one that the protocol defines. The host chose any other.
        member: Option<&'static str>,
    },
    /// A request or notification of a host with a member whose name differs in case from one that the
    /// protocol defines, and which some servers read as that one.
    MiscasedParam {
        /// The object that has it: `params`, or a path such as `params._meta`.
        object: &'static str,
        /// The name that the protocol defines.
        member: &'static str,
    },
    /// A request or notification of a host with an object of more than 10,000 members in its params.
    TooManyParams {
        /// The object that has them: `params`, or a path such as `params._meta`.
        object: &'static str,
    },
    /// A message that was not read to its end, because it is longer than this many bytes.
    TooLong {
        /// The limit.
        limit: usize,
    },
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotJson => "not valid JSON",
            Self::NotAnObject => "not a JSON-RPC object",
            Self::DuplicateMember => "a member stands twice",
            Self::ResultAndError => "both a result and an error",
            Self::NoShape => "neither a request nor an answer",
            Self::ResultWithoutId => "a result without an id",
            Self::TooMany => "a batch of too many messages",
            Self::InvalidError => "an error object without a code",
            Self::LogRecord => "a log record, not a JSON-RPC message",
            Self::InvalidId => "the id is neither a string nor a number",
            Self::RepeatedParam { object, member: Some(member) } => {
                return write!(f, "the member {member} stands twice in {object}");
            }
            Self::RepeatedParam { object, member: None } => {
                return write!(f, "a member stands twice in {object}");
            }
            Self::MiscasedParam { object, member } => {
                return write!(f, "a member of {object} differs from {member} only in case");
            }
            Self::TooManyParams { object } => return write!(f, "there are too many members in {object}"),
            Self::TooLong { limit } => {
                return write!(f, "it is longer than the limit of {} KiB", limit.div_ceil(1024));
            }
        })
    }
}

impl std::error::Error for Defect {}

impl Defect {
    /// The error of the response to the malformed message. It repeats no text of the message.
    pub fn to_error(self) -> RpcError {
        match self {
            Self::RepeatedParam { .. } | Self::MiscasedParam { .. } | Self::TooManyParams { .. } => {
                RpcError::new(code::INVALID_PARAMS, format!("invalid params: {self}"))
            }
            Self::NotJson => RpcError::new(code::PARSE_ERROR, format!("the message cannot be used: {self}")),
            _ => RpcError::new(code::INVALID_REQUEST, format!("the message cannot be used: {self}")),
        }
    }
}

/// The result of parsing one message.
pub type ParseResult = Result<Message, MalformedMessage>;

/// Parses one frame and passes each message in it to `each`: one, or several if a server of
/// 2025-03-26 sent a batch.
// BM-01, HL-11
pub fn parse(frame: &Bytes, each: impl FnMut(ParseResult)) {
    parse_with(frame, Sender::Server, each);
}

/// Parses one frame of a host, as [`parse`] does. A request whose id is `null` is malformed: its host waits for a
/// response that a notification does not get. So is a request or notification whose params some servers read in
/// another way than they are read here: what is decided about them would not be about what the server does.
// BM-02
pub fn parse_from_host(frame: &Bytes, each: impl FnMut(ParseResult)) {
    parse_with(frame, Sender::Host, each);
}

/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// A server. A message with a method and an id that is none is a notification: some servers write
    /// `"id": null` in those.
    Server,
    /// A host. Such a message is malformed, and so is one with ambiguous params.
    Host,
}

fn parse_with(frame: &Bytes, sender: Sender, mut each: impl FnMut(ParseResult)) {
    if frame.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        let Ok(batch) = Json::parse(frame.clone()) else {
            return each(Err(MalformedMessage { id: None, defect: Defect::NotJson }));
        };
        let mut messages = scan::elements(batch.as_bytes()).into_iter().flatten().peekable();
        if messages.peek().is_none() {
            return each(Err(MalformedMessage { id: None, defect: Defect::NotAnObject }));
        }
        for message in messages.by_ref().take(MAX_BATCH_LEN) {
            each(parse_element(&batch.slice(message).into_bytes(), sender));
        }
        if messages.next().is_some() {
            each(Err(MalformedMessage { id: None, defect: Defect::TooMany }));
        }
    } else {
        each(parse_element(frame, sender));
    }
}

/// Maximum number of messages in a batch. A longer one is cut.
const MAX_BATCH_LEN: usize = 1_000;

/// Parses a frame that holds exactly one message; a batch is refused.
pub fn parse_one(frame: &Bytes) -> ParseResult {
    read_envelope(frame, Sender::Server).0
}

/// Parses one message of a stream on which several requests may wait for answers.
///
/// A log record on the same stream may also have an `id` and a `result` or an `error` object. An
/// object counts as a message if it has `jsonrpc`, or no members but those of JSON-RPC: some
/// servers leave `jsonrpc` out.
fn parse_element(frame: &Bytes, sender: Sender) -> ParseResult {
    match read_envelope(frame, sender) {
        (Ok(_), MemberSet::Foreign) => Err(MalformedMessage { id: None, defect: Defect::LogRecord }),
        (parsed, _) => parsed,
    }
}

/// Whether the members of an object are those of JSON-RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberSet {
    /// It has `jsonrpc`, or no members but those of the envelope.
    JsonRpc,
    /// It has other members, and no `jsonrpc`.
    Foreign,
}

fn read_envelope(frame: &Bytes, sender: Sender) -> (ParseResult, MemberSet) {
    let mut envelope = Envelope::default();
    let read = envelope.read(frame, sender);
    let members = match envelope {
        Envelope { has_jsonrpc: false, has_foreign_members: true, .. } => MemberSet::Foreign,
        _ => MemberSet::JsonRpc,
    };
    if envelope.has_refused_id(sender) && read.is_ok() {
        return (Err(MalformedMessage { id: None, defect: Defect::InvalidId }), members);
    }
    (classify_envelope(frame, envelope, read), members)
}

fn classify_envelope(frame: &Bytes, envelope: Envelope<'_>, read: Result<(), Defect>) -> ParseResult {
    let slice = |value: &[u8]| Json::slice_of(frame, value);
    let id = envelope.id.and_then(|value| Id::from_slice(frame, value));
    let bad = |id: Option<Id>, defect| Err(MalformedMessage { id, defect });
    if let Err(defect) = read {
        return bad(id_before_or_after_damage(frame, id), defect);
    }
    let says_jsonrpc = envelope.has_jsonrpc;
    let bad = |id: Option<Id>, defect| bad(id.filter(|_| says_jsonrpc), defect);
    if let Some(method) = envelope.method {
        if let Some(defect) = envelope.params_check.defect(&method) {
            return Err(MalformedMessage { id, defect });
        }
        let params = non_null(envelope.params).map(slice);
        return Ok(match id {
            Some(id) => Message::Request { id, method, params },
            None => Message::Notification { method, params },
        });
    }
    match (envelope.result, non_null(envelope.error)) {
        (Some(result), Some(_)) if result != b"null" => bad(id, Defect::ResultAndError),
        (_, Some(error)) => match read_error(frame, error) {
            Some(error) => Ok(Message::Error { id, error }),
            None => bad(id, Defect::InvalidError),
        },
        (Some(result), None) => match id {
            Some(id) => Ok(Message::Result { id, result: slice(result) }),
            None => bad(None, Defect::ResultWithoutId),
        },
        (None, None) => bad(id, Defect::NoShape),
    }
}

/// Finds the id of a damaged message: `read`, which was found before the damage, else one after it,
/// where some servers write it.
///
/// A value found after the damage may be nonsense, but then it is most unlikely to be the id of a
/// pending call. `None` unless `jsonrpc` occurs before or after the damage.
fn id_before_or_after_damage(frame: &Bytes, read: Option<Id>) -> Option<Id> {
    let (mut id, mut says_jsonrpc) = (read, false);
    let mut cursor = scan::Cursor::new(frame);
    cursor.enter(b'{');
    while let Some(name) = cursor.name().and_then(scan::unquote_lossy) {
        // The damage may have cut off the value, so only its first byte is checked.
        says_jsonrpc |= name == "jsonrpc" && cursor.peek() == Some(b'"');
        let Some(value) = cursor.value() else { break };
        if name == "id" && id.is_none() {
            id = Json::parse(frame.slice_ref(value)).ok().and_then(Id::from_json);
        }
    }
    id.filter(|_| says_jsonrpc)
}

/// Treats `null` as absent, since some serializers write `"params": null` and `"error": null`.
fn non_null(value: Option<&[u8]>) -> Option<&[u8]> {
    value.filter(|value| value != b"null")
}

fn read_error(frame: &Bytes, value: &[u8]) -> Option<RpcError> {
    #[derive(Deserialize)]
    struct Shape<'a> {
        // Some servers write the code as `-32000.0`.
        code: serde_json::Number,
        #[serde(borrow)]
        message: Option<&'a RawValue>,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    let shape: Shape<'_> = serde_json::from_slice(value).ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "codes are small; a huge one has no meaning")]
    let code = shape.code.as_i64().or_else(|| shape.code.as_f64().map(|code| code as i64))?;
    let message = shape.message.map_or_else(String::new, |raw| {
        serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
    });
    Some(RpcError { code, message, data: shape.data.map(|raw| Json::slice_of(frame, raw.get().as_bytes())) })
}

/// The members read so far. They survive a failed parse, so an id read before the damage is known.
#[derive(Default)]
struct Envelope<'a> {
    id: Option<&'a [u8]>,
    method: Option<Box<str>>,
    params: Option<&'a [u8]>,
    /// What was found in the params of a host.
    params_check: ParamsCheck,
    result: Option<&'a [u8]>,
    error: Option<&'a [u8]>,
    /// Whether there is a `jsonrpc` string.
    has_jsonrpc: bool,
    /// Whether there is a member that JSON-RPC does not define.
    has_foreign_members: bool,
}

impl<'a> Envelope<'a> {
    /// Whether it is a request with an id that is none, and such ids are refused.
    fn has_refused_id(&self, sender: Sender) -> bool {
        let is_id = |id: &[u8]| matches!(id, [b'"' | b'-' | b'0'..=b'9', ..]);
        sender == Sender::Host && self.method.is_some() && self.id.is_some_and(|id| !is_id(id))
    }

    /// Reads the members up to the first defect, or all of them. Every byte is validated.
    fn read(&mut self, frame: &'a [u8], sender: Sender) -> Result<(), Defect> {
        let mut text = Validator::new(frame);
        if !text.skip(b'{') {
            return Err(text.value().map_or(Defect::NotJson, |_| Defect::NotAnObject));
        }
        if !text.skip(b'}') {
            loop {
                let had_id = self.id.is_some();
                self.read_member(&mut text, sender)?;
                let is_id = !had_id && self.id.is_some();
                if text.skip(b'}') {
                    break;
                }
                if !text.skip(b',') {
                    // What follows the last value may be a part of it, as in `0001`.
                    if is_id {
                        self.id = None;
                    }
                    return Err(Defect::NotJson);
                }
            }
        }
        if text.is_at_end() { Ok(()) } else { Err(Defect::NotJson) }
    }

    fn read_member(&mut self, text: &mut Validator<'a>, sender: Sender) -> Result<(), Defect> {
        let name = text.name().and_then(scan::unquote).ok_or(Defect::NotJson)?;
        let slot = match &*name {
            "id" => &mut self.id,
            "params" => &mut self.params,
            "result" => &mut self.result,
            "error" => &mut self.error,
            "method" => return self.read_method(text),
            // Some servers leave `jsonrpc` out of their responses, so a valid message may lack it.
            "jsonrpc" => {
                self.has_jsonrpc |= text.utf8_value().ok_or(Defect::NotJson)?.starts_with(b"\"");
                return Ok(());
            }
            _ => {
                self.has_foreign_members = true;
                return text.value().map(drop).ok_or(Defect::NotJson);
            }
        };
        let value = if &*name == "params" && sender == Sender::Host {
            text.utf8_value_read_by(|text| self.params_check.read(text))
        } else {
            text.utf8_value()
        };
        let value = value.ok_or(Defect::NotJson)?;
        if slot.is_some() {
            return Err(Defect::DuplicateMember);
        }
        *slot = Some(value);
        Ok(())
    }

    fn read_method(&mut self, text: &mut Validator<'a>) -> Result<(), Defect> {
        let method = match text.utf8_value().ok_or(Defect::NotJson)? {
            b"null" => return Ok(()),
            quoted @ [b'"', ..] => scan::unquote(quoted).ok_or(Defect::NotJson)?,
            _ => return Err(Defect::NotAnObject),
        };
        if self.method.replace(method.into()).is_some() {
            return Err(Defect::DuplicateMember);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
