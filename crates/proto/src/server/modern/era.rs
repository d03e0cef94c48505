//! [`message_era`]: whether a message of a host is for the modern half or for the legacy half.

use crate::revision::{Era, Revision};
use crate::wire::{Json, Message, meta, method};

/// The era of one message. `version_header` is the value of `MCP-Protocol-Version`, on HTTP.
///
/// A message is modern if its `_meta` has a key that every modern request must have, if it is
/// `server/discover`, or if the header names a modern revision. It is legacy otherwise, and so are
/// all responses, since a modern host has nothing to respond to. `initialize` is legacy whatever
/// the header says: a host that falls back to the handshake may repeat the header of its probe.
///
/// A cancellation on a pipe is not marked, and counts as legacy. The caller looks for its request
/// among those of both halves.
// GW-10, DE-12
pub fn message_era(message: &Message, version_header: Option<&str>) -> Era {
    let (method, params) = match message {
        Message::Request { method, params, .. } | Message::Notification { method, params } => {
            (&**method, params.as_ref())
        }
        Message::Result { .. } | Message::Error { .. } => return Era::Legacy,
    };
    let is_modern = match method {
        method::DISCOVER => true,
        method::INITIALIZE => has_modern_meta(params),
        _ => has_modern_meta(params) || names_modern_revision(version_header),
    };
    if is_modern { Era::Modern } else { Era::Legacy }
}

/// Whether `_meta` has a key that every modern request must have, whatever its value. One of the
/// two is enough: a request without the other is an invalid modern request, not a legacy one.
fn has_modern_meta(params: Option<&Json>) -> bool {
    let meta = params.and_then(|params| params.member("_meta"));
    meta.is_some_and(|meta| {
        meta.members_named([meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES]).iter().any(Option::is_some)
    })
}

/// Whether the value of `MCP-Protocol-Version` names a modern revision.
pub fn names_modern_revision(header: Option<&str>) -> bool {
    let revision = header.and_then(|header| Revision::parse(header.trim_matches([' ', '\t'])));
    revision.is_some_and(|revision| revision.era() == Era::Modern)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::parse_one;

    const MODERN: &str = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;

    fn era(message: &str, header: Option<&str>) -> Era {
        message_era(&parse_one(&message.to_owned().into()).unwrap(), header)
    }

    fn request(method: &str, params: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
    }

    // GW-10: both kinds of host on one endpoint.
    #[test]
    fn requests_are_told_apart_by_meta_method_and_header() {
        for (method, params, header, expected) in [
            ("tools/list", MODERN, None, Era::Modern),
            ("tools/list", MODERN, Some("2025-11-25"), Era::Modern),
            ("tools/list", "{}", None, Era::Legacy),
            ("tools/list", "{}", Some("2025-11-25"), Era::Legacy),
            ("tools/list", "{}", Some("2026-07-28"), Era::Modern),
            ("tools/list", "{}", Some(" 2026-07-28\t"), Era::Modern),
            ("tools/list", "{}", Some("2027-01-01"), Era::Legacy),
            ("tools/list", r#"{"_meta":{"progressToken":1}}"#, None, Era::Legacy),
            ("tools/list", r#"{"_meta":7}"#, None, Era::Legacy),
            // GW-02: a modern request that lacks its revision.
            (
                "tools/list",
                r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}"#,
                None,
                Era::Modern,
            ),
            (
                "tools/list",
                r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":null}}"#,
                None,
                Era::Modern,
            ),
            ("server/discover", "{}", None, Era::Modern),
            ("initialize", r#"{"protocolVersion":"2025-11-25"}"#, None, Era::Legacy),
            ("initialize", r#"{"protocolVersion":"2025-11-25"}"#, Some("2026-07-28"), Era::Legacy),
            ("initialize", MODERN, None, Era::Modern),
        ] {
            assert_eq!(era(&request(method, params), header), expected, "{method} {params} {header:?}");
        }
    }

    #[test]
    fn responses_are_legacy_and_notifications_follow_their_marks() {
        // BM-06
        assert_eq!(era(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Some("2026-07-28")), Era::Legacy);
        let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#;
        assert_eq!(era(error, None), Era::Legacy);
        let canceled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!(era(canceled, None), Era::Legacy);
        assert_eq!(era(canceled, Some("2026-07-28")), Era::Modern);
    }
}
