//! Writes requests, notifications and responses.
//!
//! Each message is written once, into one buffer that ends in a newline: pipes send it whole, HTTP
//! sends it without its last byte.

use std::fmt;

use std::fmt::Write as _;

use bytes::{BufMut, Bytes, BytesMut};
use memchr::{memchr2, memmem};
use serde::Serialize;

pub use super::object::NotAnObject;
use super::object::{Edit, put_quoted, quote};
use super::{Id, Json, RpcError, meta};

/// One message, ready to be sent. Clones share the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame(Bytes);

impl Frame {
    /// A line that is passed on as it was received. Line ends in it become blanks, which they are in JSON.
    pub fn from_line(line: &[u8]) -> Self {
        let mut out = BytesMut::with_capacity(line.len() + 1);
        out.put_slice(line);
        finish_frame(out)
    }

    /// The message with its newline.
    pub fn line(&self) -> Bytes {
        self.0.clone()
    }

    /// The message without its newline.
    pub fn body(&self) -> Bytes {
        self.0.slice(..self.0.len() - 1)
    }
}

/// The members of a request's `_meta`, without the progress token.
///
/// They are rendered once per connection, since a modern server requires them on every request.
// LC-08, LC-09
#[derive(Clone, Debug, Default)]
pub struct RequestMeta(Vec<(&'static str, Json)>, String);

impl RequestMeta {
    /// Creates an empty `_meta` for the legacy era, which must not carry modern keys.
    // DE-12
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates a `_meta` with these members, in this order.
    pub fn new(members: Vec<(&'static str, Json)>) -> Self {
        let text: Vec<_> = members.iter().map(|(name, value)| format!("{}:{value}", quote(name))).collect();
        Self(members, text.join(","))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether a request asks for progress notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressMode {
    // PR-01
    /// It does, with its own id as the token, which is unique on the connection.
    Wanted,
    /// It does not.
    Unwanted,
}

/// Writes a request. `params` must be an object if given.
pub fn request(
    id: u64,
    method: &str,
    params: Option<&Json>,
    meta: &RequestMeta,
    progress: ProgressMode,
) -> Result<Frame, NotAnObject> {
    if params.is_some_and(|params| !params.is_object()) {
        return Err(NotAnObject);
    }
    let bare = meta.is_empty() && progress == ProgressMode::Unwanted;
    // Most callers bring no `_meta`: then ours is put in front and the rest is copied unchanged. A
    // name that is spelled with escapes would occur twice, which is the caller's mistake.
    let brought = params.filter(|params| !bare && memmem::find(params.as_bytes(), b"\"_meta\"").is_some());
    let merged = brought.map(|params| merge_meta(id, params, meta, progress)).transpose()?.flatten();
    let length = params.map_or(0, |params| params.as_bytes().len());
    let mut out = BytesMut::with_capacity(128 + method.len() + meta.1.len() + length);
    out.put_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    put_int(&mut out, id);
    put_method(&mut out, method);
    match (merged.as_ref().or(params), bare || merged.is_some()) {
        (None, true) => {}
        (Some(params), true) => put_params(&mut out, params.as_bytes()),
        (params, false) => {
            out.put_slice(b",\"params\":");
            put_with_meta(&mut out, id, params.map_or(b"{}", Json::as_bytes), meta, progress);
        }
    }
    out.put_u8(b'}');
    Ok(finish_frame(out))
}

/// Writes the params of `tools/call` into one buffer. Arguments that serialize to `null` become
/// `{}`.
pub fn call_params<A: Serialize + ?Sized>(name: &str, arguments: &A) -> Result<Json, InvalidArguments> {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(b"{\"name\":");
    put_quoted(&mut out, name);
    out.extend_from_slice(b",\"arguments\":");
    let start = out.len();
    serde_json::to_writer(&mut out, arguments)?;
    match &out[start..] {
        [b'{', ..] => {}
        b"null" => {
            out.truncate(start);
            out.extend_from_slice(b"{}");
        }
        _ => return Err(InvalidArguments::NotAnObject),
    }
    out.push(b'}');
    Ok(Json::from_trusted(out.into()))
}

/// Why arguments cannot be sent to a tool.
#[derive(Debug)]
pub enum InvalidArguments {
    /// They do not serialize to an object.
    NotAnObject,
    /// They do not serialize.
    Serialize(serde_json::Error),
}

impl fmt::Display for InvalidArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAnObject => "arguments must be an object",
            Self::Serialize(error) => return error.fmt(f),
        })
    }
}

impl std::error::Error for InvalidArguments {}

impl From<serde_json::Error> for InvalidArguments {
    fn from(error: serde_json::Error) -> Self {
        Self::Serialize(error)
    }
}

/// Writes a notification. `params` must be an object if given.
pub fn notification(method: &str, params: Option<&Json>) -> Frame {
    let mut out =
        BytesMut::with_capacity(64 + method.len() + params.map_or(0, |params| params.as_bytes().len()));
    out.put_slice(b"{\"jsonrpc\":\"2.0\"");
    put_method(&mut out, method);
    if let Some(params) = params {
        put_params(&mut out, params.as_bytes());
    }
    out.put_u8(b'}');
    finish_frame(out)
}

/// Writes the response to a request of the peer.
pub fn response(id: &Id, outcome: Result<&Json, &RpcError>) -> Frame {
    let mut out = BytesMut::with_capacity(64 + outcome.map_or(0, |result| result.as_bytes().len()));
    out.put_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.put_slice(id.to_string().as_bytes());
    match outcome {
        Ok(result) => {
            out.put_slice(b",\"result\":");
            out.put_slice(result.as_bytes());
        }
        Err(error) => put_error(&mut out, error),
    }
    out.put_u8(b'}');
    finish_frame(out)
}

/// Reads the id of a response that [`response`] has written, without a look at its result. `None` if it is something
/// else, or if the text of the id has more than `max_length` bytes. The id keeps nothing of the message in memory.
pub fn response_id(message: &Bytes, max_length: usize) -> Option<Id> {
    let value = message.strip_prefix(b"{\"jsonrpc\":\"2.0\",\"id\":".as_slice())?;
    let length = match value {
        [b'"', text @ ..] => {
            let mut is_escaped = false;
            let end = text.iter().take(max_length).position(|byte| {
                let is_end = *byte == b'"' && !is_escaped;
                is_escaped = *byte == b'\\' && !is_escaped;
                is_end
            });
            end? + 2
        }
        _ => value.iter().take(max_length).position(|byte| *byte == b',')?,
    };
    let (id, rest) = value.split_at(length);
    let is_response = rest.starts_with(b",\"result\":") || rest.starts_with(b",\"error\":");
    let id = Bytes::copy_from_slice(id);
    Id::from_slice(&id, &id).filter(|_| is_response)
}

/// Writes the error response to a message whose id could not be read.
// BM-03
pub fn error_without_id(error: &RpcError) -> Frame {
    let mut out = BytesMut::with_capacity(64 + error.message.len());
    out.put_slice(b"{\"jsonrpc\":\"2.0\"");
    put_error(&mut out, error);
    out.put_u8(b'}');
    finish_frame(out)
}

fn put_error(out: &mut BytesMut, error: &RpcError) {
    out.put_slice(b",\"error\":{\"code\":");
    out.put_slice(error.code.to_string().as_bytes());
    out.put_slice(b",\"message\":");
    out.put_slice(quote(&error.message).as_bytes());
    if let Some(data) = &error.data {
        out.put_slice(b",\"data\":");
        out.put_slice(data.as_bytes());
    }
    out.put_u8(b'}');
}

/// Merges our `_meta` into that of the caller's params. `None` if they have none after all.
fn merge_meta(
    id: u64,
    params: &Json,
    meta: &RequestMeta,
    progress: ProgressMode,
) -> Result<Option<Json>, NotAnObject> {
    let Some(old) = params.member("_meta") else { return Ok(None) };
    let mut edit = Edit::new();
    for (name, value) in &meta.0 {
        edit = edit.set(name, value);
    }
    if progress == ProgressMode::Wanted {
        edit = edit.set_int(meta::PROGRESS_TOKEN, id);
    }
    let new = edit.apply(Some(&old))?;
    Edit::new().set("_meta", &new).apply(Some(params)).map(Some)
}

/// Writes `params`, an object without `_meta`, with our `_meta` in front.
fn put_with_meta(out: &mut BytesMut, id: u64, params: &[u8], meta: &RequestMeta, progress: ProgressMode) {
    out.put_slice(b"{\"_meta\":{");
    out.put_slice(meta.1.as_bytes());
    if progress == ProgressMode::Wanted {
        if !meta.is_empty() {
            out.put_u8(b',');
        }
        out.put_slice(b"\"progressToken\":");
        put_int(out, id);
    }
    out.put_u8(b'}');
    let rest = params[1..].trim_ascii_start();
    if rest != b"}" {
        out.put_u8(b',');
    }
    out.put_slice(rest);
}

fn put_method(out: &mut BytesMut, method: &str) {
    out.put_slice(b",\"method\":");
    put_quoted(out, method);
}

fn put_params(out: &mut BytesMut, params: &[u8]) {
    out.put_slice(b",\"params\":");
    out.put_slice(params);
}

fn put_int(out: &mut BytesMut, number: u64) {
    // Writing to a growable buffer cannot fail.
    let _ = write!(out, "{number}");
}

/// Ends the message with a newline. A raw newline inside would split it on a pipe (ST-01); in valid
/// JSON it can only be white space between tokens, so it is replaced by a space.
fn finish_frame(mut out: BytesMut) -> Frame {
    let mut from = 0;
    while let Some(at) = memchr2(b'\n', b'\r', &out[from..]) {
        out[from + at] = b' ';
        from += at + 1;
    }
    out.put_u8(b'\n');
    Frame(out.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(Bytes::from(text.to_owned())).unwrap()
    }

    fn text(frame: &Frame) -> String {
        String::from_utf8(frame.body().to_vec()).unwrap()
    }

    fn request_text(params: Option<&str>, meta: &RequestMeta, progress: ProgressMode) -> String {
        let params = params.map(json);
        text(&request(7, "tools/call", params.as_ref(), meta, progress).unwrap())
    }

    #[test]
    fn requests_with_and_without_params() {
        let none = RequestMeta::none();
        assert_eq!(
            request_text(None, &none, ProgressMode::Unwanted),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#
        );
        assert_eq!(
            request_text(Some(r#"{ "name":"x"}"#), &none, ProgressMode::Wanted),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":7},"name":"x"}}"#
        );
        assert_eq!(
            request_text(Some("{ }"), &none, ProgressMode::Wanted),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":7}}}"#
        );
        assert_eq!(request(7, "x", Some(&json("[1]")), &none, ProgressMode::Wanted), Err(NotAnObject));
        assert_eq!(
            request(7, "x", Some(&json(r#"{"_meta":1}"#)), &none, ProgressMode::Wanted),
            Err(NotAnObject)
        );
    }

    /// LC-08: both keys on every request, even one without params.
    #[test]
    fn lc_08_modern_meta_is_always_there() {
        let meta = RequestMeta::new(vec![
            (meta::PROTOCOL_VERSION, json("\"2026-07-28\"")),
            (meta::CLIENT_CAPABILITIES, json("{}")),
        ]);
        assert_eq!(
            request_text(None, &meta, ProgressMode::Unwanted),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#
        );
        // The caller's members are kept, ours take precedence, and the order is preserved.
        assert_eq!(
            request_text(
                Some(r#"{"_meta":{"traceparent":"00-a","progressToken":"mine"},"name":"_meta"}"#),
                &meta,
                ProgressMode::Wanted
            ),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"traceparent":"00-a","progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"name":"_meta"}}"#
        );
    }

    #[test]
    fn the_params_of_a_call() {
        let written = |arguments: &str| {
            let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap();
            call_params("a\"b", &arguments).map(|params| params.to_string())
        };
        assert_eq!(written(r#"{"x":[1]}"#).unwrap(), r#"{"name":"a\"b","arguments":{"x":[1]}}"#);
        // TL-01: missing arguments become an empty object.
        assert_eq!(written("null").unwrap(), r#"{"name":"a\"b","arguments":{}}"#);
        assert!(matches!(written("[1]"), Err(InvalidArguments::NotAnObject)));
        // A raw value is kept unchanged.
        let raw = call_params("t", &json(r#"{"n": 1.50}"#)).unwrap();
        assert_eq!(raw.as_str(), r#"{"name":"t","arguments":{"n": 1.50}}"#);
    }

    /// ST-01: one message, one line, whatever the arguments look like.
    #[test]
    fn st_01_no_raw_newline() {
        let params = json("{\n  \"text\": \"a\\nb\",\r\n  \"n\": 1\n}");
        let frame = request(1, "x", Some(&params), &RequestMeta::none(), ProgressMode::Wanted).unwrap();
        let line = frame.line();
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        assert!(text(&frame).contains(r#""a\nb""#));
    }

    #[test]
    fn answers_echo_the_id() {
        assert_eq!(
            text(&response(&Id::from_string("a"), Ok(&Json::empty_object()))),
            r#"{"jsonrpc":"2.0","id":"a","result":{}}"#
        );
        let error = RpcError { code: -32601, message: "no \"x\"".into(), data: Some(json("[1]")) };
        assert_eq!(
            text(&response(&Id::Int(3), Err(&error))),
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"no \"x\"","data":[1]}}"#
        );
        assert_eq!(
            text(&error_without_id(&error)),
            r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"no \"x\"","data":[1]}}"#
        );
        assert_eq!(
            text(&notification("notifications/initialized", None)),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#
        );
    }

    #[test]
    fn the_id_of_a_response_is_read_without_its_result() {
        let error = RpcError::new(-1, "no");
        for id in [Id::Int(-7), Id::from_string("a\"b,c\\"), Id::from_string(""), Id::Text(json("1.5"))] {
            let result = json(r#"{"x":[1]}"#);
            for outcome in [Ok(&result), Err(&error)] {
                assert_eq!(response_id(&response(&id, outcome).body(), 64), Some(id.clone()));
            }
        }
        let long = response(&Id::from_string(&"x".repeat(64)), Err(&error)).body();
        assert_eq!(response_id(&long, 64), None);
        let asked = request(1, "x", None, &RequestMeta::none(), ProgressMode::Unwanted).unwrap().body();
        for other in [asked, notification("n", None).body(), error_without_id(&error).body(), "{}".into()] {
            assert_eq!(response_id(&other, 64), None, "{other:?}");
        }
    }
}
