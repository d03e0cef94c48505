//! [`AuthScript`]: what the authorization server offers and how it behaves while no fault is armed.

use std::time::Duration;

use serde_json::{Map, Value};

use super::client::AuthClient;
use super::fault::AuthFault;
use crate::script::millis;

/// The builder of an authorization server: start with [`auth_server`](crate::auth_server()), end
/// with [`start`](AuthScript::start). A running server's script can be changed with
/// [`AuthControl::edit`](super::AuthControl::edit).
#[must_use]
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, set by name")]
pub struct AuthScript {
    pub(super) path: String,
    pub(super) issuer: Option<String>,
    pub(super) metadata: Map<String, Value>,
    pub(super) metadata_off: Vec<String>,
    pub(super) iss: bool,
    pub(super) interactive: bool,
    pub(super) account: String,
    pub(super) clients: Vec<AuthClient>,
    pub(super) registration: bool,
    pub(super) exact_redirects: bool,
    pub(super) forced_method: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) strict_scopes: bool,
    pub(super) lifetime_ms: u64,
    pub(super) jwt_access_tokens: bool,
    pub(super) refresh: RefreshTokenPolicy,
    pub(super) rotation: bool,
    pub(super) dpop: bool,
    pub(super) dpop_only: bool,
    pub(super) dpop_nonce: bool,
    pub(super) device: bool,
    pub(super) device_interval_ms: u64,
    pub(super) trusted: Vec<(String, Value)>,
    pub(super) client_there: Vec<(String, String)>,
    pub(super) faults: Vec<AuthFault>,
}

/// When a login yields a refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshTokenPolicy {
    /// For every login; not for client credentials and assertions.
    Always,
    /// If the client requested `offline_access`.
    Offline,
    /// Never.
    Never,
}

impl AuthScript {
    /// Sets the path of the issuer, such as `/tenant1`. All endpoints are below it. The default is
    /// empty.
    pub fn path(mut self, path: &str) -> Self {
        assert!(path.starts_with('/') && !path.ends_with('/'), "a path such as /tenant1");
        self.path = path.into();
        self
    }

    /// Claims this issuer, whatever its own address is. Metadata is still published below its own
    /// address.
    pub fn issuer(mut self, issuer: &str) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Sets a member of the metadata.
    pub fn metadata(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.metadata_off.retain(|off| off != member);
        self.metadata.insert(member.into(), value.into());
        self
    }

    /// Leaves a member of the metadata out.
    pub fn without_metadata(mut self, member: &str) -> Self {
        self.metadata.remove(member);
        self.metadata_off.push(member.into());
        self
    }

    /// Neither sends `iss` nor announces it. The default is both. To announce it without sending
    /// it, arm [`AuthFault::no_iss`]; to send it without announcing it, remove
    /// `authorization_response_iss_parameter_supported` from the metadata.
    pub fn no_iss(mut self) -> Self {
        self.iss = false;
        self
    }

    /// Shows a form to consent or deny, instead of consenting at once.
    pub fn interactive(mut self) -> Self {
        self.interactive = true;
        self
    }

    /// Sets the account that logs in from now on, unless the form names another. The default is
    /// `alice`.
    pub fn account(mut self, name: &str) -> Self {
        self.account = name.into();
        self
    }

    /// Registers this client from the start.
    pub fn client(mut self, client: AuthClient) -> Self {
        self.clients.push(client);
        self
    }

    /// Disables dynamic client registration.
    pub fn no_registration(mut self) -> Self {
        self.registration = false;
        self
    }

    /// Requires redirect URIs to equal the registered ones, ports included.
    pub fn exact_redirects(mut self) -> Self {
        self.exact_redirects = true;
        self
    }

    /// Registers every client with this authentication method, whatever it requests.
    pub fn registers_as(mut self, method: &str) -> Self {
        self.forced_method = Some(method.into());
        self
    }

    /// Sets `scopes_supported`. The default is empty, which omits the member.
    pub fn scopes(mut self, scopes: &[&str]) -> Self {
        self.scopes = scopes.iter().map(ToString::to_string).collect();
        self
    }

    /// Refuses scopes that are not in [`scopes`](Self::scopes).
    pub fn strict_scopes(mut self) -> Self {
        self.strict_scopes = true;
        self
    }

    /// Sets the lifetime of access tokens. The default is an hour.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime_ms = millis(lifetime);
        self
    }

    /// Issues access tokens that are JWTs (RFC 9068), for a resource server that verifies them by the
    /// published key. The default is random texts.
    pub fn jwt_access_tokens(mut self) -> Self {
        self.jwt_access_tokens = true;
        self
    }

    /// Sets when refresh tokens are issued. The default is always.
    pub fn refresh_tokens(mut self, when: RefreshTokenPolicy) -> Self {
        self.refresh = when;
        self
    }

    /// Keeps refresh tokens unchanged and leaves them out of the response to a refresh.
    pub fn no_rotation(mut self) -> Self {
        self.rotation = false;
        self
    }

    /// Binds tokens to the key of a DPoP proof, if the client sends one.
    pub fn dpop(mut self) -> Self {
        self.dpop = true;
        self
    }

    /// Refuses token requests without a DPoP proof.
    pub fn dpop_only(mut self) -> Self {
        self.dpop_only = true;
        self.dpop()
    }

    /// Requires its nonce in every proof.
    pub fn dpop_nonce(mut self) -> Self {
        self.dpop_nonce = true;
        self.dpop()
    }

    /// Offers device authorization with this polling interval.
    pub fn device(mut self, interval: Duration) -> Self {
        self.device = true;
        self.device_interval_ms = millis(interval);
        self
    }

    /// Accepts assertions of this issuer if this public JWK verifies them. Once an issuer is
    /// trusted, assertions of others are refused; until then signatures are not checked.
    pub fn trusts(mut self, issuer: &str, jwk: Value) -> Self {
        self.trusted.push((issuer.into(), jwk));
        self
    }

    /// Sets the client id that identity assertions carry for this client at the server they are
    /// for. The default is the same id.
    pub fn client_there(mut self, here: &str, there: &str) -> Self {
        self.client_there.push((here.into(), there.into()));
        self
    }

    /// Arms a fault from the start.
    pub fn fault(mut self, twist: AuthFault) -> Self {
        self.faults.push(twist);
        self
    }
}

impl Default for AuthScript {
    fn default() -> Self {
        Self {
            path: String::new(),
            issuer: None,
            metadata: Map::new(),
            metadata_off: Vec::new(),
            iss: true,
            interactive: false,
            account: "alice".into(),
            clients: Vec::new(),
            registration: true,
            exact_redirects: false,
            forced_method: None,
            scopes: Vec::new(),
            strict_scopes: false,
            lifetime_ms: 3_600_000,
            jwt_access_tokens: false,
            refresh: RefreshTokenPolicy::Always,
            rotation: true,
            dpop: false,
            dpop_only: false,
            dpop_nonce: false,
            device: false,
            device_interval_ms: 0,
            trusted: Vec::new(),
            client_there: Vec::new(),
            faults: Vec::new(),
        }
    }
}
