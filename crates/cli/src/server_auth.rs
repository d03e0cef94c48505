//! Says how a server is authenticated to, by its configuration alone: by headers or by a login, and
//! under which address a login is shown.

use bowline::Server;
use bowline::config::{Grant, Http};

/// Which headers in the configuration authenticate us, in place of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderAuth {
    /// An `Authorization` header in the configuration.
    Fixed,
    Command,
}

/// Returns how headers authenticate us, if they do; then no login is begun.
pub(crate) fn header_auth(http: &Http) -> Option<HeaderAuth> {
    let fixed = http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    if http.headers_command.is_some() {
        Some(HeaderAuth::Command)
    } else {
        fixed.then_some(HeaderAuth::Fixed)
    }
}

/// Returns whether a login can authenticate us to this server. On a socket none can: its documents
/// about logins would be requested from the host of its URL, which need not be the same server.
pub(crate) fn can_log_in(server: &Server) -> bool {
    let http = server.transport.http().filter(|http| http.socket.is_none());
    http.is_some_and(|http| header_auth(http).is_none() && http.auth.grant != Grant::Off)
}

/// Returns host and port of a server, which name it if nothing else does.
pub(crate) fn authority(http: &Http) -> String {
    let host = http.url.host_str().unwrap_or_default();
    http.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Returns the URL without its query, which may hold a key.
pub(crate) fn url_without_query(http: &Http) -> String {
    let mut url = http.url.clone();
    url.set_query(None);
    url.into()
}
