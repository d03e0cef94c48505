//! [`Subject`]: the server that is examined, and which commands about it can be suggested.

use bowline::Server;
use bowline::config::Transport;
use url::Url;

use crate::suggested_command::CommandLine;

/// The server that is examined.
pub(super) struct Subject<'a> {
    pub(super) server: &'a Server,
    pub(super) command_line: &'a CommandLine,
    /// What names it on a command line: its name, or the URL that was typed. `None` for a command.
    pub(super) typed: Option<&'a str>,
    /// Whether its entry is in a file that `bowline edit` opens.
    pub(super) is_editable: bool,
}

impl Subject<'_> {
    /// Returns the command that examines this server again, with further words.
    pub(super) fn doctor_command(&self, more: &[&str]) -> Option<String> {
        self.command(&["doctor"], more)
    }

    /// Returns the command that shows the log of a connection, with what the server writes to stderr.
    pub(super) fn log_command(&self) -> Option<String> {
        self.command(&["info"], &["-vv"])
    }

    /// Returns the command that opens its entry in an editor.
    pub(super) fn edit_command(&self) -> Option<String> {
        self.is_editable.then(|| self.command_line.format_command(["edit"]))
    }

    /// Returns the command that logs in, if a login can help.
    pub(super) fn login_command(&self) -> Option<String> {
        self.command_line.login_command(self.server)
    }

    /// Returns the command that examines the same server at another URL, if its URL was typed and is
    /// not that one already. For a configured server it is the command that opens its entry.
    pub(super) fn other_url_command(&self, change: impl FnOnce(&mut Url)) -> Option<String> {
        let typed = self.typed.filter(|typed| typed.contains("://"));
        let Some(mut url) = typed.and_then(|typed| Url::parse(typed).ok()) else {
            return self.edit_command();
        };
        let typed = url.clone();
        change(&mut url);
        (url != typed).then(|| self.command_line.format_command(["doctor", url.as_str()]))
    }

    pub(super) fn is_process(&self) -> bool {
        matches!(self.server.transport, Transport::Stdio(_))
    }

    fn command(&self, verb: &[&str], more: &[&str]) -> Option<String> {
        let typed = self.typed?;
        Some(
            self.command_line.format_command(verb.iter().copied().chain([typed]).chain(more.iter().copied())),
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Runs `test` with a subject for a server that is configured under its name.
    pub(in crate::commands::doctor) fn with_subject<T>(
        server: &Server,
        test: impl FnOnce(&Subject<'_>) -> T,
    ) -> T {
        let command_line = CommandLine::default();
        let subject =
            Subject { server, command_line: &command_line, typed: Some(&server.name), is_editable: true };
        test(&subject)
    }

    #[test]
    fn commands_name_the_server_as_it_was_typed() {
        let server = Server::http("h:1", "http://h:1/").build().unwrap();
        let command_line = CommandLine::default();
        let typed = "http://h:1/";
        let subject =
            Subject { server: &server, command_line: &command_line, typed: Some(typed), is_editable: false };
        assert_eq!(subject.doctor_command(&[]).unwrap(), "bowline doctor http://h:1/");
        let other = subject.other_url_command(|url| url.set_path("/mcp"));
        assert_eq!(other.unwrap(), "bowline doctor http://h:1/mcp");
        assert_eq!(subject.other_url_command(|_| ()), None);
        assert_eq!(subject.edit_command(), None);
        with_subject(&server, |subject| {
            assert_eq!(subject.other_url_command(|_| ()).unwrap(), "bowline edit");
        });
    }
}
