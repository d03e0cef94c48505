//! Looks servers up in an MCP registry. Everything that a registry says is untrusted: answers are bounded in
//! size and time, come from the registry's own origin, and are validated before anything is made of them.

mod description;
mod entry;
mod values;

use std::time::Duration;

use bowline::config::Tls;
use bowline_config::closest_name;
use bowline_transport::http::{AddressSource, FetchError, FetchLimits, Fetcher, Proxies, is_this_machine};
use bytes::Bytes;
use hyper::header::{ACCEPT, HeaderValue};
use hyper::{Request, StatusCode};
use serde_json::Value;
use url::Url;

pub(super) use self::description::ServerDescription;
pub(super) use self::entry::make_entry;
use crate::env;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, Report};
use crate::settings::Settings;

/// The name of a server in a registry, such as `io.github.owner/server`, and perhaps a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RegistryName {
    pub(super) name: String,
    version: Option<String>,
}

impl RegistryName {
    /// Returns `None` for a text of another form: a namespace in reverse-DNS order, one slash, a name, and
    /// perhaps `@` with a version.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let (namespace, own) = name.split_once('/')?;
        let is_label = |label: &str| {
            label.starts_with(|c: char| c.is_ascii_alphanumeric())
                && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        let is_namespace = namespace.contains('.') && namespace.split('.').all(is_label);
        let is_own = own.starts_with(|c: char| c.is_ascii_alphanumeric())
            && own.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        let is_valid = is_namespace && is_own && name.len() <= MAX_NAME_BYTES;
        (is_valid && version.is_none_or(is_plain_version))
            .then(|| Self { name: name.to_owned(), version: version.map(ToOwned::to_owned) })
    }

    /// The part after the slash.
    pub(super) fn own_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }
}

const MAX_NAME_BYTES: usize = 200;

/// Whether a text is one version: never a range, an option, a URL or a path.
fn is_plain_version(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= 255
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._+!-".contains(c))
}

/// A registry that can be asked.
pub(super) struct Registry {
    url: Url,
    fetcher: Fetcher,
}

