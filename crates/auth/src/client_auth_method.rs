//! Owns which client authentication method is used at a token endpoint (AR-05).

use bowline_config::{ClientSettings, TokenAuth};

use crate::client::OAuthClient;
use crate::error::{AuthError, AuthErrorKind, sanitize};

/// The method if an authorization server lists none (RFC 8414 §2).
const DEFAULT_METHOD: TokenAuth = TokenAuth::Basic;

/// The method of a configured client: as configured, else the first that fits its credentials and
/// is offered. Methods that are not offered are not tried, because that would reveal a secret for
/// nothing (AX-02).
pub(crate) fn for_configured_client(
    client: &ClientSettings,
    offered: Option<&[String]>,
) -> Result<TokenAuth, AuthError> {
    let setup = |what: &str| Err(AuthError::new(AuthErrorKind::Setup, what));
    match client.method {
        Some(TokenAuth::Basic | TokenAuth::Post) if client.secret.is_none() => {
            return setup("the client must authenticate with a secret, but has none");
        }
        Some(TokenAuth::PrivateKeyJwt) if client.key.is_none() => {
            return setup("the client must authenticate with a key, but has none");
        }
        Some(method) => return Ok(method),
        None => {}
    }
    let fitting: &[TokenAuth] = match (&client.key, &client.secret) {
        (Some(_), Some(_)) => &[TokenAuth::PrivateKeyJwt, TokenAuth::Basic, TokenAuth::Post],
        (Some(_), None) => &[TokenAuth::PrivateKeyJwt],
        (None, Some(_)) => &[TokenAuth::Basic, TokenAuth::Post],
        (None, None) => &[TokenAuth::None],
    };
    match offered {
        Some(names) if !names.is_empty() => first_offered(fitting, offered)
            // A public client reveals nothing, and many servers accept it without listing `none`.
            .or((*fitting == [TokenAuth::None]).then_some(TokenAuth::None))
            .ok_or_else(|| {
                let what = format!(
                    "the authorization server accepts client authentication by {}, and this client supports {}",
                    sanitize(&names.join(", ")),
                    fitting.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(", ")
                );
                AuthError::new(AuthErrorKind::Setup, what)
                    .hint("set `client_auth` in the server's `auth` to use one of these anyway")
            }),
        _ => Ok(fitting[0]),
    }
}

/// The method that a dynamic registration requests. `None` if nothing suitable is offered: then the
/// authorization server chooses.
pub(crate) fn to_request(offered: Option<&[String]>) -> Option<TokenAuth> {
    match offered {
        // Listing methods is optional, and servers that do not mostly accept public clients.
        None => Some(TokenAuth::None),
        Some(_) => first_offered(&[TokenAuth::None, TokenAuth::Basic, TokenAuth::Post], offered),
    }
}

/// The method after a dynamic registration: as the response says, else as offered.
pub(crate) fn for_registered_client(
    answered: Option<&str>,
    has_secret: bool,
    offered: Option<&[String]>,
) -> Result<TokenAuth, AuthError> {
    let Some(name) = answered else {
        return Ok(match first_offered(&[TokenAuth::Basic, TokenAuth::Post, TokenAuth::None], offered) {
            _ if !has_secret => TokenAuth::None,
            found => found.unwrap_or(DEFAULT_METHOD),
        });
    };
    match TokenAuth::from_name(name) {
        Some(TokenAuth::None) => Ok(TokenAuth::None),
        // The response names a secret-based method without a secret.
        Some(TokenAuth::Basic | TokenAuth::Post) if !has_secret => Ok(TokenAuth::None),
        Some(method @ (TokenAuth::Basic | TokenAuth::Post)) => Ok(method),
        Some(TokenAuth::PrivateKeyJwt) | None => {
            let what = format!(
                "the authorization server registered this client for authentication by {}, which is not supported",
                sanitize(name)
            );
            Err(AuthError::new(AuthErrorKind::Setup, what)
                .hint("register a client by hand, and set `client_id` in the server's `auth`"))
        }
    }
}

/// The methods that the client supports, limited to the offered ones if any are listed.
pub(crate) fn alternatives(
    client: &OAuthClient,
    offered: Option<&[String]>,
) -> impl Iterator<Item = TokenAuth> {
    let able = [
        client.key.is_some().then_some(TokenAuth::PrivateKeyJwt),
        client.secret.is_some().then_some(TokenAuth::Basic),
        client.secret.is_some().then_some(TokenAuth::Post),
    ];
    let offered = offered.filter(|names| !names.is_empty());
    able.into_iter()
        .flatten()
        .filter(move |method| offered.is_none_or(|names| names.iter().any(|name| name == method.as_str())))
}

fn first_offered(fitting: &[TokenAuth], offered: Option<&[String]>) -> Option<TokenAuth> {
    let offered = offered?;
    fitting.iter().copied().find(|method| offered.iter().any(|name| name == method.as_str()))
}

#[cfg(test)]
mod tests {
    use bowline_config::{Secret, SigningKey};
    use bowline_testkit::with;

