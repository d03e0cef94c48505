//! [`Twist`]: one piece of misbehaviour, on which endpoint, how often.

mod armory;

use std::time::Duration;

use serde_json::Value;

use crate::answer::Answer;

pub(super) use armory::{Armory, Struck};

/// One way in which the authorization server misbehaves, to be armed with
/// [`AuthControl::arm`](super::AuthControl::arm).
///
/// It strikes the next request to its endpoint, once, unless it says otherwise:
///
/// ```
/// use bowline_testkit::Twist;
///
/// Twist::wrong_iss("https://evil.example");                   // the next login
/// Twist::invalid_grant().on("refresh_token").times(2);        // the next two refreshes
/// Twist::reset().on("refresh_token").executed();              // rotated, and the answer is lost
/// Twist::set("resource", "https://other.example/mcp").on("prm").always();
/// ```
///
/// Twists that change an answer (`set`, `without`, `delay`, `lifetime`, …) combine; of those that replace it the
/// one armed first wins and the rest wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Twist {
    on: Option<String>,
    skip: u32,
    times: Option<u32>,
    executed: bool,
    kind: Kind,
}

const ENDPOINTS: [&str; 11] = [
    "prm",
    "metadata",
    "authorize",
    "token",
    "register",
    "device",
    "verify",
    "revoke",
    "jwks",
    "userinfo",
    "mcp",
];
const GRANTS: [&str; 6] = [
    "authorization_code",
    "refresh_token",
    "client_credentials",
    "device_code",
    "jwt-bearer",
    "token-exchange",
];

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Answer(Answer),
    Error {
        status: u16,
        code: String,
        description: Option<String>,
    },
    Nonce,
    Reset,
    Close,
    Silent,
    Oversized(u64),
    Endless,
    Delay(Duration),
    Set(String, Value),
    Without(String),
    Slash(String),
    Lifetime(Duration),
    Grant(String),
    /// A refresh that keeps the refresh token: given again, or not mentioned.
    Keep {
        mentioned: bool,
    },
}

impl Twist {
    /// Answers with exactly this.
    pub fn answer(answer: Answer) -> Self {
        Self::of(Kind::Answer(answer))
    }

    /// Answers with this status and an empty body.
    pub fn status(code: u16) -> Self {
        Self::answer(Answer::new(code))
    }

    /// A proxy's page instead of JSON.
    pub fn html(status: u16) -> Self {
        Self::answer(Answer::new(status).html("<!doctype html><title>Gateway</title><h1>Please wait</h1>"))
    }

    /// 302 to this address.
    pub fn redirect(to: &str) -> Self {
        Self::answer(Answer::new(302).header("location", to))
    }

    /// 429 with `Retry-After`.
    pub fn busy(retry_after: Duration) -> Self {
        Self::answer(Answer::new(429).header("retry-after", &retry_after.as_secs().to_string()))
    }

    /// An OAuth error. At the authorization endpoint it goes to the redirect URI.
    pub fn error(code: &str) -> Self {
        Self::of(Kind::Error { status: 400, code: code.into(), description: None })
    }

    /// An OAuth error with a description and this status.
    pub fn error_with(status: u16, code: &str, description: &str) -> Self {
        Self::of(Kind::Error { status, code: code.into(), description: Some(description.into()) })
    }

    /// The code or refresh token is refused, although it is good. Nothing is used up.
    pub fn invalid_grant() -> Self {
        Self::error("invalid_grant").on("token")
    }

    /// The client is unknown, as after its registration was dropped.
    pub fn invalid_client() -> Self {
        Self::error_with(401, "invalid_client", "unknown client").on("token")
    }

    /// A `use_dpop_nonce` challenge with a new nonce, which is demanded from then on: at the token endpoint, or
    /// `.on("mcp")` at the MCP server.
    pub fn nonce() -> Self {
        Self::of(Kind::Nonce).on("token")
    }

    /// The connection is reset (RST).
    pub fn reset() -> Self {
        Self::of(Kind::Reset)
    }

    /// The connection is closed without an answer.
    pub fn close() -> Self {
        Self::of(Kind::Close)
    }

    /// The request is read and never answered.
    pub fn silent() -> Self {
        Self::of(Kind::Silent)
    }

    /// The answer is good JSON followed by this many spaces.
    pub fn oversized(bytes: u64) -> Self {
        Self::of(Kind::Oversized(bytes))
    }

    /// A body that never ends, sent as fast as it is read.
    pub fn endless() -> Self {
        Self::of(Kind::Endless)
    }

    /// The answer comes this much later.
    pub fn delay(by: Duration) -> Self {
        Self::of(Kind::Delay(by))
    }

    /// Sets a member of the answer: of the JSON, or of the parameters of a redirect. The server itself goes by
    /// what it would have said.
    pub fn set(member: &str, value: impl Into<Value>) -> Self {
        Self::of(Kind::Set(member.into(), value.into()))
    }

