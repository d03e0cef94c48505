//! Icons, for hosts that show them: which sources may be used, and which bytes are a picture.
//!
//! A server chooses its icons, so both the address and the bytes are untrusted:
//!
//! 1. [`check`] decides whether an icon may be used: only inline, or over `https:` from the
//!    server's origin.
//! 2. [`fetch`] fetches the latter: without credentials, within the origin, and up to a size limit.
//! 3. [`inspect`] identifies the bytes: a picture of bounded size, or nothing to pass to a decoder.

mod picture;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bowline_config::{Http, Tls};
use bowline_proto::fault::Fault;
use bowline_proto::wire::view::Icon;
use bowline_transport::http::{HttpLink, HttpResponse, Limits, ResponseBody};
use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderValue};
use url::Url;

pub use picture::{Picture, PictureFormat, inspect};

/// Where an icon comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IconSource {
    /// Inline bytes, not inspected yet.
    Inline(Bytes),
    /// An address to be fetched.
    Remote(RemoteIcon),
}

/// An address of the server's own origin. Only [`check`] creates one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteIcon(Url);

/// Why an icon is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IconError {
    /// The scheme is neither `https:` nor `data:`.
    #[error("icons come over https or as data, not over {0:?}")]
    Scheme(Box<str>),
    /// The source is not a valid URL.
    #[error("the icon has no address that could be read")]
    Address,
    /// The address is not of the server's origin.
    #[error("the icon is not from the server's own origin")]
    Origin,
    /// The request failed.
    #[error("the icon could not be fetched: {0}")]
    Fetch(Box<str>),
    /// It has too many bytes.
    #[error("the icon has more than {0} bytes")]
    TooLarge(usize),
    /// It is too wide or too high, or has no size.
    #[error("a picture of {width} by {height} is not an icon")]
    Dimensions {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
    },
    /// It has too many frames.
    #[error("an icon of {0} frames")]
    Frames(u32),
    /// It is SVG, which can contain scripts and references.
    #[error("SVG is not shown: it can hold scripts")]
    Svg,
    /// The bytes are no PNG, JPEG or WebP.
    #[error("the bytes are no PNG, JPEG or WebP")]
    Unknown,
    /// The bytes do not have the declared type.
    #[error("the icon is declared as {0:?}, but its bytes are not")]
    Mismatch(Box<str>),
}

/// Checks whether an icon of the server at `server` may be used, and how. A server without a URL (a
/// process) has no origin, so its icons must be inline.
pub fn check(icon: &Icon, server: Option<&Url>) -> Result<IconSource, IconError> {
    let scheme = icon.src.split(':').next().unwrap_or_default();
    if scheme.eq_ignore_ascii_case("data") && scheme.len() < icon.src.len() {
        return decode_data_url(&icon.src[scheme.len() + 1..]).map(IconSource::Inline);
    }
    let url: Url = icon.src.parse().map_err(|_| IconError::Address)?;
    if url.scheme() != "https" {
        return Err(IconError::Scheme(url.scheme().chars().take(MAX_SCHEME_CHARS).collect()));
    }
    let own = server.is_some_and(|server| server.origin() == url.origin());
    if !own || !url.username().is_empty() || url.password().is_some() {
        return Err(IconError::Origin);
    }
    Ok(IconSource::Remote(RemoteIcon(url)))
}

/// Fetches an icon without authorization, existing cookies or a client certificate. `tls` is the
/// server's configuration, for its certificate authorities.
///
/// Redirects are followed within the origin only. The response must declare its length and be
/// shorter than 64 KiB. The bytes are not inspected yet. Dropping the future ends the request.
pub async fn fetch(remote: &RemoteIcon, tls: &Tls) -> Result<Bytes, IconError> {
    let mut config = Http::from_url(remote.0.clone());
    config.tls = tls.without_client_certificate();
    let limits = Limits { connect: FETCH_TIMEOUT, body: MAX_FETCHED_BYTES, event: MAX_FETCHED_BYTES };
    let failed = |fault: Fault| IconError::Fetch(fault.to_string().into());
    let link = HttpLink::new(&config, limits).map_err(failed)?;
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("image/png, image/jpeg, image/webp"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    match tokio::time::timeout(FETCH_TIMEOUT, link.get(&headers)).await {
        Ok(Ok(answer)) => complete_body(answer),
        Ok(Err(fault)) => Err(failed(fault)),
        Err(_) => Err(IconError::Fetch("it took too long".into())),
    }
}

/// Returns the body if it is complete.
fn complete_body(answer: HttpResponse) -> Result<Bytes, IconError> {
    if answer.status != 200 {
        return Err(IconError::Fetch(format!("status {}", answer.status).into()));
    }
    let announced = answer.header(CONTENT_LENGTH.as_str()).and_then(|length| length.parse::<usize>().ok());
    let announced = announced.ok_or_else(|| IconError::Fetch("the answer does not say its length".into()))?;
    if announced >= MAX_FETCHED_BYTES {
        return Err(IconError::TooLarge(MAX_FETCHED_BYTES));
    }
    match answer.body {
        ResponseBody::Other(body) | ResponseBody::Json(body) if body.len() == announced => Ok(body),
        _ => Err(IconError::Fetch("the answer is not a whole picture".into())),
    }
}

/// Decodes a `data:` URL without its scheme.
fn decode_data_url(rest: &str) -> Result<Bytes, IconError> {
    let (head, data) = rest.split_once(',').ok_or(IconError::Address)?;
    // Base64 uses four characters for three bytes.
    if data.len() > picture::MAX_ICON_BYTES / 3 * 4 + 4 {
        return Err(IconError::TooLarge(picture::MAX_ICON_BYTES));
    }
    let encoded = head.rsplit(';').next().is_some_and(|last| last.trim().eq_ignore_ascii_case("base64"));
    // Pictures are Base64; only SVG is percent-encoded, and it is refused anyway.
    if !encoded {
        return Err(if head.trim_start().starts_with("image/svg") {
            IconError::Svg
        } else {
            IconError::Address
        });
    }
    BASE64.decode(data.trim()).map(Bytes::from).map_err(|_| IconError::Address)
}

const MAX_SCHEME_CHARS: usize = 32;

/// Maximum size of a fetched icon: as much as the transport reads of an unknown body.
const MAX_FETCHED_BYTES: usize = 64 * 1024;

const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
