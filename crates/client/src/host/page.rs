//! [`UrlPreview`]: what to show of a URL before a person agrees to open it.
// EL-09

use std::fmt;

use url::{Host, Url};

/// A URL that may be shown to a person, with warnings. Nothing is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The normalized URL. Show and open this one: the server's text may read differently.
    pub url: Url,
    /// The host, to be highlighted. Non-ASCII labels are shown as `xn--`, so that they cannot
    /// imitate others.
    pub host: String,
    /// Warnings to show.
    pub warnings: Vec<Warning>,
}

/// A warning about a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
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
pub enum Unfit {
    /// It is not a valid URL.
    #[error("it is no URL")]
    NotAUrl,
    /// The scheme is not `http` or `https`; others may run programs.
    #[error("only http and https pages can be opened")]
    Scheme,
}

impl Look {
    /// Parses the server's text.
    pub fn at(url: &str) -> Result<Self, Unfit> {
        // The parser strips tabs and newlines; a URL that contains them is meant to mislead.
        if url.len() > LONGEST_URL || url.chars().any(|char| char.is_control() || char.is_whitespace()) {
            return Err(Unfit::NotAUrl);
        }
        let url = Url::parse(url).map_err(|_| Unfit::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Unfit::Scheme);
        }
        let host = url.host().ok_or(Unfit::NotAUrl)?;
        let is_loopback = match host {
            Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        };
        let is_puny =
            matches!(host, Host::Domain(name) if name.split('.').any(|label| label.starts_with("xn--")));
        let is_address = !matches!(host, Host::Domain(_));
        let has_userinfo = !url.username().is_empty() || url.password().is_some();
        let warnings = [
            (is_puny, Warning::Punycode),
            (has_userinfo, Warning::Userinfo),
            (url.scheme() == "http" && !is_loopback, Warning::NotEncrypted),
            (is_address && !is_loopback, Warning::Address),
        ];
        let warnings = warnings.into_iter().filter_map(|(is, warning)| is.then_some(warning)).collect();
        Ok(Self { host: host.to_string(), warnings, url })
    }
}

impl fmt::Display for Warning {
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
const LONGEST_URL: usize = 8 * 1024;

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
            ("https://p\u{430}ypal.example/", "xn--pypal-4ve.example", vec![Warning::Punycode]),
            ("https://xn--pypal-4ve.example/", "xn--pypal-4ve.example", vec![Warning::Punycode]),
            ("https://bank.example@evil.example/", "evil.example", vec![Warning::Userinfo]),
            ("https://bank.example:pw@evil.example/", "evil.example", vec![Warning::Userinfo]),
            // As a browser parses it, not as it looks.
            ("https://evil.example\\@bank.example/", "evil.example", vec![]),
            ("http://srv.example/", "srv.example", vec![Warning::NotEncrypted]),
            ("http://127.0.0.1:3000/", "127.0.0.1", vec![]),
            ("http://localhost/", "localhost", vec![]),
            ("https://0x7f.1/", "127.0.0.1", vec![]),
            ("https://[2001:db8::1]/", "[2001:db8::1]", vec![Warning::Address]),
        ] {
            let look = Look::at(url).unwrap();
            assert_eq!((look.host.as_str(), look.warnings), (host, warnings), "{url}");
        }
        assert_eq!(Look::at("https://a.example/x y").unwrap_err(), Unfit::NotAUrl);
    }

    /// EL-09: other schemes and invalid URLs are refused.
    #[test]
    fn el_09_other_schemes_are_unfit() {
        for url in
            ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "ms-msdt:/id", "ftp://a/"]
        {
            assert_eq!(Look::at(url), Err(Unfit::Scheme), "{url}");
        }
        let long = format!("https://a.example/{}", "a".repeat(LONGEST_URL));
        for url in ["", "a.example", "https://", "java\nscript:x", "https://a\t.example", &long] {
            assert_eq!(Look::at(url), Err(Unfit::NotAUrl), "{url:.40}");
        }
    }
}
