//! Decides what a fault of a connection means: what was seen, whose fault it is, and what fixes it.

use std::time::Duration;

use bowline::auth::missing_scopes;
use bowline::config::Protocol;
use bowline::{Cause, Error, ErrorKind, Exit as ProcessExit, Fault, Limit, Misbehavior};
use bowline_transport::describe_url;

use super::check::{Blame, Finding};
use super::network;
use super::stderr_lines::{names_missing_argument, select_lines};
use super::subject::Subject;
use crate::args::format_duration;
use crate::exit::Exit;
use crate::failure::exit_for_cause;
use crate::suggested_command::with_scopes;

/// Returns the finding for a request, or a connection, that failed.
pub(super) fn of_error(error: &Error, subject: &Subject<'_>) -> Finding {
    match error.kind() {
        ErrorKind::Fault(fault) => of_fault(fault, subject),
        ErrorKind::Server(rpc) => {
            let seen = format!("{} was answered with error {}: {}", error.method(), rpc.code, rpc.message);
            Finding::failed(Blame::Server, Exit::Server, seen)
                .fix("this is an error of the server: its log may say more")
                .run(subject.log_command())
        }
        _ => Finding::failed(Blame::Server, Exit::Server, error.to_string())
            .fix("this is an error of the server: its log may say more")
            .run(subject.log_command()),
    }
}

/// Returns the finding for a fault.
pub(super) fn of_fault(fault: &Fault, subject: &Subject<'_>) -> Finding {
    if let Some(finding) = network::forwarding_finding(fault, subject) {
        return finding.details(evidence_lines(fault));
    }
    let seen = seen(fault);
    let exit = exit_for_cause(&fault.cause);
    let by = |blame| Finding::failed(blame, exit, seen.clone());
    let again = subject.doctor_command(&[]);
    let finding = match &fault.cause {
        Cause::Refused => by(Blame::Server).fix("start the server, or correct the port in the URL").run(again),
        Cause::Dns | Cause::Unreachable => {
            by(Blame::Network).fix("is this machine online, and does the server need a VPN or a proxy?").run(again)
        }
        Cause::Tls => by(Blame::You)
            .fix("if the server wants a certificate of yours, set `client_cert` and `client_key` in its entry")
            .run(subject.edit_command()),
        Cause::Cut => by(Blame::Server)
            .fix("the server, or something in front of it, closes connections: ask who runs it")
            .run(again),
        Cause::Timeout(Limit::Connect) if subject.is_process() => by(Blame::Server)
            .fix("a first start may have to download: allow more time; else it waits for something, see its log")
            .run(more_time_command(subject)),
        Cause::Timeout(Limit::Connect) => by(Blame::Server)
            .fix("the server accepts connections and does not answer: allow more time, or ask who runs it")
            .run(more_time_command(subject)),
        Cause::Timeout(Limit::Total) if fault.evidence.note.is_some() => by(Blame::Server)
            .fix("its pages are slow, or there is no last one: ask who runs the server, or see its log")
            .run(subject.log_command()),
        Cause::Timeout(_) => by(Blame::Server)
            .fix("the server does not answer: ask who runs it, or see its log")
            .run(subject.log_command()),
        Cause::Status { code, .. } => of_status(*code, fault, subject),
        Cause::LoginRequired { challenge, .. } => {
            let scopes = missing_scopes(challenge).unwrap_or_default();
            let login = subject.login_command().map(|login| with_scopes(&login, &scopes));
            by(Blame::You).fix("log in").run(login)
        }
        Cause::LoginUnavailable => {
            by(Blame::AuthorizationServer).fix("try again later; the stored login is unchanged").run(again)
        }
        Cause::StoreUnavailable => by(Blame::Machine)
            .fix("see where logins are stored; nothing there was changed")
            .run(subject.command_line.format_command(["auth"])),
        Cause::HeadersCommand => by(Blame::You)
            .fix("run the `headers_command` of its entry directly to see what it prints")
            .run(subject.edit_command()),
        Cause::PlainHttp => by(Blame::You)
            .fix("use https, or set `allow_http = true` in its entry")
            .run(subject.edit_command()),
        Cause::NotBuilt { .. } => by(Blame::Bowline).fix("install a bowline that has this feature"),
        Cause::Redirect { location } => of_redirect(location, fault, by, subject),
        Cause::Spawn(_) => by(Blame::Machine).fix("is it a program for this machine?").run(subject.edit_command()),
        Cause::Exited(exit) => of_exit(*exit, by, fault, subject),
        Cause::Protocol(misbehavior) => of_misbehavior(misbehavior, fault, by, subject),
        Cause::SessionLost => by(Blame::Server).fix(SESSION_ADVICE).run(again),
        Cause::NotAffine => by(Blame::Server).fix(SESSION_ADVICE).run(again),
        Cause::NoCommonVersion { .. } => by(Blame::Server)
            .fix("bowline speaks 2024-11-05 to 2026-07-28: update the server, or bowline")
            .run(subject.command_line.format_command(["--version"])),
        Cause::Loop => by(Blame::You)
            .fix("remove the entry: it is this gateway itself, or leads back to it")
            .run(subject.edit_command()),
        _ => by(Blame::Bowline).fix("this should not happen: please report it").run(subject.doctor_command(&["--report"])),
    };
    finding.details(evidence_lines(fault))
}

