//! Decides which logins the configuration of a server allows.

use bowline_config::{Grant, Http};
use http::header::AUTHORIZATION;

use crate::error::{AuthError, AuthErrorKind};

/// The logins that the configuration allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginPolicy {
    /// None, because the configuration sets an `Authorization` header.
    ConfiguredHeader,
    /// None, because the configuration turns logins off.
    Off,
    /// None, because the server is on a socket: the documents that a login needs would be requested
    /// from the host of its URL, which need not be the same server.
    Socket,
    /// Only explicit logins, because a headers command provides the credentials.
    Explicit,
    /// Explicit logins, and those that a refused request starts.
    OnRefusal,
}

impl LoginPolicy {
    pub(super) fn from_settings(http: &Http) -> Self {
        if http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION.as_str())) {
            Self::ConfiguredHeader
        } else if http.auth.grant == Grant::Off {
            Self::Off
        } else if http.socket.is_some() {
            Self::Socket
        } else if http.headers_command.is_some() {
            Self::Explicit
        } else {
            Self::OnRefusal
        }
    }

    /// Whether a login can be used at all.
    pub(super) fn uses_logins(self) -> bool {
        matches!(self, Self::Explicit | Self::OnRefusal)
    }

    /// Fails an explicit login that the configuration does not allow.
    pub(super) fn check_login_allowed(self) -> Result<(), AuthError> {
        let why = match self {
            Self::ConfiguredHeader => "it sets an Authorization header",
            Self::Off => "it turns logins off",
            Self::Socket => "the server is on a socket",
            Self::Explicit | Self::OnRefusal => return Ok(()),
        };
        let what = format!("the configuration does not allow a login: {why}");
        Err(AuthError::new(AuthErrorKind::Setup, what))
    }

    /// Fails a refused request if no login can be used for it.
    pub(super) fn check_refusal(self) -> Result<(), AuthError> {
        let (what, hint) = match self {
            Self::ConfiguredHeader => (
                "the server refused the configured Authorization header",
                "correct it, or remove it from the configuration to log in instead",
            ),
            Self::Off => (
                "the server requires a login, which the configuration turns off",
                "allow it in the server's `auth`, or configure an Authorization header",
            ),
            Self::Socket => (
                "the server requires a login, which is not possible on a socket",
                "configure an Authorization header",
            ),
            Self::Explicit | Self::OnRefusal => return Ok(()),
        };
        Err(AuthError::new(AuthErrorKind::LoginNeeded, what).hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use bowline_testkit::with;

    use super::*;

    #[test]
    fn no_login_is_used_on_a_socket() {
        let http = || Http::from_url("http://server.test/mcp".parse().unwrap());
        assert_eq!(LoginPolicy::from_settings(&http()), LoginPolicy::OnRefusal);
        let policy = LoginPolicy::from_settings(&with!(http(), socket: Some("/run/s".into())));
        assert_eq!(policy, LoginPolicy::Socket);
        assert!(!policy.uses_logins());
        let error = policy.check_login_allowed().unwrap_err().to_string();
        assert!(error.contains("the server is on a socket"), "{error}");
        let error = policy.check_refusal().unwrap_err().to_string();
        assert!(error.contains("not possible on a socket"), "{error}");
    }
}
