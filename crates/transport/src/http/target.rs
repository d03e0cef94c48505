//! Decides which URLs belong to the configured server, and how each is written into a request.

use bowline_proto::fault::{Cause, Fault};
use http::{HeaderValue, Uri};
use url::Url;

use crate::shown_url::describe_url;

/// One URL of the server, in every form that a request needs.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) url: Url,
    /// `/path?query`, for HTTP/1.1 directly to the server.
    pub(super) path: Uri,
    /// The whole URL, for HTTP/2 and for a proxy that forwards.
    pub(super) absolute: Uri,
    /// The `Host` header.
    pub(super) host: HeaderValue,
}

impl Target {
    pub(super) fn new(mut url: Url) -> Result<Self, Fault> {
        url.set_fragment(None);
        let unusable =
            || Fault::before_sending(Cause::Closed).with_note("the URL cannot be used for HTTP requests");
        if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some()
        {
            return Err(unusable());
        }
        let absolute: Uri = url.as_str().parse().map_err(|_| unusable())?;
        let path = absolute.path_and_query().cloned().map(Uri::from).ok_or_else(unusable)?;
        let authority = absolute.authority().ok_or_else(unusable)?;
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| unusable())?;
        Ok(Self { url, path, absolute, host })
    }

    /// Resolves `reference` against this URL; refuses another origin.
    pub(super) fn resolve(&self, reference: &str) -> Result<Self, Fault> {
        let elsewhere = |location: String| Fault::before_sending(Cause::Redirect { location });
        // What cannot be parsed may have a key anywhere.
        let mut url = self.url.join(reference).map_err(|_| elsewhere(NO_ADDRESS.to_owned()))?;
        if url.origin() != self.url.origin() {
            return Err(elsewhere(display_url(&url)).with_note("it is another origin"));
        }
        // The origin is the same, but a request must not carry credentials that the server chose.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Self::new(url)
    }

    pub(super) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }
}

/// Formats the target of a redirect without what may be a key. Faults have no other form of it.
pub(super) fn display_url(url: &Url) -> String {
    describe_url(url).chars().take(MAX_LOCATION_CHARS).collect()
}

/// What is shown of a location that is not a URL.
pub(super) const NO_ADDRESS: &str = "an address that is not one";

const MAX_LOCATION_CHARS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::new(url.parse().unwrap()).unwrap()
    }

    #[test]
    fn has_every_form() {
        let target = target("http://Server.test:8080/mcp?a=b#c");
        assert_eq!(target.path, "/mcp?a=b");
        assert_eq!(target.absolute, "http://server.test:8080/mcp?a=b");
        assert_eq!(target.host, "server.test:8080");
        assert_eq!(self::target("https://server.test:443").host, "server.test");
    }

    #[test]
    fn stays_on_its_origin() {
        let target = target("https://server.test/mcp/");
        assert_eq!(target.resolve("other").unwrap().path, "/mcp/other");
        assert_eq!(target.resolve("/root?x=1").unwrap().path, "/root?x=1");
        assert_eq!(target.resolve("https://server.test:443/abs").unwrap().path, "/abs");
        for other in
            ["http://server.test/mcp", "https://server.test:8443/", "//evil.test/?t=secret", "https://["]
        {
            let fault = target.resolve(other).unwrap_err();
            let Cause::Redirect { location } = fault.cause else { panic!("{other}") };
            assert!(!location.contains("secret"), "{location}");
        }
    }

    #[test]
    fn key_in_a_refused_location_is_not_shown() {
        let target = target("https://server.test/mcp/");
        for (location, shown) in [
            (
                "https://127.0.0.1:18443/sk-live-S3CR3T0123456789/mcp?key=S3CR3T",
                "refused to follow a redirect to https://127.0.0.1:18443/…/mcp: it is another origin",
            ),
            ("//u:S3CR3T@h/#S3CR3T", "refused to follow a redirect to https://h/: it is another origin"),
            ("app:S3CR3T", "refused to follow a redirect to app:…: it is another origin"),
            ("https://[S3CR3T", "refused to follow a redirect to an address that is not one"),
        ] {
            let fault = target.resolve(location).unwrap_err();
            assert_eq!(fault.to_string(), shown);
            assert!(!format!("{fault:?}").contains("S3CR3T"), "{fault:?}");
        }
    }

    #[test]
    fn refuses_what_is_not_http() {
        for url in ["ftp://server.test/", "http://user:pass@server.test/"] {
            assert!(Target::new(url.parse().unwrap()).is_err(), "{url}");
        }
    }
}
