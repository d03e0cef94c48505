//! Reads how hosts write logins into our keys of `auth`.

use bowline_config::tree::{Key, Node, Value};
use bowline_settings::EntryValue;

use super::fields::{boolean, get, number, text, texts};
use super::findings::Findings;
use super::placeholder::Translator;
use super::server_entry::{Login, ServerEntry, Target};
use crate::host::Host;

/// The keys of `auth` that were found so far.
#[derive(Default)]
pub(super) struct LoginKeys {
    keys: Vec<(&'static str, EntryValue)>,
    is_off: bool,
}

impl LoginKeys {
    /// Sets a key, unless it is set: what is closest to the login comes first.
    pub(super) fn set(&mut self, key: &'static str, value: EntryValue) {
        if !self.keys.iter().any(|(known, _)| *known == key) {
            self.keys.push((key, value));
        }
    }

    pub(super) fn set_text(&mut self, key: &'static str, text: String) {
        if !text.is_empty() {
            self.set(key, EntryValue::Text(text));
        }
    }

    /// Sets the scopes: a list, or a text with blanks between them.
    pub(super) fn set_scopes(&mut self, value: &Value, translator: &Translator<'_>, found: &mut Findings) {
        let words: Vec<String> = texts(value)
            .unwrap_or_default()
            .iter()
            .flat_map(|text| text.split([' ', ',']))
            .filter(|word| !word.is_empty())
            .map(|word| translator.translate(word, found))
            .collect();
        if !words.is_empty() {
            self.set("scope", EntryValue::List(words));
        }
    }

    /// Reads `oauth` or `auth` of an entry.
    pub(super) fn read(&mut self, value: &Value, translator: &Translator<'_>, found: &mut Findings) {
        match value {
            Value::Bool(false) => self.is_off = true,
            Value::Table(fields) => {
                for (key, node) in fields {
                    self.read_key(&key.name, &node.value, translator, found);
                }
            }
            Value::String(word) if word != "oauth" => {
                let host = translator.host.name();
                found.attend(format!("{host} logs in by `{word}`, which bowline cannot do"));
            }
            _ => {}
        }
    }

    fn read_key(&mut self, key: &str, value: &Value, translator: &Translator<'_>, found: &mut Findings) {
        let mut translated = |value| text(value).map(|text| translator.translate(&text, found));
        match key {
            "clientId" | "client_id" | "CLIENT_ID" => {
                self.set_text("client_id", translated(value).unwrap_or_default());
            }
            "clientSecret" | "client_secret" | "CLIENT_SECRET" => {
                self.set_text("client_secret", translated(value).unwrap_or_default());
            }
            "scope" | "scopes" => self.set_scopes(value, translator, found),
            "callbackPort" | "callback_port" | "redirect_port" => self.set_port(value),
            "redirectUri" | "redirect_uri" | "callback_url" | "callbackUrl" => {
                self.set_redirect(translated(value).unwrap_or_default(), found);
            }
            "authServerMetadataUrl" => match text(value).as_deref().and_then(issuer_of_metadata) {
                Some(issuer) => self.set_text("issuer", issuer),
                None => found.note(format!("`{key}` is not used")),
            },
            "issuer" => self.set_text("issuer", translated(value).unwrap_or_default()),
            "enabled" if boolean(value) == Some(false) => self.is_off = true,
            "enabled" | "client_name" | "clientName" | "timeout" | "redirect_host" | "tokenParamName" => {}
            "authorizationUrl" | "tokenUrl" | "registrationUrl" => {
                found.note(format!("`{key}` is not used: the server says where to log in"));
            }
            other => found.note(format!("`{other}` of the login is not used")),
        }
    }

    pub(super) fn set_port(&mut self, value: &Value) {
        if let Some(port) = number(value).filter(|port| (1.0..=65535.0).contains(port)) {
            #[expect(clippy::cast_possible_truncation, reason = "a port was checked")]
            self.set("redirect_port", EntryValue::Number(port as i64));
        }
    }

