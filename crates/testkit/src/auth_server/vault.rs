//! The issued clients, codes, logins ("families") and tokens, and when each expires.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::client::AuthClient;
use super::device::Device;

/// All issued credentials, behind one lock.
#[derive(Debug, Default)]
pub(super) struct Vault {
    pub(super) clients: HashMap<String, AuthClient>,
    pub(super) codes: HashMap<String, AuthorizationCode>,
    pub(super) families: Vec<TokenFamily>,
    pub(super) access_tokens: HashMap<String, AccessToken>,
    pub(super) refresh_tokens: HashMap<String, RefreshToken>,
    pub(super) devices: Vec<Device>,
    /// The ids of assertions and proofs, which are valid once.
    pub(super) used_ids: HashSet<String>,
    /// The nonce that proofs to this server must carry; the next one is for the MCP server.
    pub(super) nonce: Option<String>,
    pub(super) resource_nonce: Option<String>,
}

/// An authorization code.
#[derive(Debug)]
pub(super) struct AuthorizationCode {
    pub(super) family: usize,
    pub(super) redirect_uri: String,
    pub(super) challenge: Option<String>,
    pub(super) expires_at: Duration,
    pub(super) spent: bool,
}

/// One login, and the tokens that descend from it.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenFamily {
    pub(super) client: Option<String>,
    pub(super) account: String,
    pub(super) scope: String,
    pub(super) resources: Vec<String>,
    /// The `nonce` of an OpenID Connect request.
    pub(super) nonce: Option<String>,
    pub(super) revoked: bool,
}

/// An access token.
#[derive(Clone, Debug)]
pub(super) struct AccessToken {
    pub(super) family: usize,
    pub(super) scope: String,
    pub(super) resources: Vec<String>,
    pub(super) expires_at: Duration,
    /// The thumbprint of the key it is bound to.
    pub(super) key_thumbprint: Option<String>,
    pub(super) revoked: bool,
}

/// A refresh token.
#[derive(Clone, Debug)]
pub(super) struct RefreshToken {
    pub(super) family: usize,
    pub(super) key_thumbprint: Option<String>,
    pub(super) rotated: bool,
}

impl Vault {
    pub(super) fn add_family(&mut self, family: TokenFamily) -> usize {
        self.families.push(family);
        self.families.len() - 1
    }

    /// Revokes a login. Returns whether it was not revoked before.
    pub(super) fn revoke_family(&mut self, family: usize) -> bool {
        !std::mem::replace(&mut self.families[family].revoked, true)
    }

    /// Returns an access token and its login, if it is valid now.
    pub(super) fn valid_access_token(
        &self,
        token: &str,
        now: Duration,
    ) -> Option<(&AccessToken, &TokenFamily)> {
        let access = self.access_tokens.get(token)?;
        let family = &self.families[access.family];
        (!access.revoked && !family.revoked && now < access.expires_at).then_some((access, family))
    }

    /// Records the use of an id. Returns false if it was used before.
    pub(super) fn record_first_use(&mut self, kind: &str, id: &str) -> bool {
        self.used_ids.insert(format!("{kind}:{id}"))
    }
}