/// Returns the command that examines the server again with twice the time to connect, and at least
/// [`MIN_SUGGESTED_CONNECT`].
fn more_time_command(subject: &Subject<'_>) -> Option<String> {
    let more = subject.server.timeouts.connect.saturating_mul(2).max(MIN_SUGGESTED_CONNECT);
    subject.doctor_command(&["--connect-timeout", &format_duration(more)])
}

const MIN_SUGGESTED_CONNECT: Duration = Duration::from_secs(120);

/// What whoever runs a server has to do about lost sessions.
pub(super) const SESSION_ADVICE: &str = "whoever runs the server has to share sessions between its instances, or route each session to one of them";

fn of_status(code: u16, fault: &Fault, subject: &Subject<'_>) -> Finding {
    let seen = seen(fault);
    let by = |blame| Finding::failed(blame, Exit::Connection, seen.clone());
    let again = subject.doctor_command(&[]);
    match (code, &fault.cause) {
        (_, Cause::Status { retry_after: Some(after), .. }) => {
            let wait = if *after >= RETRY_AFTER_CAP {
                "an hour or more".to_owned()
            } else {
                format!("{} s", after.as_secs().max(1))
            };
            by(Blame::Server).fix(format!("the server is busy and asks to come back in {wait}")).run(again)
        }
        (403, _) => by(Blame::You)
            .fix("access is denied: is this your URL, and is the token meant for this server?")
            .run(subject.edit_command()),
        (404 | 405, _) => by(Blame::You)
            .fix("correct the path of the URL; many servers listen under /mcp")
            .run(subject.other_url_command(|url| url.set_path("/mcp"))),
        (429, _) => by(Blame::Server).fix("the server is busy: try again later").run(again),
        (502..=504 | 520..=527 | 530, _) => by(Blame::Server)
            .fix("what is in front of the server cannot reach it: ask who runs it")
            .run(again),
        (500.., _) => {
            by(Blame::Server).fix("this is an error of the server: its log may say more").run(again)
        }
        _ => by(Blame::You).fix("is this the address of an MCP server?").run(subject.edit_command()),
    }
}

/// The longest `Retry-After` that is read: a longer one is cut to this.
const RETRY_AFTER_CAP: Duration = Duration::from_secs(3600);

fn of_redirect(
    location: &str,
    fault: &Fault,
    by: impl Fn(Blame) -> Finding,
    subject: &Subject<'_>,
) -> Finding {
    // Only what is shown of both can be compared: a location has neither its query nor what may be a key.
    let is_itself = subject.server.transport.http().is_some_and(|http| describe_url(&http.url) == location);
    let again = subject.doctor_command(&[]);
    if is_itself {
        let mut finding = by(Blame::Server);
        finding.seen = format!("the server redirects to itself: {location}");
        return finding.fix("no URL can help: ask who runs the server, or what is in front of it").run(again);
    }
    if fault.evidence.note.as_deref() == Some("one redirect too many") {
        return by(Blame::Server)
            .fix("the server, or something in front of it, redirects without end: ask who runs it")
            .run(again);
    }
    by(Blame::You).fix("if you trust that address, use it as the URL").run(subject.edit_command())
}

