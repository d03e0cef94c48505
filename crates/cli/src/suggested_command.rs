//! Formats the commands that are suggested to the user: quoted for a shell, and with the options of
//! this command line that are needed to reach the same server.

mod connection_options;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bowline::Server;
use bowline::config::{Http, Transport};
pub(crate) use bowline_settings::shell_quote;
pub(crate) use connection_options::{RepeatedOption, login_options, repeated_options};
use url::Url;

use crate::args::{Cli, Verb};
use crate::server_auth::{authority, can_log_in};

/// The part of this process's command line that suggested commands repeat.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandLine {
    /// Global options to repeat.
    global_options: Vec<String>,
    /// Options about the server of this command to repeat. `connect` and `doctor` repeat theirs themselves.
    connection_options: Vec<RepeatedOption>,
    /// URLs that the user typed.
    urls: Vec<Url>,
    /// Whether the server is a command after `--`, which no suggested command repeats.
    has_command: bool,
    /// Whether this command is to add the server, which is in no file before that.
    is_adding: bool,
}

impl CommandLine {
    /// Takes over what a suggested command has to repeat. Variables need not be repeated: they stay
    /// set.
    pub(crate) fn new(cli: &Cli, argv: &[OsString]) -> Self {
        let urls = argv.iter().filter_map(|word| word.to_str()).filter(|word| word.contains("://"));
        let target = match &cli.verb {
            Verb::Connect(_) | Verb::Doctor(_) => None,
            verb => verb.target_args(),
        };
        Self {
            global_options: global_options(cli.global.config.as_deref(), cli.global.trust_project),
            connection_options: target.map(repeated_options).unwrap_or_default(),
            urls: urls.filter_map(|url| Url::parse(url).ok()).collect(),
            has_command: cli.verb.has_server_command(),
            is_adding: matches!(cli.verb, Verb::Add(_)),
        }
    }

    /// Returns the global options that another `bowline` needs to find the same configuration.
    #[cfg(unix)]
    pub(crate) fn global_options(&self) -> &[String] {
        &self.global_options
    }

    /// Returns whether this command is to add the server: commands that name it work only after that.
    pub(crate) const fn is_adding(&self) -> bool {
        self.is_adding
    }

    /// Formats a `bowline` command with these words, for a shell.
    pub(crate) fn format_command<'a>(&'a self, words: impl IntoIterator<Item = &'a str>) -> String {
        join_words(words.into_iter().chain(self.global_options.iter().map(String::as_str)))
    }

    /// Returns the command that logs in, or `None` if a login cannot help with this server.
    pub(crate) fn login_command(&self, server: &Server) -> Option<String> {
        let (Transport::Http(http) | Transport::Sse(http)) = &server.transport else { return None };
        let target = self.server_argument(server, http);
        let options = login_options(&self.connection_options);
        let words = ["login", &target].into_iter().chain(options.iter().map(String::as_str));
        can_log_in(server).then(|| self.format_command(words))
    }

    /// Returns the command that finds out what is wrong with a server; `None` if it cannot be named.
    pub(crate) fn doctor_command(&self, server: &Server) -> Option<String> {
        let target = match server.transport.http() {
            Some(http) => self.server_argument(server, http),
            None if self.has_command && !self.is_adding => return None,
            None => server.name.clone(),
        };
        let options = self.connection_options.iter().flat_map(|(name, value)| [*name, value.as_str()]);
        Some(self.format_command(["doctor", &target].into_iter().chain(options)))
    }

    /// Returns the argument that names the server for another command: its name, or the whole URL if that was
    /// typed. The query may hold a key, so one from a file is not repeated; but it also
    /// distinguishes tenants, and so logins.
    fn server_argument(&self, server: &Server, http: &Http) -> String {
        let unnamed = !self.is_adding && server.name == authority(http) && self.urls.contains(&http.url);
        if unnamed { http.url.to_string() } else { server.name.clone() }
    }
}

/// Returns the global options to repeat.
fn global_options(config: Option<&Path>, trust_project: bool) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(config) = config {
        words.extend(["--config".to_owned(), absolute(config).display().to_string()]);
    }
    words.extend(trust_project.then(|| "--trust-project".to_owned()));
    words
}

/// Makes a path absolute, since a suggested command may be run from another folder.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn join_words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.fold("bowline".to_owned(), |line, word| line + " " + &shell_quote(word))
}

/// Appends words to a command, quoted for a shell.
pub(crate) fn quote_words(command: String, words: &[String]) -> String {
    words.iter().fold(command, |line, word| line + " " + &shell_quote(word))
}

/// Appends `--scope` options to the login command.
pub(crate) fn with_scopes(command: &str, scopes: &[String]) -> String {
    let mut command = command.to_owned();
    for scope in scopes {
        command.push_str(" --scope ");
        command.push_str(scope);
    }
    command
}

