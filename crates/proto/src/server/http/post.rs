//! Where the messages of a POST belong, and whether its headers fit.

use std::fmt;

use crate::revision::{Era, Revision};
use crate::server::modern::era::message_era;
use crate::wire::{Id, MalformedMessage, Message, ParseResult, method};

/// Where the messages of a POST belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostRoute {
    /// They begin a session.
    BeginSession,
    /// They belong to the session that the headers name.
    InSession,
    /// It is one message of a host of 2026-07-28, which has no session.
    Stateless,
}

/// What is known of a POST besides its messages.
#[derive(Clone, Copy, Debug)]
pub struct PostHead<'a> {
    /// Whether its headers name a session.
    pub names_session: bool,
    /// The value of its `MCP-Protocol-Version`.
    pub version: Option<&'a str>,
    /// Whether its messages came in an array.
    pub is_batch: bool,
    /// Whether hosts of 2026-07-28 are served.
    pub serves_modern: bool,
}

/// Why a POST is refused whatever the state of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostRefusal {
    /// Its body is no message.
    Malformed(MalformedMessage),
    /// It names no session, and does not begin one.
    MissingSession,
    /// It begins a session in a batch.
    InitializeInBatch,
    /// It has a message of 2026-07-28 in a batch, which that revision does not have.
    ModernBatch,
}

/// Why the `MCP-Protocol-Version` of a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionRefusal {
    /// No such revision is spoken here.
    Unsupported,
    /// The session agreed on another revision.
    NotNegotiated,
}

impl PostRefusal {
    /// The id of the request that is refused, if it could be read.
    pub fn id(&self) -> Option<&Id> {
        match self {
            Self::Malformed(malformed) => malformed.id.as_ref(),
            Self::MissingSession | Self::InitializeInBatch | Self::ModernBatch => None,
        }
    }
}

impl fmt::Display for PostRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => f.write_str(&malformed.defect.to_error().message),
            Self::MissingSession => f.write_str("the MCP-Session-Id header is missing"),
            Self::InitializeInBatch => f.write_str("initialize must not be part of a batch"),
            Self::ModernBatch => f.write_str("revision 2026-07-28 has no batches"),
        }
    }
}

impl std::error::Error for PostRefusal {}

impl fmt::Display for VersionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsupported => "this MCP-Protocol-Version is not supported",
            Self::NotNegotiated => "the session agreed on another MCP-Protocol-Version",
        })
    }
}

impl std::error::Error for VersionRefusal {}

/// Decides where the messages of a POST belong. This is the only place that does, so that hosts of
/// both eras on the same endpoint are told apart in one place.
// GW-10, BM-01, HL-02
pub fn classify_post(messages: &[ParseResult], head: PostHead<'_>) -> Result<PostRoute, PostRefusal> {
    if let [Err(malformed)] = messages {
        return Err(PostRefusal::Malformed(malformed.clone()));
    }
    let is_modern = |message: &ParseResult| {
        message.as_ref().is_ok_and(|message| message_era(message, head.version) == Era::Modern)
    };
    if head.serves_modern && messages.iter().any(is_modern) {
        return if head.is_batch { Err(PostRefusal::ModernBatch) } else { Ok(PostRoute::Stateless) };
    }
    let begins_session = messages.iter().any(is_initialize);
    match (begins_session, head.names_session) {
        (true, _) if messages.len() > 1 => Err(PostRefusal::InitializeInBatch),
        // A host that begins another session in one that it has is told so by that session.
        (_, true) => Ok(PostRoute::InSession),
        (true, false) => Ok(PostRoute::BeginSession),
        (false, false) => Err(PostRefusal::MissingSession),
    }
}

/// Whether a message of a host is answered.
pub fn expects_response(message: &ParseResult) -> bool {
    match message {
        Ok(message) => matches!(message, Message::Request { .. }),
        Err(malformed) => malformed.id.is_some(),
    }
}

/// Checks the `MCP-Protocol-Version` of a request, in a session that agreed on `negotiated` if it
/// has got that far. Hosts of 2025-03-26 and before send none.
// HL-01
pub fn check_version(header: Option<&str>, negotiated: Option<Revision>) -> Result<(), VersionRefusal> {
    let Some(header) = header else { return Ok(()) };
    let revision = Revision::parse(header).filter(|revision| revision.era() == Era::Legacy);
    let revision = revision.ok_or(VersionRefusal::Unsupported)?;
    match negotiated {
        Some(negotiated) if negotiated != revision => Err(VersionRefusal::NotNegotiated),
        _ => Ok(()),
    }
}

/// Checks the `MCP-Protocol-Version` of a request that begins a session. A host that falls back from
/// 2026-07-28 to the handshake may repeat the header of its probe.
// DE-12
pub fn check_initialize_version(header: Option<&str>) -> Result<(), VersionRefusal> {
    match header.map(Revision::parse) {
        None | Some(Some(_)) => Ok(()),
        Some(None) => Err(VersionRefusal::Unsupported),
    }
}

