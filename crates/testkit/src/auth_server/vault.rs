//! What was given out: clients, codes, logins ("families") and their tokens; when each ends.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::client::AuthClient;
use super::device::Device;

/// Behind one lock.
#[derive(Debug, Default)]
pub(super) struct Vault {
    pub(super) clients: HashMap<String, AuthClient>,
    pub(super) codes: HashMap<String, Code>,
    pub(super) families: Vec<Family>,
    pub(super) access: HashMap<String, Access>,
    pub(super) refresh: HashMap<String, Refresh>,
    pub(super) devices: Vec<Device>,
    /// Ids of assertions and proofs, which are good once.
    pub(super) ids: HashSet<String>,
    /// The nonce that proofs must carry: to this server, to the MCP server.
    pub(super) nonce: Option<String>,
    pub(super) resource_nonce: Option<String>,
}

/// An authorization code.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) family: usize,
    pub(super) redirect: String,
    pub(super) challenge: Option<String>,
    pub(super) until: Duration,
    pub(super) spent: bool,
}

/// One login, and all that came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
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
pub(super) struct Access {
    pub(super) family: usize,
    pub(super) scope: String,
    pub(super) resources: Vec<String>,
    pub(super) until: Duration,
    /// The thumbprint of the key it is bound to.
    pub(super) key: Option<String>,
    pub(super) revoked: bool,
}

/// A refresh token.
#[derive(Clone, Debug)]
pub(super) struct Refresh {
    pub(super) family: usize,
    pub(super) until: Option<Duration>,
    pub(super) key: Option<String>,
    pub(super) rotated: bool,
}

impl Vault {
    pub(super) fn open_family(&mut self, family: Family) -> usize {
        self.families.push(family);
        self.families.len() - 1
    }

    /// Ends a login. Whether it was not over yet.
    pub(super) fn revoke_family(&mut self, family: usize) -> bool {
        !std::mem::replace(&mut self.families[family].revoked, true)
    }

    /// An access token that is good now.
    pub(super) fn good_access(&self, token: &str, now: Duration) -> Option<(&Access, &Family)> {
        let access = self.access.get(token)?;
        let family = &self.families[access.family];
        (!access.revoked && !family.revoked && now < access.until).then_some((access, family))
    }

    /// Uses an id up. False if it was used before.
    pub(super) fn first_use(&mut self, kind: &str, id: &str) -> bool {
        self.ids.insert(format!("{kind}:{id}"))
    }
}
