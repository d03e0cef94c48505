//! Owns which settings a manually registered client needs, and whether it has them.

use super::{Resolver, places};
use crate::auth::{ClientSettings, SigningKey, TokenAuth};
use crate::check;
use crate::problem::ProblemKind;
use crate::raw::Algorithm;
use crate::report::{Finding, LocatedValue, Location};
use crate::secret::Secret;

/// The keys of a manually registered client, as they are written.
pub(super) struct RawClient {
    pub(super) id: Option<LocatedValue<String>>,
    pub(super) secret: Option<LocatedValue<String>>,
    pub(super) method: Option<LocatedValue<TokenAuth>>,
    pub(super) key: Option<LocatedValue<String>>,
    pub(super) key_id: Option<LocatedValue<String>>,
    pub(super) algorithm: Option<LocatedValue<Algorithm>>,
    pub(super) audience: Option<LocatedValue<String>>,
}

impl Resolver<'_, '_> {
    /// Checks that a client that authenticates as itself has an id, and a secret or key.
    pub(super) fn check_client_credentials(
        &mut self,
        place: &Location,
        client: &RawClient,
        garbled: &[&str],
    ) {
        if client.id.is_none() && !garbled.contains(&"client_id") {
            self.report_missing(
                place,
                "requires `client_id`",
                "register a client at the authorization server, and set `client_id` to its id",
            );
        }
        let proof = client.secret.is_some() || client.key.is_some();
        if !proof && !garbled.contains(&"client_secret") && !garbled.contains(&"private_key") {
            let hint = "the client authenticates with one of them";
            self.report_missing(place, "requires `client_secret` or `private_key`", hint);
        }
    }

    #[expect(clippy::option_option, reason = "absent and wrong are two things here")]
    pub(super) fn resolve_client(
        &mut self,
        client: RawClient,
        garbled: &[&str],
    ) -> Option<Option<ClientSettings>> {
        let RawClient { id, secret, method, key, key_id, algorithm, audience } = client;
        if id.is_none() && !garbled.contains(&"client_id") {
            for place in places![secret, method, key] {
                self.report_missing(place, "requires `client_id`", CLIENT_ID_HINT);
            }
        }
        if key.is_none() && !garbled.contains(&"private_key") {
            for place in places![key_id, algorithm, audience] {
                self.report_missing(
                    place,
                    "requires `private_key`",
                    "it is a setting of the private key that signs assertions",
                );
            }
        }
        if let Some(method) = &method {
            self.check_client_proof(method, (secret.is_some(), key.is_some()), garbled);
        }
        let given = id.is_some();
        let id = id.and_then(|id| self.resolve_text(id, check::label));
        let secret = self.resolve_optional(secret, |it, text| it.resolve_text(text, check::credential));
        let pem = self.resolve_optional(key, |it, text| it.resolve_text(text, check::private_key));
        let key_id = self.resolve_optional(key_id, |it, text| it.resolve_text(text, check::label));
        let audience = self.resolve_optional(audience, |it, text| it.resolve_text(text, check::label));
        if !given {
            return Some(None);
        }
        let (key_id, algorithm) = (key_id?, algorithm.map(|it| it.value.as_str().to_owned()));
        Some(Some(ClientSettings {
            id: id?,
            secret: secret?.map(Secret::new),
            method: method.map(|it| it.value),
            key: pem?.map(|pem| SigningKey { pem: Secret::new(pem), id: key_id, algorithm }),
            audience: audience?,
        }))
    }

    /// Checks that a client has the secret or key that its `client_auth` needs.
    fn check_client_proof(
        &mut self,
        method: &LocatedValue<TokenAuth>,
        (secret, key): (bool, bool),
        garbled: &[&str],
    ) {
        let needed = match method.value {
            TokenAuth::None if secret || key => {
                let message = "says that the client is public, but it has a secret";
                self.report.error(&method.place, Finding::new(ProblemKind::Conflict, message));
                return;
            }
            TokenAuth::None => return,
            TokenAuth::Post | TokenAuth::Basic => (secret, "client_secret"),
            TokenAuth::PrivateKeyJwt => (key, "private_key"),
        };
        let (has, name) = needed;
        if !has && !garbled.contains(&name) {
            let finding = Finding::new(ProblemKind::MissingKey, format!("requires `{name}`"));
            self.report.error(&method.place, finding);
        }
    }
}

/// What is said about a secret, a key or a method of a client that has no id.
const CLIENT_ID_HINT: &str = "set `client_id` to the id of the registered client";
