//! Reads the description of a server in a registry (`server.json`), and decides which of its URLs and packages
//! can be used.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::is_plain_version;
use crate::args::{PackageKind, UrlTransport};

/// What a registry says of one version of a server.
#[derive(Debug)]
pub(in super::super) struct ServerDescription {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) description: String,
    /// What is said if the server should not be used any more.
    pub(super) warning: Option<String>,
    /// How it can be used: URLs first, those with Streamable HTTP before others.
    pub(super) ways: Vec<Way>,
    /// Why other ways cannot be used.
    pub(super) unusable: Vec<String>,
}

/// A way to use a server.
#[derive(Debug)]
pub(super) enum Way {
    Remote(Remote),
    Package(Package),
}

/// A server that somebody else runs.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) transport: UrlTransport,
    /// May have variables in braces.
    pub(super) url: String,
    pub(super) variables: BTreeMap<String, Input>,
    pub(super) headers: Vec<NamedInput>,
}

/// A package whose program is a server.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) kind: PackageKind,
    /// The program that runs it, with the options that it always gets.
    pub(super) runner: &'static [&'static str],
    /// The package and its version, as one word of the command.
    pub(super) target: String,
    pub(super) runner_arguments: Vec<Argument>,
    pub(super) arguments: Vec<Argument>,
    pub(super) variables: Vec<NamedInput>,
}

/// A value that a server takes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Input {
    pub(super) description: Option<String>,
    pub(super) is_required: bool,
    pub(super) is_secret: bool,
    /// The value itself, which may have variables in braces.
    pub(super) value: Option<String>,
    pub(super) default: Option<String>,
    pub(super) choices: Vec<String>,
    pub(super) variables: BTreeMap<String, Input>,
}

/// An environment variable or a header.
#[derive(Debug, Deserialize)]
pub(super) struct NamedInput {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) input: Input,
}

/// An argument of a command.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Argument {
    #[serde(rename = "type")]
    pub(super) kind: ArgumentKind,
    /// The name of a named one, with its dashes.
    pub(super) name: Option<String>,
    /// What a positional one is called. It is no part of the command.
    pub(super) value_hint: Option<String>,
    #[serde(flatten)]
    pub(super) input: Input,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum ArgumentKind {
    Named,
    Positional,
}

#[derive(Deserialize)]
struct Answer {
    server: ServerDocument,
    #[serde(rename = "_meta", default)]
    meta: Value,
}

