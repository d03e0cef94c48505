//! Suggests the next step for a failure. A hint is given only where it is likely right.

use std::time::Duration;

use bowline::auth::missing_scopes;
use bowline::config::{Grant, Transport};
use bowline::types::code;
use bowline::{Cause, Fault, Limit, Misbehavior, Revision, Server, SpawnError, TaskEnd};
use bowline_transport::http::NOT_TLS;
use bowline_transport::process::WINDOWS_LINE_END;

use crate::server_auth::{HeaderAuth, header_auth};
use crate::suggested_command::{CommandLine, with_scopes};

/// Suggests a next step for a call that failed without a response.
pub(super) fn for_fault(fault: &Fault, server: &Server, typed: &CommandLine) -> Option<String> {
    let text = match &fault.cause {
        Cause::Refused => "is the server running, and does it listen on that port?",
        Cause::Dns => "is the host name in the URL spelled right?",
        Cause::Unreachable => "is the network up, and does it need a proxy?",
        Cause::Tls if fault.evidence.note.as_deref() == Some(NOT_TLS) => {
            "if it has no certificate, write http://"
        }
        Cause::Tls if is_about_tls_file(fault, server) => "is that the right file, and is it PEM?",
        Cause::Tls => {
            "for an authority of your own, use --ca-file PATH, or set `ca_file` in the server's entry"
        }
        Cause::Timeout(Limit::Idle | Limit::Total) if typed.is_adding() => {
            return after_adding(server, typed);
        }
        Cause::Timeout(Limit::Idle) => "allow longer silence with --timeout",
        Cause::Timeout(Limit::Total) => "allow more time with --max-timeout",
        Cause::Timeout(Limit::Connect) if matches!(server.transport, Transport::Stdio(_)) => {
            "allow more time with --connect-timeout; a first start may have to download"
        }
        Cause::Timeout(Limit::Connect) => "allow more time with --connect-timeout",
        Cause::Status { retry_after: Some(after), .. } => {
            return Some(format!("rate limited; retry in {}", describe_retry_after(*after)));
        }
        Cause::Status { code: 404 | 405, .. } if has_common_path(server) => {
            "is the path of the URL right? Servers with the older HTTP+SSE often listen under /sse"
        }
        Cause::Status { code: 404 | 405, .. } => {
            "is the path of the URL right? Many servers listen under /mcp"
        }
        Cause::Status { code: 403, .. } if server.transport.http().and_then(header_auth).is_none() => {
            "the server refused access: is this your URL, and does it require a token (-H 'Authorization: Bearer …')?"
        }
        Cause::Status { code: 403, .. } => "access was denied: is the token meant for this server?",
        Cause::Status { code: 500.., .. } => "this is an error on the server's side; its log may say more",
        Cause::LoginRequired { code, challenge } => return Some(for_login(server, *code, challenge, typed)),
        Cause::LoginUnavailable => "the stored login is unchanged; try again later",
        Cause::HeadersCommand => {
            "run it directly to see what it prints: `headers_command` in the server's entry"
        }
        Cause::StoreUnavailable => "`bowline auth` shows where logins are stored; nothing there was changed",
        Cause::PlainHttp => "use https, or set `allow_http = true` in the server's entry",
        Cause::Redirect { .. } => "if you trust that address, use it as the URL",
        Cause::Spawn(SpawnError::NotFound) if has_arguments_in_command(server) => {
            "the whole text is taken for the name of a program: put its arguments into `args`"
        }
        Cause::Spawn(SpawnError::NotFound) => "is it installed? A full path works from anywhere",
        Cause::Spawn(SpawnError::Denied) => "is it a program, and is it marked executable?",
        Cause::Spawn(SpawnError::Other) if has_note_about_line_end(fault) => UNIX_LINE_ENDS,
        Cause::Exited(_) if names_carriage_return(fault) => {
            return Some(format!("its script has Windows line ends (CR LF): {UNIX_LINE_ENDS}"));
        }
        Cause::Exited(_) if !fault.evidence.stdout.is_empty() => {
            "see what it printed above, or run the command directly"
        }
        Cause::Exited(_) if fault.evidence.stderr.is_empty() => {
            "it printed nothing on stderr; run the command directly to see what it needs"
        }
        Cause::Exited(_) => "see its stderr above, or run the command directly",
        Cause::Protocol(Misbehavior::ContentType | Misbehavior::Malformed(_)) => {
            "is this the MCP endpoint, and not a web page or another program?"
        }
        Cause::Protocol(Misbehavior::TooLarge { .. }) => {
            "to allow larger messages, use --message-limit MIB, or set `message_limit_mib` in the server's entry"
        }
        Cause::NoCommonVersion { .. } => "bowline speaks 2024-11-05 to 2026-07-28",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Suggests a next step for a server that could not be connected to, where [`for_fault`] has none.
pub(super) fn for_connecting(fault: &Fault, server: &Server, typed: &CommandLine) -> Option<String> {
    let is_plain = server.transport.http().is_some_and(|http| http.url.scheme() == "http");
    // Many servers end the connection when they are sent something else than TLS.
    if fault.cause == Cause::Cut && is_plain {
        return Some("is that an MCP server? If it speaks TLS on that port, write https://".to_owned());
    }
    if typed.is_adding() {
        return after_adding(server, typed);
    }
    Some(format!("find out more with `{}`", typed.doctor_command(server)?))
}

/// Suggests to add a server that did not work: `bowline doctor` needs its entry.
fn after_adding(server: &Server, typed: &CommandLine) -> Option<String> {
    Some(format!("add it with --no-check, then run: {}", typed.doctor_command(server)?))
}

/// Whether a file of the TLS settings, such as that of `--ca-file`, cannot be used: the note begins with its path.
fn is_about_tls_file(fault: &Fault, server: &Server) -> bool {
    let (Some(note), Some(http)) = (&fault.evidence.note, server.transport.http()) else { return false };
    let files = [&http.tls.ca_file, &http.tls.client_cert, &http.tls.client_key];
    files.into_iter().flatten().any(|path| note.starts_with(&format!("{}: ", path.display())))
}

/// What fixes a script that a carriage return keeps from being started.
pub(crate) const UNIX_LINE_ENDS: &str = "save the script with Unix line ends (LF)";

fn has_note_about_line_end(fault: &Fault) -> bool {
    fault.evidence.note.as_deref().is_some_and(|note| note.ends_with(WINDOWS_LINE_END))
}

/// Whether `env` did not find a program whose name ends with a carriage return, which it shows as `\r`.
fn names_carriage_return(fault: &Fault) -> bool {
    let is_about = |line: &String| line.contains("env: ") && (line.contains(r"\r") || line.contains('\r'));
    fault.evidence.stderr.iter().any(is_about)
}

/// Whether the name of the program looks like a command with arguments.
fn has_arguments_in_command(server: &Server) -> bool {
    let program = server.transport.program();
    program.is_some_and(|program| program.args.is_empty() && program.command.trim().contains(' '))
}

/// Whether the URL has the path that most servers have.
fn has_common_path(server: &Server) -> bool {
    server.transport.http().is_some_and(|http| http.url.path().trim_end_matches('/').ends_with("/mcp"))
}

/// Suggests the older era for an error whose text names the newest revision: some servers of both eras cannot do
/// everything in the newer one.
pub(super) fn for_era(text: &str, typed: &CommandLine) -> Option<String> {
    let revision = Revision::NEWEST_MODERN.as_str();
    let remedy = if typed.is_adding() {
        "add it with --no-check, and set `protocol = \"legacy\"` in its entry"
    } else {
        "try --protocol legacy"
    };
    let hint = format!("if the server's support of {revision} is the problem, {remedy}");
    text.contains(revision).then_some(hint)
}

/// Suggests how to authenticate.
fn for_login(server: &Server, code: u16, challenge: &[String], typed: &CommandLine) -> String {
    if let Transport::Http(http) | Transport::Sse(http) = &server.transport {
        match http.auth.grant {
            Grant::ClientCredentials | Grant::Enterprise(_) | Grant::Workload(_) => {
                return "this server does not use interactive logins: see `auth` in its entry".to_owned();
            }
            Grant::Off if header_auth(http).is_none() => {
                return "its entry sets `auth = false`: remove that to log in, or set a token under `headers`"
                    .to_owned();
            }
            Grant::Person | Grant::Device | Grant::Off => {}
        }
    }
    if let Some(command) = typed.login_command(server) {
        // A 403 means that a permission is missing, and the challenge may name the scopes.
        let scopes = if code == 403 { missing_scopes(challenge) } else { None };
        return format!("log in with `{}`", with_scopes(&command, &scopes.unwrap_or_default()));
    }
    match server.transport.http().and_then(header_auth) {
        Some(HeaderAuth::Fixed) => "the credentials were refused: has the token expired?",
        Some(HeaderAuth::Command) => {
            "the server rejected the headers that the `headers_command` of its entry printed"
        }
        None => {
            "send a token with -H 'Authorization: Bearer …', or set it under `headers` in the configuration"
        }
    }
    .to_owned()
}

/// Suggests a next step for an error response of the server.
pub(super) fn for_code(code: i64, method: &str) -> Option<&'static str> {
    match code {
        code::METHOD_NOT_FOUND => Some("`bowline info` shows what the server offers"),
        code::INVALID_PARAMS if method == "resources/read" => {
            Some("`bowline resources` lists the resources, `bowline templates` the templates")
        }
        _ => None,
    }
}

/// Suggests a next step for a task without a result.
pub(super) fn for_task(end: TaskEnd, server: &Server) -> Option<&'static str> {
    match (end, &server.transport) {
        (TaskEnd::NotFound, Transport::Stdio(_)) => Some(
            "a local server ends with each bowline command, and most lose their tasks then; without --task, bowline \
             waits for the result",
        ),
        (TaskEnd::NotFound, _) => {
            Some("servers keep tasks only for a limited time; `bowline tasks` lists the remaining ones")
        }
        (TaskEnd::WrongRevision, _) => Some("choose the protocol era of that task with --protocol"),
        _ => None,
    }
}

