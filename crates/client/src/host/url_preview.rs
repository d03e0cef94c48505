//! [`UrlPreview`]: what to show of a URL before a person agrees to open it.
// EL-09

use std::fmt;

use bowline_config::is_loopback;
use url::{Host, Url};

/// A URL that may be shown to a person, with warnings. Nothing is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UrlPreview {
    /// The normalized URL. Show and open this one: the server's text may read differently.
    pub url: Url,
    /// The host, to be highlighted. Non-ASCII labels are shown as `xn--`, so that they cannot
    /// imitate others.
    pub host: String,
    /// Warnings to show.
    pub warnings: Vec<UrlWarning>,
}

/// A warning about a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlWarning {
    /// The host has non-ASCII letters that may imitate others.
    Punycode,
    /// There is a user name before the host, as in `https://bank.example@evil.example`.
    Userinfo,
    /// The connection is not encrypted.
    NotEncrypted,
    /// The host is an IP address.
    Address,
}

/// Why a URL cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It is not a valid URL.
    #[error("it is not a URL")]
    NotAUrl,
    /// The scheme is not `http` or `https`; others may run programs.
    #[error("only http and https pages can be opened")]
    Scheme,
}

impl UrlPreview {
    /// Parses the server's text.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        // The parser strips tabs and newlines; a URL that contains them is meant to mislead.
        if url.len() > MAX_URL_BYTES || url.chars().any(|char| char.is_control() || char.is_whitespace()) {
            return Err(UrlError::NotAUrl);
        }
        let url = Url::parse(url).map_err(|_| UrlError::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlError::Scheme);
        }
        let host = url.host().ok_or(UrlError::NotAUrl)?;
        let is_loopback = is_loopback(&url);
        let is_puny =
            matches!(host, Host::Domain(name) if name.split('.').any(|label| label.starts_with("xn--")));
        let is_address = !matches!(host, Host::Domain(_));
        let has_userinfo = !url.username().is_empty() || url.password().is_some();
        let warnings = [
            (is_puny, UrlWarning::Punycode),
            (has_userinfo, UrlWarning::Userinfo),
            (url.scheme() == "http" && !is_loopback, UrlWarning::NotEncrypted),
            (is_address && !is_loopback, UrlWarning::Address),
        ];
        let warnings = warnings.into_iter().filter_map(|(is, warning)| is.then_some(warning)).collect();
        Ok(Self { host: host.to_string(), warnings, url })
    }
}

impl fmt::Display for UrlWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Punycode => "the host has letters that may look like others",
            Self::Userinfo => "what stands before the @ is not where it leads",
            Self::NotEncrypted => "the connection is not encrypted",
            Self::Address => "the host is a bare address",
        })
    }
}

/// Maximum size of a URL, in bytes.
const MAX_URL_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// EL-09: the host and the warnings that a person sees.
    #[test]
    fn el_09_hosts_and_warnings() {
        for (url, host, warnings) in [
            ("https://srv.example/connect?a=b#c", "srv.example", vec![]),
            ("https://SRV.example:8443/", "srv.example", vec![]),
            // The second letter is Cyrillic.
            ("https://p\u{430}ypal.example/", "xn--pypal-4ve.example", vec![UrlWarning::Punycode]),
            ("https://xn--pypal-4ve.example/", "xn--pypal-4ve.example", vec![UrlWarning::Punycode]),
            ("https://bank.example@evil.example/", "evil.example", vec![UrlWarning::Userinfo]),
            ("https://bank.example:pw@evil.example/", "evil.example", vec![UrlWarning::Userinfo]),
            // As a browser parses it, not as it looks.
            ("https://evil.example\\@bank.example/", "evil.example", vec![]),
            ("http://srv.example/", "srv.example", vec![UrlWarning::NotEncrypted]),
            ("http://127.0.0.1:3000/", "127.0.0.1", vec![]),
            ("http://localhost/", "localhost", vec![]),
            ("https://0x7f.1/", "127.0.0.1", vec![]),
            ("https://[2001:db8::1]/", "[2001:db8::1]", vec![UrlWarning::Address]),
        ] {
            let look = UrlPreview::parse(url).unwrap();
            assert_eq!((look.host.as_str(), look.warnings), (host, warnings), "{url}");
        }
        assert_eq!(UrlPreview::parse("https://a.example/x y").unwrap_err(), UrlError::NotAUrl);
    }

    /// EL-09: other schemes and invalid URLs are refused.
    #[test]
    fn el_09_other_schemes_are_unfit() {
        for url in
            ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "ms-msdt:/id", "ftp://a/"]
        {
            assert_eq!(UrlPreview::parse(url), Err(UrlError::Scheme), "{url}");
        }
        let long = format!("https://a.example/{}", "a".repeat(MAX_URL_BYTES));
        for url in ["", "a.example", "https://", "java\nscript:x", "https://a\t.example", &long] {
            assert_eq!(UrlPreview::parse(url), Err(UrlError::NotAUrl), "{url:.40}");
        }
    }
}
