//! [`AuthFault`]: an injected failure of the authorization server.

mod matched;

use std::time::Duration;

use serde_json::Value;

use crate::armed_faults::{FaultBehavior, InjectedFault};
use crate::canned_response::CannedResponse;

/// An injected fault of the authorization server, to be armed with
/// [`AuthControl::arm`](super::AuthControl::arm).
///
/// By default a fault strikes the next request to its endpoint, once:
///
/// ```
/// use bowline_testkit::AuthFault;
///
/// AuthFault::wrong_iss("https://evil.example");            // the next login
/// AuthFault::invalid_grant().on("refresh_token").times(2); // the next two refreshes
/// AuthFault::reset().on("refresh_token").executed();       // rotated, and the response is lost
/// AuthFault::set_member("resource", "https://other.example/mcp").on("prm").always();
/// ```
///
/// Faults that modify a response (`set_member`, `without_member`, `delay`, `lifetime`, …) combine;
/// of those that replace it the one armed first wins and the rest stay armed.
pub type AuthFault = InjectedFault<AuthFaultKind>;

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

/// What a fault of the authorization server does.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub enum AuthFaultKind {
    Response(CannedResponse),
    Error {
        status: u16,
        code: String,
        description: Option<String>,
    },
    NonceChallenge,
    Reset,
    Close,
    Silent,
    Delay(Duration),
    SetMember(String, Value),
    WithoutMember(String),
    ToggleSlash(String),
    Lifetime(Duration),
    /// The refresh token stays valid, and is returned again or left out.
    KeepRefreshToken {
        mentioned: bool,
    },
}

impl AuthFault {
    /// Responds with exactly this.
    pub fn response(answer: CannedResponse) -> Self {
        Self::from_kind(AuthFaultKind::Response(answer))
    }

    /// Responds with this status and an empty body.
    pub fn status(code: u16) -> Self {
        Self::response(CannedResponse::new(code))
    }

    /// Responds with a proxy's HTML page instead of JSON.
    pub fn html(status: u16) -> Self {
        Self::response(
            CannedResponse::new(status).html("<!doctype html><title>Gateway</title><h1>Please wait</h1>"),
        )
    }

    /// Redirects with 302 to this address.
    pub fn redirect(to: &str) -> Self {
        Self::response(CannedResponse::new(302).header("location", to))
    }

    /// Responds with 429 and `Retry-After`.
    pub fn too_many_requests(retry_after: Duration) -> Self {
        Self::response(CannedResponse::new(429).header("retry-after", &retry_after.as_secs().to_string()))
    }

    /// Responds with an OAuth error. At the authorization endpoint it goes to the redirect URI.
    pub fn error(code: &str) -> Self {
        Self::from_kind(AuthFaultKind::Error { status: 400, code: code.into(), description: None })
    }

    /// Responds with an OAuth error with a description and this status.
    pub fn error_with(status: u16, code: &str, description: &str) -> Self {
        Self::from_kind(AuthFaultKind::Error {
            status,
            code: code.into(),
            description: Some(description.into()),
        })
    }

    /// Refuses the code or refresh token although it is valid. Nothing is used up.
    pub fn invalid_grant() -> Self {
        Self::error("invalid_grant").on("token")
    }

    /// Claims that the client is unknown, as after its registration was dropped.
    pub fn invalid_client() -> Self {
        Self::error_with(401, "invalid_client", "unknown client").on("token")
    }

    /// Sends a `use_dpop_nonce` challenge with a new nonce, which is required from then on: at the
    /// token endpoint, or `.on("mcp")` at the MCP server.
    pub fn nonce_challenge() -> Self {
        Self::from_kind(AuthFaultKind::NonceChallenge).on("token")
    }

    /// Resets the connection (RST).
    pub fn reset() -> Self {
        Self::from_kind(AuthFaultKind::Reset)
    }

    /// Closes the connection without a response.
    pub fn close() -> Self {
        Self::from_kind(AuthFaultKind::Close)
    }

