//! The checks `proxy`, `dns`, `tcp` and `socket`: how a server is reached, and whether it is.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bowline::config::Http;
use bowline::{Cause, Fault, Limit};
use bowline_settings::shell_quote;
use bowline_transport::http::{Proxies, ServerProbe, ServerRoute};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::check::{Blame, CheckLog, Finding};
use super::subject::Subject;
use crate::exit::Exit;

const DNS_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a proxy may take to answer, once a handshake through it has run out of time.
const PROXY_ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Reaches the server, without sending anything. Returns whether it accepted a connection.
///
/// `unusable_variable` is that of [`unusable_proxy_variable`].
pub(super) async fn check(
    probe: &ServerProbe,
    unusable_variable: Option<&str>,
    subject: &Subject<'_>,
    log: &CheckLog,
) -> bool {
    let begun = Instant::now();
    let route = probe.route();
    if let ServerRoute::Socket(path) = &route {
        let connected = probe.connect_socket(path, CONNECT_TIMEOUT).await;
        let shown = path.display().to_string();
        return log.add("socket", begun, socket_finding(&shown, connected.as_ref().err(), subject));
    }
    let (host, port) = probe.address();
    let is_proxied = route != ServerRoute::Direct;
    if !log.add("proxy", begun, route_finding(&route, unusable_variable, subject)) {
        log.skip(&["dns", "tcp"], SKIPPED);
        return false;
    }
    let begun = Instant::now();
    let resolved = probe.resolve(DNS_TIMEOUT).await;
    let place = Place { host: &host, port, is_proxied };
    if !log.add("dns", begun, dns_finding(&place, resolved.as_deref(), subject)) {
        log.skip(&["tcp"], SKIPPED);
        return false;
    }
    let begun = Instant::now();
    let connected = probe.connect(&resolved.unwrap_or_default(), CONNECT_TIMEOUT).await;
    log.add("tcp", begun, tcp_finding(&place, connected.as_ref().map(ToString::to_string), subject))
}

/// Returns host and port of the proxy through which the server is reached.
pub(super) fn proxy_address(probe: &ServerProbe) -> Option<String> {
    let is_proxied = matches!(probe.route(), ServerRoute::Proxy(_));
    let (host, port) = probe.address();
    is_proxied.then(|| format!("{host}:{port}"))
}

/// Returns the variable that is to name the proxy of this server, and that is not the URL of a proxy.
pub(super) fn unusable_proxy_variable(
    http: &Http,
    read_variable: impl Fn(&str) -> Option<String>,
) -> Option<&'static str> {
    let first_set = |names: [&'static str; 2]| {
        names.into_iter().find_map(|name| read_variable(name).map(|value| (name, value)))
    };
    let (_, bypass) = first_set(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    // Where a proxy that is surely understood is not used, the variables have no meaning.
    if ignores_proxy(http, "http://proxy.invalid:1", &bypass) {
        return None;
    }
    let of_scheme = if http.url.scheme() == "https" {
        ["HTTPS_PROXY", "https_proxy"]
    } else {
        ["HTTP_PROXY", "http_proxy"]
    };
    let set = [of_scheme, ["ALL_PROXY", "all_proxy"]].into_iter().filter_map(first_set);
    let mut values = set.filter(|(_, value)| !value.is_empty());
    values.find(|(_, value)| ignores_proxy(http, value, "")).map(|(name, _)| name)
}

/// Whether the server is reached directly with these settings.
fn ignores_proxy(http: &Http, proxy: &str, bypass: &str) -> bool {
    let proxies =
        Proxies::Fixed { http: proxy.to_owned(), https: proxy.to_owned(), bypass: bypass.to_owned() };
    ServerProbe::new(http, proxies).is_ok_and(|probe| probe.route() == ServerRoute::Direct)
}

