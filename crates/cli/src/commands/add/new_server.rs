//! Decides what entry is meant by the arguments of `bowline add`.

use std::path::Path;

use bowline_config::{find_placeholders, is_loopback, valid_server_name};
use bowline_settings::EntryValue;
use bowline_transport::describe_url;
use url::{Host, Url};

use super::install_link::InstallLink;
use super::registry::RegistryName;
use crate::args::{AddArgs, UrlTransport};
use crate::failure::{Failure, Outcome};
use crate::suggested_command::shell_quote;

/// A server that is to be added.
#[derive(Debug, PartialEq)]
pub(super) struct NewServer {
    pub(super) name: String,
    /// The keys of its entry, apart from `env`.
    pub(super) entry: Vec<(&'static str, EntryValue)>,
    pub(super) env: Vec<(String, EnvValue)>,
    /// What somebody else has published and has to be approved.
    pub(super) foreign: Option<ForeignServer>,
    /// What is worth knowing about it, as sentences.
    pub(super) notes: Vec<String>,
}

/// A server that somebody else has published, as it is shown before it is used.
#[derive(Debug, PartialEq)]
pub(super) enum ForeignServer {
    /// A command that is started.
    Command(String),
    /// A URL of a link, with what is sent to it.
    Url(String),
}

/// The value of an environment variable of a server.
#[derive(Debug, PartialEq)]
pub(super) enum EnvValue {
    Given(String),
    /// That of the variable of the same name.
    Inherited,
}

/// Keys of an entry apart from `env`, its variables, and what is worth knowing about it.
type SourceEntry = (Vec<(&'static str, EntryValue)>, Vec<(String, EnvValue)>, Vec<String>);

/// Where a server is.
enum Source {
    /// A URL as it is written into the entry, and as it is read if all of it is known.
    Url(String, Option<Url>),
    Command(Vec<String>),
    /// A command that runs a package, and the name of the package.
    Package(Vec<String>, String),
    Link(Box<InstallLink>),
}

impl NewServer {
    /// The server that is meant, unless it has to be looked up in a registry.
    pub(super) fn from_args(args: AddArgs) -> Outcome<Self> {
        let AddArgs { words, headers, envs, cwd, transport, ca_file, command, registry, .. } = args;
        if !registry.arguments.is_empty() || registry.remote || registry.package.is_some() {
            return Err(usage("--arg, --remote and --package are for a name in the registry"));
        }
        let (name, source) = match (&*words, command.is_empty()) {
            ([], true) => {
                return Err(usage(
                    "a URL, a package, a link, a name in the registry or a command is missing",
                ));
            }
            ([], false) => (None, Source::Command(command)),
            ([name], false) => (Some(name.clone()), Source::Command(command)),
            ([_, _, ..], false) => return Err(usage("a command is given, and also a URL or a package")),
            ([source], true) => (None, Source::parse(source, None)?),
            ([name, source, ..], true) => (Some(name.clone()), Source::parse(source, Some(name))?),
        };
        let Some(name) = name.or_else(|| source.suggest_name()) else {
            return Err(usage("NAME is missing, and none can be derived from the rest"));
        };
        let is_url = source.is_url();
        if is_url && (!envs.is_empty() || cwd.is_some()) {
            return Err(usage("-e and --cwd are for a command that is started"));
        }
        if !is_url && (!headers.is_empty() || transport.is_some() || ca_file.is_some()) {
            return Err(usage("-H, --transport and --ca-file are for a URL"));
        }
        let headers = parse_headers(&headers)?;
        let mut source = source;
        if let Source::Link(link) = &mut source {
            link.replace(&headers, &envs);
        }
        let foreign = source.foreign();
        let (mut entry, mut env, notes) = source.into_entry(cwd.as_deref());
        env.extend(parse_envs(envs));
        if let Some(transport) = transport {
            let transport = match transport {
                UrlTransport::Http => "http",
                UrlTransport::Sse => "sse",
            };
            entry.retain(|(key, _)| *key != "transport");
            entry.push(("transport", EntryValue::Text(transport.to_owned())));
        }
        if let Some(path) = &ca_file {
            // The entry can be used from every folder.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            entry.push(("ca_file", EntryValue::Text(path.display().to_string())));
        }
        if !headers.is_empty() {
            match entry.iter_mut().find(|(key, _)| *key == "headers") {
                Some((_, EntryValue::Table(own))) => own.extend(headers),
                _ => entry.push(("headers", EntryValue::Table(headers))),
            }
        }
        Ok(Self { name, entry, env, foreign, notes })
    }
}

/// The name in a registry that the arguments are about, and a name for its entry.
pub(super) fn registry_target(args: &AddArgs) -> Outcome<Option<(RegistryName, String)>> {
    let (name, text) = match &*args.words {
        [text] => (None, text),
        [name, text, ..] => (Some(name), text),
        [] => return Ok(None),
    };
    let Some(wanted) = RegistryName::parse(text).filter(|_| args.command.is_empty()) else { return Ok(None) };
    let name = name.cloned().or_else(|| name_of_package(wanted.own_name()));
    let name = name.ok_or_else(|| usage("NAME is missing, and none can be derived from the rest"))?;
    Ok(Some((wanted, name)))
}

/// The entry of a command that is started, in a folder or anywhere.
pub(super) fn command_entry(
    words: impl IntoIterator<Item = String>,
    cwd: Option<&Path>,
) -> Vec<(&'static str, EntryValue)> {
    let mut words = words.into_iter();
    let command = words.next().unwrap_or_default();
    let mut entry = vec![("command", EntryValue::Text(command))];
    let args: Vec<_> = words.collect();
    if !args.is_empty() {
        entry.push(("args", EntryValue::List(args)));
    }
    entry.extend(cwd.map(cwd_key));
    entry
}

/// The key for the folder of a command. The entry can be used from every folder.
fn cwd_key(cwd: &Path) -> (&'static str, EntryValue) {
    let cwd = std::path::absolute(cwd).unwrap_or_else(|_| cwd.to_owned());
    ("cwd", EntryValue::Text(cwd.display().to_string()))
}

/// The variables of `-e`.
pub(super) fn parse_envs(envs: Vec<String>) -> Vec<(String, EnvValue)> {
    let env = envs.into_iter().map(|word| match word.split_once('=') {
        Some((key, value)) => (key.to_owned(), EnvValue::Given(value.to_owned())),
        None => (word, EnvValue::Inherited),
    });
    env.collect()
}

/// The headers of `-H`.
pub(super) fn parse_headers(headers: &[String]) -> Outcome<Vec<(String, String)>> {
    headers.iter().map(|header| split_header(header)).collect()
}

impl Source {
    /// Parses the word after the name, which is repeated in a hint.
    fn parse(text: &str, name: Option<&str>) -> Outcome<Self> {
        if let Some(link) = InstallLink::parse(text) {
            return Ok(Self::Link(Box::new(link?)));
        }
        let has_scheme = text.starts_with("https://") || text.starts_with("http://");
        let is_package = text.starts_with("npm:") || text.starts_with("pypi:");
        if text.contains(char::is_whitespace) && !has_scheme && !is_package {
            let name = name.map(|name| format!("{} ", shell_quote(name))).unwrap_or_default();
            let hint = format!("for a command, write its words after `--`: bowline add {name}-- {text}");
            return Err(Failure::usage_hint(format!("`{text}` is neither a URL nor a package"), hint));
        }
        if text.contains("://") {
            if !find_placeholders(text).is_empty() && has_scheme {
                return Ok(Self::Url(text.to_owned(), Url::parse(text).ok()));
            }
            return match Url::parse(text) {
                Ok(url) if matches!(url.scheme(), "http" | "https") => {
                    Ok(Self::Url(url.to_string(), Some(url)))
                }
                Ok(url) => {
                    let message = format!("the URL {} is neither http nor https", describe_url(&url));
                    Err(Failure::usage_hint(message, URL_EXAMPLE))
                }
                Err(error) => {
                    let message = format!("{} is not the start of a URL: {error}", start_of_url(text));
                    Err(Failure::usage_hint(message, URL_EXAMPLE))
                }
            };
        }
        let package = |runner: &[&str], name: &str| {
            let words = runner.iter().copied().chain([name]).map(ToOwned::to_owned);
            Self::Package(words.collect(), name.to_owned())
        };
        let npm = text.strip_prefix("npm:").or_else(|| Some(text).filter(|text| is_scoped(text)));
        match (npm, text.strip_prefix("pypi:")) {
            (Some(name), _) if is_package_name(name) => Ok(package(&["npx", "-y"], name)),
            (_, Some(name)) if is_package_name(name) => Ok(package(&["uvx"], name)),
            (Some(_), _) | (_, Some(_)) => {
                let hint =
                    "write it like npm:@modelcontextprotocol/server-everything or pypi:mcp-server-fetch";
                Err(Failure::usage_hint(format!("`{text}` is not the name of a package"), hint))
            }
            _ => {
                let scheme = if is_on_this_machine(text) { "http" } else { "https" };
                let hint = format!(
                    "write {scheme}://{text} for a URL, npm:{text} or pypi:{text} for a package, or a command after `--`; a name in the registry is like io.github.owner/server"
                );
                Err(Failure::usage_hint(format!("`{text}` is neither a URL nor a package"), hint))
            }
        }
    }

    fn suggest_name(&self) -> Option<String> {
        match self {
            Self::Url(_, url) => match url.as_ref()?.host()? {
                Host::Domain(domain) => {
                    let labels: Vec<_> = domain.split('.').collect();
                    let is_common = |label: &&str| matches!(*label, "mcp" | "www" | "api" | "server");
                    let own = &labels[..labels.len().saturating_sub(1).max(1)];
                    valid_server_name(own.iter().rfind(|label| !is_common(label)).or(own.last())?)
                }
                Host::Ipv4(_) | Host::Ipv6(_) => Some("local".to_owned()),
            },
            Self::Package(_, name) => name_of_package(name),
            Self::Link(link) => valid_server_name(&link.name),
            Self::Command(words) => {
                let program = Path::new(words.first()?).file_stem()?.to_str()?;
                let arguments = || words[1..].iter().filter(|word| !word.starts_with('-'));
                match program {
                    "npx" | "uvx" | "bunx" | "pnpx" => name_of_package(arguments().next()?),
                    "node" | "python" | "python3" | "uv" | "deno" | "bun" | "sh" | "bash" => {
                        let script = arguments().find(|word| *word != "run")?;
                        name_of_package(Path::new(script).file_stem()?.to_str()?)
                    }
                    "docker" | "podman" => name_of_package(arguments().next_back()?.rsplit('/').next()?),
                    program => name_of_package(program),
                }
            }
        }
    }

    fn is_url(&self) -> bool {
        match self {
            Self::Url(..) => true,
            Self::Command(_) | Self::Package(..) => false,
            Self::Link(link) => link.is_url(),
        }
    }

    /// What has to be approved, as it is shown.
    fn foreign(&self) -> Option<ForeignServer> {
        match self {
            Self::Url(..) | Self::Command(_) => None,
            Self::Package(words, _) => {
                let words: Vec<_> = words.iter().map(|word| shell_quote(word)).collect();
                Some(ForeignServer::Command(words.join(" ")))
            }
            Self::Link(link) if link.is_url() => Some(ForeignServer::Url(link.describe())),
            Self::Link(link) => Some(ForeignServer::Command(link.describe())),
        }
    }

    /// The keys of the entry apart from `env`, its variables, and what is worth knowing.
    fn into_entry(self, cwd: Option<&Path>) -> SourceEntry {
        let entry = match self {
            Self::Url(text, _) => vec![("url", EntryValue::Text(text))],
            Self::Command(words) | Self::Package(words, _) => command_entry(words, cwd),
            Self::Link(link) => {
                let InstallLink { mut entry, env, notes, name: _ } = *link;
                if let Some(cwd) = cwd {
                    entry.retain(|(key, _)| *key != "cwd");
                    entry.push(cwd_key(cwd));
                }
                let env = env.into_iter().map(|(name, value)| (name, EnvValue::Given(value)));
                return (entry, env.collect(), notes);
            }
        };
        (entry, Vec::new(), Vec::new())
    }
}

/// The scheme and the host of a text that is like a URL. What follows, or a password before the host, may be a key.
fn start_of_url(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    format!("{scheme}://{}", authority.rsplit('@').next().unwrap_or_default())
}

const URL_EXAMPLE: &str = "write it like https://example.com/mcp";

/// Whether a URL without its scheme is one of this machine.
fn is_on_this_machine(text: &str) -> bool {
    Url::parse(&format!("http://{text}")).is_ok_and(|url| is_loopback(&url))
}

/// Whether a text is a package of npm with a scope.
fn is_scoped(text: &str) -> bool {
    text.starts_with('@') && text.contains('/')
}

/// Whether a text can be the name of a package, with a version. It is never taken for an option.
fn is_package_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "@/._-~+=<>[],".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '@') && name.chars().all(is_allowed)
}

/// A short name for a package: `@scope/server-files@1.2` is `files`.
fn name_of_package(package: &str) -> Option<String> {
    let name = package.trim_start_matches('@').rsplit('/').next()?;
    let name = name.split(['@', '=', '<', '>', '[', '~', ':']).next()?;
    let short = name.strip_prefix("mcp-server-").or_else(|| name.strip_prefix("server-"));
    let short = short.or_else(|| name.strip_prefix("mcp-")).unwrap_or(name);
    let short = short.strip_suffix("-mcp-server").or_else(|| short.strip_suffix("-mcp")).unwrap_or(short);
    valid_server_name(if short.is_empty() || short == "mcp" { name } else { short })
}

fn split_header(header: &str) -> Outcome<(String, String)> {
    let (name, value) = header.split_once(':').ok_or_else(|| {
        let message = "-H has no `:` between a name and a value";
        Failure::usage_hint(message, "write -H 'Name: value'")
    })?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn usage(message: &str) -> Failure {
    Failure::usage_hint(message, "see `bowline add --help` for examples")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::RegistryArgs;

    fn args(words: &[&str], command: &[&str]) -> AddArgs {
        let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        AddArgs {
            words: owned(words),
            headers: Vec::new(),
            envs: Vec::new(),
            cwd: None,
            transport: None,
            ca_file: None,
            connect_timeout: None,
            message_limit: None,
            registry: RegistryArgs::default(),
            replace: false,
            no_check: false,
            yes: false,
            command: owned(command),
        }
    }

    #[test]
    fn names_are_made_from_what_is_given() {
        for (words, command, name) in [
            (&["https://mcp.example.com/mcp"][..], &[][..], "example"),
            (&["https://example.com/"], &[], "example"),
            (&["https://docs.mcp.example.co/x"], &[], "example"),
            (&["http://localhost:8080/mcp"], &[], "localhost"),
            (&["http://127.0.0.1:8080/mcp"], &[], "local"),
            (&["https://mcp.dev/"], &[], "mcp"),
            (&["npm:@modelcontextprotocol/server-everything@1.0"], &[], "everything"),
            (&["@scope/github-mcp-server"], &[], "github"),
            (&["pypi:mcp-server-fetch==1.2"], &[], "fetch"),
            (&["pypi:mcp"], &[], "mcp"),
            (&[], &["npx", "-y", "@modelcontextprotocol/server-filesystem", "/tmp"], "filesystem"),
            (&[], &["uvx", "mcp-server-git", "--repository", "."], "git"),
            (&[], &["node", "/x/server.js"], "server"),
            (&[], &["uv", "run", "weather.py"], "weather"),
            (&[], &["docker", "run", "-i", "--rm", "ghcr.io/github/github-mcp-server"], "github"),
            (&[], &["/opt/My Server.exe"], "My-Server"),
            (&["mine"], &["/opt/x"], "mine"),
            (&["mine", "https://example.com/"], &[], "mine"),
        ] {
            let new = NewServer::from_args(args(words, command)).ok().unwrap();
            assert_eq!(new.name, name, "{words:?} {command:?}");
        }
    }

    #[test]
    fn entries() {
        let text = |text: &str| EntryValue::Text(text.into());
        let list = |words: &[&str]| EntryValue::List(words.iter().map(ToString::to_string).collect());
        let new = NewServer::from_args(args(&["npm:a@1"], &[])).ok().unwrap();
        assert_eq!(new.entry, [("command", text("npx")), ("args", list(&["-y", "a@1"]))]);
        assert_eq!(new.foreign, Some(ForeignServer::Command("npx -y a@1".into())));
        let mut with_headers = args(&["a", "https://h/mcp"], &[]);
        with_headers.headers = vec!["X-Key: ${KEY}".into()];
        with_headers.transport = Some(UrlTransport::Sse);
        let new = NewServer::from_args(with_headers).ok().unwrap();
        let headers = EntryValue::Table(vec![("X-Key".into(), "${KEY}".into())]);
        assert_eq!(
            new.entry,
            [("url", text("https://h/mcp")), ("transport", text("sse")), ("headers", headers)]
        );
        assert_eq!(new.foreign, None);
        let mut with_ca = args(&["a", "https://h/mcp"], &[]);
        with_ca.ca_file = Some("/etc/ca.pem".into());
        let new = NewServer::from_args(with_ca).ok().unwrap();
        #[cfg(unix)]
        assert_eq!(new.entry, [("url", text("https://h/mcp")), ("ca_file", text("/etc/ca.pem"))]);
        let mut with_env = args(&["a"], &["cmd"]);
        with_env.envs = vec!["A=b=c".into(), "TOKEN".into()];
        let new = NewServer::from_args(with_env).ok().unwrap();
        assert_eq!(new.entry, [("command", text("cmd"))]);
        let env = [("A".into(), EnvValue::Given("b=c".into())), ("TOKEN".into(), EnvValue::Inherited)];
        assert_eq!(new.env, env);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (words, command) in [
            (&[][..], &[][..]),
            (&["files"], &[]),
            (&["ftp://h/"], &[]),
            (&["npm:-rf"], &[]),
            (&["npm:a b"], &[]),
            (&["a", "npx -y b"], &[]),
            (&["localhost:3000/mcp"], &[]),
            (&["pypi:"], &[]),
            (&["a", "https://h/"], &["cmd"]),
        ] {
            assert!(NewServer::from_args(args(words, command)).is_err(), "{words:?} {command:?}");
        }
        let mut wrong = args(&["https://h/"], &[]);
        wrong.envs = vec!["A=b".into()];
        assert!(NewServer::from_args(wrong).is_err());
        let mut wrong = args(&["a"], &["cmd"]);
        wrong.headers = vec!["A: b".into()];
        assert!(NewServer::from_args(wrong).is_err());
    }
}
