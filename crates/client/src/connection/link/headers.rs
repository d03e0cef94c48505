//! Decides which MCP headers a request carries (groups HL and HM).

use bowline_proto::revision::{Era, Revision};
use bowline_proto::wire::{Json, mirror};
use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The headers that all requests of a connection share once the revision is agreed.
pub(crate) fn base(revision: Revision, session: Option<&HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    // HL-01: 2025-03-26 has no such header, and servers of that age may refuse it.
    if revision.has_version_header() {
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
    }
    // HL-02, DE-12: never on a modern connection.
    if let Some(session) = session.filter(|_| revision.era() == Era::Legacy) {
        let mut session = session.clone();
        session.set_sensitive(true);
        headers.insert(SESSION_ID, session);
    }
    headers
}

/// The headers of a modern request (HM-01 to HM-03).
pub(crate) fn modern(mut headers: HeaderMap, method: &str, params: Option<&Json>) -> HeaderMap {
    insert(&mut headers, METHOD, method);
    let name = mirror::name_param(method).and_then(|member| params?.member(member));
    if let Some(name) = name.and_then(|name| name.decode::<String>().ok()) {
        insert(&mut headers, NAME, &mirror::encode_value(&name));
    }
    headers
}

/// Adds a header, unless its value is not valid.
pub(crate) fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    // Values are encoded or are method names. Whatever still is no valid header value (a method
    // that a caller made up) is left out.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