/// Returns the finding for a tunnel that the proxy did not open. `None` if the proxy is not at fault.
pub(super) async fn check_tunnel(
    probe: &ServerProbe,
    fault: &Fault,
    subject: &Subject<'_>,
) -> Option<Finding> {
    let proxy = subject.proxy?;
    let note = fault.evidence.note.as_deref().unwrap_or_default();
    if note.contains("proxy authorization required") {
        return Some(proxy_login_finding(proxy));
    }
    if !matches!(fault.cause, Cause::Timeout(_)) || !is_silent_proxy(probe, subject).await {
        return None;
    }
    let seen = format!("the proxy at {proxy} does not answer");
    Some(with_proxy_fix(Finding::failed(Blame::Network, Exit::Timeout, seen), subject))
}

/// Returns the finding for a request that a proxy was to forward. `None` if the proxy is not at fault.
pub(super) fn forwarding_finding(fault: &Fault, subject: &Subject<'_>) -> Option<Finding> {
    let proxy = subject.proxy.filter(|_| subject.has_scheme("http"))?;
    match &fault.cause {
        Cause::Status { code: 407, .. } => Some(proxy_login_finding(proxy)),
        Cause::Timeout(Limit::Connect) => {
            let seen = format!("no answer comes through the proxy at {proxy}");
            Some(with_proxy_fix(Finding::failed(Blame::Network, Exit::Timeout, seen), subject))
        }
        _ => None,
    }
}

/// Whether the proxy answers nothing to a first request. A proxy that is reached over TLS is not asked.
async fn is_silent_proxy(probe: &ServerProbe, subject: &Subject<'_>) -> bool {
    let ServerRoute::Proxy(proxy) = probe.route() else { return false };
    let Some(http) = subject.server.transport.http() else { return false };
    let host = http.url.host_str().unwrap_or_default();
    let port = http.url.port_or_known_default().unwrap_or_default();
    let request = match proxy.split_once("://") {
        Some(("http", _)) => {
            format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n").into_bytes()
        }
        // The greeting of SOCKS 5: one method, without credentials.
        Some(("socks5" | "socks5h", _)) => vec![5, 1, 0],
        _ => return false,
    };
    let (host, port) = probe.address();
    let exchange = async {
        let mut stream = TcpStream::connect((host.as_str(), port)).await?;
        stream.write_all(&request).await?;
        stream.read_u8().await
    };
    timeout(PROXY_ANSWER_TIMEOUT, exchange).await.is_err()
}

fn proxy_login_finding(proxy: &str) -> Finding {
    let seen = format!("the proxy at {proxy} requires credentials (status 407)");
    Finding::failed(Blame::You, Exit::Connection, seen).fix(format!(
        "write user and password into HTTP_PROXY, HTTPS_PROXY or ALL_PROXY: http://USER:PASSWORD@{proxy}"
    ))
}

/// What is contacted.
struct Place<'a> {
    host: &'a str,
    port: u16,
    /// It is the proxy, and not the server.
    is_proxied: bool,
}

const SKIPPED: &str = "an earlier check failed";

fn route_finding(route: &ServerRoute, unusable_variable: Option<&str>, subject: &Subject<'_>) -> Finding {
    if let Some(name) = unusable_variable {
        let seen = match route {
            ServerRoute::Proxy(proxy) => format!("through {proxy}, since {name} is not the URL of a proxy"),
            _ => format!("none: the server is reached directly, since {name} is not the URL of a proxy"),
        };
        let finding = Finding::warning(Blame::You, seen);
        return finding.fix(format!("set {name} to an address such as http://HOST:PORT, or unset it"));
    }
    match route {
        ServerRoute::Proxy(proxy) => Finding::ok(format!("through {proxy}, which also resolves the name")),
        ServerRoute::UnsupportedProxy(proxy) => {
            let seen = format!("{proxy} is a proxy of a kind that is not supported");
            with_proxy_fix(Finding::failed(Blame::You, Exit::Connection, seen), subject)
        }
        _ => Finding::ok("none: the server is reached directly"),
    }
}

