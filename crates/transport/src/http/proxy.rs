//! Decides how a server is reached: directly, or through which proxy.

use std::fmt;

#[cfg(feature = "proxy")]
use bowline_config::is_loopback_host;
use http::Uri;
#[cfg(feature = "proxy")]
pub(super) use hyper_util::client::proxy::matcher::Intercept;
#[cfg(feature = "proxy")]
use hyper_util::client::proxy::matcher::Matcher;

#[cfg(not(feature = "proxy"))]
pub(super) use absent::Intercept;

/// Which proxies are used to reach servers.
///
/// A server on this machine is never reached through a proxy, whatever is configured. Without the
/// feature `proxy` no server is.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Proxies {
    /// The proxies of the environment (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, also
    /// in lower case), else of the system settings. Read when a link is made.
    #[default]
    System,
    /// No proxy.
    Direct,
    /// The given proxies.
    Fixed {
        /// For `http` servers, as in `HTTP_PROXY`. May be empty.
        http: String,
        /// For `https` servers, as in `HTTPS_PROXY`. May be empty.
        https: String,
        /// Hosts to be reached directly, as in `NO_PROXY`. May be empty.
        bypass: String,
    },
}

/// How a server is reached.
#[cfg_attr(not(feature = "proxy"), expect(dead_code, reason = "there are no proxies in this build"))]
pub(super) enum Route {
    Direct,
    /// The proxy gets the whole URL and forwards the request.
    Forward(Intercept),
    /// The proxy opens a connection and then passes bytes (`CONNECT`).
    Tunnel(Intercept),
    /// The proxy opens a connection with the SOCKS 5 protocol, and resolves the name.
    Socks(Intercept),
    /// A proxy with a protocol that we do not support.
    Unusable(Intercept),
}

#[cfg(not(feature = "proxy"))]
mod absent {
    use std::convert::Infallible;

    use http::{HeaderValue, Uri};

    /// A proxy, of which there is none in this build.
    #[derive(Clone, Debug)]
    pub(in crate::http) struct Intercept(Infallible);

    impl Intercept {
        pub(in crate::http) fn uri(&self) -> &Uri {
            match self.0 {}
        }

        pub(in crate::http) fn basic_auth(&self) -> Option<&HeaderValue> {
            match self.0 {}
        }

        pub(in crate::http) fn raw_auth(&self) -> Option<(&str, &str)> {
            match self.0 {}
        }
    }
}

impl Proxies {
    #[cfg(not(feature = "proxy"))]
    #[expect(clippy::unused_self, reason = "it has the signature of the function that it replaces")]
    pub(super) fn route(&self, _server: &Uri) -> Route {
        Route::Direct
    }

    #[cfg(feature = "proxy")]
    pub(super) fn route(&self, server: &Uri) -> Route {
        if server.host().is_none_or(is_loopback_host) {
            return Route::Direct;
        }
        let matcher = match self {
            Self::Direct => return Route::Direct,
            Self::System => Matcher::from_system(),
            Self::Fixed { http, https, bypass } => {
                Matcher::builder().http(http.as_str()).https(https.as_str()).no(bypass.as_str()).build()
            }
        };
        let Some(proxy) = matcher.intercept(server) else { return Route::Direct };
        match (proxy.uri().scheme_str(), server.scheme_str()) {
            (Some("http" | "https"), Some("https")) => Route::Tunnel(proxy),
            (Some("http" | "https"), _) => Route::Forward(proxy),
            (Some("socks5" | "socks5h"), _) => Route::Socks(proxy),
            _ => Route::Unusable(proxy),
        }
    }
}

/// Prints the kind only: the addresses may contain a password.
impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "System",
            Self::Direct => "Direct",
            Self::Fixed { .. } => "Fixed",
        })
    }
}

impl Route {
    pub(super) fn proxy(&self) -> Option<&Intercept> {
        match self {
            Self::Direct => None,
            Self::Forward(proxy) | Self::Tunnel(proxy) | Self::Socks(proxy) | Self::Unusable(proxy) => {
                Some(proxy)
            }
        }
    }
}

/// Prints the proxy without its credentials.
impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.proxy() {
            None => f.write_str("direct"),
            Some(proxy) => write!(f, "through {}", proxy.uri()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(http: &str, bypass: &str, server: &'static str) -> Route {
        let proxies = Proxies::Fixed { http: http.into(), https: http.into(), bypass: bypass.into() };
        proxies.route(&Uri::from_static(server))
    }

    #[test]
    fn this_machine_is_never_proxied() {
        for server in [
            "http://localhost/",
            "http://LOCALHOST.:80/",
            "https://api.localhost/",
            "http://127.0.0.1:8080/",
            "http://127.9.9.9/",
            "http://[::1]:3000/",
            "http://[::ffff:127.0.0.1]/",
        ] {
            assert!(matches!(route("http://proxy.test:3128", "", server), Route::Direct), "{server}");
        }
        assert!(matches!(route("http://proxy.test:3128", "", "http://localhost.test/"), Route::Forward(_)));
    }

    #[test]
    fn the_scheme_decides_how() {
        let proxy = "http://proxy.test:3128";
        assert!(matches!(route(proxy, "", "http://server.test/"), Route::Forward(_)));
        assert!(matches!(route(proxy, "", "https://server.test/"), Route::Tunnel(_)));
        assert!(matches!(route("socks5://proxy.test", "", "http://server.test/"), Route::Socks(_)));
        assert!(matches!(route("socks4://proxy.test", "", "http://server.test/"), Route::Unusable(_)));
        assert!(matches!(route("", "", "http://server.test/"), Route::Direct));
    }

    #[test]
    fn bypassed_hosts_are_reached_straight() {
        let proxy = "http://proxy.test:3128";
        assert!(matches!(route(proxy, "server.test", "https://api.server.test/"), Route::Direct));
        assert!(matches!(route(proxy, "10.0.0.0/8", "http://10.1.2.3/"), Route::Direct));
        assert!(matches!(route(proxy, "*", "http://other.test/"), Route::Direct));
        assert!(matches!(route(proxy, "server.test", "http://notserver.test/"), Route::Forward(_)));
    }

    #[test]
    fn credentials_are_not_shown() {
        let address = "http://user:hunter2@proxy.test:3128";
        let route = route(address, "", "https://server.test/");
        let shown = format!("{route:?}");
        assert!(!shown.contains("hunter2") && shown.contains("proxy.test"), "{shown}");
        let proxies = Proxies::Fixed { http: address.into(), https: address.into(), bypass: String::new() };
        assert_eq!(format!("{proxies:?}"), "Fixed");
    }
}
