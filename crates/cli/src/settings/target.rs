//! Resolves the server that a command names, with the overrides from its arguments.

use bowline::Server;
use bowline::config::{InvalidValue, Protocol, Transport};
use bowline_config::TransportSettings as _;
use bowline_config::closest_name;

use super::Settings;
use super::positional::PositionalArgs;
use super::url_server::apply_url_args;
use crate::args::{self, ServerArgs, TargetArgs};
use crate::env;
use crate::failure::{Failure, Outcome};
use crate::server_auth;
use bowline_settings::{Layers, Origin, ServerLookup};

impl Settings {
    /// Resolves the server that `name` or the command names, and applies the overrides.
    pub(crate) fn resolve_server(&self, name: Option<&str>, args: TargetArgs) -> Outcome<Server> {
        let TargetArgs {
            timeout,
            max_timeout,
            connect_timeout,
            message_limit,
            protocol,
            headers,
            url,
            envs,
            no_daemon,
            command,
        } = args;
        let is_configured = name.is_some_and(|name| !name.contains("://")) && command.is_empty();
        let has_overrides = protocol.is_some() || !headers.is_empty() || !envs.is_empty();
        let wants_own = no_daemon || env::non_empty_var(&*self.env, env::NO_DAEMON).is_some();
        self.pool_use.set_allowed(is_configured && !has_overrides && !wants_own);
        let named = name.and_then(|name| self.named_server(name));
        let mut server = match (named, name, command.split_first()) {
            (_, _, Some((program, rest))) => {
                let server = Server::stdio(file_name(program), program).args(rest).build();
                self.add_common_hooks(
                    server.map_err(|why| invalid_value_failure("the command cannot be used", &why))?,
                )
            }
            (Some(named), _, None) => named.clone(),
            (None, Some(url), None) if url.contains("://") => self.add_common_hooks(server_from_url(url)?),
            (None, Some(name), None) => self.configured_server(name)?,
            (None, None, None) => return Err(Failure::usage("SERVER is missing")),
        };
        server = apply_url_args(server, &url)?;
        for header in headers {
            let (name, value) = split_pair(&header, ':', "-H 'Name: value'")?;
            server = server.with_header(name, value).map_err(|why| match why.hint() {
                None if why != InvalidValue::NotHttp => {
                    Failure::usage_hint(format!("-H: {why}"), "write -H 'Name: value'")
                }
                _ => invalid_value_failure("-H", &why),
            })?;
        }
        for entry in envs {
            let (name, value) = split_pair(&entry, '=', "-e KEY=VALUE")?;
            server = server.with_env(name, value).map_err(|why| invalid_value_failure("-e", &why))?;
        }
        if let Some(timeout) = timeout {
            server = server.with_idle_timeout(timeout);
        }
        if let Some(max) = max_timeout {
            server = server.with_timeout(max);
        }
        if let Some(connect) = connect_timeout {
            server = server.with_connect_timeout(connect);
        }
        if let Some(mib) = message_limit {
            let bytes = usize::try_from(mib).unwrap_or(usize::MAX).saturating_mul(1024 * 1024);
            server = server.with_message_limit(bytes);
        }
        if let Some(protocol) = protocol {
            server = server.with_protocol(match protocol {
                args::Protocol::Auto => Protocol::Auto,
                args::Protocol::Legacy => Protocol::Legacy,
                args::Protocol::Modern => Protocol::Modern,
            });
        }
        Ok(server)
    }

    /// Returns the server that a prompt was started with, by the word that its commands have for it.
    fn named_server(&self, word: &str) -> Option<&Server> {
        self.kept_sessions.as_ref()?.named_server(word)
    }

    /// Resolves the server of a verb that takes nothing else, and returns it with the name that was
    /// typed.
    pub(crate) fn resolve_server_args(
        &self,
        verb: &'static str,
        args: ServerArgs,
    ) -> Outcome<(Option<String>, Server)> {
        let ServerArgs { words, target } = args;
        let name =
            PositionalArgs::new(verb, "", words, &target.command)?.finish(|name| self.is_configured(name))?;
        let server = self.resolve_server(name.as_deref(), target)?;
        Ok((name, server))
    }

    /// Adds the common hooks to a server that no file defines. The server works without any file,
    /// so a broken file is only noted.
    fn add_common_hooks(&self, server: Server) -> Server {
        let Ok(layers) = self.layers() else {
            self.printer.note("a configuration file cannot be read: its hooks are not run");
            return server;
        };
        for layer in layers.iter().filter(|layer| layer.problems.iter().any(|it| it.server.is_none())) {
            let file = layer.path.display();
            self.printer.note(&format!("{file} has problems: see `bowline config check`"));
        }
        server.with_common_hooks(&layers.common_hooks())
    }

    /// Whether a configuration file has an entry of this name, usable or not.
    pub(crate) fn is_configured(&self, name: &str) -> bool {
        let found = self.layers().map(|layers| layers.find_server(name));
        found.is_ok_and(|found| !matches!(found, ServerLookup::Unreadable(_) | ServerLookup::Unknown))
    }

