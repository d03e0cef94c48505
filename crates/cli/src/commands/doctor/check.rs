//! [`Check`]: the result of one check as data. Printing is decided in `render`.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::exit::Exit;

/// One check, with its time.
#[derive(Clone, Debug)]
pub(super) struct Check {
    /// A word that scripts can rely on.
    pub(super) name: &'static str,
    pub(super) duration: Duration,
    pub(super) finding: Finding,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) status: Status,
    /// What was seen, as one line. It may contain text from a server.
    pub(super) seen: String,
    /// Further lines, such as the end of a server's stderr.
    pub(super) details: Vec<String>,
    /// Whose fault it is, unless all is well.
    pub(super) blame: Option<Blame>,
    pub(super) remedy: Option<Remedy>,
    /// The exit code that this finding stands for.
    pub(super) exit: Exit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    /// It works, and something is not as it should be.
    Warning,
    Failed,
    /// An earlier check failed, so that this one could not be made.
    Skipped,
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blame {
    /// The person: what was typed or configured, or a login that is missing.
    You,
    Server,
    /// What is between this machine and the server.
    Network,
    AuthorizationServer,
    Bowline,
    /// This machine: its clock, its files, its programs.
    Machine,
}

/// What fixes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remedy {
    pub(super) text: String,
    /// A command that does it, or that shows more.
    pub(super) command: Option<String>,
}

/// The checks of one server or of the installation, as they are made. What was found before a time
/// limit ran out stays.
#[derive(Default)]
pub(super) struct CheckLog(Mutex<Vec<Check>>);

// === impl Finding ===

impl Finding {
    pub(super) fn ok(seen: impl Into<String>) -> Self {
        Self {
            status: Status::Ok,
            seen: seen.into(),
            details: Vec::new(),
            blame: None,
            remedy: None,
            exit: Exit::Ok,
        }
    }

    pub(super) fn warning(blame: Blame, seen: impl Into<String>) -> Self {
        Self { status: Status::Warning, blame: Some(blame), ..Self::ok(seen) }
    }

    pub(super) fn failed(blame: Blame, exit: Exit, seen: impl Into<String>) -> Self {
        Self { status: Status::Failed, blame: Some(blame), exit, ..Self::ok(seen) }
    }

    pub(super) fn skipped(reason: impl Into<String>) -> Self {
        Self { status: Status::Skipped, ..Self::ok(reason) }
    }

    /// Adds what fixes it.
    pub(super) fn fix(mut self, text: impl Into<String>) -> Self {
        let command = self.remedy.and_then(|remedy| remedy.command);
        self.remedy = Some(Remedy { text: text.into(), command });
        self
    }

    /// Adds the command that fixes it, if there is one. Call it after [`Finding::fix`].
    pub(super) fn run(mut self, command: impl Into<Option<String>>) -> Self {
        if let Some(remedy) = &mut self.remedy {
            remedy.command = command.into();
        }
        self
    }

    /// Adds further lines.
    pub(super) fn details(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(lines);
        self
    }

    /// Turns a failure into a warning, for what does not keep the server from working now.
    pub(super) fn without_effect(mut self) -> Self {
        if self.status == Status::Failed {
            (self.status, self.exit) = (Status::Warning, Exit::Ok);
        }
        self
    }

    pub(super) fn is_failed(&self) -> bool {
        self.status == Status::Failed
    }
}

// === impl Check ===

impl Check {
    pub(super) fn to_json(&self) -> Value {
        let Self { name, duration, finding } = self;
        let remedy = finding.remedy.as_ref();
        json!({
            "name": name,
            "status": finding.status.name(),
            "duration_ms": (duration.as_secs_f64() * 100_000.0).round() / 100.0,
            "seen": finding.seen,
            "details": finding.details,
            "blame": finding.blame.map(Blame::name),
            "remedy": remedy.map(|remedy| json!({ "text": remedy.text, "command": remedy.command })),
        })
    }
}

// === impl CheckLog ===

impl CheckLog {
    /// Records a finding of a check that began then. Returns whether it did not fail.
    pub(super) fn add(&self, name: &'static str, begun: Instant, finding: Finding) -> bool {
        self.add_timed(name, begun.elapsed(), finding)
    }

    /// Records a finding of a check that took this long. Returns whether it did not fail.
    pub(super) fn add_timed(&self, name: &'static str, duration: Duration, finding: Finding) -> bool {
        let passed = !finding.is_failed();
        self.0.lock().push(Check { name, duration, finding });
        passed
    }

    /// Records that these checks could not be made.
    pub(super) fn skip(&self, names: &[&'static str], reason: &str) {
        for name in names {
            self.add_timed(name, Duration::ZERO, Finding::skipped(reason));
        }
    }

    pub(super) fn take(&self) -> Vec<Check> {
        std::mem::take(&mut *self.0.lock())
    }
}

// === impl Status, Blame ===

impl Status {
    /// Returns the name in machine output.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

impl Blame {
    /// Returns the name in machine output.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::You => "you",
            Self::Server => "server",
            Self::Network => "network",
            Self::AuthorizationServer => "authorization_server",
            Self::Bowline => "bowline",
            Self::Machine => "machine",
        }
    }

    /// Returns the name for people.
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::You => "you",
            Self::Server => "the server",
            Self::Network => "the network",
            Self::AuthorizationServer => "the authorization server",
            Self::Bowline => "bowline",
            Self::Machine => "this machine",
        }
    }
}

/// Returns the exit code of the worst finding.
pub(super) fn worst_exit<'a>(checks: impl IntoIterator<Item = &'a Check>) -> Exit {
    let exits: Vec<Exit> = checks.into_iter().map(|check| check.finding.exit).collect();
    let worst = [Exit::Connection, Exit::Timeout, Exit::Login, Exit::Server, Exit::Usage];
    worst.into_iter().find(|exit| exits.contains(exit)).unwrap_or(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worst_failure_decides_the_exit_code() {
        let check = |finding| Check { name: "x", duration: Duration::ZERO, finding };
        let ok = check(Finding::ok("fine"));
        let warning = check(Finding::failed(Blame::Server, Exit::Server, "odd").without_effect());
        let login = check(Finding::failed(Blame::You, Exit::Login, "no login"));
        let down = check(Finding::failed(Blame::Server, Exit::Connection, "down"));
        assert_eq!(worst_exit([&ok, &warning]), Exit::Ok);
        assert_eq!(worst_exit([&ok, &login]), Exit::Login);
        assert_eq!(worst_exit([&login, &down, &ok]), Exit::Connection);
    }

    #[test]
    fn remedy_keeps_its_text_when_a_command_is_added() {
        let finding = Finding::failed(Blame::You, Exit::Login, "no").fix("log in").run("x".to_owned());
        let remedy = Remedy { text: "log in".to_owned(), command: Some("x".to_owned()) };
        assert_eq!(finding.remedy, Some(remedy));
    }
}