#[derive(Deserialize)]
struct ServerDocument {
    name: String,
    version: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    packages: Option<Vec<Value>>,
    #[serde(default)]
    remotes: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct RemoteDocument {
    #[serde(rename = "type")]
    transport: String,
    url: String,
    #[serde(default)]
    headers: Vec<NamedInput>,
    #[serde(default)]
    variables: BTreeMap<String, Input>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PackageDocument {
    registry_type: String,
    registry_base_url: Option<String>,
    identifier: String,
    version: Option<String>,
    runtime_hint: Option<String>,
    transport: TransportDocument,
    #[serde(default)]
    runtime_arguments: Vec<Argument>,
    #[serde(default)]
    package_arguments: Vec<Argument>,
    #[serde(default)]
    environment_variables: Vec<NamedInput>,
}

#[derive(Deserialize)]
struct TransportDocument {
    #[serde(rename = "type")]
    kind: String,
}

/// How long a URL may be. It is shown whole.
const MAX_URL_BYTES: usize = 2048;
/// How many remotes and packages of a server are read, and how many inputs each may have.
const MAX_PARTS: usize = 64;

impl ServerDescription {
    /// Reads the answer of a registry. Fails with the reason, which has no text of the registry in it.
    pub(super) fn parse(body: &[u8], name: &str, version: Option<&str>) -> Result<Self, String> {
        let Answer { server, meta } = serde_json::from_slice(body).map_err(|error| {
            format!("it is not the JSON of a server (line {}, column {})", error.line(), error.column())
        })?;
        if server.name != name {
            return Err("it is about another server".to_owned());
        }
        if version.is_some_and(|version| version != "latest" && version != server.version) {
            return Err("it is about another version".to_owned());
        }
        if !is_plain_version(&server.version) {
            return Err("its version is not valid".to_owned());
        }
        let (mut ways, mut unusable) = (Vec::new(), Vec::new());
        let remotes = server.remotes.unwrap_or_default().into_iter().take(MAX_PARTS).map(Remote::parse);
        let packages = server.packages.unwrap_or_default().into_iter().take(MAX_PARTS).map(Package::parse);
        for way in remotes.map(|way| way.map(Way::Remote)).chain(packages.map(|way| way.map(Way::Package))) {
            match way {
                Ok(way) => ways.push(way),
                Err(why) => unusable.push(why),
            }
        }
        ways.sort_by_key(|way| match way {
            Way::Remote(remote) if remote.transport == UrlTransport::Http => 0,
            Way::Remote(_) => 1,
            Way::Package(_) => 2,
        });
        let warning = status_warning(&meta[OFFICIAL_META]);
        let ServerDocument { name, version, description, .. } = server;
        Ok(Self { name, version, description: shorten(&description), warning, ways, unusable })
    }
}

/// Where the official registry says what state a server is in.
const OFFICIAL_META: &str = "io.modelcontextprotocol.registry/official";

/// What is said of a server that is deprecated or deleted.
fn status_warning(official: &Value) -> Option<String> {
    let status = official["status"].as_str().filter(|status| matches!(*status, "deprecated" | "deleted"))?;
    Some(match official["statusMessage"].as_str().filter(|message| !message.is_empty()) {
        Some(message) => format!("{status}: {}", shorten(message)),
        None => status.to_owned(),
    })
}

/// The first 300 characters, on one line.
pub(super) fn shorten(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if one_line.chars().count() > 300 {
        return one_line.chars().take(299).chain(['…']).collect();
    }
    one_line
}

impl Remote {
    fn parse(document: Value) -> Result<Self, String> {
        let document = serde_json::from_value(document);
        let RemoteDocument { transport, url, headers, variables } =
            document.map_err(|_| "a URL whose description cannot be read".to_owned())?;
        let transport = match &*transport {
            "streamable-http" => UrlTransport::Http,
            "sse" => UrlTransport::Sse,
            _ => {
                return Err(format!(
                    "a URL with the transport `{}`, which is not supported",
                    shorten(&transport)
                ));
            }
        };
        if url.len() > MAX_URL_BYTES {
            return Err("a URL that is too long".to_owned());
        }
        if headers.len() > MAX_PARTS || headers.iter().any(|header| !is_header_name(&header.name)) {
            return Err("a URL with a header that cannot be sent".to_owned());
        }
        Ok(Self { transport, url, variables, headers })
    }
}

impl Package {
    fn parse(document: Value) -> Result<Self, String> {
        let document: PackageDocument = serde_json::from_value(document)
            .map_err(|_| "a package whose description cannot be read".to_owned())?;
        let what =
            format!("the {} package `{}`", shorten(&document.registry_type), shorten(&document.identifier));
        let kind = match &*document.registry_type {
            "npm" => PackageKind::Npm,
            "pypi" => PackageKind::Pypi,
            "oci" => PackageKind::Oci,
            _ => return Err(format!("{what}, a kind that is not supported")),
        };
        if document.transport.kind != "stdio" {
            return Err(format!("{what}, which listens on a port: start it yourself, and add its URL"));
        }
        let target = target_of(kind, &document)
            .ok_or_else(|| format!("{what}, whose name, version or origin cannot be used"))?;
        let runner = runner_of(kind, &document)
            .ok_or_else(|| format!("{what}, which has to be run in a way that is not supported"))?;
        let counts = [
            document.runtime_arguments.len(),
            document.package_arguments.len(),
            document.environment_variables.len(),
        ];
        let has_bad_variable =
            document.environment_variables.iter().any(|variable| !is_variable_name(&variable.name));
        let mut arguments = document.runtime_arguments.iter().chain(&document.package_arguments);
        if counts.iter().any(|count| *count > MAX_PARTS)
            || has_bad_variable
            || arguments.any(|argument| !argument.is_valid())
        {
            return Err(format!("{what}, which takes arguments or variables that cannot be used"));
        }
        Ok(Self {
            kind,
            runner,
            target,
            runner_arguments: document.runtime_arguments,
            arguments: document.package_arguments,
            variables: document.environment_variables,
        })
    }

    /// The kind, as the registry and `--package` call it.
    pub(super) fn kind_name(&self) -> &'static str {
        match self.kind {
            PackageKind::Npm => "npm",
            PackageKind::Pypi => "pypi",
            PackageKind::Oci => "oci",
        }
    }
}

impl Argument {
    fn is_valid(&self) -> bool {
        match (self.kind, &self.name) {
            (ArgumentKind::Named, Some(name)) => {
                let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
                name.starts_with('-') && !name.trim_matches('-').is_empty() && name.chars().all(is_allowed)
            }
            (ArgumentKind::Named, None) => false,
            (ArgumentKind::Positional, _) => true,
        }
    }

