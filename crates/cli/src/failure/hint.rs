//! Owns the next step that is suggested for a failure. A hint is given only where it is likely right.

use std::time::Duration;

use bowline::TaskEnd;
use bowline::config::{Server, Transport};
use bowline::fault::{Cause, Fault, Limit, Misbehaviour, Spawn};
use bowline::wire::code;

/// For a call that got no answer.
pub(super) fn for_fault(fault: &Fault, server: &Server) -> Option<String> {
    let text = match &fault.cause {
        Cause::Refused => "is the server running, and does it listen on that port?",
        Cause::Dns => "is the host name in the URL spelled right?",
        Cause::Unreachable => "is the network up, and does it need a proxy?",
        Cause::Tls => "for a certificate of your own, set `ca_file` in the server's configuration",
        Cause::Timeout(Limit::Idle) => "allow longer silence with --timeout",
        Cause::Timeout(Limit::Total) => "allow more time with --max-timeout",
        Cause::Timeout(Limit::Connect) => {
            "allow more time with --connect-timeout; a first start may have to download"
        }
        Cause::Status { retry_after: Some(after), .. } => {
            return Some(format!("the server asks to be left alone for {}", seconds(*after)));
        }
        Cause::Status { code: 404 | 405, .. } => {
            "is the path of the URL right? Many servers listen under /mcp"
        }
        Cause::Status { code: 403, .. } => {
            "the server knows you and refuses: is the token meant for this server?"
        }
        Cause::Status { code: 500.., .. } => "the fault is on the server's side; its log may say more",
        Cause::LoginRequired { .. } if sends_authorization(server) => {
            "the credentials were refused: has the token expired?"
        }
        Cause::LoginRequired { .. } => {
            "send a token with -H 'Authorization: Bearer …', or set it under `headers` in the configuration"
        }
        Cause::Redirect { .. } => "if you trust that address, use it as the URL",
        Cause::Spawn(Spawn::NotFound) => "is it installed? A full path works from anywhere",
        Cause::Spawn(Spawn::Denied) => "is it a program, and is it marked executable?",
        Cause::Exited(_) if fault.evidence.stderr.is_empty() => {
            "it said nothing on stderr; run the command by itself to see what it needs"
        }
        Cause::Exited(_) => "its own words are above; run the command by itself to try",
        Cause::Protocol(Misbehaviour::ContentType | Misbehaviour::Malformed(_)) => {
            "is this the MCP endpoint, and not a web page or another program?"
        }
        Cause::Versions { .. } => "bowline speaks 2024-11-05 to 2026-07-28",
        _ => return None,
    };
    Some(text.to_owned())
}

/// For an error that the server answered with.
pub(super) fn for_code(code: i64, method: &str) -> Option<&'static str> {
    match code {
        code::METHOD_NOT_FOUND => Some("`bowline info` shows what the server offers"),
        code::INVALID_PARAMS if method == "resources/read" => {
            Some("`bowline resources` lists what there is, `bowline templates` the patterns")
        }
        _ => None,
    }
}

/// For a task that has no result.
pub(super) fn for_task(end: TaskEnd, server: &Server) -> Option<&'static str> {
    match (end, &server.transport) {
        (TaskEnd::Gone, Transport::Stdio(_)) => Some(
            "a server that is started by a command ends with each bowline, and most lose their tasks then; \
             without --task a call is waited for",
        ),
        (TaskEnd::Gone, _) => Some("servers keep a task for a time only; `bowline tasks` lists what is left"),
        (TaskEnd::Foreign, _) => Some("the era that was spoken then can be had with --protocol"),
        _ => None,
    }
}

fn sends_authorization(server: &Server) -> bool {
    match &server.transport {
        Transport::Http(http) | Transport::Sse(http) => {
            http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        }
        Transport::Stdio(_) => false,
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_token_is_not_a_missing_one() {
        let fault = Fault::new(Cause::LoginRequired { code: 401, challenge: vec![] });
        let open = Server::http("s", "http://h/").unwrap();
        let sealed = open.clone().with_header("authorization", "Bearer x").unwrap();
        assert!(for_fault(&fault, &open).unwrap().contains("-H"));
        assert!(for_fault(&fault, &sealed).unwrap().contains("expired"));
    }
}