fn of_exit(
    exit: ProcessExit,
    by: impl Fn(Blame) -> Finding,
    fault: &Fault,
    subject: &Subject<'_>,
) -> Finding {
    let program = subject.server.transport.program();
    if program.is_some_and(|program| names_missing_argument(&fault.evidence.stderr, &program.args)) {
        return by(Blame::You)
            .fix("what its command line names was not found: correct the path or the name")
            .run(subject.edit_command());
    }
    let text = match exit {
        ProcessExit::Signal(_) => "it crashed or was killed; its log may say why",
        _ if fault.evidence.stderr.is_empty() && fault.evidence.stdout.is_empty() => {
            "it printed nothing: run its command directly to see what it needs"
        }
        _ => "see what it printed: often an argument or a variable is missing",
    };
    by(Blame::Server).fix(text).run(subject.log_command())
}

fn of_misbehavior(
    misbehavior: &Misbehavior,
    fault: &Fault,
    by: impl Fn(Blame) -> Finding,
    subject: &Subject<'_>,
) -> Finding {
    let note = fault.evidence.note.as_deref().unwrap_or_default();
    if let (Misbehavior::ContentType, Some(problem)) = (misbehavior, note.strip_prefix(NOT_HTTP)) {
        return of_broken_http(problem, by, subject);
    }
    if let (Misbehavior::BadResult, Some(refusal)) = (misbehavior, note.strip_prefix(REFUSED_HANDSHAKE)) {
        return of_refused_handshake(refusal, by(Blame::Server), subject);
    }
    match misbehavior {
        Misbehavior::Echo => {
            by(Blame::You).fix("`command` is not an MCP server: correct it").run(subject.edit_command())
        }
        Misbehavior::ContentType if !subject.is_process() => by(Blame::You)
            .fix("is this the MCP endpoint, and not a web page? Many servers listen under /mcp")
            .run(subject.other_url_command(|url| url.set_path("/mcp"))),
        _ => by(Blame::Server)
            .fix("the server breaks the protocol: report it to who makes it")
            .run(subject.log_command()),
    }
}

/// How the note of a fault begins if an answer could not be parsed as HTTP, and if the server answered the
/// first request with an error.
const NOT_HTTP: &str = "not HTTP: ";
const REFUSED_HANDSHAKE: &str = "the server refused the handshake: ";

/// Returns the finding for an answer that is no HTTP, or that breaks off within its headers.
fn of_broken_http(problem: &str, by: impl Fn(Blame) -> Finding, subject: &Subject<'_>) -> Finding {
    // Not even the first line is one of HTTP.
    if problem.starts_with("invalid HTTP version") {
        let mut finding = by(Blame::You);
        "what listens there does not speak HTTP".clone_into(&mut finding.seen);
        return finding.fix("correct the port in the URL").run(subject.edit_command());
    }
    let mut finding = by(Blame::Server);
    finding.seen = format!("the server's answer is not valid HTTP: {problem}");
    finding
        .fix("the server, or something in front of it, breaks HTTP: report it to who runs it")
        .run(subject.log_command())
}

/// Returns the finding for a server that answered the first request with an error. Whether it speaks another era
/// than the one that was chosen is decided in `fixed_setting`.
fn of_refused_handshake(refusal: &str, mut finding: Finding, subject: &Subject<'_>) -> Finding {
    let method = match subject.server.protocol {
        Protocol::Modern => "server/discover",
        _ => "initialize",
    };
    finding.seen = format!("the server refused `{method}`: {refusal}");
    finding.fix("its log may say why it refuses").run(subject.log_command())
}

/// What happened, without what would happen next: the command ends here.
fn seen(fault: &Fault) -> String {
    let mut shown = fault.clone();
    shown.evidence.next_step = None;
    shown.to_string()
}