    /// What `--arg` calls it.
    pub(super) fn label(&self) -> Option<&str> {
        match self.kind {
            ArgumentKind::Named => self.name.as_deref().map(|name| name.trim_start_matches('-')),
            ArgumentKind::Positional => self.value_hint.as_deref(),
        }
    }
}

/// The package as one word of its command. `None` if a part of it could be taken for anything else: an option,
/// a path, a URL, a range of versions, or a package of another origin.
fn target_of(kind: PackageKind, document: &PackageDocument) -> Option<String> {
    let PackageDocument { identifier, version, registry_base_url, .. } = document;
    let base = registry_base_url.as_deref().map(|url| url.trim_end_matches('/'));
    let number =
        || version.as_deref().filter(|version| is_plain_version(version) && has_digit_first(version));
    match kind {
        PackageKind::Npm => {
            let name = identifier.strip_prefix('@').unwrap_or(identifier);
            let parts: Vec<_> = name.split('/').collect();
            let expected = if identifier.starts_with('@') { 2 } else { 1 };
            let is_valid = parts.len() == expected && parts.iter().all(|part| is_name_part(part, "._~-"));
            (is_valid && base.is_none_or(|base| base == "https://registry.npmjs.org"))
                .then(|| number().map(|version| format!("{identifier}@{version}")))
                .flatten()
        }
        PackageKind::Pypi => {
            let is_valid = is_name_part(identifier, "._-");
            (is_valid
                && base.is_none_or(|base| matches!(base, "https://pypi.org" | "https://pypi.org/simple")))
            .then(|| number().map(|version| format!("{identifier}=={version}")))
            .flatten()
        }
        PackageKind::Oci => {
            let is_valid = is_name_part(identifier, "._/:@-")
                && !identifier.contains("//")
                && !identifier.contains("..");
            let host = match base {
                None | Some("https://docker.io") => String::new(),
                Some(base) => {
                    let host = base.strip_prefix("https://").filter(|host| is_name_part(host, ".:-"))?;
                    if identifier.starts_with(&format!("{host}/")) {
                        String::new()
                    } else {
                        format!("{host}/")
                    }
                }
            };
            let has_tag = identifier.rsplit('/').next().is_some_and(|last| last.contains([':', '@']));
            let tag = match version.as_deref() {
                Some(version) if !has_tag => {
                    Some(format!(":{version}")).filter(|_| is_name_part(version, "._-"))?
                }
                _ => String::new(),
            };
            is_valid.then(|| format!("{host}{identifier}{tag}"))
        }
    }
}

/// The program that runs a package. A hint is followed if it names a known program for this kind. `None` if there
/// are arguments for a program that is not known.
fn runner_of(kind: PackageKind, document: &PackageDocument) -> Option<&'static [&'static str]> {
    let usual: (&str, &'static [&'static str]) = match kind {
        PackageKind::Npm => ("npx", &["npx", "-y"]),
        PackageKind::Pypi => ("uvx", &["uvx"]),
        PackageKind::Oci => ("docker", &["docker", "run", "-i", "--rm"]),
    };
    match document.runtime_hint.as_deref() {
        Some("bunx") if kind == PackageKind::Npm => Some(&["bunx"]),
        Some(hint) if hint == usual.0 => Some(usual.1),
        None => Some(usual.1),
        Some(_) => document.runtime_arguments.is_empty().then_some(usual.1),
    }
}

fn has_digit_first(version: &str) -> bool {
    version.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit())
}

fn is_name_part(text: &str, further: &str) -> bool {
    text.len() <= 255
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || further.contains(c))
}

