//! The benchmark server's responses in either protocol era, as bytes that need no copying.

use std::collections::HashMap;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::tools::{ToolList, tools};

/// The newest revision with a handshake (legacy era).
pub(crate) const LEGACY_REVISION: &str = "2025-11-25";
/// The revision without a handshake (modern era).
const MODERN_REVISION: &str = "2026-07-28";
/// The largest result that is served; this benchmark asks for less.
const MAX_PAYLOAD_BYTES: usize = 16 * 1024 * 1024;

/// A line of a result, with characters to unescape, like real results.
const PAYLOAD_LINE: &str =
    "An ordinary line of a result, with \"two words\" in quotes and a break at its very end.\n";

/// Builds responses from bodies that are prepared once.
pub(super) struct Responder {
    initialize: Bytes,
    discover: Bytes,
    empty: Bytes,
    small: EraBodies,
    medium: EraBodies,
    hundred: EraBodies,
    large: EraBodies,
    payloads: Mutex<HashMap<usize, EraBodies>>,
}

/// One result in the form of each era.
#[derive(Clone)]
struct EraBodies {
    legacy: Bytes,
    modern: Bytes,
}

/// What to send for a message.
pub(super) enum ServerReply {
    /// Nothing: the message was a notification or a response.
    Nothing,
    /// A response whose head holds the id and whose tail is shared between calls.
    Message { head: Bytes, tail: Bytes, kind: RequestKind },
}

/// The kind of request, as far as the transport must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// It opens a session.
    Initialize,
    /// It belongs to a session.
    Legacy,
    /// It needs no session.
    Modern,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<&'a str>,
    #[serde(default)]
    params: Params,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Params {
    arguments: Arguments,
    #[serde(rename = "_meta")]
    meta: Meta,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Arguments {
    bytes: usize,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    revision: Option<serde::de::IgnoredAny>,
}

// === impl Answers ===

impl Responder {
    pub(super) fn new() -> Self {
        let info = json!({ "name": "bowline-bench", "version": env!("CARGO_PKG_VERSION") });
        let list = |catalog| EraBodies::new(json!({ "tools": tools(catalog) }));
        Self {
            initialize: serialize_tail(&json!({
                "protocolVersion": LEGACY_REVISION,
                "capabilities": { "tools": {} },
                "serverInfo": info,
            })),
            discover: serialize_tail(&json!({
                "resultType": "complete",
                "supportedVersions": [MODERN_REVISION],
                "capabilities": { "tools": {} },
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": { "io.modelcontextprotocol/serverInfo": info },
            })),
            empty: serialize_tail(&json!({})),
            small: list(ToolList::Small),
            medium: list(ToolList::Medium),
            hundred: list(ToolList::Hundred),
            large: list(ToolList::Large),
            payloads: Mutex::default(),
        }
    }

    /// Returns the response to one message.
    pub(super) fn respond(&self, message: &[u8], catalog: ToolList) -> anyhow::Result<ServerReply> {
        let request: Request<'_> = serde_json::from_slice(message).context("not a message")?;
        let (Some(id), Some(method)) = (request.id, request.method) else {
            return Ok(ServerReply::Nothing);
        };
        let modern = request.params.meta.revision.is_some();
        let kind = match method {
            "initialize" => RequestKind::Initialize,
            _ if modern => RequestKind::Modern,
            _ => RequestKind::Legacy,
        };
        let tail = match method {
            "initialize" => self.initialize.clone(),
            "server/discover" => self.discover.clone(),
            "ping" => self.empty.clone(),
            "tools/list" => match catalog {
                ToolList::Small => self.small.for_era(modern),
                ToolList::Medium => self.medium.for_era(modern),
                ToolList::Hundred => self.hundred.for_era(modern),
                ToolList::Large => self.large.for_era(modern),
            },
            "tools/call" => self.payload(request.params.arguments.bytes)?.for_era(modern),
            other => {
                let error = json!({ "code": -32601, "message": format!("no method {other}") });
                let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
                return Ok(ServerReply::Message { head: head.into(), tail: Bytes::new(), kind });
            }
        };
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
        Ok(ServerReply::Message { head: head.into(), tail, kind })
    }

    fn payload(&self, bytes: usize) -> anyhow::Result<EraBodies> {
        if bytes > MAX_PAYLOAD_BYTES {
            bail!("a payload of {bytes} bytes is too large");
        }
        let mut payloads = self.payloads.lock();
        let made = payloads.entry(bytes).or_insert_with(|| {
            let text: String = PAYLOAD_LINE.chars().cycle().take(bytes).collect();
            EraBodies::new(json!({ "content": [{ "type": "text", "text": text }] }))
        });
        Ok(made.clone())
    }
}

// === impl Eras ===

impl EraBodies {
    fn new(result: Value) -> Self {
        let legacy = serialize_tail(&result);
        let mut modern = result;
        if modern.get("tools").is_some() {
            // No caching: every list is to be fetched.
            modern["ttlMs"] = 0.into();
            modern["cacheScope"] = "private".into();
        }
        modern["resultType"] = "complete".into();
        Self { legacy, modern: serialize_tail(&modern) }
    }

    fn for_era(&self, modern: bool) -> Bytes {
        if modern { self.modern.clone() } else { self.legacy.clone() }
    }
}

/// Serializes a result and the brace that closes its message.
fn serialize_tail(result: &Value) -> Bytes {
    format!("{result}}}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(message: &Value) -> (Value, RequestKind) {
        let answer = Responder::new()
            .respond(message.to_string().as_bytes(), ToolList::Small)
            .expect("a well-formed message");
        let ServerReply::Message { head, tail, kind } = answer else { panic!("no answer to {message}") };
        let whole = [head, tail].concat();
        (serde_json::from_slice(&whole).expect("JSON"), kind)
    }

    #[test]
    fn a_payload_has_the_length_asked_for_and_the_id_it_came_with() {
        let call = json!({
            "jsonrpc": "2.0", "id": "a\"b", "method": "tools/call",
            "params": { "name": "payload", "arguments": { "bytes": 1000 } },
        });
        let (answer, kind) = ask(&call);
        assert_eq!(kind, RequestKind::Legacy);
        assert_eq!(answer["id"], "a\"b");
        let text = answer["result"]["content"][0]["text"].as_str().expect("a text");
        assert_eq!(text.len(), 1000);
        assert!(answer["result"].get("resultType").is_none());
    }

    #[test]
    fn the_largest_result_fits_the_smallest_limit_among_the_clients() {
        let bytes = crate::scenario::Size::Large.bytes();
        let made = Responder::new().payload(bytes).expect("within bounds");
        assert!((bytes..1024 * 1024 - 1024).contains(&made.modern.len()), "{}", made.modern.len());
    }

    #[test]
    fn a_request_with_a_revision_is_answered_in_the_modern_shape() {
        let list = json!({
            "jsonrpc": "2.0", "id": 7, "method": "tools/list",
            "params": { "_meta": { "io.modelcontextprotocol/protocolVersion": MODERN_REVISION } },
        });
        let (answer, kind) = ask(&list);
        assert_eq!(kind, RequestKind::Modern);
        assert_eq!(answer["result"]["resultType"], "complete");
        assert_eq!(answer["result"]["ttlMs"], 0);
    }

    #[test]
    fn notifications_get_no_answer() {
        let note = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let answer = Responder::new().respond(note, ToolList::Small).expect("well-formed");
        assert!(matches!(answer, ServerReply::Nothing));
    }

    #[test]
    fn unknown_methods_are_refused() {
        let (answer, _) = ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": "nope" }));
        assert_eq!(answer["error"]["code"], -32601);
    }
}