    /// Leaves a member of the answer out.
    pub fn without(member: &str) -> Self {
        Self::of(Kind::Without(member.into()))
    }

    /// Adds a slash at the end of a member, or takes it away.
    pub fn slash(member: &str) -> Self {
        Self::of(Kind::Slash(member.into()))
    }

    /// Another `iss` in the authorization response.
    pub fn wrong_iss(iss: &str) -> Self {
        Self::set("iss", iss).on("authorize")
    }

    /// No `iss` in the authorization response.
    pub fn no_iss() -> Self {
        Self::without("iss").on("authorize")
    }

    /// An `iss` in the authorization response that differs by its last slash alone.
    pub fn normalized_iss() -> Self {
        Self::slash("iss").on("authorize")
    }

    /// Another `state` in the authorization response.
    pub fn wrong_state(state: &str) -> Self {
        Self::set("state", state).on("authorize")
    }

    /// Metadata that names another issuer.
    pub fn wrong_issuer(issuer: &str) -> Self {
        Self::set("issuer", issuer).on("metadata")
    }

    /// Metadata whose issuer differs by its last slash alone.
    pub fn normalized_issuer() -> Self {
        Self::slash("issuer").on("metadata")
    }

    /// Metadata without `code_challenge_methods_supported`.
    pub fn no_pkce() -> Self {
        Self::without("code_challenge_methods_supported").on("metadata")
    }

    /// This `expires_in`, whatever it is: a string, a fraction, nonsense. The token lives as long as it would have.
    pub fn expires_in(value: impl Into<Value>) -> Self {
        Self::set("expires_in", value).on("token")
    }

    /// An access token that lives this long and says so.
    pub fn lifetime(lifetime: Duration) -> Self {
        Self::of(Kind::Lifetime(lifetime)).on("token")
    }

    /// Grants this scope instead of the one asked for.
    pub fn narrowed(scope: &str) -> Self {
        Self::of(Kind::Grant(scope.into())).on("token")
    }

    /// A refresh without a new refresh token: the old one stays good and is not mentioned.
    pub fn no_refresh_token() -> Self {
        Self::of(Kind::Keep { mentioned: false }).on("refresh_token")
    }

    /// A refresh that gives the same refresh token again.
    pub fn no_rotation() -> Self {
        Self::of(Kind::Keep { mentioned: true }).on("refresh_token")
    }

    /// Only requests to this endpoint: `prm`, `metadata`, `authorize`, `token`, `register`, `device`, `revoke`,
    /// `jwks`, `userinfo`, `mcp`; one grant (`authorization_code`, `refresh_token`, `client_credentials`,
    /// `device_code`, `jwt-bearer`, `token-exchange`); or an exact path.
    #[must_use]
    pub fn on(mut self, endpoint: &str) -> Self {
        self.on = Some(endpoint.into());
        self
    }

    /// Lets this many matching requests pass first.
    #[must_use]
    pub fn skip(mut self, requests: u32) -> Self {
        self.skip = requests;
        self
    }

    /// Strikes this many times instead of once.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Strikes until [`disarm`](super::AuthControl::disarm).
    #[must_use]
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    /// Strikes after the request was carried out: a token was rotated, a client registered, and nobody hears of it.
    #[must_use]
    pub fn executed(mut self) -> Self {
        self.executed = true;
        self
    }

    fn of(kind: Kind) -> Self {
        Self { on: None, skip: 0, times: Some(1), executed: false, kind }
    }

    /// Panics where a twist could never strike: a test that arms it proves nothing.
    pub(super) fn check(&self) {
        let on = self.on.as_deref();
        if let Some(name) = on {
            let there = name.starts_with('/') || ENDPOINTS.contains(&name) || GRANTS.contains(&name);
            assert!(there, "there is no endpoint or grant {name}");
        }
        let token = on.is_none_or(|on| on.starts_with('/') || on == "token" || GRANTS.contains(&on));
        let fits = match &self.kind {
            Kind::Answer(_) | Kind::Error { .. } => true,
            Kind::Nonce => token || on == Some("mcp"),
            Kind::Lifetime(_) | Kind::Grant(_) => token,
            Kind::Keep { .. } => token && on.is_none_or(|on| !GRANTS.contains(&on) || on == "refresh_token"),
            // Set on an MCP server, these are faults of the MCP server.
            _ => on != Some("mcp"),
        };
        assert!(fits, "{:?} has no meaning at {on:?}", self.kind);
    }

    fn replaces(&self) -> bool {
        matches!(
            self.kind,
            Kind::Answer(_)
                | Kind::Error { .. }
                | Kind::Nonce
                | Kind::Reset
                | Kind::Close
                | Kind::Silent
                | Kind::Oversized(_)
                | Kind::Endless
        )
    }

    /// Padding needs an answer to pad.
    fn carried_out(&self) -> bool {
        self.executed || matches!(self.kind, Kind::Oversized(_))
    }
}