fn is_initialize(message: &ParseResult) -> bool {
    matches!(message, Ok(Message::Request { method, .. }) if **method == *method::INITIALIZE)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::{Defect, parse, parse_from_host};

    fn messages(body: &'static str) -> Vec<ParseResult> {
        let mut messages = Vec::new();
        parse(&Bytes::from_static(body.as_bytes()), |message| messages.push(message));
        messages
    }

    fn classify(body: &'static str, names_session: bool) -> Result<PostRoute, PostRefusal> {
        let is_batch = body.starts_with('[');
        let head = PostHead { names_session, version: None, is_batch, serves_modern: false };
        classify_post(&messages(body), head)
    }

    #[test]
    fn gw_10_modern_posts_have_no_session() {
        let modern = r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let plain = r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#;
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#;
        let response = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let header = Some("2026-07-28");
        for (body, version, names_session, route) in [
            (modern, None, false, Ok(PostRoute::Stateless)),
            (modern, header, true, Ok(PostRoute::Stateless)),
            (plain, header, false, Ok(PostRoute::Stateless)),
            (plain, header, true, Ok(PostRoute::Stateless)),
            (plain, None, true, Ok(PostRoute::InSession)),
            (initialize, header, false, Ok(PostRoute::BeginSession)),
            (response, header, false, Err(PostRefusal::MissingSession)),
        ] {
            let head = PostHead { names_session, version, is_batch: false, serves_modern: true };
            assert_eq!(classify_post(&messages(body), head), route, "{body} {version:?}");
            let head = PostHead { is_batch: true, ..head };
            let is_modern = route == Ok(PostRoute::Stateless);
            let route = if is_modern { Err(PostRefusal::ModernBatch) } else { route };
            assert_eq!(classify_post(&messages(body), head), route, "in a batch: {body}");
        }
        // Where only hosts with sessions are served, there are no other rules.
        let head = PostHead { names_session: false, version: header, is_batch: false, serves_modern: false };
        assert_eq!(classify_post(&messages(modern), head), Err(PostRefusal::MissingSession));
    }

    #[test]
    fn gw_10_posts_are_told_apart() {
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#;
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let batch =
            r#"[{"jsonrpc":"2.0","id":1,"method":"initialize"},{"jsonrpc":"2.0","id":2,"method":"x"}]"#;
        for (body, names_session, route) in [
            (initialize, false, Ok(PostRoute::BeginSession)),
            (initialize, true, Ok(PostRoute::InSession)),
            (list, true, Ok(PostRoute::InSession)),
            (list, false, Err(PostRefusal::MissingSession)),
            (batch, false, Err(PostRefusal::InitializeInBatch)),
            (batch, true, Err(PostRefusal::InitializeInBatch)),
        ] {
            assert_eq!(classify(body, names_session), route, "{body}");
        }
        for (body, defect) in [("", Defect::NotJson), ("7", Defect::NotAnObject), ("[]", Defect::NotAnObject)]
        {
            let refusal = classify(body, true).unwrap_err();
            assert_eq!(refusal, PostRefusal::Malformed(MalformedMessage { id: None, defect }));
        }
        let cut = classify(r#"{"jsonrpc":"2.0","id":7,"method":"x","#, true).unwrap_err();
        assert_eq!(cut.id(), Some(&Id::Int(7)));
    }

    #[test]
    fn ambiguous_params_are_refused_with_the_id_of_their_request() {
        let body = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","Name":"b"}}"#;
        for (version, names_session) in [(None, true), (None, false), (Some("2026-07-28"), false)] {
            let mut messages = Vec::new();
            parse_from_host(&Bytes::from(body), |message| messages.push(message));
            let head = PostHead { names_session, version, is_batch: false, serves_modern: true };
            let refusal = classify_post(&messages, head).unwrap_err();
            assert_eq!(refusal.id(), Some(&Id::Int(7)));
            let expected = "invalid params: a member of params differs from name only in case";
            assert_eq!(refusal.to_string(), expected);
        }
    }

    #[test]
    fn requests_and_readable_ids_are_answered() {
        for (body, is_answered) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#, true),
            (r#"{"jsonrpc":"2.0","method":"x"}"#, false),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, false),
            (r#"{"jsonrpc":"2.0","id":1}"#, true),
            ("{", false),
        ] {
            assert_eq!(expects_response(&messages(body)[0]), is_answered, "{body}");
        }
    }

    #[test]
    fn hl_01_version_headers_must_fit_the_session() {
        let agreed = Some(Revision::V2025_06_18);
        for (header, negotiated, verdict) in [
            (None, agreed, Ok(())),
            (None, None, Ok(())),
            (Some("2025-06-18"), agreed, Ok(())),
            (Some("2025-03-26"), None, Ok(())),
            (Some("2025-11-25"), agreed, Err(VersionRefusal::NotNegotiated)),
            (Some("2026-07-28"), None, Err(VersionRefusal::Unsupported)),
            (Some("1900-01-01"), agreed, Err(VersionRefusal::Unsupported)),
            (Some(""), None, Err(VersionRefusal::Unsupported)),
        ] {
            assert_eq!(check_version(header, negotiated), verdict, "{header:?}");
        }
        // DE-12
        for (header, verdict) in [
            (None, Ok(())),
            (Some("2025-06-18"), Ok(())),
            (Some("2026-07-28"), Ok(())),
            (Some("1900-01-01"), Err(VersionRefusal::Unsupported)),
        ] {
            assert_eq!(check_initialize_version(header), verdict, "{header:?}");
        }
    }
}