#[cfg(test)]
mod tests {
    use bowline::config::{AuthSettings, Grant};
    use bowline_config::TransportSettings as _;
    use bowline_testkit::with;
    use clap::Parser as _;

    use super::*;

    #[test]
    fn what_to_run_names_the_server_as_it_was_typed() {
        let command = |server: &Server, url: &str| {
            let urls = Url::parse(url).into_iter().collect();
            CommandLine { urls, ..CommandLine::default() }.login_command(server).unwrap()
        };
        let (name, url) = ("h:8443", "https://h:8443/mcp?tenant=x");
        let named = Server::http("docs", url).build().unwrap();
        assert_eq!(command(&named, url), "bowline login docs");
        let bare = Server::http(name, url).build().unwrap();
        assert_eq!(command(&bare, url), format!("bowline login '{url}'"));
        // An entry may be named like its host, and its URL must not be shown.
        assert_eq!(command(&bare, ""), format!("bowline login {name}"));
        let stdio = Server::stdio("files", "server").build().unwrap();
        let typed = CommandLine::default();
        assert_eq!(typed.doctor_command(&stdio).as_deref(), Some("bowline doctor files"));
        assert_eq!(typed.doctor_command(&named).as_deref(), Some("bowline doctor docs"));
        let after_dashes = CommandLine { has_command: true, ..CommandLine::default() };
        assert_eq!(after_dashes.doctor_command(&stdio), None);
        // An entry that is added has a name afterwards.
        let adding = CommandLine { is_adding: true, ..after_dashes };
        assert_eq!(adding.doctor_command(&stdio).as_deref(), Some("bowline doctor files"));
    }

    #[test]
    fn what_to_run_has_the_connection_options() {
        let command_line = |words: &str| {
            let argv: Vec<OsString> = words.split(' ').map(Into::into).collect();
            CommandLine::new(&Cli::try_parse_from(&argv).unwrap(), &argv)
        };
        let docs = Server::http("docs", "https://h/mcp").build().unwrap();
        let ca_file = std::env::current_dir().unwrap().join("ca.pem");
        let ca_file = shell_quote(&ca_file.display().to_string());
        let options = "--transport http --ca-file ca.pem --message-limit 128 --protocol legacy -H X-Key:k3y --connect-timeout 2m";
        for verb in ["tools docs", "info docs", "call docs echo", "ping docs"] {
            let typed = command_line(&format!("bowline {verb} {options} --timeout 5s"));
            assert_eq!(
                typed.doctor_command(&docs).unwrap(),
                format!(
                    "bowline doctor docs --transport http --ca-file {ca_file} --message-limit 128 --protocol legacy -H 'X-Key: …' \
                     --connect-timeout 2m"
                )
            );
            assert_eq!(
                typed.login_command(&docs).unwrap(),
                format!("bowline login docs --transport http --ca-file {ca_file} -H 'X-Key: …'")
            );
        }
        // These repeat the options themselves.
        for verb in ["connect", "doctor"] {
            let typed = command_line(&format!("bowline {verb} docs --ca-file ca.pem"));
            assert_eq!(typed.doctor_command(&docs).unwrap(), "bowline doctor docs");
        }
    }

    #[test]
    fn login_is_suggested_only_where_it_can_help() {
        let typed = CommandLine::default();
        let docs = || Server::http("docs", "https://h/mcp").build().unwrap();
        assert_eq!(typed.login_command(&docs().with_header("authorization", "Bearer x").unwrap()), None);
        let off = with!(AuthSettings::default(), grant: Grant::Off);
        assert_eq!(typed.login_command(&docs().with_auth(off).unwrap()), None);
        assert_eq!(typed.login_command(&Server::stdio("s", "x").build().unwrap()), None);
    }

    #[test]
    fn a_shell_takes_it_for_one_word() {
        for (word, shown) in [
            ("docs", "docs"),
            ("https://h:1/mcp", "https://h:1/mcp"),
            ("https://h/?a=b&c", "'https://h/?a=b&c'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(shell_quote(word), shown);
        }
    }

    #[test]
    #[cfg(unix)]
    fn what_was_typed_is_typed_again() {
        let again = |config: Option<&str>, trust| {
            let repeated = global_options(config.map(Path::new), trust);
            join_words(["login", "docs"].into_iter().chain(repeated.iter().map(String::as_str)))
        };
        assert_eq!(again(None, false), "bowline login docs");
        assert_eq!(
            again(Some("/a b/c.toml"), true),
            "bowline login docs --config '/a b/c.toml' --trust-project"
        );
        let here = std::env::current_dir().unwrap().join("c.toml");
        let here = shell_quote(&here.display().to_string());
        assert_eq!(again(Some("c.toml"), false), format!("bowline login docs --config {here}"));
    }
}