fn is_variable_name(name: &str) -> bool {
    name.len() <= 255
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_header_name(name: &str) -> bool {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.len() <= 255 && name.chars().all(is_token)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(members: Value) -> Result<Package, String> {
        let mut document = json!({
            "registryType": "npm", "identifier": "a", "version": "1.2.3", "transport": { "type": "stdio" }
        });
        for (key, value) in members.as_object().unwrap() {
            document[key] = value.clone();
        }
        Package::parse(document)
    }

    #[test]
    fn packages_are_pinned() {
        for (members, runner, target) in [
            (json!({}), &["npx", "-y"][..], "a@1.2.3"),
            (json!({ "identifier": "@s/a.b", "runtimeHint": "bunx" }), &["bunx"], "@s/a.b@1.2.3"),
            (json!({ "registryType": "pypi", "runtimeHint": "python" }), &["uvx"], "a==1.2.3"),
            (json!({ "registryBaseUrl": "https://registry.npmjs.org/" }), &["npx", "-y"], "a@1.2.3"),
            (json!({ "registryType": "oci" }), &["docker", "run", "-i", "--rm"], "a:1.2.3"),
            (
                json!({ "registryType": "oci", "identifier": "ghcr.io/o/i:2@sha256:ab", "version": null }),
                &["docker", "run", "-i", "--rm"],
                "ghcr.io/o/i:2@sha256:ab",
            ),
            (
                json!({ "registryType": "oci", "identifier": "o/i", "registryBaseUrl": "https://ghcr.io" }),
                &["docker", "run", "-i", "--rm"],
                "ghcr.io/o/i:1.2.3",
            ),
        ] {
            let package = package(members).unwrap();
            assert_eq!((package.runner, &*package.target), (runner, target));
        }
    }

    #[test]
    fn hostile_packages_are_refused() {
        for members in [
            json!({ "identifier": "-rf" }),
            json!({ "identifier": "--call=touch x" }),
            json!({ "identifier": "a b" }),
            json!({ "identifier": "a\u{1b}[2J" }),
            json!({ "identifier": "../a" }),
            json!({ "identifier": "/tmp/a" }),
            json!({ "identifier": "owner/repo" }),
            json!({ "identifier": "@s/a/b" }),
            json!({ "identifier": "@-s/a" }),
            json!({ "identifier": "https://h/a.tgz" }),
            json!({ "identifier": "git+ssh://h/a" }),
            json!({ "identifier": "github:o/a" }),
            json!({ "identifier": 1 }),
            json!({ "version": "latest" }),
            json!({ "version": "^1.0" }),
            json!({ "version": ">=1" }),
            json!({ "version": "file:../x" }),
            json!({ "version": "npm:other@1" }),
            json!({ "version": null }),
            json!({ "registryBaseUrl": "https://evil.example" }),
            json!({ "registryType": "pypi", "identifier": "a @ https://h" }),
            json!({ "registryType": "pypi", "identifier": "--index-url=https://h" }),
            json!({ "registryType": "oci", "identifier": "--privileged" }),
            json!({ "registryType": "oci", "registryBaseUrl": "https://h/?" }),
            json!({ "registryType": "oci", "version": "1 --privileged" }),
            json!({ "registryType": "mcpb" }),
            json!({ "registryType": "nuget" }),
            json!({ "transport": { "type": "streamable-http", "url": "http://localhost/" } }),
            json!({ "runtimeHint": "sh", "runtimeArguments": [{ "type": "positional", "value": "-c" }] }),
            json!({ "environmentVariables": [{ "name": "A=B" }] }),
            json!({ "packageArguments": [{ "type": "named", "name": "a b" }] }),
            json!({ "packageArguments": [{ "type": "named" }] }),
            json!({ "packageArguments": [{ "type": "other" }] }),
            json!({ "packageArguments": {} }),
        ] {
            assert!(package(members.clone()).is_err(), "{members}");
        }
    }

    #[test]
    fn hostile_remotes_are_refused() {
        let remote = |url: &str, header: &str| {
            let document = json!({ "type": "sse", "url": url, "headers": [{ "name": header }] });
            Remote::parse(document).map(|_| ())
        };
        assert_eq!(remote("https://h/", "X-Key"), Ok(()));
        let unsendable = Err("a URL with a header that cannot be sent".to_owned());
        assert_eq!(remote("https://h/", "X\r\nKey"), unsendable);
        assert_eq!(remote("https://h/", ""), unsendable);
        assert_eq!(remote(&"x".repeat(2049), "X-Key"), Err("a URL that is too long".to_owned()));
    }

    #[test]
    fn the_answer_is_about_the_server_that_was_asked_for() {
        let answer = |name: &str, version: &str| {
            json!({ "server": { "name": name, "version": version } }).to_string().into_bytes()
        };
        let parse = |body: &[u8], version| ServerDescription::parse(body, "a.b/c", version).map(|_| ());
        assert_eq!(parse(&answer("a.b/c", "1"), None), Ok(()));
        assert_eq!(parse(&answer("a.b/c", "1"), Some("1")), Ok(()));
        assert_eq!(parse(&answer("a.b/d", "1"), None), Err("it is about another server".to_owned()));
        assert_eq!(parse(&answer("a.b/c", "2"), Some("1")), Err("it is about another version".to_owned()));
        assert_eq!(parse(&answer("a.b/c", "1\n"), None), Err("its version is not valid".to_owned()));
        let unread = "it is not the JSON of a server (line 1, column 2)".to_owned();
        assert_eq!(parse(b"[]", None), Err(unread));
    }
}
