//! Defines how a command fails: the exit code, the facts, and a suggested next step where one is
//! known.

mod hint;

pub(crate) use hint::UNIX_LINE_ENDS;

use std::io;
use std::path::Path;

use bowline::auth::{AuthError, AuthErrorKind};
use bowline::config::Problem;
use bowline::types::method;
use bowline::{Cause, Error, ErrorKind, Execution, Fault, Misbehavior, Server};
use bowline_settings::SettingsError;
use bowline_transport::describe_url;
use serde_json::{Map, Value, json};

use crate::exit::Exit;
use crate::suggested_command::CommandLine;

/// Why a command did not succeed.
pub(crate) enum Failure {
    Report(Box<Report>),
    /// A signal ended the command; the person who sent it knows, so nothing is reported.
    Signal(Exit),
    /// Stdout cannot be written to.
    Output(io::Error),
}

#[derive(Debug)]
pub(crate) struct Report {
    /// Exit code of the command.
    pub(crate) exit: Exit,
    /// What failed and why. It may contain text from a server.
    pub(crate) message: String,
    /// Further facts, in the order they are shown.
    pub(crate) facts: Vec<Fact>,
    /// Suggested next step.
    pub(crate) hint: Option<String>,
    /// Further members of the JSON form.
    pub(crate) members: Map<String, Value>,
}

/// A labeled fact about a failure.
#[derive(Debug)]
pub(crate) struct Fact {
    pub(crate) label: &'static str,
    /// One line is shown beside the label, several below it.
    pub(crate) lines: Vec<String>,
}

pub(crate) type Outcome<T = Exit> = Result<T, Failure>;

// === impl Failure ===

impl Failure {
    /// Builds the failure for arguments that cannot be used.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Report::new(Exit::Usage, message).into()
    }

    /// Builds a usage failure with a suggested next step.
    pub(crate) fn usage_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Report { hint: Some(hint.into()), ..Report::new(Exit::Usage, message) }.into()
    }

    /// Builds the failure for a file that cannot be used.
    pub(crate) fn file(path: &Path, why: &str) -> Self {
        Self::usage(format!("cannot use {}: {why}", path.display()))
    }

    /// Builds the failure for a configuration with problems.
    pub(crate) fn config(message: impl Into<String>, problems: Vec<Problem>) -> Self {
        let mut report = Report::new(Exit::Usage, message);
        let members = problems.iter().map(problem_json).collect::<Vec<Value>>();
        report.members.insert("problems".into(), members.into());
        let lines = problems.iter().flat_map(problem_lines).collect();
        report.facts.push(Fact { label: "problems", lines });
        report.into()
    }

    /// Builds the failure for a login or logout that did not succeed.
    pub(crate) fn auth(error: &AuthError, server: &Server) -> Self {
        let exit = match error.kind {
            AuthErrorKind::PlainHttp => Exit::Usage,
            _ if error.is_transient() => Exit::Connection,
            _ => Exit::Login,
        };
        let mut report = Report::new(exit, format!("`{}`: {error}", server.name));
        report.members.insert("server".into(), server.name.as_str().into());
        report.hint.clone_from(&error.hint);
        report.into()
    }

    /// Builds the failure for a login store that cannot be read or written.
    pub(crate) fn login_store(error: &AuthError) -> Self {
        let mut report = Report::new(Exit::Usage, error.to_string());
        report.hint.clone_from(&error.hint);
        report.into()
    }

    /// Builds the failure for a call that returned an error. Commands in its hint repeat
    /// `command_line`.
    pub(crate) fn call(error: &Error, server: &Server, command_line: &CommandLine) -> Self {
        match error.kind() {
            ErrorKind::Server(rpc) => {
                let message = format!(
                    "`{}` answered {} with an error: {} (code {})",
                    error.server(),
                    error.method(),
                    rpc.message,
                    rpc.code
                );
                let mut report = Report::new(Exit::Server, message).with_call(error);
                let data = rpc.data.as_ref().and_then(|data| data.decode::<Value>().ok());
                if let Some(data) = &data {
                    report.facts.push(Fact { label: "data", lines: vec![data.to_string()] });
                }
                report.members.insert("code".into(), rpc.code.into());
                report.members.insert("data".into(), data.into());
                report.hint = hint::for_code(rpc.code, error.method())
                    .map(Into::into)
                    .or_else(|| hint::for_era(&rpc.message, command_line));
                report.into()
            }
            ErrorKind::Fault(fault) => fault_report(error, fault, server, command_line).into(),
            ErrorKind::Task(end) => {
                let mut report = Report::new(Exit::Server, format!("`{}`: {end}", error.server()));
                report.hint = hint::for_task(*end, server).map(Into::into);
                report.with_call(error).into()
            }
            ErrorKind::Declined(refused) => {
                let (method, server) = (error.method(), error.server());
                let message = format!("{method} on `{server}` was not finished: {}", refused.message);
                let mut report = Report::new(Exit::Server, message);
                report.hint = Some("the server requested input that was not provided".to_owned());
                report.with_call(error).into()
            }
            ErrorKind::NotOffered(what) => {
                let mut report = Report::new(Exit::Server, format!("`{}` offers no {what}", error.server()));
                report.hint = Some("`bowline info` shows what a server offers".to_owned());
                report.with_call(error).into()
            }
            ErrorKind::NotGranted(why) => {
                let message = format!("`{}` does not send updates about this: {why}", error.server());
                Report::new(Exit::Server, message).with_call(error).into()
            }
            _ => Report::new(Exit::Usage, error.to_string()).with_call(error).into(),
        }
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        let SettingsError { message, hint, .. } = error;
        Report { hint, ..Report::new(Exit::Usage, message) }.into()
    }
}

