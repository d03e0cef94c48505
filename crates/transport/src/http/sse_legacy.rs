//! Opens HTTP+SSE, the transport of 2024-11-05: decides which stream is of that kind, and which
//! endpoint is accepted.
//!
//! All messages of the server arrive on one event stream, whose first event names the URL for our
//! messages. That URL contains the session, so it is kept out of everything that is shown.

use std::fmt;

use bowline_proto::fault::{Cause, Fault, Limit, Misbehavior};
use bytes::Bytes;
use http::HeaderMap;
use tokio::time::timeout;

use super::event_stream::EventStream;
use super::link::HttpLink;
use super::response::{HttpResponse, ResponseBody};
use super::target;

/// An open HTTP+SSE link.
///
/// # Behavior
///
/// - The stream is the session: when it ends, in whatever way, the session ends. Dropping `events`
///   ends it too.
/// - A 2xx response to a POST means that the message was accepted, whatever its body: servers send
///   nothing, `Accepted` with or without a media type, and now and then the JSON-RPC response
///   itself.
/// - A later event named `endpoint` stays in `events` like any other.
pub struct SseLegacy {
    /// Sends messages. It shares connections, cookies and configured headers with the link it was
    /// opened from.
    pub post: HttpLink,
    /// Receives everything: each event without a name is one message.
    pub events: EventStream,
}

/// Opens the event stream at `link` and waits for its `endpoint` event, both within
/// [`Limits::connect`].
///
/// `headers` are added to those that every request carries. No message is sent, so a [`Fault`]
/// always says that nothing was executed:
///
/// | cause | when |
/// |---|---|
/// | [`Status`](Cause::Status), [`LoginRequired`](Cause::LoginRequired) | the GET was refused |
/// | [`ContentType`](Misbehavior::ContentType) | it succeeded, but returned no event stream |
/// | [`Timeout`](Cause::Timeout) | no response, or no endpoint, in time |
/// | [`NoAnswer`](Misbehavior::NoAnswer) | the stream ended, or sent only other events, before the endpoint |
/// | [`ForeignEndpoint`](Misbehavior::ForeignEndpoint) | the endpoint has another origin, which is all that is shown of it |
/// | [`TooLarge`](Misbehavior::TooLarge), [`BadResult`](Misbehavior::BadResult) | the endpoint is not a usable URL |
///
/// Besides these, any fault that breaks the connection.
///
/// # Cancel safety
///
/// Dropping the future closes the stream.
///
/// [`Limits::connect`]: super::Limits::connect
pub async fn open_sse(link: &HttpLink, headers: &HeaderMap) -> Result<SseLegacy, Fault> {
    let mut awaited = "the request for the event stream was not answered";
    let opening = async {
        let mut events = expect_event_stream(link.get(headers).await?)?;
        awaited = "no endpoint event came on the stream";
        let endpoint = wait_for_endpoint(&mut events).await?;
        Ok(SseLegacy { post: resolve_endpoint(link, &endpoint)?, events })
    };
    let opened = timeout(link.limits().connect, opening).await;
    opened
        .unwrap_or_else(|_| Err(Fault::new(Cause::Timeout(Limit::Connect)).with_note(awaited)))
        .map_err(Fault::not_executed)
}

// === impl SseLegacy ===

impl fmt::Debug for SseLegacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A queued event may be another endpoint.
        f.debug_struct("SseLegacy").field("post", &self.post).finish_non_exhaustive()
    }
}

/// Returns the event stream of a response, or a fault if it is not one.
fn expect_event_stream(answer: HttpResponse) -> Result<EventStream, Fault> {
    let status = answer.status;
    if !(200..300).contains(&status) {
        return Err(answer.status_fault().not_executed());
    }
    let head = match answer.body {
        ResponseBody::Events(events) => return Ok(events),
        ResponseBody::Json(body) | ResponseBody::Other(body) => body,
        ResponseBody::Empty => Bytes::new(),
    };
    let note = format!("status {status}, but no event stream");
    Err(Fault::protocol(Misbehavior::ContentType).with_note(note).with_body(&head))
}

/// Waits for the endpoint event.
///
/// Other events before it are dropped: pings and unknown events mean nothing, and messages cannot
/// be answered yet. A server that sends too early is not worth losing.
async fn wait_for_endpoint(events: &mut EventStream) -> Result<Bytes, Fault> {
    for _ in 0..MAX_EVENTS_BEFORE_ENDPOINT {
        match events.next().await {
            Ok(Some(event)) if event.name.as_deref() == Some("endpoint") => return Ok(event.data),
            Ok(Some(_)) => {}
            Ok(None) => return Err(missing_endpoint("the stream ended before its endpoint event")),
            Err(mut fault) => {
                // An event over the limit may be the endpoint, and its beginning the session.
                fault.evidence.body = None;
                return Err(fault);
            }
        }
    }
    Err(missing_endpoint("the event stream does not begin with an endpoint"))
}

fn missing_endpoint(note: &str) -> Fault {
    Fault::protocol(Misbehavior::NoAnswer).with_note(note)
}

/// How many other events may precede the endpoint. A stream with more is of another kind.
const MAX_EVENTS_BEFORE_ENDPOINT: usize = 100;

