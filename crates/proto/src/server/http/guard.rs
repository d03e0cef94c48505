//! [`HttpGuard`]: whether a request comes from where it may come from.
//!
//! A page in a browser can send requests to a listener on the same machine. Its `Origin` gives it
//! away. If its own name was made to resolve to this machine, which is called DNS rebinding, the
//! `Host` gives it away.

use std::fmt;

use url::Url;

/// The names by which a listener may be addressed, and the web origins that may use it.
#[derive(Clone, Debug)]
pub struct HttpGuard {
    hosts: AllowedHosts,
    origins: Vec<String>,
}

#[derive(Clone, Debug)]
enum AllowedHosts {
    Any,
    /// Names in lower case: with a port for that port only, without one for every port.
    Listed(Vec<String>),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardRefusal {
    /// The listener is not addressed by an allowed name.
    Host,
    /// The web origin is not allowed.
    Origin,
}

impl fmt::Display for GuardRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "this Host is not allowed",
            Self::Origin => "this Origin is not allowed",
        })
    }
}

impl std::error::Error for GuardRefusal {}

/// The names of the machine itself.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl Default for HttpGuard {
    /// Allows the names of the machine itself, as `Host` and as `Origin`.
    fn default() -> Self {
        Self { hosts: AllowedHosts::Listed(LOOPBACK_NAMES.map(str::to_owned).into()), origins: Vec::new() }
    }
}

impl HttpGuard {
    /// Allows these names in addition to those of the machine itself: with a port for that port
    /// only, without one for every port.
    pub fn allow_hosts(&mut self, names: impl IntoIterator<Item = impl Into<String>>) {
        if let AllowedHosts::Listed(listed) = &mut self.hosts {
            listed.extend(names.into_iter().map(|name| name.into().to_ascii_lowercase()));
        }
    }

    /// Allows every name, for a listener that no browser can address, or that is behind a proxy
    /// which checks it.
    pub fn allow_any_host(&mut self) {
        self.hosts = AllowedHosts::Any;
    }

    /// Allows these web origins, such as `https://app.example.com`, in addition to those of the
    /// machine itself.
    pub fn allow_origins(&mut self, origins: impl IntoIterator<Item = impl Into<String>>) {
        self.origins.extend(origins.into_iter().map(|origin| origin.into().to_ascii_lowercase()));
    }

    /// Checks by which names the listener is addressed. There must be one, and all must be allowed.
    // SE-10
    pub fn check_host<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), GuardRefusal> {
        let AllowedHosts::Listed(listed) = &self.hosts else { return Ok(()) };
        let mut names = names.into_iter().peekable();
        let is_named = names.peek().is_some();
        if is_named && names.all(|name| is_listed(listed, name)) { Ok(()) } else { Err(GuardRefusal::Host) }
    }

    /// Checks the web origin of a request, if it has one.
    pub fn check_origin(&self, origin: Option<&str>) -> Result<(), GuardRefusal> {
        let Some(origin) = origin.map(str::to_ascii_lowercase) else { return Ok(()) };
        let is_allowed = self.origins.contains(&origin) || is_loopback_origin(&origin);
        if is_allowed { Ok(()) } else { Err(GuardRefusal::Origin) }
    }
}

fn is_listed(listed: &[String], name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let without_port = match name.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => &name,
    };
    listed.iter().any(|allowed| *allowed == name || allowed == without_port)
}

fn is_loopback_origin(origin: &str) -> bool {
    let Ok(url) = Url::parse(origin) else { return false };
    matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some_and(|host| LOOPBACK_NAMES.contains(&host))
        // An origin is a scheme, a host and a port, and nothing else.
        && (url.origin().ascii_serialization() == origin || has_default_port(&url, origin))
}

/// Whether the origin spells out the port that its scheme has anyway.
fn has_default_port(url: &Url, origin: &str) -> bool {
    let port = url.port_or_known_default().unwrap_or_default();
    format!("{}:{port}", url.origin().ascii_serialization()) == origin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_machine_are_allowed_with_any_port() {
        let guard = HttpGuard::default();
        for name in ["localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1:80", "[::1]", "[::1]:9"] {
            assert_eq!(guard.check_host([name]), Ok(()), "{name}");
        }
        for name in [
            "",
            "evil.example",
            "localhost.evil.example",
            "localhost.",
            "127.0.0.1.evil.example:80",
            "[::2]:9",
            "localhost:80:80",
            "localhost:x",
            "user@localhost",
            "127.0.0.2",
            "::1",
        ] {
            assert_eq!(guard.check_host([name]), Err(GuardRefusal::Host), "{name}");
        }
        assert_eq!(guard.check_host([]), Err(GuardRefusal::Host));
        assert_eq!(guard.check_host(["localhost", "evil.example"]), Err(GuardRefusal::Host));
    }

    #[test]
    fn listed_names_are_allowed_in_addition() {
        let mut guard = HttpGuard::default();
        guard.allow_hosts(["Gateway.example", "other.example:8443"]);
        for (name, verdict) in [
            ("gateway.example", Ok(())),
            ("gateway.example:1", Ok(())),
            ("other.example:8443", Ok(())),
            ("other.example", Err(GuardRefusal::Host)),
            ("other.example:1", Err(GuardRefusal::Host)),
            ("localhost", Ok(())),
        ] {
            assert_eq!(guard.check_host([name]), verdict, "{name}");
        }
        guard.allow_any_host();
        assert_eq!(guard.check_host(["evil.example"]), Ok(()));
        assert_eq!(guard.check_host([]), Ok(()));
    }

    #[test]
    fn only_loopback_and_listed_origins_are_allowed() {
        let mut guard = HttpGuard::default();
        guard.allow_origins(["https://App.example"]);
        for origin in [
            "http://localhost",
            "https://localhost:3000",
            "http://127.0.0.1:80",
            "http://[::1]:5173",
            "https://app.example",
            "HTTPS://APP.EXAMPLE",
        ] {
            assert_eq!(guard.check_origin(Some(origin)), Ok(()), "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://evil.example",
            "http://localhost.evil.example",
            "http://localhost@evil.example",
            "ftp://localhost",
            "http://localhost/path",
            "http://localhost:80x",
            "https://app.example:8443",
            "http://app.example",
            "http://evil.example#localhost",
        ] {
            assert_eq!(guard.check_origin(Some(origin)), Err(GuardRefusal::Origin), "{origin}");
        }
        assert_eq!(guard.check_origin(None), Ok(()));
    }
}