/// Adds how to do without the proxy, which a variable names.
fn with_proxy_fix(finding: Finding, subject: &Subject<'_>) -> Finding {
    let host = subject.server.transport.http().and_then(|http| http.url.host_str()).unwrap_or_default();
    let again =
        subject.doctor_command(&[]).map(|command| format!("NO_PROXY={} {command}", shell_quote(host)));
    finding.fix("correct HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, or name the server in NO_PROXY").run(again)
}

fn dns_finding(place: &Place<'_>, found: Result<&[IpAddr], &Fault>, subject: &Subject<'_>) -> Finding {
    let host = place.host;
    let fault = match found {
        Ok([ip]) if *host == ip.to_string() => {
            return Finding::ok(if place.is_proxied {
                "the proxy resolves the name of the server"
            } else {
                "the URL has an address"
            });
        }
        Ok(found) => {
            let shown: Vec<String> = found.iter().take(4).map(ToString::to_string).collect();
            let shown = format!("{host} is {}", shown.join(", "));
            return Finding::ok(if place.is_proxied {
                format!("the proxy {shown}; it resolves the name of the server")
            } else {
                shown
            });
        }
        Err(fault) => fault,
    };
    if place.is_proxied {
        let seen = format!("the proxy {host} has no address: {fault}");
        return with_proxy_fix(Finding::failed(Blame::You, Exit::Connection, seen), subject);
    }
    let (seen, exit) = if matches!(fault.cause, Cause::Timeout(_)) {
        (format!("no answer about {host} within {} s", DNS_TIMEOUT.as_secs()), Exit::Timeout)
    } else {
        let note = fault.evidence.note.as_deref().unwrap_or("no reason was given");
        (format!("{host} has no address: {note}"), Exit::Connection)
    };
    Finding::failed(Blame::Network, exit, seen)
        .fix("is the name in the URL spelled right, is this machine online, and does the name need a VPN?")
        .run(subject.edit_command())
}

fn tcp_finding(place: &Place<'_>, connected: Result<String, &Fault>, subject: &Subject<'_>) -> Finding {
    let at = format!("{}:{}", place.host, place.port);
    let fault = match connected {
        Ok(address) => return Finding::ok(format!("{address} accepts connections")),
        Err(fault) => fault,
    };
    if place.is_proxied {
        let seen = format!("the proxy {at} cannot be reached: {fault}");
        return with_proxy_fix(Finding::failed(Blame::You, Exit::Connection, seen), subject);
    }
    match &fault.cause {
        Cause::Refused => {
            let seen = format!("{at} refuses connections: nothing listens there");
            Finding::failed(Blame::Server, Exit::Connection, seen)
                .fix("start the server, or correct the port in the URL")
                .run(subject.doctor_command(&[]))
        }
        Cause::Cut => {
            Finding::failed(Blame::Server, Exit::Connection, format!("{at} resets connections at once"))
                .fix("the server, or something in front of it, closes connections: ask who runs it")
                .run(subject.doctor_command(&[]))
        }
        Cause::Timeout(_) => {
            let seen = format!("{at} does not answer within {} s", CONNECT_TIMEOUT.as_secs());
            Finding::failed(Blame::Network, Exit::Timeout, seen)
                .fix("a firewall drops what is sent there, or the machine is down: ask who runs it")
                .run(subject.doctor_command(&[]))
        }
        _ => Finding::failed(Blame::Network, Exit::Connection, format!("{at} cannot be reached: {fault}"))
            .fix("is this machine online, and does the server need a VPN or a proxy (HTTPS_PROXY)?")
            .run(subject.doctor_command(&[])),
    }
}