/// Returns the link to the endpoint that the server named, which must be of its own origin.
///
/// It is resolved against the configured URL, even if that was redirected: servers that serve under
/// a second path mean the one their clients know.
fn resolve_endpoint(link: &HttpLink, endpoint: &[u8]) -> Result<HttpLink, Fault> {
    let unusable =
        |note: &str| Fault::protocol(Misbehavior::BadResult).with_note(format!("the endpoint {note}"));
    if endpoint.len() > MAX_ENDPOINT_BYTES {
        let fault = Fault::protocol(Misbehavior::TooLarge { limit: MAX_ENDPOINT_BYTES });
        return Err(fault.with_note("the endpoint event"));
    }
    let text = str::from_utf8(endpoint).map_err(|_| unusable("is not text"))?.trim_matches(' ');
    if text.is_empty() {
        return Err(unusable("is empty"));
    }
    // A URL parser skips some of them, so the checked URL would not be the one that was sent.
    if text.contains(char::is_control) {
        return Err(unusable("has control characters"));
    }
    let url = link.url().join(text).map_err(|_| unusable("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(unusable("is not for HTTP"));
    }
    if url.origin() != link.url().origin() {
        let mut origin = url;
        // The path may contain the session, just as the query may.
        origin.set_path("");
        return Err(Fault::protocol(Misbehavior::ForeignEndpoint { origin: target::display_url(&origin) }));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unusable("has credentials"));
    }
    if url.fragment().is_some() {
        return Err(unusable("has a fragment"));
    }
    link.join_url(url.as_str())
}

const MAX_ENDPOINT_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use bowline_config::Http;

    use super::super::{Limits, Proxies};
    use super::*;

    fn resolved(endpoint: &[u8]) -> Result<String, Fault> {
        let url = "https://server.test/a/sse?key=k".parse().unwrap();
        let config = Http::from_url(url);
        let link = HttpLink::with_proxies(&config, Limits::default(), &Proxies::Direct).unwrap();
        resolve_endpoint(&link, endpoint).map(|link| link.url().to_string())
    }

    #[test]
    fn hs_02_relative_and_absolute_forms() {
        for (endpoint, url) in [
            ("/messages?session_id=1", "https://server.test/messages?session_id=1"),
            ("messages/?s=1", "https://server.test/a/messages/?s=1"),
            ("./m", "https://server.test/a/m"),
            ("../../../m", "https://server.test/m"),
            ("?s=1", "https://server.test/a/sse?s=1"),
            ("https://server.test/m?s=1", "https://server.test/m?s=1"),
            ("HTTPS://SERVER.test:443/m", "https://server.test/m"),
            ("//server.test/m", "https://server.test/m"),
            ("  /m?s=1 ", "https://server.test/m?s=1"),
            ("/m?s=a b", "https://server.test/m?s=a%20b"),
            ("/m?next=https://evil.test/", "https://server.test/m?next=https://evil.test/"),
        ] {
            assert_eq!(resolved(endpoint.as_bytes()).as_deref(), Ok(url), "{endpoint}");
        }
    }

    #[test]
    fn hs_02_another_origin_is_named_but_not_its_query() {
        for (endpoint, origin) in [
            ("https://evil.test/m/s3cret?s=s3cret", "https://evil.test/"),
            ("//evil.test/m?s=s3cret", "https://evil.test/"),
            (r"\\evil.test\m?s=s3cret", "https://evil.test/"),
            ("https://server.test@evil.test/?s=s3cret", "https://evil.test/"),
            ("https://s3cret:s3cret@evil.test/", "https://evil.test/"),
            ("https://server.test.evil.test/", "https://server.test.evil.test/"),
            ("http://server.test/m?s=s3cret", "http://server.test/"),
            ("https://server.test:8443/m?s=s3cret", "https://server.test:8443/"),
        ] {
            let fault = resolved(endpoint.as_bytes()).unwrap_err();
            let foreign = Misbehavior::ForeignEndpoint { origin: origin.into() };
            assert_eq!(fault.cause, Cause::Protocol(foreign), "{endpoint}");
            assert!(!format!("{fault:?} {fault}").contains("s3cret"), "{fault:?}");
        }
        let long = format!("https://{}.test/", "a.".repeat(2_000));
        let fault = resolved(long.as_bytes()).unwrap_err();
        assert!(fault.to_string().len() < 400, "{fault}");
    }

    #[test]
    fn hs_02_what_is_no_url_for_messages_is_refused() {
        let bad = Cause::Protocol(Misbehavior::BadResult);
        for endpoint in [
            "",
            "   ",
            "/m\n/s3cret",
            "/m\ts3cret",
            "\u{0}/m",
            "/m\u{7f}",
            "https://",
            "https://[s3cret",
            "ftp://server.test/m?s3cret",
            "file:///etc/s3cret",
            "javascript:s3cret",
            "data:,s3cret",
            "https://s3cret@server.test/m",
            "https://:s3cret@server.test/m",
            "/m#s3cret",
            "#s3cret",
        ] {
            let fault = resolved(endpoint.as_bytes()).unwrap_err();
            assert_eq!(fault.cause, bad, "{endpoint:?}: {fault}");
            assert!(!format!("{fault:?} {fault}").contains("s3cret"), "{fault:?}");
        }
        assert_eq!(resolved(b"/m?s=\xff").unwrap_err().cause, bad);
    }

    #[test]
    fn an_endpoint_has_a_limit() {
        let endpoint = |length: usize| format!("/{}", "m".repeat(length - 1));
        assert!(resolved(endpoint(MAX_ENDPOINT_BYTES).as_bytes()).is_ok());
        let fault = resolved(endpoint(MAX_ENDPOINT_BYTES + 1).as_bytes()).unwrap_err();
        assert_eq!(fault.cause, Cause::Protocol(Misbehavior::TooLarge { limit: MAX_ENDPOINT_BYTES }));
        assert_eq!(fault.evidence.body, None);
    }
}
