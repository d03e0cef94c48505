//! [`Protected`]: how the scripted MCP server is protected. Whether a request gets in is decided in [`gate`].

mod gate;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{AuthControl, Core, jwt};
use crate::sync::lock;
pub(super) use gate::origin_of;

/// How an MCP server is protected; given to [`Script::protected`](crate::Script::protected).
///
/// Without further words: every request needs a token that was issued for this server's URL; a 401 names the
/// protected resource metadata (PRM), which is found by the path of the endpoint.
#[derive(Clone)]
pub struct Protected {
    pub(super) core: Arc<Core>,
    resource: Option<String>,
    issuers: Option<Vec<String>>,
    members: Map<String, Value>,
    members_off: Vec<String>,
    places: Vec<Place>,
    advertised: Advertised,
    challenges: Option<Vec<String>>,
    challenge_scope: Option<String>,
    scope: String,
    tools: Vec<(String, String)>,
    open: Vec<String>,
    mode: Mode,
    any_audience: bool,
    dpop: bool,
    pub(super) authorization: bool,
}

#[derive(Clone, PartialEq, Eq)]
enum Place {
    Path,
    Root,
    At(String),
}

#[derive(Clone)]
enum Advertised {
    Found,
    As(String),
    Not,
}

#[derive(Clone)]
enum Mode {
    ByToken,
    Unauthorized,
    Forbidden(Option<String>),
}

impl Protected {
    /// Takes tokens of this authorization server.
    pub fn by(auth: &AuthControl) -> Self {
        Self {
            core: auth.core.clone(),
            resource: None,
            issuers: None,
            members: Map::new(),
            members_off: Vec::new(),
            places: vec![Place::Path],
            advertised: Advertised::Found,
            challenges: None,
            challenge_scope: None,
            scope: String::new(),
            tools: Vec::new(),
            open: Vec::new(),
            mode: Mode::ByToken,
            any_audience: false,
            dpop: false,
            authorization: false,
        }
    }

    /// What it calls itself, in its metadata and as the audience of tokens. Its URL by default.
    #[must_use]
    pub fn resource(mut self, uri: &str) -> Self {
        self.resource = Some(uri.into());
        self
    }

    /// `authorization_servers`, in this order.
    #[must_use]
    pub fn lists(mut self, issuers: &[&str]) -> Self {
        self.issuers = Some(issuers.iter().map(ToString::to_string).collect());
        self
    }

    /// Sets a member of the metadata. What tokens must be for does not change with it.
    #[must_use]
    pub fn metadata(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.members.insert(member.into(), value.into());
        self
    }

    /// Leaves a member of the metadata out.
    #[must_use]
    pub fn without_metadata(mut self, member: &str) -> Self {
        self.members_off.push(member.into());
        self
    }

    /// Metadata at the root form alone. It then describes the origin.
    #[must_use]
    pub fn at_root(mut self) -> Self {
        self.places = vec![Place::Root];
        self
    }

    /// Metadata at this path alone.
    #[must_use]
    pub fn at(mut self, path: &str) -> Self {
        self.places = vec![Place::At(path.into())];
        self
    }

    /// No metadata at all, as before 2025-06-18.
    #[must_use]
    pub fn nowhere(mut self) -> Self {
        self.places.clear();
        self.unadvertised()
    }

    /// Challenges do not say where the metadata is.
    #[must_use]
    pub fn unadvertised(mut self) -> Self {
        self.advertised = Advertised::Not;
        self
    }

    /// Challenges say the metadata is at this URL, wherever it is.
    #[must_use]
    pub fn advertises(mut self, url: &str) -> Self {
        self.advertised = Advertised::As(url.into());
        self
    }

    /// `WWW-Authenticate`, one header for each text. `$prm`, `$scope` and `$error` in it become what they are at
    /// the time.
    #[must_use]
    pub fn challenges(mut self, headers: &[&str]) -> Self {
        self.challenges = Some(headers.iter().map(ToString::to_string).collect());
        self
    }

    /// No `WWW-Authenticate`.
    #[must_use]
    pub fn no_challenge(self) -> Self {
        self.challenges(&[])
    }

    /// The scope a 401 asks for.
    #[must_use]
    pub fn challenge_scope(mut self, scope: &str) -> Self {
        self.challenge_scope = Some(scope.into());
        self
    }

    /// `scopes_supported` in the metadata.
    #[must_use]
    pub fn scopes(self, scopes: &[&str]) -> Self {
        self.metadata("scopes_supported", json!(scopes))
    }

    /// Every request needs this scope.
    #[must_use]
    pub fn requires(mut self, scope: &str) -> Self {
        self.scope = scope.into();
        self
    }

    /// This tool, or JSON-RPC method, needs this scope as well. Without it: 403 `insufficient_scope`.
    #[must_use]
    pub fn tool_requires(mut self, tool: &str, scope: &str) -> Self {
        self.tools.push((tool.into(), scope.into()));
        self
    }

    /// This JSON-RPC method, or HTTP method, needs no token.
    #[must_use]
    pub fn opens(mut self, method: &str) -> Self {
        self.open.push(method.into());
        self
    }

    /// Refuses every token with 401.
    #[must_use]
    pub fn always_unauthorized(mut self) -> Self {
        self.mode = Mode::Unauthorized;
        self
    }

    /// Answers every token with 403 `insufficient_scope` for this scope.
    #[must_use]
    pub fn always_forbidden(mut self, scope: &str) -> Self {
        self.mode = Mode::Forbidden(Some(scope.into()));
        self
    }

    /// Answers every token with 403 and no challenge.
    #[must_use]
    pub fn always_forbidden_plainly(mut self) -> Self {
        self.mode = Mode::Forbidden(None);
        self
    }

    /// Takes tokens whatever they were issued for.
    #[must_use]
    pub fn any_audience(mut self) -> Self {
        self.any_audience = true;
        self
    }

    /// Takes only tokens bound to a key, with a proof.
    #[must_use]
    pub fn dpop(mut self) -> Self {
        self.dpop = true;
        self
    }

    /// Demands its nonce in every proof.
    #[must_use]
    pub fn dpop_nonce(self) -> Self {
        lock(&self.core.vault).resource_nonce.get_or_insert_with(jwt::random);
        self.dpop()
    }

    /// Has the authorization server's endpoints at its own origin too, as servers of 2025-03-26 do. The issuer is
    /// this origin then.
    #[must_use]
    pub fn serves_authorization(mut self) -> Self {
        self.authorization = true;
        self
    }
}

impl fmt::Debug for Protected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Protected").field("by", &self.core.origin).finish_non_exhaustive()
    }
}
