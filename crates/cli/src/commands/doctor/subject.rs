//! [`Subject`]: the server that is examined, and which commands about it can be suggested.

use bowline::Server;
use bowline::config::Transport;
use url::Url;

pub(super) use crate::suggested_command::repeated_options;
use crate::suggested_command::{CommandLine, RepeatedOption, login_options, quote_words};

/// The server that is examined.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) server: &'a Server,
    pub(super) command_line: &'a CommandLine,
    /// What names it on a command line: its name, or the URL that was typed. `None` for a command.
    pub(super) typed: Option<&'a str>,
    /// The connection options that suggested commands repeat.
    pub(super) options: &'a [RepeatedOption],
    /// Host and port of the proxy through which it is reached, if there is one.
    pub(super) proxy: Option<&'a str>,
    /// Whether its entry is in a file that `bowline edit` opens.
    pub(super) is_editable: bool,
}

impl Subject<'_> {
    /// Returns the command that examines this server again, with further words. An option among them replaces
    /// the one that was typed.
    pub(super) fn doctor_command(&self, more: &[&str]) -> Option<String> {
        self.typed.map(|typed| self.command("doctor", typed, more))
    }

    /// Returns the command that examines this server again without an option that was typed.
    pub(super) fn doctor_command_without(&self, option: &str) -> Option<String> {
        let options: Vec<RepeatedOption> =
            self.options.iter().filter(|(name, _)| *name != option).cloned().collect();
        Subject { options: &options, ..*self }.doctor_command(&[])
    }

    /// Returns the command that shows the log of a connection, with what the server writes to stderr.
    pub(super) fn log_command(&self) -> Option<String> {
        self.typed.map(|typed| self.command("info", typed, &["-vv"]))
    }

    /// Returns the command that opens its entry in an editor.
    pub(super) fn edit_command(&self) -> Option<String> {
        self.is_editable.then(|| self.command_line.format_command(["edit"]))
    }

    /// Returns the command that logs in, if a login can help.
    pub(super) fn login_command(&self) -> Option<String> {
        let command = self.command_line.login_command(self.server)?;
        Some(quote_words(command, &login_options(self.options)))
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
        (url != typed).then(|| self.command("doctor", url.as_str(), &[]))
    }

    pub(super) fn is_process(&self) -> bool {
        matches!(self.server.transport, Transport::Stdio(_))
    }

    /// Whether its URL has this scheme.
    pub(super) fn has_scheme(&self, scheme: &str) -> bool {
        self.server.transport.http().is_some_and(|http| http.url.scheme() == scheme)
    }

    fn command(&self, verb: &str, target: &str, more: &[&str]) -> String {
        let options = self.options.iter().filter(|(name, _)| !more.contains(name));
        let options = options.flat_map(|(name, value)| [*name, value.as_str()]);
        let words = [verb, target].into_iter().chain(options).chain(more.iter().copied());
        self.command_line.format_command(words)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use bowline_settings::shell_quote;

    use crate::args::{Protocol, TargetArgs, TransportChoice, UrlArgs};

    /// Runs `test` with a subject for a server that is configured under its name.
    pub(in crate::commands::doctor) fn with_subject<T>(
        server: &Server,
        test: impl FnOnce(&Subject<'_>) -> T,
    ) -> T {
        let command_line = CommandLine::default();
        test(&Subject {
            server,
            command_line: &command_line,
            typed: Some(&server.name),
            options: &[],
            proxy: None,
            is_editable: true,
        })
    }

    #[test]
    fn commands_name_the_server_as_it_was_typed() {
        let server = Server::http("h:1", "http://h:1/").build().unwrap();
        let command_line = CommandLine::default();
        let subject = Subject {
            server: &server,
            command_line: &command_line,
            typed: Some("http://h:1/"),
            options: &[],
            proxy: None,
            is_editable: false,
        };
        assert_eq!(subject.doctor_command(&[]).unwrap(), "bowline doctor http://h:1/");
        let other = subject.other_url_command(|url| url.set_path("/mcp"));
        assert_eq!(other.unwrap(), "bowline doctor http://h:1/mcp");
        assert_eq!(subject.other_url_command(|_| ()), None);
        assert_eq!(subject.edit_command(), None);
        with_subject(&server, |subject| {
            assert_eq!(subject.other_url_command(|_| ()).unwrap(), "bowline edit");
        });
    }

    fn typed_options() -> TargetArgs {
        TargetArgs {
            timeout: Some(Duration::from_secs(5)),
            max_timeout: Some(Duration::from_secs(1800)),
            connect_timeout: Some(Duration::from_secs(90)),
            message_limit: Some(128),
            protocol: Some(Protocol::Legacy),
            headers: vec!["Authorization: Bearer k3y".to_owned(), "X-Key:${KEY}".to_owned()],
            url: UrlArgs { transport: Some(TransportChoice::Sse), ca_file: Some("my ca.pem".into()) },
            envs: vec!["TOKEN=k3y".to_owned(), "SAME=${SAME}".to_owned()],
            no_daemon: true,
            command: Vec::new(),
        }
    }

    #[test]
    fn commands_repeat_connection_options_without_secrets() {
        let server = Server::http("h:1", "http://h:1/").build().unwrap();
        let command_line = CommandLine::default();
        let options = repeated_options(&typed_options());
        let subject = Subject {
            server: &server,
            command_line: &command_line,
            typed: Some("http://h:1/"),
            options: &options,
            proxy: None,
            is_editable: false,
        };
        let ca_file = std::env::current_dir().unwrap().join("my ca.pem");
        let ca_file = shell_quote(&ca_file.display().to_string());
        let repeated = format!(
            "--transport sse --ca-file {ca_file} --message-limit 128 --protocol legacy -H 'Authorization: …' -H 'X-Key:${{KEY}}' \
             -e 'TOKEN=…' -e 'SAME=${{SAME}}' --max-timeout 30m"
        );
        assert_eq!(
            subject.doctor_command(&[]).unwrap(),
            format!("bowline doctor http://h:1/ {repeated} --connect-timeout 90s")
        );
        assert_eq!(
            subject.doctor_command(&["--connect-timeout", "2m"]).unwrap(),
            format!("bowline doctor http://h:1/ {repeated} --connect-timeout 2m")
        );
        assert_eq!(
            subject.other_url_command(|url| url.set_path("/mcp")).unwrap(),
            format!("bowline doctor http://h:1/mcp {repeated} --connect-timeout 90s")
        );
        assert!(subject.log_command().unwrap().ends_with(" --connect-timeout 90s -vv"));
        let login = subject.login_command().unwrap();
        let repeated =
            format!(" --transport sse --ca-file {ca_file} -H 'Authorization: …' -H 'X-Key:${{KEY}}'");
        assert!(login.ends_with(&repeated), "{login}");
        assert!(repeated_options(&TargetArgs::default()).is_empty());
    }
}