/// Describes when to retry. Longer times than an hour are cut to it when they are read.
fn describe_retry_after(time: Duration) -> String {
    if time >= HOUR { "an hour or more".to_owned() } else { format!("{} s", time.as_secs().max(1)) }
}

const HOUR: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use bowline_config::TransportSettings as _;
    use bowline_testkit::with;
    use clap::Parser as _;

    #[test]
    fn hints_fit_the_server() {
        let of =
            |cause: Cause, server: &Server| for_fault(&Fault::new(cause), server, &CommandLine::default());
        let not_found = || Cause::Spawn(SpawnError::NotFound);
        let in_one = Server::stdio("s", "npx -y foo").build().unwrap();
        assert!(of(not_found(), &in_one).unwrap().ends_with("put its arguments into `args`"));
        let with_args = Server::stdio("s", "C:/Program Files/x").args(["y"]).build().unwrap();
        assert!(of(not_found(), &with_args).unwrap().starts_with("is it installed?"));
        let status = |code| Cause::Status { code, retry_after: None };
        let url = |url: &str| Server::http("s", url).build().unwrap();
        assert!(of(status(404), &url("http://h/")).unwrap().ends_with("under /mcp"));
        assert!(of(status(405), &url("http://h/mcp/")).unwrap().ends_with("under /sse"));
        let too_large = Cause::Protocol(Misbehavior::TooLarge { limit: 1 });
        assert_eq!(
            of(too_large, &in_one).unwrap(),
            "to allow larger messages, use --message-limit MIB, or set `message_limit_mib` in the server's entry"
        );
        let era = |text: &str| for_era(text, &CommandLine::default());
        assert_eq!(era("not available on 2025-11-25 connections"), None);
        assert!(era("not available on 2026-07-28 connections").unwrap().ends_with("try --protocol legacy"));
    }

    #[test]
    fn unusable_ca_file_is_not_asked_for_again() {
        let tls = with!(bowline::config::Tls::default(), ca_file: Some("/a/ca.pem".into()));
        let server = Server::http("s", "https://h/").build().unwrap().with_tls(tls).unwrap();
        let hint = |note: &str| {
            let fault = Fault::new(Cause::Tls).with_note(note);
            for_fault(&fault, &server, &CommandLine::default()).unwrap()
        };
        for note in ["/a/ca.pem: no certificate in it", "/a/ca.pem: No such file or directory (os error 2)"] {
            assert_eq!(hint(note), "is that the right file, and is it PEM?");
        }
        assert_eq!(
            hint("invalid peer certificate: UnknownIssuer"),
            "for an authority of your own, use --ca-file PATH, or set `ca_file` in the server's entry"
        );
    }

    #[test]
    fn hints_of_add_need_no_entry() {
        let argv = ["bowline", "add", "notes", "--", "server"].map(std::ffi::OsString::from);
        let adding = CommandLine::new(&Cli::try_parse_from(&argv).unwrap(), &argv);
        let server = Server::stdio("notes", "server").build().unwrap();
        let then = Some("add it with --no-check, then run: bowline doctor notes".to_owned());
        for limit in [Limit::Idle, Limit::Total] {
            assert_eq!(for_fault(&Fault::new(Cause::Timeout(limit)), &server, &adding), then);
        }
        assert_eq!(for_connecting(&Fault::new(Cause::Cut), &server, &adding), then);
        assert_eq!(
            for_era("not available on 2026-07-28 connections", &adding).unwrap(),
            "if the server's support of 2026-07-28 is the problem, add it with --no-check, and set \
             `protocol = \"legacy\"` in its entry"
        );
    }

    #[test]
    fn the_longest_wait_is_at_least_an_hour() {
        let server = Server::http("s", "http://h/").build().unwrap();
        for (millis, shown) in [
            (1, "rate limited; retry in 1 s"),
            (90_000, "rate limited; retry in 90 s"),
            (3_599_000, "rate limited; retry in 3599 s"),
            (3_600_000, "rate limited; retry in an hour or more"),
        ] {
            let retry_after = Some(Duration::from_millis(millis));
            let fault = Fault::new(Cause::Status { code: 429, retry_after });
            assert_eq!(for_fault(&fault, &server, &CommandLine::default()).unwrap(), shown);
        }
    }

    #[test]
    fn missing_scopes_are_suggested() {
        let server = Server::http("s", "http://h/").build().unwrap();
        let of = |code, challenge: &str| {
            let challenge = vec![challenge.to_owned()];
            for_fault(&Fault::new(Cause::LoginRequired { code, challenge }), &server, &CommandLine::default())
                .unwrap()
        };
        let known = r#"Bearer error="insufficient_scope", scope="a:read b/write""#;
        assert_eq!(of(403, known), "log in with `bowline login s --scope a:read --scope b/write`");
        assert_eq!(of(401, known), "log in with `bowline login s`");
        for hostile in [r#"Bearer scope="$(reboot)""#, r#"Bearer scope="a;b""#, r#"Bearer scope="a"#] {
            assert_eq!(of(403, hostile), "log in with `bowline login s`");
        }
    }

    #[test]
    fn nobody_is_told_to_log_in_where_that_cannot_help() {
        let fault = Fault::new(Cause::LoginRequired { code: 401, challenge: vec![] });
        let of = |grant| {
            let auth = with!(bowline::config::AuthSettings::default(), grant: grant);
            let server = Server::http("s", "http://h/").build().unwrap().with_auth(auth).unwrap();
            for_fault(&fault, &server, &CommandLine::default()).unwrap()
        };
        assert!(of(Grant::ClientCredentials).contains("interactive"), "{}", of(Grant::ClientCredentials));
        assert!(of(Grant::Off).contains("`auth = false`"), "{}", of(Grant::Off));
        assert_eq!(of(Grant::Person), "log in with `bowline login s`");
    }

    #[test]
    fn a_refused_token_is_not_a_missing_one() {
        let fault = Fault::new(Cause::LoginRequired { code: 401, challenge: vec![] });
        let open = Server::http("s", "http://h/").build().unwrap();
        let sealed = open.clone().with_header("authorization", "Bearer x").unwrap();
        let hint = |server| for_fault(&fault, server, &CommandLine::default()).unwrap();
        assert_eq!(hint(&open), "log in with `bowline login s`");
        assert!(hint(&sealed).contains("expired"));
    }
}