    /// Sets the redirect address, if a browser can be redirected to us by it.
    pub(super) fn set_redirect(&mut self, uri: String, found: &mut Findings) {
        if uri.starts_with("http://") || uri.starts_with("https://") {
            self.set_text("redirect_uri", uri);
        } else if !uri.is_empty() {
            found.note("its redirect address is one that only the host can open, and is not used".to_owned());
        }
    }

    pub(super) fn finish(mut self, found: &mut Findings) -> Login {
        if self.is_off {
            return Login::Off;
        }
        let has = |keys: &[(&'static str, EntryValue)], key| keys.iter().any(|(known, _)| *known == key);
        if has(&self.keys, "client_secret") && !has(&self.keys, "client_id") {
            found.note("the secret of its OAuth client is not used, as there is no id".to_owned());
            self.keys.retain(|(key, _)| *key != "client_secret");
        }
        if has(&self.keys, "redirect_uri") {
            self.keys.retain(|(key, _)| *key != "redirect_port");
        }
        Login::Keys(self.keys)
    }
}

/// Where the browser is redirected to after a login, if a file says that for all of its servers.
#[derive(Default)]
pub(super) struct SharedRedirect {
    key: Option<(&'static str, EntryValue)>,
    note: Option<String>,
}

/// Reads where Codex has the browser redirected to after any login.
pub(super) fn shared_redirect(host: Host, root: &[(Key, Node)]) -> SharedRedirect {
    let mut login = LoginKeys::default();
    let mut shared = SharedRedirect::default();
    if host != Host::Codex {
        return shared;
    }
    match get(root, "mcp_oauth_callback_url").and_then(text) {
        Some(url) if is_usable_redirect(&url) => login.set_text("redirect_uri", url),
        Some(_) => {
            shared.note = Some(
                "`mcp_oauth_callback_url` is not used: it is neither https nor on this machine".to_owned(),
            );
        }
        None => get(root, "mcp_oauth_callback_port").into_iter().for_each(|port| login.set_port(port)),
    }
    shared.key = login.keys.pop();
    shared
}

/// Whether our configuration accepts an address, which has no placeholders in it.
fn is_usable_redirect(url: &str) -> bool {
    let is_here = url.strip_prefix("http://").is_some_and(|rest| {
        ["127.0.0.1", "localhost", "[::1]"].iter().any(|host| {
            rest.strip_prefix(host).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
        })
    });
    (is_here || url.starts_with("https://")) && !url.contains(['{', '$'])
}

impl ServerEntry {
    /// Sets where the browser is redirected to after a login, if there is one at this server and the entry
    /// does not say it. Returns a note if that cannot be done.
    pub(super) fn add_redirect(&mut self, shared: &SharedRedirect) -> Option<String> {
        let Target::Endpoint(endpoint) = &mut self.target else { return None };
        let has_token = endpoint.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let Login::Keys(keys) = &mut endpoint.auth else { return None };
        let is_set = keys.iter().any(|(key, _)| matches!(*key, "redirect_uri" | "redirect_port"));
        if has_token || is_set || endpoint.headers_command.is_some() {
            return None;
        }
        keys.extend(shared.key.clone());
        shared.note.clone()
    }
}

/// The issuer whose metadata is at this address.
fn issuer_of_metadata(url: &str) -> Option<String> {
    for known in ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"] {
        if let Some((before, after)) = url.split_once(known) {
            return Some(format!("{before}{after}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::issuer_of_metadata;

    #[test]
    fn the_issuer_follows_from_its_metadata() {
        for (url, issuer) in [
            ("https://as/.well-known/oauth-authorization-server", Some("https://as")),
            ("https://as/.well-known/oauth-authorization-server/t", Some("https://as/t")),
            ("https://as/t/.well-known/openid-configuration", Some("https://as/t")),
            ("https://as/metadata", None),
        ] {
            assert_eq!(issuer_of_metadata(url).as_deref(), issuer, "{url}");
        }
    }
}