    use super::*;

    const BASIC: &str = "client_secret_basic";
    const POST: &str = "client_secret_post";
    const JWT: &str = "private_key_jwt";

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn client(secret: bool, key: bool, method: Option<TokenAuth>) -> ClientSettings {
        let secret = secret.then(|| Secret::new("s"));
        let key = key.then(|| SigningKey::new("p"));
        with!(ClientSettings::new("c"), secret: secret, method: method, key: key)
    }

    #[test]
    fn ar_05_a_configured_client_fits_what_it_has_to_what_is_offered() {
        let choose = |secret, key, offered: Option<&[&str]>| {
            let offered = offered.map(list);
            for_configured_client(&client(secret, key, None), offered.as_deref()).unwrap()
        };
        assert_eq!(choose(false, false, None), TokenAuth::None);
        assert_eq!(choose(false, false, Some(&[BASIC])), TokenAuth::None);
        assert_eq!(choose(true, false, None), TokenAuth::Basic);
        assert_eq!(choose(true, false, Some(&[])), TokenAuth::Basic);
        assert_eq!(choose(true, false, Some(&[POST])), TokenAuth::Post);
        assert_eq!(choose(true, false, Some(&[POST, BASIC])), TokenAuth::Basic);
        assert_eq!(choose(false, true, None), TokenAuth::PrivateKeyJwt);
        assert_eq!(choose(true, true, Some(&[BASIC])), TokenAuth::Basic);
        assert_eq!(choose(true, true, Some(&[BASIC, JWT])), TokenAuth::PrivateKeyJwt);
    }

    #[test]
    fn ax_02_a_secret_is_not_shown_to_who_does_not_take_it() {
        for (secret, key, offered) in
            [(true, false, "none"), (true, false, JWT), (false, true, BASIC), (true, true, "tls_client_auth")]
        {
            let error =
                for_configured_client(&client(secret, key, None), Some(&list(&[offered]))).unwrap_err();
            assert_eq!(error.kind, AuthErrorKind::Setup);
            assert!(error.what.contains(offered) && error.hint.unwrap().contains("client_auth"));
        }
        // An explicitly configured method is used even if it is not offered.
        let chosen = client(true, false, Some(TokenAuth::Post));
        assert_eq!(for_configured_client(&chosen, Some(&list(&["none"]))).unwrap(), TokenAuth::Post);
    }

    #[test]
    fn ar_05_what_is_configured_counts_if_it_is_possible() {
        let offered = list(&[BASIC]);
        let choose = |secret, key, method| {
            for_configured_client(&client(secret, key, Some(method)), Some(&offered))
                .map_err(|error| error.kind)
        };
        assert_eq!(choose(true, false, TokenAuth::Post), Ok(TokenAuth::Post));
        assert_eq!(choose(true, false, TokenAuth::None), Ok(TokenAuth::None));
        assert_eq!(choose(false, true, TokenAuth::Basic), Err(AuthErrorKind::Setup));
        assert_eq!(choose(true, false, TokenAuth::PrivateKeyJwt), Err(AuthErrorKind::Setup));
    }

    #[test]
    fn ar_05_a_client_registers_as_public_where_it_can() {
        let choose = |offered: &[&str]| to_request(Some(&list(offered)));
        assert_eq!(to_request(None), Some(TokenAuth::None));
        assert_eq!(choose(&[BASIC, "none"]), Some(TokenAuth::None));
        assert_eq!(choose(&[POST, BASIC]), Some(TokenAuth::Basic));
        assert_eq!(choose(&[POST]), Some(TokenAuth::Post));
        assert_eq!(choose(&[JWT, "tls_client_auth"]), None);
    }

    #[test]
    fn ar_05_what_was_registered_is_used() {
        let choose = |answered: Option<&str>, secret: bool, offered: Option<&[&str]>| {
            let offered = offered.map(list);
            for_registered_client(answered, secret, offered.as_deref()).map_err(|error| error.kind)
        };
        assert_eq!(choose(Some(POST), true, Some(&[BASIC])), Ok(TokenAuth::Post));
        assert_eq!(choose(Some("none"), true, Some(&[BASIC])), Ok(TokenAuth::None));
        assert_eq!(choose(Some(BASIC), false, None), Ok(TokenAuth::None));
        assert_eq!(choose(Some(JWT), true, None), Err(AuthErrorKind::Setup));
        assert_eq!(choose(Some("\u{1b}odd"), true, None), Err(AuthErrorKind::Setup));
        assert_eq!(choose(None, true, None), Ok(TokenAuth::Basic));
        assert_eq!(choose(None, true, Some(&[POST])), Ok(TokenAuth::Post));
        assert_eq!(choose(None, true, Some(&["none"])), Ok(TokenAuth::None));
        assert_eq!(choose(None, true, Some(&[JWT])), Ok(TokenAuth::Basic));
        assert_eq!(choose(None, false, Some(&[BASIC])), Ok(TokenAuth::None));
    }
}
