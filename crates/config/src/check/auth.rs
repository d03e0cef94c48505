//! Owns the checks of single authentication settings.

use url::Url;

use super::{InvalidValue, ensure};
use crate::loopback::is_loopback;

/// Checks an identifier or a name that is shown, sent or stored.
pub(crate) fn label(text: &str) -> Result<(), InvalidValue> {
    ensure(!text.trim().is_empty() && !text.chars().any(char::is_control), InvalidValue::Label)
}

pub(crate) fn credential(text: &str) -> Result<(), InvalidValue> {
    ensure(!text.trim().is_empty(), InvalidValue::EmptySecret)?;
    super::no_nul(text)
}

/// Parses a URL that nobody else on the network can answer for: `https`, or on this machine.
pub(crate) fn secure_url(text: &str) -> Result<Url, InvalidValue> {
    let url = super::url(text)?;
    if url.scheme() == "https" || is_loopback(&url) { Ok(url) } else { Err(InvalidValue::Insecure) }
}

/// Checks an issuer without changing it: RFC 8414 compares issuers byte by byte.
pub(crate) fn issuer(text: &str) -> Result<(), InvalidValue> {
    let url = secure_url(text)?;
    ensure(!text.contains('#') && url.query().is_none(), InvalidValue::Issuer)
}

pub(crate) fn metadata_url(text: &str) -> Result<Url, InvalidValue> {
    let url = super::url(text).map_err(|_| InvalidValue::MetadataUrl)?;
    let is_document = url.scheme() == "https" && url.path() != "/" && !text.contains('#');
    ensure(is_document, InvalidValue::MetadataUrl).map(|()| url)
}

pub(crate) fn redirect(text: &str) -> Result<Url, InvalidValue> {
    let url = super::url(text).map_err(|_| InvalidValue::Redirect)?;
    let is_safe = !text.contains('#') && (url.scheme() == "https" || is_loopback(&url));
    ensure(is_safe, InvalidValue::Redirect).map(|()| url)
}

/// Checks one or more scopes, separated by spaces, in the characters of RFC 6749.
pub(crate) fn scope(text: &str) -> Result<(), InvalidValue> {
    let letter = |byte: u8| matches!(byte, b' ' | b'!' | b'#'..=b'[' | b']'..=b'~');
    ensure(text.bytes().all(letter), InvalidValue::Scope)
}

pub(crate) fn resource(text: &str) -> Result<(), InvalidValue> {
    ensure(Url::parse(text).is_ok_and(|url| url.fragment().is_none()), InvalidValue::Resource)
}

/// Checks the URL at which hosts reach a gateway, without changing it: the audience of a token is
/// compared byte by byte.
pub(crate) fn served_resource(text: &str) -> Result<(), InvalidValue> {
    let is_plain = |url: &Url| {
        let is_as_written = url.as_str() == text || url.as_str().strip_suffix('/') == Some(text);
        is_as_written && url.query().is_none() && url.fragment().is_none()
    };
    ensure(secure_url(text).is_ok_and(|url| is_plain(&url)), InvalidValue::ServedResource)
}

/// Checks one scope of a resource.
pub(crate) fn resource_scope(text: &str) -> Result<(), InvalidValue> {
    ensure(!text.is_empty() && !text.contains(' '), InvalidValue::Scope)?;
    scope(text)?;
    ensure(text != "offline_access", InvalidValue::OfflineAccess)
}

/// Checks an additional parameter of the authorization URL. Parameters that the login sets itself
/// cannot be overridden: the response is verified against them.
pub(crate) fn authorize_param(name: &str) -> Result<(), InvalidValue> {
    ensure(!name.is_empty() && !name.chars().any(char::is_control), InvalidValue::Label)?;
    ensure(!RESERVED_PARAMS.contains(&name), InvalidValue::ReservedParam)
}

pub(crate) fn private_key(pem: &str) -> Result<(), InvalidValue> {
    let is_key = pem.contains("-----BEGIN ") && pem.contains("PRIVATE KEY-----");
    let encrypted = pem.contains("ENCRYPTED");
    ensure(is_key && !encrypted, InvalidValue::PrivateKey)
}

