//! Reads `Content-Type` and `Content-Encoding`.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

/// The media type that a response declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Media {
    Json,
    Events,
    /// No media type is declared.
    Unsaid,
    Other,
}

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
    Brotli,
    Zstd,
    /// One that was not offered, or several on top of each other.
    Unknown,
}

impl Media {
    /// Reads the media type; parameters and case do not matter (HT-02).
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(CONTENT_TYPE) else { return Self::Unsaid };
        let value = value.as_bytes();
        let essence = value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        if essence.eq_ignore_ascii_case(b"application/json") {
            Self::Json
        } else if essence.eq_ignore_ascii_case(b"text/event-stream") {
            Self::Events
        } else if essence.is_empty() {
            Self::Unsaid
        } else if essence.len() > 5 && essence[essence.len() - 5..].eq_ignore_ascii_case(b"+json") {
            // Such as `application/problem+json`.
            Self::Json
        } else {
            Self::Other
        }
    }
}

impl Coding {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(CONTENT_ENCODING).iter();
        let Some(value) = values.next() else { return Self::Identity };
        if values.next().is_some() {
            return Self::Unknown;
        }
        let value = value.as_bytes().trim_ascii();
        let is = |name: &str| value.eq_ignore_ascii_case(name.as_bytes());
        if value.is_empty() || is("identity") {
            Self::Identity
        } else if is("gzip") || is("x-gzip") {
            Self::Gzip
        } else if is("br") {
            Self::Brotli
        } else if is("zstd") {
            Self::Zstd
        } else {
            Self::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn ht_02_parameters_and_case_do_not_matter() {
        let media =
            |value| Media::of(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]));
        for json in ["application/json", "Application/JSON ; charset=utf-8", "application/problem+json"] {
            assert_eq!(media(json), Media::Json, "{json}");
        }
        for events in ["text/event-stream", "text/event-stream;charset=UTF-8", " TEXT/Event-Stream"] {
            assert_eq!(media(events), Media::Events, "{events}");
        }
        for other in ["text/html", "application/jsonp", "+json"] {
            assert_eq!(media(other), Media::Other, "{other}");
        }
        assert_eq!(media(" "), Media::Unsaid);
        assert_eq!(Media::of(&HeaderMap::new()), Media::Unsaid);
    }

    #[test]
    fn codings() {
        let coding =
            |value| Coding::of(&HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(value))]));
        assert_eq!(coding("GZIP"), Coding::Gzip);
        assert_eq!(coding("br"), Coding::Brotli);
        assert_eq!(coding("zstd"), Coding::Zstd);
        assert_eq!(coding("identity"), Coding::Identity);
        assert_eq!(coding("gzip, br"), Coding::Unknown);
        assert_eq!(Coding::of(&HeaderMap::new()), Coding::Identity);
    }
}
