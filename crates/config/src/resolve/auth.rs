//! Owns how a server's `auth` and the table `[auth]` are resolved, and which of their settings
//! contradict each other.

use super::client::RawClient;
use super::{Resolver, places};
use crate::auth::{AppSettings, AuthSettings, Grant, Idp, Redirect, ResourceIndicator};
use crate::check;
use crate::problem::ProblemKind;
use crate::raw::{
    RawApp, RawAuth, RawGrant, RawHeadersCommand, RawIdp, RawMap, RawResourceIndicator, RawTokenSource,
};
use crate::report::{Finding, LocatedValue, Location};
use crate::secret::Secret;

impl Resolver<'_, '_> {
    /// Resolves a server's `auth`; `None` if a reported problem leaves no usable login.
    pub(super) fn resolve_auth(&mut self, table: LocatedValue<RawAuth>) -> Option<AuthSettings> {
        let LocatedValue { value: raw, place } = table;
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
        let kind = grant.as_ref().map(|grant| grant.value).unwrap_or_default();
        let client = RawClient {
            id: client_id,
            secret: client_secret,
            method: client_auth,
            key: private_key,
            key_id,
            algorithm,
            audience,
        };
        if kind == RawGrant::ClientCredentials {
            self.check_client_credentials(&place, &client, &garbled);
        }
        if issuer.is_none() && !garbled.contains(&"issuer") {
            self.warn_missing_issuer(&client);
        }
        if kind != RawGrant::Person {
            for place in places![redirect_port, redirect_uri, authorize_params] {
                let message = "not used: only a login in a browser has a page";
                self.report.note(place, Finding::new(ProblemKind::Ignored, message));
            }
        }
        let redirect = self.resolve_redirect(redirect_port, redirect_uri);
        // If the grant could not be read, the keys of the various grants are not checked against
        // it.
        let grant = if garbled.contains(&"grant") {
            None
        } else {
            self.resolve_grant(&place, kind, (assertion, idp), &garbled)
        };
        let client = self.resolve_client(client, &garbled);
        let client_metadata_url =
            self.resolve_optional(client_metadata_url, |it, url| it.resolve_url(url, check::metadata_url));
        let scope = self.resolve_optional(scope, Self::resolve_scope);
        let resource = self.resolve_optional(resource, Self::resolve_resource);
        let issuer = self.resolve_optional(issuer, |it, text| it.resolve_text(text, check::issuer));
        let account = self.resolve_optional(account, |it, text| it.resolve_text(text, check::label));
        let authorize_params = self.resolve_authorize_params(authorize_params);
        Some(AuthSettings {
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
    fn warn_missing_issuer(&mut self, client: &RawClient) {
        let Some(proof) = client.secret.as_ref().or(client.key.as_ref()) else { return };
        let message = "is sent to whichever authorization server the server names first";
        let finding = Finding::new(ProblemKind::Doubtful, message)
            .hint("write `issuer = \"…\"`, the authorization server that the client was registered at");
        self.report.note(&proof.place, finding);
    }

    /// Resolves `[auth]`: how this client presents itself to all servers.
    pub(crate) fn resolve_app(&mut self, table: LocatedValue<RawApp>) -> AppSettings {
        let RawApp { client_name, client_metadata_url, garbled: _ } = table.value;
        AppSettings {
            client_name: client_name.and_then(|name| self.resolve_text(name, check::label)),
            client_metadata_url: client_metadata_url
                .and_then(|url| self.resolve_url(url, check::metadata_url)),
        }
    }

    /// Notes settings that have no effect: no login is started if headers already authenticate, and
    /// of two `Authorization` headers the command's is sent.
    pub(super) fn warn_unused_login(
        &mut self,
        auth: Option<&LocatedValue<RawAuth>>,
        command: Option<&LocatedValue<RawHeadersCommand>>,
        headers: &[(String, Secret)],
    ) {
        let fixed = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if let (Some(command), true) = (command, fixed) {
            let message = "an `Authorization` header that it prints replaces the one in `headers`";
            self.report.note(&command.place, Finding::new(ProblemKind::Doubtful, message));
        }
        let Some(auth) = auth else { return };
        if auth.value.grant.as_ref().is_some_and(|grant| grant.value == RawGrant::Off) {
            return;
        }
        let by = if command.is_some() {
            "`headers_command` authenticates"
        } else if fixed {
            "`headers` authenticate"
        } else {
            return;
        };
        let finding = Finding::new(ProblemKind::Ignored, format!("not used: {by} instead"))
            .hint("bowline logs in only where nothing else authenticates");
        self.report.note(&auth.place, finding);
    }

    /// Returns `Some(None)` for an absent value and `None` for one that is wrong.
    #[expect(clippy::option_option, reason = "absent and wrong are two things here")]
    pub(super) fn resolve_optional<T, U>(
        &mut self,
        given: Option<LocatedValue<T>>,
        read: impl FnOnce(&mut Self, LocatedValue<T>) -> Option<U>,
    ) -> Option<Option<U>> {
        match given {
            None => Some(None),
            Some(given) => read(self, given).map(Some),
        }
    }

    fn resolve_grant(
        &mut self,
        place: &Location,
        kind: RawGrant,
        parts: (Option<LocatedValue<RawTokenSource>>, Option<LocatedValue<RawIdp>>),
        garbled: &[&str],
    ) -> Option<Grant> {
        let (assertion, idp) = parts;
        let (assertion, idp) = match kind {
            RawGrant::Workload => (assertion, self.refuse_for_other_grants(idp, "enterprise")),
            RawGrant::Enterprise => (self.refuse_for_other_grants(assertion, "workload"), idp),
            _ => (
                self.refuse_for_other_grants(assertion, "workload"),
                self.refuse_for_other_grants(idp, "enterprise"),
            ),
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
                    self.report_missing(place, "needs `idp`", hint);
                }
                Grant::Enterprise(self.resolve_idp(idp?)?)
            }
            RawGrant::Workload => {
                if assertion.is_none() && !garbled.contains(&"assertion") {
                    let hint = "write `assertion = { file = \"…\" }`, or where else the token comes from";
                    self.report_missing(place, "needs `assertion`", hint);
                }
                Grant::Workload(self.resolve_token_source(assertion?)?)
            }
        })
    }

