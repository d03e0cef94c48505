//! Decides which headers every request carries, and which value wins when one is set twice.
//!
//! From weakest to strongest: our defaults, the configuration, the caller, what HTTP itself needs.
//! There is one exception: a configured `Authorization` is never replaced by the caller.

use bowline_config::Http;
use bowline_proto::fault::{Cause, Fault};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::address_guard;

/// The headers of each method, before the caller adds to them.
#[derive(Debug)]
pub(super) struct BaseHeaders {
    pub(super) post: HeaderMap,
    pub(super) get: HeaderMap,
    pub(super) delete: HeaderMap,
    has_authorization: bool,
}

impl BaseHeaders {
    pub(super) fn new(config: &Http, host: &HeaderValue) -> Result<Self, Fault> {
        check_encrypted(config)?;
        let mut base = HeaderMap::with_capacity(16);
        base.insert(header::HOST, host.clone());
        base.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        base.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED_CODINGS));
        for (name, value) in &config.headers {
            let bad = || {
                Fault::before_sending(Cause::Closed).with_note(format!("the header {name:?} cannot be sent"))
            };
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            let mut value = HeaderValue::from_bytes(value.expose().as_bytes()).map_err(|_| bad())?;
            value.set_sensitive(true);
            base.insert(key, value);
        }
        let authorized = base.contains_key(header::AUTHORIZATION);
        let (mut post, mut get) = (base.clone(), base.clone());
        post.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        post.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        get.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        Ok(Self { post, get, delete: base, has_authorization: authorized })
    }

    /// Adds a header to every request.
    pub(super) fn insert(&mut self, name: &HeaderName, value: &HeaderValue) {
        for base in [&mut self.post, &mut self.get, &mut self.delete] {
            base.insert(name.clone(), value.clone());
        }
    }

    /// Adds the headers of the caller to a base.
    pub(super) fn merge(&self, base: &HeaderMap, extra: &HeaderMap) -> HeaderMap {
        let mut headers = base.clone();
        let mut previous = None;
        for (name, value) in extra {
            if self.has_authorization && name == header::AUTHORIZATION {
                continue;
            }
            // Values of one name are adjacent.
            if previous == Some(name) {
                headers.append(name, value.clone());
            } else {
                headers.insert(name, value.clone());
            }
            previous = Some(name);
        }
        headers
    }
}

/// Refuses to send configured credentials over plain HTTP to another machine, unless that is
/// allowed.
fn check_encrypted(config: &Http) -> Result<(), Fault> {
    let is_private = config.url.scheme() == "https"
        || config.socket.is_some()
        || address_guard::is_this_machine(&config.url);
    if is_private || config.allow_http {
        return Ok(());
    }
    match config.headers.iter().map(|(name, _)| name.as_str()).find(|name| is_credential(name)) {
        None => Ok(()),
        Some(name) => {
            let host = address_guard::display_host(&config.url);
            let note = format!("the header {name:?} is not sent to {host} unless `allow_http = true` is set");
            Err(Fault::before_sending(Cause::PlainHttp).with_note(note))
        }
    }
}

/// Whether a header carries credentials.
pub(super) fn is_credential(name: &str) -> bool {
    CREDENTIAL_HEADERS.iter().any(|it| name.eq_ignore_ascii_case(it))
}

/// Headers that always carry credentials.
const CREDENTIAL_HEADERS: [&str; 6] =
    ["authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token"];

/// The compression that [`ContentCoding`](super::media::ContentCoding) knows.
pub(super) const ACCEPTED_CODINGS: &str = if cfg!(feature = "compression") { "gzip" } else { "identity" };

pub(super) const USER_AGENT: &str = concat!("bowline/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use super::*;

    fn bases(headers: &[(&str, &str)]) -> BaseHeaders {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let url = "http://server.test/".parse().unwrap();
        let mut config = Http::from_url(url);
        (config.headers, config.allow_http) = (headers, true);
        BaseHeaders::new(&config, &HeaderValue::from_static("server.test")).unwrap()
    }

    #[test]
    fn the_caller_replaces_all_but_a_configured_authorization() {
        let bases = bases(&[("authorization", "Bearer ours"), ("X-Team", "one"), ("User-Agent", "mine")]);
        let mut extra = HeaderMap::new();
        extra.insert("authorization", HeaderValue::from_static("Bearer theirs"));
        extra.insert("x-team", HeaderValue::from_static("two"));
        extra.append("x-many", HeaderValue::from_static("1"));
        extra.append("x-many", HeaderValue::from_static("2"));
        let headers = bases.merge(&bases.post, &extra);
        assert_eq!(headers["authorization"], "Bearer ours");
        assert_eq!(headers["x-team"], "two");
        assert_eq!(headers["user-agent"], "mine");
        assert_eq!(headers.get_all("x-many").iter().count(), 2);
    }

    #[test]
    fn without_one_the_caller_authorizes() {
        let bases = bases(&[]);
        let extra =
            HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static("Bearer theirs"))]);
        assert_eq!(bases.merge(&bases.get, &extra)["authorization"], "Bearer theirs");
    }

    #[test]
    fn credentials_go_over_plain_http_to_this_machine_only() {
        let made = |url: &str, name: &str, allow_http| {
            let headers = vec![(name.to_owned(), "hunter2".into())];
            let mut config = Http::from_url(url.parse().unwrap());
            (config.headers, config.allow_http) = (headers, allow_http);
            BaseHeaders::new(&config, &HeaderValue::from_static("h")).map(drop)
        };
        for url in ["http://server.test/", "http://10.0.0.1/", "http://localhost.test/", "http://[fe80::1]/"]
        {
            for name in ["Authorization", "cookie", "X-API-Key"] {
                let fault = made(url, name, false).unwrap_err();
                assert_eq!(fault.cause, Cause::PlainHttp, "{url} {name}");
                let shown = fault.to_string();
                assert!(shown.contains("`allow_http = true`") && !shown.contains("hunter2"), "{shown}");
                made(url, name, true).unwrap();
            }
            made(url, "X-Team", false).unwrap();
        }
        for url in [
            "https://server.test/",
            "http://127.9.9.9/",
            "http://[::1]:1/",
            "http://a.localhost/",
            "http://0/",
        ] {
            made(url, "Authorization", false).unwrap();
        }
    }

    #[test]
    fn configured_values_are_not_shown() {
        let bases = bases(&[("X-Key", "hunter2")]);
        assert!(!format!("{bases:?}").contains("hunter2"));
    }
}
