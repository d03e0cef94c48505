//! Owns how a server's `auth` and the table `[auth]` are resolved, and which of their settings
//! contradict each other.

use url::Url;

use super::Resolver;
use super::client::Client;
use crate::auth::{AppSettings, Auth, Grant, Idp, Redirect, Resource};
use crate::check;
use crate::problem::ProblemKind;
use crate::raw::{RawApp, RawAuth, RawGrant, RawHeadersCommand, RawIdp, RawMap, RawResource, RawSupply};
use crate::report::{Finding, Located, Place};
use crate::secret::Secret;

impl Resolver<'_, '_> {
    /// Resolves a server's `auth`; `None` if a reported problem leaves no usable login.
    pub(super) fn auth(&mut self, table: Located<RawAuth>) -> Option<Auth> {
        let Located { value: raw, place } = table;
        let RawAuth {
            grant,
            client_id,
            client_secret,
            client_auth,
            private_key,
            key_id,
            algorithm,
            audience,
            client_metadata_url,
            scope,
            resource,
            issuer,
            account,
            redirect_port,
            redirect_uri,
            authorize_params,
            dpop,
            assertion,
            idp,
            garbled,
        } = raw;
        let kind = grant.as_ref().map_or(RawGrant::Person, |grant| grant.value);
        let client = Client {
            id: client_id,
            secret: client_secret,
            method: client_auth,
            key: private_key,
            key_id,
            algorithm,
            audience,
        };
        if kind == RawGrant::ClientCredentials {
            self.own_account(&place, &client, &garbled);
        }
        if issuer.is_none() && !garbled.contains(&"issuer") {
            self.doubt_audience(&client);
        }
        for page_only in [
            redirect_port.as_ref().map(|it| &it.place),
            redirect_uri.as_ref().map(|it| &it.place),
            authorize_params.as_ref().map(|it| &it.place),
        ] {
            if let (Some(place), true) = (page_only, kind != RawGrant::Person) {
                let message = "not used: only a login in a browser has a page";
                self.report.note(place, Finding::new(ProblemKind::Ignored, message));
            }
        }
        let redirect = self.redirect(redirect_port, redirect_uri);
        // If the grant could not be read, the keys of the various grants are not checked against
        // it.
        let grant = if garbled.contains(&"grant") {
            None
        } else {
            self.grant(&place, kind, (assertion, idp), &garbled)
        };
        let client = self.client(client, &garbled);
        let client_metadata_url = self.optional(client_metadata_url, Self::document);
        let scope = self.optional(scope, Self::scope);
        let resource = self.optional(resource, Self::resource);
        let issuer = self.optional(issuer, |it, text| it.text(text, check::issuer));
        let account = self.optional(account, |it, text| it.text(text, check::label));
        let authorize_params = self.authorize_params(authorize_params);
        Some(Auth {
            grant: grant?,
            client: client?,
            client_metadata_url: client_metadata_url?,
            scope: scope?,
            resource: resource?.unwrap_or_default(),
            issuer: issuer?,
            account: account?,
            redirect: redirect?,
            authorize_params,
            dpop: dpop.map(|it| it.value).unwrap_or_default(),
        })
    }

    /// Notes a client secret or key without an `issuer`. The server itself names its authorization
    /// server. That is enough for a person, who sees where they log in, but not for a secret, which
    /// is sent there unseen.
    fn doubt_audience(&mut self, client: &Client) {
        let Some(proof) = client.secret.as_ref().or(client.key.as_ref()) else { return };
        let message = "is shown to the first authorization server that the server names, whichever that is";
        let finding = Finding::new(ProblemKind::Doubtful, message)
            .hint("write `issuer = \"…\"`, the authorization server that the client was registered at");
        self.report.note(&proof.place, finding);
    }

    /// Resolves `[auth]`: how this client presents itself to all servers.
    pub(crate) fn app(&mut self, raw: RawApp) -> AppSettings {
        let RawApp { client_name, client_metadata_url } = raw;
        AppSettings {
            client_name: client_name.and_then(|name| self.text(name, check::label)),
            client_metadata_url: client_metadata_url.and_then(|url| self.document(url)),
        }
    }

    /// Notes settings that have no effect: no login is started if headers already authenticate, and
    /// of two `Authorization` headers the command's is sent.
    pub(super) fn doubt_login(
        &mut self,
        auth: Option<&Located<RawAuth>>,
        command: Option<&Located<RawHeadersCommand>>,
        headers: &[(String, Secret)],
    ) {
        let fixed = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if let (Some(command), true) = (command, fixed) {
            let message = "an `Authorization` that it prints is sent in place of the one in `headers`";
            self.report.note(&command.place, Finding::new(ProblemKind::Doubtful, message));
        }
        let Some(auth) = auth else { return };
        if auth.value.grant.as_ref().is_some_and(|grant| grant.value == RawGrant::Off) {
            return;
        }
        let by = if command.is_some() {
            "`headers_command` says"
        } else if fixed {
            "`headers` say"
        } else {
            return;
        };
        let finding = Finding::new(ProblemKind::Ignored, format!("not used: {by} who we are"))
            .hint("a login is only begun where nothing else does");
        self.report.note(&auth.place, finding);
    }

    /// Returns `Some(None)` for an absent value and `None` for one that is wrong.
    #[expect(clippy::option_option, reason = "absent and wrong are two things here")]
    pub(super) fn optional<T, U>(
        &mut self,
        given: Option<Located<T>>,
        read: impl FnOnce(&mut Self, Located<T>) -> Option<U>,
    ) -> Option<Option<U>> {
        match given {
            None => Some(None),
            Some(given) => read(self, given).map(Some),
        }
    }