/// Returns what the server said, a few lines of each kind.
fn evidence_lines(fault: &Fault) -> Vec<String> {
    let evidence = &fault.evidence;
    let body = evidence.body.iter().flat_map(|body| body.lines()).take(MAX_LINES);
    let body = body.map(|line| format!("body: {}", line.chars().take(MAX_LINE_CHARS).collect::<String>()));
    let stdout = &evidence.stdout[evidence.stdout.len().saturating_sub(MAX_LINES)..];
    let stdout = stdout.iter().map(|line| format!("stdout: {line}"));
    let stderr = select_lines(&evidence.stderr, MAX_LINES).iter().map(|line| format!("stderr: {line}"));
    body.chain(stdout).chain(stderr).collect()
}

/// How many lines of a body, of stdout and of stderr are shown, and how long they may be.
const MAX_LINES: usize = 6;
const MAX_LINE_CHARS: usize = 160;

#[cfg(test)]
mod tests {
    use bowline::{Server, SpawnError};

    use super::*;
    use crate::commands::doctor::subject::tests::with_subject;

    /// Every cause has someone to blame and something to do, and none is bowline's by accident.
    #[test]
    fn every_cause_has_a_blame_and_a_remedy() {
        let http = Server::http("docs", "https://docs.example/mcp").build().unwrap();
        let status = |code| Cause::Status { code, retry_after: None };
        for (cause, blame, exit) in [
            (Cause::Refused, Blame::Server, Exit::Connection),
            (Cause::Dns, Blame::Network, Exit::Connection),
            (Cause::Unreachable, Blame::Network, Exit::Connection),
            (Cause::Tls, Blame::You, Exit::Connection),
            (Cause::Cut, Blame::Server, Exit::Connection),
            (Cause::Timeout(Limit::Connect), Blame::Server, Exit::Timeout),
            (Cause::Timeout(Limit::Idle), Blame::Server, Exit::Timeout),
            (status(403), Blame::You, Exit::Connection),
            (status(404), Blame::You, Exit::Connection),
            (status(418), Blame::You, Exit::Connection),
            (status(429), Blame::Server, Exit::Connection),
            (status(500), Blame::Server, Exit::Connection),
            (status(502), Blame::Server, Exit::Connection),
            (Cause::LoginRequired { code: 401, challenge: vec![] }, Blame::You, Exit::Login),
            (Cause::LoginUnavailable, Blame::AuthorizationServer, Exit::Connection),
            (Cause::StoreUnavailable, Blame::Machine, Exit::Usage),
            (Cause::HeadersCommand, Blame::You, Exit::Connection),
            (Cause::PlainHttp, Blame::You, Exit::Usage),
            (Cause::NotBuilt { feature: "http" }, Blame::Bowline, Exit::Connection),
            (Cause::Redirect { location: "https://other".into() }, Blame::You, Exit::Connection),
            (Cause::Spawn(SpawnError::Other), Blame::Machine, Exit::Connection),
            (Cause::Exited(ProcessExit::Code(1)), Blame::Server, Exit::Connection),
            (Cause::Protocol(Misbehavior::Echo), Blame::You, Exit::Connection),
            (Cause::Protocol(Misbehavior::ContentType), Blame::You, Exit::Connection),
            (Cause::Protocol(Misbehavior::BadResult), Blame::Server, Exit::Connection),
            (Cause::SessionLost, Blame::Server, Exit::Connection),
            (Cause::NotAffine, Blame::Server, Exit::Connection),
            (Cause::NoCommonVersion { supported: vec![] }, Blame::Server, Exit::Connection),
            (Cause::Loop, Blame::You, Exit::Connection),
        ] {
            let finding = with_subject(&http, |subject| of_fault(&Fault::new(cause.clone()), subject));
            assert_eq!((finding.blame, finding.exit), (Some(blame), exit), "{cause:?}");
            assert!(finding.remedy.is_some(), "{cause:?}");
        }
    }

    #[test]
    fn retry_after_is_what_to_wait_for() {
        let http = Server::http("docs", "https://docs.example/mcp").build().unwrap();
        let cause = Cause::Status { code: 503, retry_after: Some(Duration::from_secs(30)) };
        let finding = with_subject(&http, |subject| of_fault(&Fault::new(cause), subject));
        let remedy = finding.remedy.unwrap();
        assert_eq!(remedy.text, "the server is busy and asks to come back in 30 s");
        assert_eq!(remedy.command.as_deref(), Some("bowline doctor docs"));
        // The transport reads no more than an hour.
        let cause = Cause::Status { code: 429, retry_after: Some(Duration::from_secs(3600)) };
        let finding = with_subject(&http, |subject| of_fault(&Fault::new(cause), subject));
        let text = finding.remedy.unwrap().text;
        assert_eq!(text, "the server is busy and asks to come back in an hour or more");
    }

