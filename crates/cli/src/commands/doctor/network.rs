//! The checks `proxy`, `dns`, `tcp` and `socket`: how a server is reached, and whether it is.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bowline::{Cause, Fault};
use bowline_settings::shell_quote;
use bowline_transport::http::{ServerProbe, ServerRoute};

use super::check::{Blame, CheckLog, Finding};
use super::subject::Subject;
use crate::exit::Exit;

const DNS_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Reaches the server, without sending anything. Returns whether it accepted a connection.
pub(super) async fn check(probe: &ServerProbe, subject: &Subject<'_>, log: &CheckLog) -> bool {
    let begun = Instant::now();
    let route = probe.route();
    if let ServerRoute::Socket(path) = &route {
        let connected = probe.connect_socket(path, CONNECT_TIMEOUT).await;
        let shown = path.display().to_string();
        return log.add("socket", begun, socket_finding(&shown, connected.as_ref().err(), subject));
    }
    let (host, port) = probe.address();
    let is_proxied = route != ServerRoute::Direct;
    if !log.add("proxy", begun, route_finding(&route, subject)) {
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

/// What is contacted.
struct Place<'a> {
    host: &'a str,
    port: u16,
    /// It is the proxy, and not the server.
    is_proxied: bool,
}

const SKIPPED: &str = "an earlier check failed";

fn route_finding(route: &ServerRoute, subject: &Subject<'_>) -> Finding {
    match route {
        ServerRoute::Proxy(proxy) => Finding::ok(format!("through {proxy}, which also resolves the name")),
        ServerRoute::UnsupportedProxy(proxy) => {
            let seen = format!("{proxy} is a proxy of a kind that is not supported");
            proxy_mended(Finding::failed(Blame::You, Exit::Connection, seen), subject)
        }
        _ => Finding::ok("none: the server is reached directly"),
    }
}

/// Adds how to do without the proxy, which a variable names.
fn proxy_mended(finding: Finding, subject: &Subject<'_>) -> Finding {
    let host = subject.server.transport.http().and_then(|http| http.url.host_str()).unwrap_or_default();
    let again =
        subject.doctor_command(&[]).map(|command| format!("NO_PROXY={} {command}", shell_quote(host)));
    finding.mend("correct HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, or name the server in NO_PROXY").run(again)
}

fn dns_finding(place: &Place<'_>, found: Result<&[IpAddr], &Fault>, subject: &Subject<'_>) -> Finding {
    let host = place.host;
    let fault = match found {
        Ok([ip]) if *host == ip.to_string() => return Finding::ok("the URL has an address"),
        Ok(found) => {
            let shown: Vec<String> = found.iter().take(4).map(ToString::to_string).collect();
            return Finding::ok(format!("{host} is {}", shown.join(", ")));
        }
        Err(fault) => fault,
    };
    if place.is_proxied {
        let seen = format!("the proxy {host} has no address: {fault}");
        return proxy_mended(Finding::failed(Blame::You, Exit::Connection, seen), subject);
    }
    let (seen, exit) = if matches!(fault.cause, Cause::Timeout(_)) {
        (format!("no answer about {host} within {} s", DNS_TIMEOUT.as_secs()), Exit::Timeout)
    } else {
        let note = fault.evidence.note.as_deref().unwrap_or("no reason was given");
        (format!("{host} has no address: {note}"), Exit::Connection)
    };
    Finding::failed(Blame::Network, exit, seen)
        .mend("is the name in the URL spelled right, is this machine online, and does the name need a VPN?")
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
        return proxy_mended(Finding::failed(Blame::You, Exit::Connection, seen), subject);
    }
    match &fault.cause {
        Cause::Refused => {
            let seen = format!("{at} refuses connections: nothing listens there");
            Finding::failed(Blame::Server, Exit::Connection, seen)
                .mend("start the server, or correct the port in the URL")
                .run(subject.doctor_command(&[]))
        }
        Cause::Cut => {
            Finding::failed(Blame::Server, Exit::Connection, format!("{at} resets connections at once"))
                .mend("the server, or something in front of it, closes connections: ask who runs it")
                .run(subject.doctor_command(&[]))
        }
        Cause::Timeout(_) => {
            let seen = format!("{at} does not answer within {} s", CONNECT_TIMEOUT.as_secs());
            Finding::failed(Blame::Network, Exit::Timeout, seen)
                .mend("a firewall drops what is sent there, or the machine is down: ask who runs it")
                .run(subject.doctor_command(&[]))
        }
        _ => Finding::failed(Blame::Network, Exit::Connection, format!("{at} cannot be reached: {fault}"))
            .mend("is this machine online, and does the server need a VPN or a proxy (HTTPS_PROXY)?")
            .run(subject.doctor_command(&[])),
    }
}

fn socket_finding(path: &str, fault: Option<&Fault>, subject: &Subject<'_>) -> Finding {
    match fault {
        None => Finding::ok(format!("{path} accepts connections")),
        Some(fault) if matches!(fault.cause, Cause::Refused) => {
            let seen = format!("nobody listens on {path}");
            Finding::failed(Blame::Server, Exit::Connection, seen)
                .mend("start the server, or correct `socket` in its entry")
                .run(subject.doctor_command(&[]))
        }
        Some(fault) => {
            Finding::failed(Blame::Machine, Exit::Connection, format!("{path} cannot be used: {fault}"))
                .mend("are you allowed to use that socket?")
                .run(format!("ls -l {}", shell_quote(path)))
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline::{Limit, Server};

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