    pub(super) fn configured_server(&self, name: &str) -> Outcome<Server> {
        let layers = self.layers()?;
        let (server, layer) = match layers.find_server(name) {
            ServerLookup::Server(server, layer) => (server, layer),
            ServerLookup::Broken(problems) => {
                let file = problems.first().map(|problem| problem.file.display().to_string());
                let file = file.unwrap_or_default();
                return Err(Failure::config(
                    format!("the entry `{name}` in {file} cannot be used"),
                    problems,
                ));
            }
            ServerLookup::Unreadable(problems) => {
                let file = problems.first().map(|problem| problem.file.display().to_string());
                return Err(Failure::config(format!("cannot read {}", file.unwrap_or_default()), problems));
            }
            ServerLookup::Untrusted(project) => {
                let file = project.path.display();
                return Err(Failure::usage_hint(
                    format!("`{name}` comes from the project's {file}, which {}", project.reason.describe()),
                    project.reason.suggest_fix(&project.path),
                ));
            }
            ServerLookup::Unknown => {
                // An untrusted file may define it, but its outline could not be read.
                let unread = layers.untrusted().iter().filter(|file| file.outline.servers.is_empty());
                unread.for_each(|file| self.printer.note(&file.note()));
                return Err(unknown_server_failure(name, layers));
            }
        };
        let file = layer.path.display();
        if !server.enabled {
            return Err(Failure::usage_hint(
                format!("`{name}` is disabled in {file}"),
                match layer.origin {
                    Origin::Project => "set `enabled = true` in its entry to use it".to_owned(),
                    Origin::User | Origin::Named => format!("`bowline enable {name}` enables it"),
                },
            ));
        }
        if let Some(project) = layers.untrusted_server(name) {
            let (project, why) = (project.path.display(), project.reason.describe());
            self.printer.note(&format!("using `{name}` from {file}; the one in {project} {why}"));
        }
        for other in layers.iter().filter(|layer| !layer.problems.is_empty()) {
            let file = other.path.display();
            self.printer.note(&format!("{file} has problems elsewhere; see `bowline config check`"));
        }
        layer.log_doubts(name);
        Ok(server.clone().with_common_hooks(&layers.common_hooks()))
    }
}

fn unknown_server_failure(name: &str, layers: &Layers) -> Failure {
    let names = layers.server_names();
    let message = format!("no server named `{name}` is configured");
    if let Some(near) = closest_name(name, names.iter().copied()) {
        return Failure::usage_hint(
            message,
            format!("did you mean `{near}`? There are: {}", names.join(", ")),
        );
    }
    if name.contains(char::is_whitespace) {
        return Failure::usage_hint(message, format!("to start a command, write it after `--`: -- {name}"));
    }
    // A person who types `localhost:3000/mcp` means a URL.
    if name.contains(['/', ':']) {
        return Failure::usage_hint(message, format!("for a URL, write http://{name} or https://{name}"));
    }
    if names.is_empty() {
        let hint = format!("`bowline add {name} URL` adds it; or give a URL, or a command after `--`");
        return Failure::usage_hint(message, hint);
    }
    Failure::usage_hint(message, format!("there are: {}", names.join(", ")))
}

/// Builds a server from a URL. Its name is shown and logged, so it is the authority alone: paths
/// often hold keys.
pub(crate) fn server_from_url(url: &str) -> Outcome<Server> {
    let mut server =
        Server::http("", url).build().map_err(|why| invalid_value_failure("the URL cannot be used", &why))?;
    if let Transport::Http(http) | Transport::Sse(http) = &server.transport {
        server.name = server_auth::authority(http);
    }
    Ok(server)
}

/// Returns the last part of a path.
fn file_name(program: &str) -> String {
    let name = std::path::Path::new(program).file_name().and_then(|name| name.to_str());
    name.unwrap_or(program).to_owned()
}

/// Splits `text` at the separator, and trims both sides of a header. Errors do not quote the text,
/// which may be a secret.
fn split_pair<'a>(text: &'a str, separator: char, form: &str) -> Outcome<(&'a str, &'a str)> {
    match text.split_once(separator) {
        Some((name, value)) if separator == ':' => Ok((name.trim(), value.trim())),
        Some(pair) => Ok(pair),
        None => {
            let option = form.split(' ').next().unwrap_or_default();
            let message = format!("{option} has no `{separator}` between a name and a value");
            Err(Failure::usage_hint(message, format!("write {form}")))
        }
    }
}

fn invalid_value_failure(what: &str, why: &InvalidValue) -> Failure {
    let message = format!("{what}: {why}");
    match why.hint() {
        Some(hint) => Failure::usage_hint(message, hint),
        None => Failure::usage(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_holds_no_secret() {
        for url in ["https://h:8443/k3y/mcp?t=k3y#k3y", "https://h:8443?k3y"] {
            assert_eq!(server_from_url(url).ok().unwrap().name, "h:8443");
        }
        // However the URL is written, it is the same server with the same login.
        assert_eq!(server_from_url("HTTPS://H:443/mcp").ok().unwrap().name, "h");
        assert!(server_from_url("ftp://h/").is_err());
    }

    #[test]
    fn pairs() {
        assert_eq!(split_pair("A: b: c ", ':', "").ok().unwrap(), ("A", "b: c"));
        assert_eq!(split_pair("A= b=c", '=', "").ok().unwrap(), ("A", " b=c"));
        assert!(split_pair("A", '=', "").is_err());
    }
}
