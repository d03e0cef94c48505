//! Defines the exit codes. Scripts rely on them, so a number never changes its meaning.

use std::process::ExitCode;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Ok,
    /// The tool ran and reported an error.
    Tool,
    /// What was typed or configured cannot be used; nothing was sent.
    Usage,
    /// The server could not be reached or started, or the connection broke.
    Connection,
    /// A time limit ran out.
    Timeout,
    /// The server wants credentials, or a login could not be stored.
    Login,
    /// The server answered with an error, or does not offer what was asked for.
    Server,
    /// The output could not be written. The call itself was made.
    Output,
    /// The tool's result does not match its output schema. It was shown.
    Schema,
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM.
    #[cfg_attr(windows, expect(dead_code, reason = "there is no such signal"))]
    Terminated,
    /// SIGHUP: the terminal is gone.
    HungUp,
    /// Ctrl-\ (SIGQUIT).
    #[cfg_attr(windows, expect(dead_code, reason = "there is no such signal"))]
    Quit,
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Tool => 1,
            Self::Usage => 2,
            Self::Connection => 3,
            Self::Timeout => 4,
            Self::Login => 5,
            Self::Server => 6,
            Self::Output => 7,
            Self::Schema => 8,
            Self::HungUp => 129,
            Self::Interrupted => 130,
            Self::Quit => 131,
            Self::Terminated => 143,
        }
    }

    /// Returns the exit of a command that has also lost a login. A script has to learn that the
    /// next command will need one.
    pub(crate) const fn with_lost_login(self) -> Self {
        match self {
            Self::Ok => Self::Login,
            failed => failed,
        }
    }

    /// Returns the name in machine output.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Tool => "tool",
            Self::Usage => "usage",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Login => "login",
            Self::Server => "server",
            Self::Output => "output",
            Self::Schema => "schema",
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
            Self::HungUp => "hung_up",
            Self::Quit => "quit",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Describes the exit codes in `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
    0  ok
    1  the tool ran and reported an error
    2  wrong usage or configuration; nothing was sent
    3  the server could not be reached, started or understood
    4  a time limit ran out
    5  the server requires a login, or a login was lost because it could not be stored
    6  the server answered with an error, or does not offer this
    7  the output could not be written; the call was made
    8  the tool's result does not fit its own output schema; it is printed all the same
  129  the terminal went away; the call was canceled on the server
  130  interrupted; the call was canceled on the server
  131  interrupted by Ctrl-\\; the call was canceled on the server
  143  ended from outside; the call was canceled on the server";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_login_shows_in_the_exit_code_of_a_command_that_succeeded() {
        assert_eq!(Exit::Ok.with_lost_login(), Exit::Login);
        assert_eq!(Exit::Tool.with_lost_login(), Exit::Tool);
    }

    #[test]
    fn help_tells_the_codes_there_are() {
        let told: Vec<u8> = HELP.lines().skip(1).map(|line| line[..5].trim().parse().unwrap()).collect();
        let all = [
            Exit::Ok,
            Exit::Tool,
            Exit::Usage,
            Exit::Connection,
            Exit::Timeout,
            Exit::Login,
            Exit::Server,
            Exit::Output,
            Exit::Schema,
            Exit::HungUp,
            Exit::Interrupted,
            Exit::Quit,
            Exit::Terminated,
        ];
        assert_eq!(told, all.map(Exit::code));
    }
}
