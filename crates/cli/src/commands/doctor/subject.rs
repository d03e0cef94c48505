//! [`Subject`]: the server that is examined, and which commands about it can be suggested.

use bowline::Server;
use bowline::config::{Timeouts, Transport};
use clap::ValueEnum as _;
use url::Url;

use crate::args::{TargetArgs, UrlArgs, format_duration};
use crate::suggested_command::{CommandLine, quote_words};

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

/// An option of this command line that suggested commands repeat, and its value without secrets.
pub(super) type RepeatedOption = (&'static str, String);

impl Subject<'_> {
    /// Returns the command that examines this server again, with further words. An option among them replaces
    /// the one that was typed.
    pub(super) fn doctor_command(&self, more: &[&str]) -> Option<String> {
        self.typed.map(|typed| self.command("doctor", typed, more))
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
        let options = self.options.iter().filter(|(name, _)| LOGIN_OPTIONS.contains(name));
        let words: Vec<String> =
            options.flat_map(|(name, value)| [(*name).to_owned(), value.clone()]).collect();
        Some(quote_words(command, &words))
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

/// The connection options that `bowline login` has as well.
const LOGIN_OPTIONS: [&str; 3] = ["--transport", "--ca-file", "-H"];

/// Returns the connection options that were typed, without the values of headers and variables: those may be
/// secrets. A time limit is repeated if it allows more than the default does.
pub(super) fn repeated_options(target: &TargetArgs) -> Vec<RepeatedOption> {
    let TargetArgs {
        timeout,
        max_timeout,
        connect_timeout,
        protocol,
        headers,
        url,
        envs,
        // Doctor always starts its own process.
        no_daemon: _,
        command: _,
    } = target;
    let UrlArgs { transport, ca_file } = url;
    let mut options: Vec<RepeatedOption> = Vec::new();
    if let Some(choice) = transport.and_then(|choice| choice.to_possible_value()) {
        options.push(("--transport", choice.get_name().to_owned()));
    }
    if let Some(path) = ca_file {
        options.push(("--ca-file", path.display().to_string()));
    }
    if let Some(era) = protocol.and_then(|era| era.to_possible_value()) {
        options.push(("--protocol", era.get_name().to_owned()));
    }
    options.extend(headers.iter().filter_map(|header| Some(("-H", hide_value(header, ": ")?))));
    options.extend(envs.iter().filter_map(|pair| Some(("-e", hide_value(pair, "=")?))));
    let defaults = Timeouts::default();
    for (name, limit, default) in [
        ("--timeout", *timeout, defaults.call),
        ("--max-timeout", *max_timeout, defaults.max),
        ("--connect-timeout", *connect_timeout, defaults.connect),
    ] {
        let limit = limit.filter(|limit| *limit > default);
        options.extend(limit.map(|limit| (name, format_duration(limit))));
    }
    options
}

/// Replaces the value of a pair by `…`, unless it only names a variable. `None` if the text is no pair.
fn hide_value(pair: &str, separator: &str) -> Option<String> {
    let (name, value) = pair.split_once(separator.trim_end())?;
    if names_variable(value.trim()) {
        return Some(pair.to_owned());
    }
    Some(format!("{}{separator}…", name.trim()))
}

/// Whether a value is a variable such as `${TOKEN}`, after the word `Bearer` or alone.
fn names_variable(value: &str) -> bool {
    let value = value.strip_prefix("Bearer ").unwrap_or(value);
    let name = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::args::{Protocol, TransportChoice};

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
        let repeated = "--transport sse --ca-file 'my ca.pem' --protocol legacy -H 'Authorization: …' \
                        -H 'X-Key:${KEY}' -e 'TOKEN=…' -e 'SAME=${SAME}' --max-timeout 30m";
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
        let repeated = " --transport sse --ca-file 'my ca.pem' -H 'Authorization: …' -H 'X-Key:${KEY}'";
        assert!(login.ends_with(repeated), "{login}");
        assert!(repeated_options(&TargetArgs::default()).is_empty());
    }

    #[test]
    fn only_the_name_of_a_variable_is_no_secret() {
        assert!(names_variable("${TOKEN}") && names_variable("Bearer ${TOKEN}"));
        for secret in ["", "k3y", "Bearer k3y", "${TOKEN:-k3y}", "${A}k3y${B}", "k3y${A}"] {
            assert!(!names_variable(secret), "{secret}");
        }
    }
}