    /// Reports and drops a table that belongs to another grant.
    fn refuse_for_other_grants<T>(
        &mut self,
        part: Option<LocatedValue<T>>,
        grant: &str,
    ) -> Option<LocatedValue<T>> {
        let part = part?;
        let finding = Finding::new(ProblemKind::Conflict, format!("belongs to `grant = \"{grant}\"`"));
        self.report.error(&part.place, finding);
        None
    }

    fn resolve_redirect(
        &mut self,
        port: Option<LocatedValue<u16>>,
        uri: Option<LocatedValue<String>>,
    ) -> Option<Redirect> {
        match (port, uri) {
            (None, None) => Some(Redirect::AnyPort),
            (Some(port), None) => Some(Redirect::Port(port.value)),
            (port, Some(uri)) => {
                if port.is_some() {
                    let finding = Finding::new(ProblemKind::Conflict, "contradicts `redirect_port`")
                        .hint("`redirect_uri` contains a port; keep one of them");
                    self.report.error(&uri.place, finding);
                }
                self.resolve_url(uri, check::redirect).map(Redirect::Uri)
            }
        }
    }

    pub(super) fn resolve_scope(
        &mut self,
        scope: LocatedValue<Vec<LocatedValue<String>>>,
    ) -> Option<Vec<String>> {
        let mut scopes: Vec<String> = Vec::new();
        let mut sound = true;
        for text in scope.value {
            let Some(text) = self.resolve_text(text, check::scope) else {
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

    fn resolve_resource(
        &mut self,
        resource: LocatedValue<RawResourceIndicator>,
    ) -> Option<ResourceIndicator> {
        let LocatedValue { value, place } = resource;
        match value {
            RawResourceIndicator::Off => Some(ResourceIndicator::Off),
            RawResourceIndicator::Uri(text) => self
                .resolve_text(LocatedValue::new(text, place), check::resource)
                .map(ResourceIndicator::Fixed),
        }
    }

    fn resolve_authorize_params(&mut self, params: Option<LocatedValue<RawMap>>) -> Vec<(String, String)> {
        let mut resolved = Vec::new();
        for (name, value) in params.into_iter().flat_map(|params| params.value) {
            let named = self.ok_or_report(&value.place, check::authorize_param(&name.value));
            let value = self.resolve_text(value, check::no_nul);
            if let (Some(()), Some(value)) = (named, value) {
                resolved.push((name.value, value));
            }
        }
        resolved
    }

    fn resolve_idp(&mut self, table: LocatedValue<RawIdp>) -> Option<Idp> {
        let LocatedValue { value: raw, place } = table;
        let RawIdp { token_endpoint, client_id, client_secret, id_token, garbled } = raw;
        for (name, given, hint) in [
            ("token_endpoint", token_endpoint.is_some(), "where the identity provider exchanges tokens"),
            ("client_id", client_id.is_some(), "the client that the identity provider knows"),
            ("id_token", id_token.is_some(), "where the person's ID token comes from"),
        ] {
            if !given && !garbled.contains(&name) {
                self.report_missing(&place, &format!("needs `{name}`"), hint);
            }
        }
        let token_endpoint = token_endpoint.and_then(|url| self.resolve_url(url, check::secure_url));
        let client_id = client_id.and_then(|id| self.resolve_text(id, check::label));
        let client_secret =
            self.resolve_optional(client_secret, |it, text| it.resolve_text(text, check::credential));
        let id_token = id_token.and_then(|it| self.resolve_token_source(it));
        Some(Idp {
            token_endpoint: token_endpoint?,
            client_id: client_id?,
            client_secret: client_secret?.map(Secret::new),
            id_token: id_token?,
        })
    }
}
