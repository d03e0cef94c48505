//! A response, and how much of its body is read.

use std::time::{Duration, SystemTime};

use bowline_proto::fault::{Cause, Fault, Misbehavior};
use bowline_proto::frame::sse;
use bytes::{Bytes, BytesMut};
use http::header::{DATE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::coding::Chunks;
use super::event_stream::EventStream;
use super::exchange::BodyStream;
use super::link::Limits;
use super::media::{ContentCoding, MediaType};

/// A response of the server. Any status is a response, not an error.
#[derive(Debug)]
pub struct HttpResponse {
    /// The HTTP status.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    /// The body, decompressed.
    pub body: ResponseBody,
    /// Whether the body of a non-2xx response was not read to its end: it broke off, took too long,
    /// was too long, or could not be decompressed.
    pub is_body_truncated: bool,
}

/// The body of a response.
#[derive(Debug)]
pub enum ResponseBody {
    /// No body, or one that means nothing (202 and 204).
    Empty,
    /// JSON by its media type, complete. Of a non-2xx response at most 64 KiB, and if it came as an
    /// event stream, the data of its first event, terminated or not.
    Json(Bytes),
    /// An event stream, of a 2xx response.
    Events(EventStream),
    /// Anything else: its first 64 KiB.
    Other(Bytes),
}

/// Whether the status alone proves that the request was not applied: 401, and 403 with a challenge
/// (RFC 9110). Any other status may follow the execution: frameworks map exceptions of tools to
/// every status there is. What a 404 proves about a request with a session is decided where
/// sessions are known.
fn proves_not_applied(code: u16, challenged: bool) -> bool {
    code == 401 || (code == 403 && challenged)
}

/// How long the body of an error response may take, however it is framed. What arrived until then
/// has to do.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// Upper bound of `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// Parses `Retry-After`, as seconds or as a date. A date is compared with the clock of the server,
/// if the response shows it.
fn parse_retry_after(value: &str, date: Option<&str>) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows is too large as well.
        return Some(value.parse().map_or(MAX_RETRY_AFTER, Duration::from_secs).min(MAX_RETRY_AFTER));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    let now = date.and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or_else(SystemTime::now);
    // A date in the past means now.
    Some(at.duration_since(now).unwrap_or_default().min(MAX_RETRY_AFTER))
}

impl HttpResponse {
    /// The text of a header, if it exists and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The fault that a non-2xx status means, without reading what the body says.
    pub fn status_fault(&self) -> Fault {
        let texts = self.headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let challenge: Vec<String> = texts.map(str::to_owned).collect();
        let code = self.status;
        let challenged = !challenge.is_empty();
        let cause = if code == 401 || (code == 403 && challenged) {
            Cause::LoginRequired { code, challenge }
        } else {
            let retry_after = self.header(RETRY_AFTER.as_str());
            let retry_after =
                retry_after.and_then(|value| parse_retry_after(value, self.header(DATE.as_str())));
            Cause::Status { code, retry_after }
        };
        let fault = match &self.body {
            ResponseBody::Json(body) | ResponseBody::Other(body) => Fault::new(cause).with_body(body),
            ResponseBody::Empty | ResponseBody::Events(_) => Fault::new(cause),
        };
        let fault = if self.is_body_truncated { fault.with_cut_body() } else { fault };
        if proves_not_applied(code, challenged) { fault.not_executed() } else { fault }
    }

    pub(super) async fn read(
        status: StatusCode,
        headers: HeaderMap,
        flow: BodyStream,
        limits: &Limits,
    ) -> Result<Self, Fault> {
        let (body, rest) = if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            flow.discard().await;
            (ResponseBody::Empty, BodyEnd::Complete)
        } else {
            let (media, coding) = (MediaType::from_headers(&headers), ContentCoding::from_headers(&headers));
            if status.is_success() {
                (
                    ResponseBody::read_success(media, Chunks::new(flow, coding)?, limits).await?,
                    BodyEnd::Complete,
                )
            } else {
                // A status is a response, whatever became of its body.
                match Chunks::new(flow, coding) {
                    Ok(chunks) => ResponseBody::read_failure(media, chunks).await,
                    Err(_) => (ResponseBody::Empty, BodyEnd::Truncated),
                }
            }
        };
        Ok(Self { status: status.as_u16(), headers, body, is_body_truncated: rest == BodyEnd::Truncated })
    }
}

impl ResponseBody {
    async fn read_success(media: MediaType, chunks: Chunks, limits: &Limits) -> Result<Self, Fault> {
        Ok(match media {
            MediaType::Events => Self::Events(EventStream::new(chunks, limits.event)),
            // Without a media type it is taken for JSON, which was requested.
            MediaType::Json | MediaType::Missing => match read_whole(chunks, limits.body).await? {
                body if body.is_empty() => Self::Empty,
                body => Self::Json(body),
            },
            MediaType::Other => match read_head(chunks).await {
                (body, _) if body.is_empty() => Self::Empty,
                (body, _) => Self::Other(body),
            },
        })
    }

    async fn read_failure(media: MediaType, chunks: Chunks) -> (Self, BodyEnd) {
        if media == MediaType::Events {
            return read_first_event(chunks).await;
        }
        let (body, rest) = read_head(chunks).await;
        let body = match rest {
            _ if body.is_empty() => Self::Empty,
            BodyEnd::Complete if media == MediaType::Json => Self::Json(body),
            BodyEnd::Complete | BodyEnd::Truncated => Self::Other(body),
        };
        (body, rest)
    }
}