/// Parses the URL of a Valkey or Redis server. It may contain a password, so the caller keeps the
/// whole URL as a secret.
pub(crate) fn database(text: &str) -> Result<Url, InvalidValue> {
    let url = Url::parse(text).map_err(|_| InvalidValue::Database)?;
    match url.scheme() {
        "redis" | "rediss" | "valkey" | "valkeys" if url.has_host() => Ok(url),
        "unix" | "redis+unix" | "valkey+unix" => Ok(url),
        _ => Err(InvalidValue::Database),
    }
}

const RESERVED_PARAMS: [&str; 12] = [
    "client_id",
    "code_challenge",
    "code_challenge_method",
    "dpop_jkt",
    "nonce",
    "redirect_uri",
    "request",
    "request_uri",
    "resource",
    "response_type",
    "scope",
    "state",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// AF-07: a browser is redirected to this machine, or over TLS.
    #[test]
    fn af_07_redirects() {
        for good in ["http://127.0.0.1:1/cb", "http://localhost/", "http://[::1]:9/x", "https://h/cb?a=b"] {
            assert!(redirect(good).is_ok(), "{good}");
        }
        for bad in ["http://h/cb", "cursor://cb", "https://h/#x", "http://127.0.0.1/#", "https://u@h/", "x"] {
            assert_eq!(redirect(bad), Err(InvalidValue::Redirect), "{bad}");
        }
    }

    /// AR-02: `https`, with a path.
    #[test]
    fn ar_02_documents() {
        assert!(metadata_url("https://h/client.json").is_ok());
        for bad in ["https://h", "https://h/", "http://h/c.json", "https://h/c#x", "https://u:p@h/c", "c"] {
            assert_eq!(metadata_url(bad), Err(InvalidValue::MetadataUrl), "{bad}");
        }
    }

    #[test]
    fn issuers() {
        for good in ["https://h", "https://h/", "https://h/tenant", "http://localhost:1"] {
            assert_eq!(issuer(good), Ok(()), "{good}");
        }
        assert_eq!(issuer("http://h"), Err(InvalidValue::Insecure));
        assert_eq!(issuer("https://h?x=1"), Err(InvalidValue::Issuer));
        assert_eq!(issuer("https://h#x"), Err(InvalidValue::Issuer));
        assert!(issuer("h").is_err());
    }

    #[test]
    fn scopes() {
        for good in ["", "a", "a b", "https://h/x:y.z", "!#[]~"] {
            assert_eq!(scope(good), Ok(()), "{good}");
        }
        for bad in ["a\"b", "a\\b", "a\nb", "é", "a\tb"] {
            assert_eq!(scope(bad), Err(InvalidValue::Scope), "{bad:?}");
        }
    }

    #[test]
    fn resources() {
        for good in ["https://h", "https://h/mcp", "urn:x:y", "api://some-id"] {
            assert_eq!(resource(good), Ok(()), "{good}");
        }
        for bad in ["", "h/mcp", "https://h/#x"] {
            assert_eq!(resource(bad), Err(InvalidValue::Resource), "{bad}");
        }
    }

    #[test]
    fn private_keys() {
        assert_eq!(private_key("-----BEGIN EC PRIVATE KEY-----\nx"), Ok(()));
        for bad in ["", "x", "-----BEGIN PUBLIC KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----"] {
            assert_eq!(private_key(bad), Err(InvalidValue::PrivateKey), "{bad}");
        }
    }

    #[test]
    fn databases() {
        for good in ["redis://h", "rediss://u:p@h:1/2", "valkey://[::1]", "unix:///run/x.sock"] {
            assert!(database(good).is_ok(), "{good}");
        }
        for bad in ["", "h:6379", "http://h", "redis:///", "redis:x"] {
            assert_eq!(database(bad), Err(InvalidValue::Database), "{bad}");
        }
    }
}