    fn grant(
        &mut self,
        place: &Place,
        kind: RawGrant,
        parts: (Option<Located<RawSupply>>, Option<Located<RawIdp>>),
        garbled: &[&str],
    ) -> Option<Grant> {
        let (assertion, idp) = parts;
        let (assertion, idp) = match kind {
            RawGrant::Workload => (assertion, self.only_for(idp, "enterprise")),
            RawGrant::Enterprise => (self.only_for(assertion, "workload"), idp),
            _ => (self.only_for(assertion, "workload"), self.only_for(idp, "enterprise")),
        };
        Some(match kind {
            RawGrant::Person => Grant::Person,
            RawGrant::Device => Grant::Device,
            RawGrant::ClientCredentials => Grant::ClientCredentials,
            RawGrant::Off => Grant::Off,
            RawGrant::Enterprise => {
                if idp.is_none() && !garbled.contains(&"idp") {
                    let hint =
                        "write `idp = { token_endpoint = \"…\", client_id = \"…\", id_token = { … } }`";
                    self.missing(place, "needs `idp`", hint);
                }
                Grant::Enterprise(self.idp(idp?)?)
            }
            RawGrant::Workload => {
                if assertion.is_none() && !garbled.contains(&"assertion") {
                    let hint = "write `assertion = { file = \"…\" }`, or where else the token comes from";
                    self.missing(place, "needs `assertion`", hint);
                }
                Grant::Workload(self.supply(assertion?)?)
            }
        })
    }

    /// Reports and drops a table that belongs to another grant.
    fn only_for<T>(&mut self, part: Option<Located<T>>, grant: &str) -> Option<Located<T>> {
        let part = part?;
        let finding = Finding::new(ProblemKind::Conflict, format!("belongs to `grant = \"{grant}\"`"));
        self.report.error(&part.place, finding);
        None
    }

    fn redirect(&mut self, port: Option<Located<u16>>, uri: Option<Located<String>>) -> Option<Redirect> {
        match (port, uri) {
            (None, None) => Some(Redirect::AnyPort),
            (Some(port), None) => Some(Redirect::Port(port.value)),
            (port, Some(uri)) => {
                if port.is_some() {
                    let finding = Finding::new(ProblemKind::Conflict, "contradicts `redirect_port`")
                        .hint("an address has its own port; keep one of them");
                    self.report.error(&uri.place, finding);
                }
                let place = uri.place.clone();
                let uri = self.fill(uri)?;
                self.checked(&place, check::redirect(&uri)).map(Redirect::Uri)
            }
        }
    }

    fn document(&mut self, url: Located<String>) -> Option<Url> {
        let place = url.place.clone();
        let url = self.fill(url)?;
        self.checked(&place, check::document(&url))
    }

    fn scope(&mut self, scope: Located<Vec<Located<String>>>) -> Option<Vec<String>> {
        let mut scopes: Vec<String> = Vec::new();
        let mut sound = true;
        for text in scope.value {
            let Some(text) = self.text(text, check::scope) else {
                sound = false;
                continue;
            };
            for scope in text.split_ascii_whitespace() {
                if !scopes.iter().any(|known| known == scope) {
                    scopes.push(scope.to_owned());
                }
            }
        }
        sound.then_some(scopes)
    }

    fn resource(&mut self, resource: Located<RawResource>) -> Option<Resource> {
        let Located { value, place } = resource;
        match value {
            RawResource::Off => Some(Resource::Off),
            RawResource::This(text) => {
                self.text(Located::new(text, place), check::resource).map(Resource::Fixed)
            }
        }
    }

    fn authorize_params(&mut self, params: Option<Located<RawMap>>) -> Vec<(String, String)> {
        let mut resolved = Vec::new();
        for (name, value) in params.into_iter().flat_map(|params| params.value) {
            let named = self.checked(&value.place, check::authorize_param(&name.value));
            let value = self.text(value, check::no_nul);
            if let (Some(()), Some(value)) = (named, value) {
                resolved.push((name.value, value));
            }
        }
        resolved
    }

    fn idp(&mut self, table: Located<RawIdp>) -> Option<Idp> {
        let Located { value: raw, place } = table;
        let RawIdp { token_endpoint, client_id, client_secret, id_token, garbled } = raw;
        for (name, given, hint) in [
            ("token_endpoint", token_endpoint.is_some(), "where the identity provider exchanges tokens"),
            ("client_id", client_id.is_some(), "the client that the identity provider knows"),
            ("id_token", id_token.is_some(), "where the person's ID token comes from"),
        ] {
            if !given && !garbled.contains(&name) {
                self.missing(&place, &format!("needs `{name}`"), hint);
            }
        }
        let token_endpoint = token_endpoint.and_then(|url| {
            let place = url.place.clone();
            let url = self.fill(url)?;
            self.checked(&place, check::secure_url(&url))
        });
        let client_id = client_id.and_then(|id| self.text(id, check::label));
        let client_secret = self.optional(client_secret, |it, text| it.text(text, check::credential));
        let id_token = id_token.and_then(|it| self.supply(it));
        Some(Idp {
            token_endpoint: token_endpoint?,
            client_id: client_id?,
            client_secret: client_secret?.map(Secret::new),
            id_token: id_token?,
        })
    }

    pub(super) fn missing(&mut self, place: &Place, what: &str, hint: &str) {
        self.report.error(place, Finding::new(ProblemKind::MissingKey, what).hint(hint));
    }
}
