//! Reads `Content-Type` and `Content-Encoding`.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

/// The media type that a response declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MediaType {
    Json,
    Events,
    /// No media type is declared.
    Missing,
    Other,
}

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentCoding {
    Identity,
    Gzip,
    /// One that was not offered, or several on top of each other.
    Unknown,
}

impl MediaType {
    /// Reads the media type; parameters and case do not matter (HT-02).
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(CONTENT_TYPE) else { return Self::Missing };
        let value = value.as_bytes();
        let essence = value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        if essence.eq_ignore_ascii_case(b"application/json") {
            Self::Json
        } else if essence.eq_ignore_ascii_case(b"text/event-stream") {
            Self::Events
        } else if essence.is_empty() {
            Self::Missing
        } else if essence.len() > 5 && essence[essence.len() - 5..].eq_ignore_ascii_case(b"+json") {
            // Such as `application/problem+json`.
            Self::Json
        } else {
            Self::Other
        }
    }
}

impl ContentCoding {
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
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
        let media = |value| {
            MediaType::from_headers(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]))
        };
        for json in ["application/json", "Application/JSON ; charset=utf-8", "application/problem+json"] {
            assert_eq!(media(json), MediaType::Json, "{json}");
        }
        for events in ["text/event-stream", "text/event-stream;charset=UTF-8", " TEXT/Event-Stream"] {
            assert_eq!(media(events), MediaType::Events, "{events}");
        }
        for other in ["text/html", "application/jsonp", "+json"] {
            assert_eq!(media(other), MediaType::Other, "{other}");
        }
        assert_eq!(media(" "), MediaType::Missing);
        assert_eq!(MediaType::from_headers(&HeaderMap::new()), MediaType::Missing);
    }

    #[test]
    fn codings() {
        let coding = |value| {
            ContentCoding::from_headers(&HeaderMap::from_iter([(
                CONTENT_ENCODING,
                HeaderValue::from_static(value),
            )]))
        };
        assert_eq!(coding("GZIP"), ContentCoding::Gzip);
        assert_eq!(coding("br"), ContentCoding::Unknown);
        assert_eq!(coding("zstd"), ContentCoding::Unknown);
        assert_eq!(coding("identity"), ContentCoding::Identity);
        assert_eq!(coding("gzip, br"), ContentCoding::Unknown);
        assert_eq!(ContentCoding::from_headers(&HeaderMap::new()), ContentCoding::Identity);
    }
}