    /// Checks the finding for a fault with a note: what was seen, whose fault it is, and what fixes it.
    fn assert_finding(server: &Server, fault: &Fault, blame: Blame, seen: &str, text: &str, command: &str) {
        let finding = with_subject(server, |subject| of_fault(fault, subject));
        assert_eq!((finding.blame, &*finding.seen), (Some(blame), seen));
        let remedy = finding.remedy.unwrap();
        assert_eq!((&*remedy.text, remedy.command.as_deref()), (text, Some(command)));
    }

    #[test]
    fn redirect_is_the_servers_fault_if_no_url_helps() {
        let http = Server::http("docs", "https://docs.example/mcp?key=k3y").build().unwrap();
        let to = |location: &str| {
            Fault::new(Cause::Redirect { location: location.to_owned() }).with_note("one redirect too many")
        };
        assert_finding(
            &http,
            &to("https://docs.example/mcp"),
            Blame::Server,
            "the server redirects to itself: https://docs.example/mcp",
            "no URL can help: ask who runs the server, or what is in front of it",
            "bowline doctor docs",
        );
        assert_finding(
            &http,
            &to("https://docs.example/a"),
            Blame::Server,
            "refused to follow a redirect to https://docs.example/a: one redirect too many",
            "the server, or something in front of it, redirects without end: ask who runs it",
            "bowline doctor docs",
        );
    }

    #[test]
    fn redirect_to_itself_is_noticed_without_its_key() {
        let http = Server::http("docs", "https://docs.example/sk-live-S3CR3T0123456789/mcp").build().unwrap();
        let location = "https://docs.example/…/mcp".to_owned();
        assert_finding(
            &http,
            &Fault::new(Cause::Redirect { location }),
            Blame::Server,
            "the server redirects to itself: https://docs.example/…/mcp",
            "no URL can help: ask who runs the server, or what is in front of it",
            "bowline doctor docs",
        );
    }

    #[test]
    fn more_time_is_twice_what_was_given() {
        let docs = || Server::http("docs", "https://docs.example/mcp").build().unwrap();
        let fault = Fault::new(Cause::Timeout(Limit::Connect));
        for (given, more) in [(5, "2m"), (30, "2m"), (60, "2m"), (90, "3m"), (300, "10m")] {
            assert_finding(
                &docs().with_connect_timeout(Duration::from_secs(given)),
                &fault,
                Blame::Server,
                "the server did not become ready in time",
                "the server accepts connections and does not answer: allow more time, or ask who runs it",
                &format!("bowline doctor docs --connect-timeout {more}"),
            );
        }
    }

    #[test]
    fn refused_request_is_named() {
        let refused = Fault::protocol(Misbehavior::BadResult)
            .with_note("the server refused the handshake: go away (code -32000)");
        let docs = || Server::http("docs", "https://docs.example/mcp").build().unwrap();
        for (protocol, method) in [
            (Protocol::Legacy, "initialize"),
            (Protocol::Modern, "server/discover"),
            (Protocol::Auto, "initialize"),
        ] {
            assert_finding(
                &docs().with_protocol(protocol),
                &refused,
                Blame::Server,
                &format!("the server refused `{method}`: go away (code -32000)"),
                "its log may say why it refuses",
                "bowline info docs -vv",
            );
        }
    }

    #[test]
    fn evidence_is_bounded() {
        let fault = Fault::new(Cause::Exited(ProcessExit::Code(1)))
            .with_body("x".repeat(4000).as_bytes())
            .with_stderr((0..50).map(|n| n.to_string()).collect());
        let lines = evidence_lines(&fault);
        assert_eq!((lines.len(), lines[0].len()), (7, 6 + MAX_LINE_CHARS));
        assert_eq!((&*lines[1], &*lines[6]), ("stderr: 44", "stderr: 49"));
    }
}