impl From<Report> for Failure {
    fn from(report: Report) -> Self {
        Self::Report(Box::new(report))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Suggests the older era of the protocol, if the text of an error names the newest revision.
pub(crate) fn suggest_era(text: &str) -> Option<String> {
    hint::for_era(text, &CommandLine::default())
}

// === impl Report ===

impl Report {
    /// Creates a report that has only a message.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), facts: Vec::new(), hint: None, members: Map::new() }
    }

    fn with_call(mut self, error: &Error) -> Self {
        let executed = match error.execution() {
            Execution::NotExecuted => Value::Bool(false),
            Execution::Unknown => Value::Null,
        };
        self.members.insert("server".into(), error.server().into());
        self.members.insert("method".into(), error.method().into());
        self.members.insert("executed".into(), executed);
        self
    }

    fn add_fact(&mut self, label: &'static str, line: impl Into<String>) {
        self.facts.push(Fact { label, lines: vec![line.into()] });
    }
}

fn last_lines(lines: &[String]) -> Vec<String> {
    lines[lines.len().saturating_sub(MAX_SHOWN_LINES)..].to_vec()
}

/// How many of the last lines of a stream are shown; the log has all of them. A stack trace of Node
/// has less, and its first line says what is wrong.
const MAX_SHOWN_LINES: usize = 20;

fn fault_report(error: &Error, fault: &Fault, server: &Server, command_line: &CommandLine) -> Report {
    let connecting = error.method() == CONNECT_METHOD;
    // The command ends here, so there is no next attempt.
    let mut shown = fault.clone();
    shown.evidence.next_step = None;
    let message = if connecting {
        format!("cannot connect to `{}`: {shown}", error.server())
    } else {
        format!("{} on `{}` failed: {shown}", error.method(), error.server())
    };
    let mut report = Report::new(exit_for_cause(&fault.cause), message).with_call(error);
    let transport = server.transport.as_str();
    report.add_fact("phase", if connecting { "connecting" } else { error.method() });
    report.add_fact("transport", transport);
    if let (Cause::LoginRequired { .. }, Some(http)) = (&fault.cause, server.transport.http()) {
        report.add_fact("server", describe_url(&http.url));
    }
    if let Some(url) = shown_url(&fault.cause, server) {
        report.add_fact("url", url.clone());
        report.members.insert("url".into(), url.into());
    }
    // For methods that only read, it does not matter whether the server executed them.
    if error.method() == method::TOOLS_CALL {
        report.add_fact(
            "executed",
            match fault.execution {
                Execution::NotExecuted => "no",
                Execution::Unknown => "unknown; the server may have acted on it",
            },
        );
    }
    report.members.insert("phase".into(), if connecting { "connect" } else { "call" }.into());
    report.members.insert("transport".into(), transport.into());
    if let Cause::Status { code, .. } = &fault.cause {
        report.members.insert("status".into(), (*code).into());
    }
    let evidence = &fault.evidence;
    if let Some(body) = &evidence.body {
        let head = body_head(body);
        report.facts.push(Fact { label: "body begins", lines: head.lines().map(Into::into).collect() });
        report.members.insert("body".into(), head.into());
    }
    if !evidence.stdout.is_empty() {
        report.facts.push(Fact { label: "stdout ends", lines: last_lines(&evidence.stdout) });
        report.members.insert("stdout".into(), json!(evidence.stdout));
    }
    if !evidence.stderr.is_empty() {
        report.facts.push(Fact { label: "stderr ends", lines: last_lines(&evidence.stderr) });
        report.members.insert("stderr".into(), json!(evidence.stderr));
    }
    report.hint = hint::for_fault(fault, server, command_line)
        .or_else(|| connecting.then(|| hint::for_connecting(fault, server, command_line)).flatten());
    report
}

/// Returns the URL of the server, without what may be a key, if the failure may be due to a mistake in its path.
fn shown_url(cause: &Cause, server: &Server) -> Option<String> {
    let may_be_path = matches!(
        cause,
        Cause::Status { code: 400 | 403 | 404 | 405, .. }
            | Cause::Protocol(Misbehavior::ContentType | Misbehavior::Malformed(_))
            | Cause::Redirect { .. }
    );
    server.transport.http().filter(|_| may_be_path).map(|http| describe_url(&http.url))
}

/// Returns the beginning of a response body, at most [`MAX_BODY_CHARS`] characters.
fn body_head(body: &str) -> &str {
    body.char_indices().nth(MAX_BODY_CHARS).map_or(body, |(end, _)| &body[..end])
}

const MAX_BODY_CHARS: usize = 512;

/// Returns the exit code for a failure with this cause.
pub(crate) fn exit_for_cause(cause: &Cause) -> Exit {
    match cause {
        Cause::Timeout(_) => Exit::Timeout,
        Cause::LoginRequired { .. } => Exit::Login,
        Cause::StoreUnavailable | Cause::PlainHttp => Exit::Usage,
        _ => Exit::Connection,
    }
}

/// Formats a problem without its file, which the message names.
fn problem_lines(problem: &Problem) -> Vec<String> {
    let key = if problem.key.is_empty() { String::new() } else { format!("{}: ", problem.key) };
    let mut lines = vec![format!("{}:{}: {key}{}", problem.line, problem.column, problem.message)];
    lines.extend(problem.hint.as_ref().map(|hint| format!("  {hint}")));
    lines
}

pub(crate) fn problem_json(problem: &Problem) -> Value {
    json!({
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "key": problem.key,
        "server": problem.server,
        "message": problem.message,
        "hint": problem.hint,
    })
}

/// What the library calls the phase before the first call.
const CONNECT_METHOD: &str = "connect";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_shown_512_characters_of_a_body() {
        assert_eq!(body_head("short"), "short");
        assert_eq!(body_head(&"é".repeat(600)), "é".repeat(512));
    }
}