impl Registry {
    /// Opens the registry that an argument names, or a variable, or the official one.
    pub(super) fn open(named: Option<&str>, settings: &Settings) -> Outcome<Self> {
        let named =
            named.map(ToOwned::to_owned).or_else(|| env::non_empty_var(&*settings.env, env::REGISTRY));
        let named = named.as_deref().unwrap_or(OFFICIAL_REGISTRY);
        let url = Url::parse(named).ok().filter(|url| {
            let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_this_machine(url));
            is_safe && url.username().is_empty() && url.password().is_none()
        });
        let url = url.ok_or_else(|| {
            let hint = "it is an https URL, or an http URL of this machine, without a user or password";
            Failure::usage_hint("the URL of the registry cannot be used", hint)
        })?;
        let limits = FetchLimits { connect: CONNECT_TIMEOUT, total: TOTAL_TIMEOUT, body: MAX_ANSWER_BYTES };
        let fetcher = Fetcher::new(Tls::default(), Proxies::System).within_origin().limits(limits);
        Ok(Self { url, fetcher })
    }

    /// Fetches the description of a server.
    pub(super) async fn describe(&self, wanted: &RegistryName) -> Outcome<ServerDescription> {
        let version = wanted.version.as_deref().unwrap_or("latest");
        let url = self.url_of(&["v0.1", "servers", &wanted.name, "versions", version]);
        let (status, body) = self.get(&url).await?;
        match status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Err(self.not_found(wanted).await),
            status => {
                let hint = "try again later, or name another registry with --registry";
                return Err(self.failure(&format!("answered with status {}", status.as_u16()), hint));
            }
        }
        ServerDescription::parse(&body, &wanted.name, wanted.version.as_deref()).map_err(|why| {
            let message = format!("described `{}` in a way that cannot be used: {why}", wanted.name);
            self.failure(&message, "add the server by its URL, its package or its command")
        })
    }

    /// Fails if a server that this registry describes must not be reached at this URL: it must be encrypted,
    /// unless it is on this machine, and must not be less public than the registry.
    // SE-01
    pub(super) async fn check_remote(&self, remote: &Url) -> Outcome<()> {
        let refused = |why: String| {
            let message = format!("the URL that the registry names is not used: {why}");
            Failure::usage_hint(message, "if you trust it, add the server by its URL")
        };
        if remote.scheme() != "https" && !is_this_machine(remote) {
            return Err(refused(format!("{} is not encrypted", remote.origin().ascii_serialization())));
        }
        let zone = self.fetcher.find_zone(&self.url).await;
        let zone = zone.map_err(|fault| self.failure(&fault.to_string(), CHECK_NETWORK_HINT))?;
        let checked = self.fetcher.check_browser_url(remote, zone).await;
        checked.map_err(|refusal| refused(refusal.to_string()))
    }

    /// The failure for a server that is not there, with the one that may be meant.
    async fn not_found(&self, wanted: &RegistryName) -> Failure {
        let RegistryName { name, version } = wanted;
        let at = self.url.origin().ascii_serialization();
        let message = match version {
            Some(version) => format!("there is no version {version} of `{name}` in the registry at {at}"),
            None => format!("there is no server `{name}` in the registry at {at}"),
        };
        let known = self.search(wanted.own_name()).await;
        let hint = match closest_name(name, known.iter().map(String::as_str)) {
            Some(near) if near == name => format!("write {name} for the latest version"),
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("write https://{name} if it is a URL"),
        };
        Failure::usage_hint(message, hint)
    }

    /// The names of servers that have these characters in their name. A search that fails finds nothing.
    async fn search(&self, part: &str) -> Vec<String> {
        let mut url = self.url_of(&["v0.1", "servers"]);
        url.query_pairs_mut().extend_pairs([("search", part), ("version", "latest"), ("limit", "50")]);
        let Ok((StatusCode::OK, body)) = self.get(&url).await else { return Vec::new() };
        let found: Value = serde_json::from_slice(&body).unwrap_or_default();
        let servers = found["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names = servers.iter().filter_map(|entry| entry["server"]["name"].as_str());
        names.filter(|name| RegistryName::parse(name).is_some()).map(ToOwned::to_owned).collect()
    }

    fn url_of(&self, segments: &[&str]) -> Url {
        let mut url = self.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    async fn get(&self, url: &Url) -> Outcome<(StatusCode, Bytes)> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() =
            url.as_str().parse().map_err(|_| Failure::usage("the URL of the registry cannot be used"))?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let response =
            self.fetcher.send(request, AddressSource::User).await.map_err(|error| match error {
                FetchError::Refused(refusal) => self.failure(&refusal.to_string(), CHECK_NETWORK_HINT),
                FetchError::Failed(fault) => self.failure(&fault.to_string(), CHECK_NETWORK_HINT),
            })?;
        Ok((response.status(), response.into_body()))
    }

    fn failure(&self, what: &str, hint: &str) -> Failure {
        let message = format!("the registry at {}: {what}", self.url.origin().ascii_serialization());
        Report { hint: Some(hint.to_owned()), ..Report::new(Exit::Connection, message) }.into()
    }
}

const OFFICIAL_REGISTRY: &str = "https://registry.modelcontextprotocol.io";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TOTAL_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ANSWER_BYTES: usize = 1024 * 1024;
const CHECK_NETWORK_HINT: &str = "check your network, or name another registry with --registry";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_registry() {
        for (text, name, version) in [
            ("io.github.owner/server", "io.github.owner/server", None),
            ("com.example/a_b.c-d@1.2.3-rc.1+b", "com.example/a_b.c-d", Some("1.2.3-rc.1+b")),
        ] {
            let parsed = RegistryName::parse(text).unwrap();
            assert_eq!((&*parsed.name, parsed.version.as_deref()), (name, version));
        }
        for text in [
            "owner/server",
            "io.github.owner",
            "io.github.owner/a/b",
            "io.github.owner/",
            "../server",
            "./server",
            "io..github/x",
            "-io.github/x",
            "io.github/-x",
            "io.github/x@",
            "io.github/x@>=1",
            "io.github/x@-1",
            "@scope.x/server",
            "io.github/x y",
        ] {
            assert_eq!(RegistryName::parse(text), None, "{text}");
        }
    }
}
