//! Reads how hosts write logins into our keys of `auth`.

use bowline_config::tree::Value;
use bowline_settings::EntryValue;

use super::fields::{boolean, number, text, texts};
use super::findings::Findings;
use super::placeholder::Translator;
use super::server_entry::Login;

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