    /// Reads the request and never responds.
    pub fn silent() -> Self {
        Self::from_kind(AuthFaultKind::Silent)
    }

    /// Delays the response by this much.
    pub fn delay(by: Duration) -> Self {
        Self::from_kind(AuthFaultKind::Delay(by))
    }

    /// Sets a member of the response: of the JSON, or of the parameters of a redirect. The server
    /// itself acts on the original value.
    pub fn set_member(member: &str, value: impl Into<Value>) -> Self {
        Self::from_kind(AuthFaultKind::SetMember(member.into(), value.into()))
    }

    /// Leaves a member of the response out.
    pub fn without_member(member: &str) -> Self {
        Self::from_kind(AuthFaultKind::WithoutMember(member.into()))
    }

    /// Adds a slash at the end of a member, or removes it.
    pub fn toggle_trailing_slash(member: &str) -> Self {
        Self::from_kind(AuthFaultKind::ToggleSlash(member.into()))
    }

    /// Sends another `iss` in the authorization response.
    pub fn wrong_iss(iss: &str) -> Self {
        Self::set_member("iss", iss).on("authorize")
    }

    /// Sends no `iss` in the authorization response.
    pub fn no_iss() -> Self {
        Self::without_member("iss").on("authorize")
    }

    /// Sends an `iss` in the authorization response that differs only by its last slash.
    pub fn normalized_iss() -> Self {
        Self::toggle_trailing_slash("iss").on("authorize")
    }

    /// Sends this `expires_in`, of any type. The lifetime of the token does not change.
    pub fn expires_in(value: impl Into<Value>) -> Self {
        Self::set_member("expires_in", value).on("token")
    }

    /// Issues an access token with this lifetime, and announces it.
    pub fn lifetime(lifetime: Duration) -> Self {
        Self::from_kind(AuthFaultKind::Lifetime(lifetime)).on("token")
    }

    /// Refreshes without a new refresh token: the old one stays valid and is left out of the
    /// response.
    pub fn no_refresh_token() -> Self {
        Self::from_kind(AuthFaultKind::KeepRefreshToken { mentioned: false }).on("refresh_token")
    }

    /// Refreshes and returns the old refresh token again.
    pub fn no_rotation() -> Self {
        Self::from_kind(AuthFaultKind::KeepRefreshToken { mentioned: true }).on("refresh_token")
    }

    /// Panics if the fault can never strike, because a test that arms it proves nothing.
    pub(super) fn assert_possible(&self) {
        let on = self.on.as_deref();
        if let Some(name) = on {
            let exists = name.starts_with('/') || ENDPOINTS.contains(&name) || GRANTS.contains(&name);
            assert!(exists, "there is no endpoint or grant {name}");
        }
        let token = on.is_none_or(|on| on.starts_with('/') || on == "token" || GRANTS.contains(&on));
        let fits = match &self.kind {
            AuthFaultKind::Response(_) | AuthFaultKind::Error { .. } => true,
            AuthFaultKind::NonceChallenge => token || on == Some("mcp"),
            AuthFaultKind::Lifetime(_) => token,
            AuthFaultKind::KeepRefreshToken { .. } => {
                token && on.is_none_or(|on| !GRANTS.contains(&on) || on == "refresh_token")
            }
            // At the MCP server these are the business of [`Fault`](crate::Fault).
            _ => on != Some("mcp"),
        };
        assert!(fits, "{:?} has no meaning at {on:?}", self.kind);
    }
}

impl FaultBehavior for AuthFaultKind {
    const STRUCK_BY_NAME: &'static str = "mcp";

    fn decides_response(&self) -> bool {
        matches!(
            self,
            Self::Response(_)
                | Self::Error { .. }
                | Self::NonceChallenge
                | Self::Reset
                | Self::Close
                | Self::Silent
        )
    }

    fn needs_execution(&self) -> bool {
        false
    }

    fn is_always_active(&self) -> bool {
        false
    }
}
