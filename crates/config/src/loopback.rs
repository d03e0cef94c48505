//! Whether a URL names this machine by a loopback address or a name that stands for one.

use url::{Host, Url};

/// Whether the host of a URL is a loopback address, `localhost` or a name below it.
///
/// The scheme does not matter: `redis://127.0.0.1` is one, though only the hosts of web URLs are parsed as addresses.
pub fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(is_loopback_host)
}

/// Whether the host of a URL, as it is written there, is a loopback address, `localhost` or a name below it.
pub fn is_loopback_host(host: &str) -> bool {
    match Host::parse(host) {
        Ok(Host::Ipv4(ip)) => ip.is_loopback(),
        // An address of IPv4 may be written as one of IPv6.
        Ok(Host::Ipv6(ip)) => ip.to_canonical().is_loopback(),
        Ok(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            name == "localhost" || name.ends_with(".localhost")
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine_are_told_from_others() {
        for (host, expected) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("127.1", true),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("localhost", true),
            ("LocalHost", true),
            ("localhost.", true),
            ("dev.localhost", true),
            ("0.0.0.0", false),
            ("128.0.0.1", false),
            ("[::]", false),
            ("[::2]", false),
            ("notlocalhost", false),
            ("localhost.example", false),
            ("127.0.0.1.example", false),
        ] {
            for scheme in ["http", "redis"] {
                let url = Url::parse(&format!("{scheme}://{host}:80/mcp")).unwrap();
                assert_eq!(is_loopback(&url), expected, "{url}");
            }
        }
        assert!(!is_loopback(&Url::parse("mailto:localhost").unwrap()));
        assert!(!is_loopback_host(""));
    }
}
