//! [`Protection`]: how the scripted MCP server is protected. [`access_check`] decides whether a
//! request is admitted.

mod access_check;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{AuthControl, AuthCore, jwt};
pub(super) use access_check::{PRM_WELL_KNOWN, request_origin};

/// The protection of an MCP server, for [`Script::protected`](crate::Script::protected).
///
/// By default every request needs a token that was issued for this server's URL; a 401 names the
/// protected resource metadata (PRM), which is published at the path of the endpoint.
#[must_use]
#[derive(Clone)]
pub struct Protection {
    pub(super) core: Arc<AuthCore>,
    resource: Option<String>,
    issuers: Option<Vec<String>>,
    metadata_members: Map<String, Value>,
    omitted_members: Vec<String>,
    challenge_scope: Option<String>,
    required_scope: String,
    tool_scopes: Vec<(String, String)>,
    open_methods: Vec<String>,
    mode: Mode,
    any_audience: bool,
    dpop: bool,
}

#[derive(Clone)]
enum Mode {
    ByToken,
    Unauthorized,
    Forbidden(Option<String>),
}

impl Protection {
    /// Returns a protection that accepts tokens of this authorization server.
    pub fn with_auth_server(auth: &AuthControl) -> Self {
        Self {
            core: auth.core.clone(),
            resource: None,
            issuers: None,
            metadata_members: Map::new(),
            omitted_members: Vec::new(),
            challenge_scope: None,
            required_scope: String::new(),
            tool_scopes: Vec::new(),
            open_methods: Vec::new(),
            mode: Mode::ByToken,
            any_audience: false,
            dpop: false,
        }
    }

    /// Sets the resource identifier in the metadata and as the audience of tokens. The default is
    /// the server's URL.
    pub fn resource(mut self, uri: &str) -> Self {
        self.resource = Some(uri.into());
        self
    }

    /// Sets `authorization_servers` of the metadata, in this order.
    pub fn authorization_servers(mut self, issuers: &[&str]) -> Self {
        self.issuers = Some(issuers.iter().map(ToString::to_string).collect());
        self
    }

    /// Sets a member of the metadata. The audience that tokens need does not change with it.
    pub fn metadata(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.metadata_members.insert(member.into(), value.into());
        self
    }

    /// Leaves a member of the metadata out.
    pub fn without_metadata(mut self, member: &str) -> Self {
        self.omitted_members.push(member.into());
        self
    }

    /// Sets the scope in the challenge of a 401.
    pub fn challenge_scope(mut self, scope: &str) -> Self {
        self.challenge_scope = Some(scope.into());
        self
    }

    /// Sets `scopes_supported` in the metadata.
    pub fn scopes(self, scopes: &[&str]) -> Self {
        self.metadata("scopes_supported", json!(scopes))
    }

    /// Requires this scope for every request.
    pub fn requires_scope(mut self, scope: &str) -> Self {
        self.required_scope = scope.into();
        self
    }

    /// Requires this scope as well for this tool or JSON-RPC method. Without it the response is 403
    /// `insufficient_scope`.
    pub fn tool_requires_scope(mut self, tool: &str, scope: &str) -> Self {
        self.tool_scopes.push((tool.into(), scope.into()));
        self
    }

    /// Admits this JSON-RPC method, or HTTP method, without a token.
    pub fn open_method(mut self, method: &str) -> Self {
        self.open_methods.push(method.into());
        self
    }

    /// Refuses every token with 401.
    pub fn always_unauthorized(mut self) -> Self {
        self.mode = Mode::Unauthorized;
        self
    }

    /// Answers every token with 403 `insufficient_scope` for this scope.
    pub fn always_forbidden(mut self, scope: &str) -> Self {
        self.mode = Mode::Forbidden(Some(scope.into()));
        self
    }

    /// Answers every token with 403 and no challenge.
    pub fn always_forbidden_without_challenge(mut self) -> Self {
        self.mode = Mode::Forbidden(None);
        self
    }

    /// Accepts tokens whatever resource they were issued for.
    pub fn any_audience(mut self) -> Self {
        self.any_audience = true;
        self
    }

    /// Accepts only tokens bound to a key, with a proof.
    pub fn dpop(mut self) -> Self {
        self.dpop = true;
        self
    }

    /// Requires its nonce in every proof.
    pub fn dpop_nonce(self) -> Self {
        self.core.vault.lock().resource_nonce.get_or_insert_with(jwt::random_text);
        self.dpop()
    }
}

impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Protected").field("by", &self.core.origin).finish_non_exhaustive()
    }
}