/// Reads the whole body, without a copy if it came in one chunk.
pub(super) async fn read_whole(mut chunks: Chunks, limit: usize) -> Result<Bytes, Fault> {
    let too_large = |head: &[u8]| Fault::protocol(Misbehavior::TooLarge { limit }).with_body(head);
    let expected = usize::try_from(chunks.length().unwrap_or_default()).unwrap_or(usize::MAX);
    if expected > limit {
        return Err(too_large(b""));
    }
    let Some(first) = chunks.chunk().await.transpose()? else { return Ok(Bytes::new()) };
    if first.len() > limit {
        return Err(too_large(&first));
    }
    let mut next = None;
    if first.len() >= expected {
        // This may be all there is.
        next = chunks.chunk().await.transpose()?;
        if next.is_none() {
            return Ok(first);
        }
    }
    let arrived = first.len() + next.as_ref().map_or(0, Bytes::len);
    // The announced length is trusted only up to a bound.
    let mut all = chunks.pool().take_body_buffer(expected.min(MAX_BODY_RESERVE).max(arrived));
    all.extend_from_slice(&first);
    // While a chunk is held, the connection cannot read into the same memory, and allocates more.
    drop(first);
    if next.is_none() {
        next = chunks.chunk().await.transpose()?;
    }
    while let Some(chunk) = next {
        if chunk.len() > limit - all.len() {
            return Err(too_large(&all));
        }
        all.extend_from_slice(&chunk);
        drop(chunk);
        next = chunks.chunk().await.transpose()?;
    }
    let body = all.split().freeze();
    chunks.pool().keep_body_buffer(all, body.len());
    Ok(body)
}

/// How much memory is reserved at most on the word of the server.
const MAX_BODY_RESERVE: usize = 4 * 1024 * 1024;

/// Whether a body was read to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyEnd {
    Complete,
    Truncated,
}

/// Reads the first bytes of a body, as many as arrived before it ended or broke off.
pub(super) async fn read_head(mut chunks: Chunks) -> (Bytes, BodyEnd) {
    let mut head = BytesMut::new();
    let until = Instant::now() + HEAD_TIMEOUT;
    loop {
        let Ok(chunk) = timeout_at(until, chunks.chunk()).await else {
            return (head.freeze(), BodyEnd::Truncated);
        };
        match chunk {
            Some(Ok(chunk)) if chunk.len() <= MAX_HEAD_BYTES - head.len() => head.extend_from_slice(&chunk),
            Some(Ok(chunk)) => {
                let room = MAX_HEAD_BYTES - head.len();
                head.extend_from_slice(&chunk[..room]);
                return (head.freeze(), BodyEnd::Truncated);
            }
            Some(Err(_)) => return (head.freeze(), BodyEnd::Truncated),
            None => return (head.freeze(), BodyEnd::Complete),
        }
    }
}

/// How many bytes of an error response, or of an unknown body, are read.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Reads the data of the first message. The stream need not end after it, so it is not
/// read further. If the stream or the time ends before the event does, the event counts all the
/// same: an error is sent once and not resumed. Some servers announce events and write plain JSON;
/// then the body is taken as JSON.
async fn read_first_event(mut chunks: Chunks) -> (ResponseBody, BodyEnd) {
    let mut head = BytesMut::new();
    let mut decoder = sse::Decoder::with_limit(MAX_HEAD_BYTES);
    let until = Instant::now() + HEAD_TIMEOUT;
    let mut rest = BodyEnd::Truncated;
    while head.len() < MAX_HEAD_BYTES {
        match timeout_at(until, chunks.chunk()).await {
            Ok(Some(Ok(mut chunk))) => {
                chunk.truncate(MAX_HEAD_BYTES - head.len());
                head.extend_from_slice(&chunk);
                decoder.push(chunk);
            }
            Ok(None) => {
                rest = BodyEnd::Complete;
                break;
            }
            Ok(Some(Err(_))) | Err(_) => break,
        }
        if let Some(data) = next_event_data(&mut decoder) {
            return (ResponseBody::Json(data), BodyEnd::Complete);
        }
    }
    // Terminates the line, and with it the event.
    decoder.push(Bytes::from_static(b"\n\n"));
    let body = match next_event_data(&mut decoder) {
        Some(data) => ResponseBody::Json(data),
        None if head.is_empty() => ResponseBody::Empty,
        None if head.trim_ascii_start().starts_with(b"{") => ResponseBody::Json(head.freeze()),
        None => ResponseBody::Other(head.freeze()),
    };
    (body, rest)
}

fn next_event_data(decoder: &mut sse::Decoder) -> Option<Bytes> {
    loop {
        // The limit of an event equals the limit of all that is read, so none is too long.
        let event = decoder.next()?.ok()?;
        // Events of other names keep a stream alive, and the message may come after them.
        if !event.data.is_empty() && event.name.as_deref().is_none_or(|name| name == "message") {
            return Some(event.data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let (hour, epoch) = (Duration::from_secs(3_600), SystemTime::UNIX_EPOCH);
        let date = |time| httpdate::fmt_http_date(time);
        assert_eq!(parse_retry_after(" 3", None), Some(Duration::from_secs(3)));
        for many in ["99999999", "99999999999999999999999"] {
            assert_eq!(parse_retry_after(many, None), Some(MAX_RETRY_AFTER));
        }
        let soon = parse_retry_after(&date(SystemTime::now() + Duration::from_secs(100)), None).unwrap();
        assert!((90..=100).contains(&soon.as_secs()), "{soon:?}");
        assert_eq!(parse_retry_after(&date(epoch + hour / 2), Some(&date(epoch))), Some(hour / 2));
        assert_eq!(parse_retry_after(&date(epoch), None), Some(Duration::ZERO));
        assert_eq!(parse_retry_after("soon", None), None);
    }
}