fn socket_finding(path: &str, fault: Option<&Fault>, subject: &Subject<'_>) -> Finding {
    match fault {
        None => Finding::ok(format!("{path} accepts connections")),
        Some(fault) if matches!(fault.cause, Cause::Refused) => {
            let seen = format!("nobody listens on {path}");
            Finding::failed(Blame::Server, Exit::Connection, seen)
                .fix("start the server, or correct `socket` in its entry")
                .run(subject.doctor_command(&[]))
        }
        Some(fault) => {
            Finding::failed(Blame::Machine, Exit::Connection, format!("{path} cannot be used: {fault}"))
                .fix("are you allowed to use that socket?")
                .run(format!("ls -l {}", shell_quote(path)))
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline::Server;

    use super::*;
    use crate::commands::doctor::subject::tests::with_subject;

    fn server() -> Server {
        Server::http("docs", "https://docs.example/mcp").build().unwrap()
    }

    #[test]
    fn network_is_to_blame_for_a_name_and_a_silence_and_the_server_for_a_refusal() {
        let place = Place { host: "docs.example", port: 443, is_proxied: false };
        with_subject(&server(), |subject| {
            let dns = Fault::before_sending(Cause::Dns).with_note("no such name");
            let dns = dns_finding(&place, Err(&dns), subject);
            assert_eq!(dns.seen, "docs.example has no address: no such name");
            assert_eq!((dns.blame, dns.exit), (Some(Blame::Network), Exit::Connection));
            let tcp = |cause| tcp_finding(&place, Err(&Fault::before_sending(cause)), subject);
            assert_eq!(tcp(Cause::Refused).blame, Some(Blame::Server));
            let silent = tcp(Cause::Timeout(Limit::Connect));
            assert_eq!((silent.blame, silent.exit), (Some(Blame::Network), Exit::Timeout));
            assert_eq!(tcp(Cause::Unreachable).blame, Some(Blame::Network));
        });
    }

    #[test]
    fn only_a_variable_that_is_no_address_is_unusable() {
        let unusable = |url: &str, variables: &[(&str, &str)]| {
            let server = Server::http("docs", url).build().unwrap();
            let read = |name: &str| {
                let found = variables.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            unusable_proxy_variable(server.transport.http().unwrap(), read)
        };
        let (https, http) = ("https://docs.example/mcp", "http://docs.example/mcp");
        assert_eq!(unusable(https, &[]), None);
        assert_eq!(unusable(https, &[("https_proxy", "::::")]), Some("https_proxy"));
        assert_eq!(unusable(http, &[("https_proxy", "::::")]), None);
        assert_eq!(unusable(http, &[("ALL_PROXY", "::::")]), Some("ALL_PROXY"));
        assert_eq!(unusable(https, &[("https_proxy", "")]), None);
        assert_eq!(unusable(https, &[("HTTPS_PROXY", "http://u:p@proxy.example:3128")]), None);
        assert_eq!(unusable(https, &[("https_proxy", "::::"), ("no_proxy", "docs.example")]), None);
        assert_eq!(unusable("http://127.0.0.1:1/mcp", &[("http_proxy", "::::")]), None);
    }

    #[test]
    fn proxy_resolves_the_name_of_the_server() {
        let ip: IpAddr = "127.0.0.1".parse().unwrap();
        with_subject(&server(), |subject| {
            let seen = |host, is_proxied| {
                dns_finding(&Place { host, port: 3128, is_proxied }, Ok(&[ip]), subject).seen
            };
            assert_eq!(seen("127.0.0.1", true), "the proxy resolves the name of the server");
            assert_eq!(seen("127.0.0.1", false), "the URL has an address");
            let named = "the proxy proxy.example is 127.0.0.1; it resolves the name of the server";
            assert_eq!(seen("proxy.example", true), named);
        });
    }

    #[test]
    fn proxy_that_cannot_be_reached_is_the_persons_and_can_be_avoided() {
        let place = Place { host: "proxy.example", port: 3128, is_proxied: true };
        with_subject(&server(), |subject| {
            let refused = Fault::before_sending(Cause::Refused);
            let finding = tcp_finding(&place, Err(&refused), subject);
            assert_eq!(finding.blame, Some(Blame::You));
            let command = finding.remedy.unwrap().command;
            assert_eq!(command.as_deref(), Some("NO_PROXY=docs.example bowline doctor docs"));
        });
    }
}
