//! Owns the checks of single resolved values, for files and programs alike.

#[cfg(feature = "files")]
mod auth;

use std::fmt;
use std::path::Path;

use url::Url;

use crate::secret::Secret;
#[cfg(feature = "files")]
use crate::view::View;

#[cfg(feature = "files")]
pub(crate) use auth::{
    authorize_param, credential, database, issuer, label, metadata_url, private_key, redirect, resource,
    resource_scope, scope, secure_url, served_resource,
};

/// Why a value cannot be used. The value itself is never part of the message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidValue {
    /// A server name that [`Server::name`](crate::Server::name) does not allow.
    Name,
    /// A view name that [`View::is_valid_name`](crate::View::is_valid_name) does not allow.
    ViewName,
    /// A command of no characters.
    EmptyCommand,
    /// A NUL character, which no system call takes.
    Nul,
    /// A name no process environment can hold.
    EnvName,
    /// A header name that is not an HTTP token.
    HeaderName,
    /// A header value that would break the request.
    HeaderValue,
    /// A header that the transport sets itself.
    ReservedHeader,
    /// A header given twice; names are compared without case.
    DuplicateHeader,
    /// Not a URL at all.
    Url(url::ParseError),
    /// A URL of another scheme.
    UrlScheme,
    /// A URL with a user name or password in it.
    UrlCredentials,
    /// A relative path of a Unix socket.
    SocketPath,
    /// A Unix socket with a URL that is not `http`.
    SocketScheme,
    /// A Unix socket on a system that has none.
    SocketUnsupported,
    /// A client certificate without its key, or the reverse.
    TlsPair,
    /// A setting of a server with `command`, on one with `url`.
    NotStdio,
    /// A setting of a server with `url`, on one with `command`.
    NotHttp,
    /// A setting of a hook that starts a program, on one that calls a URL.
    NotHookCommand,
    /// A setting of a hook that calls a URL, on one that starts a program.
    NotWebhook,
    /// A model without a name.
    Model,
    /// Not the name of a variable; it may be the key itself.
    KeyEnvName,
    /// A name, an identifier or a label of no characters, or with a control character in it.
    Label,
    /// A secret of no characters.
    EmptySecret,
    /// A URL without TLS on another machine: anyone on the network could answer for it.
    Insecure,
    /// Not the issuer of an authorization server.
    Issuer,
    /// A URL that no Client ID Metadata Document can have.
    MetadataUrl,
    /// An unsafe redirect address.
    Redirect,
    /// A malformed scope.
    Scope,
    /// A malformed resource identifier.
    Resource,
    /// A URL that hosts cannot reach a gateway by.
    ServedResource,
    /// `offline_access` as a scope of a resource: hosts request it from the issuer for themselves.
    OfflineAccess,
    /// A parameter that the login itself sets.
    ReservedParam,
    /// Not a private key, or an encrypted one.
    PrivateKey,
    /// Not the URL of a Valkey or Redis server.
    Database,
}

impl fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "a server name is 1 to 64 characters of A-Z, a-z, 0-9, `_`, `.` and `-`",
            Self::ViewName => "a view name is 1 to 64 characters of A-Z, a-z, 0-9, `_` and `-`",
            Self::EmptyCommand => "the command is empty",
            Self::Nul => "contains a NUL character",
            Self::EnvName => "an environment name is not empty and has no `=` and no NUL character",
            Self::HeaderName => "a header name is made of letters, digits and !#$%&'*+-.^_`|~",
            Self::HeaderValue => "contains a control character, which is not allowed in a header value",
            Self::ReservedHeader => "this header is set by the transport and cannot be configured",
            Self::DuplicateHeader => "this header is given twice",
            Self::Url(value) => return write!(f, "not a valid URL: {value}"),
            Self::UrlScheme => "the URL must begin with http:// or https://",
            Self::UrlCredentials => "the URL contains credentials",
            Self::SocketPath => "the path of a socket must be absolute",
            Self::SocketScheme => "a server on a socket needs a URL that begins with http://",
            Self::SocketUnsupported => "there are no Unix sockets on this system",
            Self::TlsPair => "`client_cert` and `client_key` are needed together",
            Self::NotStdio => "belongs to a server with `command`, and this one has a `url`",
            Self::NotHttp => "belongs to a server with `url`, and this one has a `command`",
            Self::NotHookCommand => "belongs to a hook with `command`, and this one has a `webhook`",
            Self::NotWebhook => "belongs to a hook with `webhook`, and this one has a `command`",
            Self::Model => "the name of the model is empty",
            Self::KeyEnvName => "must be the name of an environment variable, made of letters, digits and `_`",
            Self::Label => "must not be empty or contain a control character",
            Self::EmptySecret => "is empty",
            Self::Insecure => "must be an https URL, or one on this machine",
            Self::Issuer => "must be the issuer as the authorization server writes it: an https URL without query and fragment",
            Self::MetadataUrl => "must be an https URL with a path, and without fragment and credentials",
            Self::Redirect => "must be an https URL, or an http URL on this machine, without fragment",
            Self::Scope => "a scope is made of visible ASCII characters without quotation marks and backslashes",
            Self::Resource => "must be an absolute URI without fragment",
            Self::ServedResource => "must be a URL as hosts write it: https, or on this machine, without query, fragment and credentials",
            Self::OfflineAccess => "is not a scope of a resource: hosts request it from the issuer themselves",
            Self::ReservedParam => "is set by the login itself",
            Self::PrivateKey => "must be a private key in PEM, and not encrypted",
            Self::Database => "must be a URL that begins with redis://, rediss://, valkey://, valkeys:// or unix://",
        })
    }
}

impl std::error::Error for InvalidValue {}

impl InvalidValue {
    /// Returns what to do about it, if the message does not say.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Name => Some("rename it; `bowline import` takes over servers of hosts under valid names"),
            Self::UrlCredentials => Some(
                "send them as a header, such as `Authorization`, with the value in an environment variable",
            ),
            Self::HeaderValue => Some("is there a line break in the variable or file it comes from?"),
            Self::Url(_) | Self::UrlScheme => Some("for example \"https://mcp.example.com/mcp\""),
            Self::SocketScheme => Some("a socket stays on this machine, so it needs no encryption"),
            Self::KeyEnvName => Some("write the name of the variable, not the key itself"),
            Self::EmptySecret => Some("is the variable or file that it comes from empty?"),
            Self::MetadataUrl => Some("for example \"https://example.com/mcp-client.json\""),
            Self::Redirect => Some("for example \"http://127.0.0.1:8976/callback\""),
            Self::ReservedParam => Some("`scope`, `resource` and `client_id` are settings of their own"),
            Self::PrivateKey => Some("write `{file:key.pem}`; it begins with `-----BEGIN PRIVATE KEY-----`"),
            _ => None,
        }
    }
}

/// Checks the path of a Unix socket on which the server of this URL is reached.
pub(crate) fn socket(path: &Path, url: &Url) -> Result<(), InvalidValue> {
    if !cfg!(unix) {
        return Err(InvalidValue::SocketUnsupported);
    }
    if !path.is_absolute() {
        return Err(InvalidValue::SocketPath);
    }
    if url.scheme() != "http" {
        return Err(InvalidValue::SocketScheme);
    }
    Ok(())
}

/// Adds a header, replacing one of the same name.
pub(crate) fn set_header(
    headers: &mut Vec<(String, Secret)>,
    name: String,
    value: Secret,
) -> Result<(), InvalidValue> {
    header_name(&name)?;
    header_value(value.expose())?;
    headers.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
    headers.push((name, value));
    Ok(())
}

fn ensure(valid: bool, invalid: InvalidValue) -> Result<(), InvalidValue> {
    if valid { Ok(()) } else { Err(invalid) }
}

pub(crate) fn name(name: &str) -> Result<(), InvalidValue> {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    ensure((1..=64).contains(&name.len()) && name.bytes().all(valid), InvalidValue::Name)
}

#[cfg(feature = "files")]
pub(crate) fn view_name(name: &str) -> Result<(), InvalidValue> {
    ensure(View::is_valid_name(name), InvalidValue::ViewName)
}

#[cfg(feature = "files")]
pub(crate) fn command(command: &str) -> Result<(), InvalidValue> {
    ensure(!command.is_empty(), InvalidValue::EmptyCommand)?;
    no_nul(command)
}

pub(crate) fn no_nul(text: &str) -> Result<(), InvalidValue> {
    ensure(!text.contains('\0'), InvalidValue::Nul)
}

pub(crate) fn env_name(name: &str) -> Result<(), InvalidValue> {
    ensure(!name.is_empty() && !name.contains(['=', '\0']), InvalidValue::EnvName)
}

/// Checks the name of the variable that holds a key. Stricter than [`env_name`]: what does not look
/// like a variable may be the key itself.
pub(crate) fn key_env_name(name: &str) -> Result<(), InvalidValue> {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins = name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    ensure(begins && name.bytes().all(inside), InvalidValue::KeyEnvName)
}

pub(crate) fn model(name: &str) -> Result<(), InvalidValue> {
    ensure(!name.trim().is_empty(), InvalidValue::Model)
}

pub(crate) fn header_name(name: &str) -> Result<(), InvalidValue> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    ensure(!name.is_empty() && name.bytes().all(token), InvalidValue::HeaderName)?;
    ensure(!is_reserved_header(name), InvalidValue::ReservedHeader)
}

/// Returns whether the transport sets this header itself, so that no entry may have it.
pub fn is_reserved_header(name: &str) -> bool {
    RESERVED_HEADERS.iter().any(|reserved| reserved.eq_ignore_ascii_case(name))
}

/// Allows everything but control characters; a tab is allowed, and so are bytes above ASCII.
pub(crate) fn header_value(value: &str) -> Result<(), InvalidValue> {
    let control = |byte: u8| byte.is_ascii_control() && byte != b'\t';
    ensure(!value.bytes().any(control), InvalidValue::HeaderValue)
}

/// Parses a URL that requests can be sent to. A fragment never reaches a server and is dropped, so
/// that two spellings of one endpoint compare equal.
pub(crate) fn url(text: &str) -> Result<Url, InvalidValue> {
    let mut url = Url::parse(text).map_err(InvalidValue::Url)?;
    ensure(matches!(url.scheme(), "http" | "https"), InvalidValue::UrlScheme)?;
    ensure(url.username().is_empty() && url.password().is_none(), InvalidValue::UrlCredentials)?;
    url.set_fragment(None);
    Ok(url)
}

/// Headers that the transport sets on every request; a second value would make requests malformed
/// or break the session. `Host` is not among them: servers behind a tunnel need it.
const RESERVED_HEADERS: [&str; 13] = [
    "Accept",
    "Accept-Encoding",
    "Connection",
    "Content-Length",
    "Content-Type",
    "Last-Event-ID",
    "MCP-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "Mcp-Session-Id",
    "TE",
    "Transfer-Encoding",
    "Upgrade",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "git-hub_2.0", &"x".repeat(64)] {
            assert_eq!(name(good), Ok(()), "{good}");
        }
        for bad in ["", "a b", "a/b", "é", &"x".repeat(65)] {
            assert_eq!(name(bad), Err(InvalidValue::Name), "{bad}");
        }
    }

    #[test]
    fn headers() {
        assert_eq!(header_name("X-Api_Key.2"), Ok(()));
        for bad in ["", "X Key", "X:Key", "Schlüssel", "X\r\nY"] {
            assert_eq!(header_name(bad), Err(InvalidValue::HeaderName), "{bad:?}");
        }
        assert_eq!(header_name("mcp-SESSION-id"), Err(InvalidValue::ReservedHeader));
        for good in ["", "Bearer a.b", "tab\there", "naïve"] {
            assert_eq!(header_value(good), Ok(()), "{good:?}");
        }
        for bad in ["a\rb", "a\nb", "a\0b", "a\u{7f}b"] {
            assert_eq!(header_value(bad), Err(InvalidValue::HeaderValue), "{bad:?}");
        }
    }

    #[test]
    fn environment_names() {
        assert_eq!(env_name("ProgramFiles(x86)"), Ok(()));
        for bad in ["", "A=B", "A\0"] {
            assert_eq!(env_name(bad), Err(InvalidValue::EnvName), "{bad:?}");
        }
    }

    #[test]
    fn urls() {
        assert_eq!(url("https://h/mcp?x=1#frag").map(String::from), Ok("https://h/mcp?x=1".to_owned()));
        assert_eq!(url("ftp://h/"), Err(InvalidValue::UrlScheme));
        assert_eq!(url("unix:///run/x.sock"), Err(InvalidValue::UrlScheme));
        for bad in ["https://u@h/", "https://u:p@h/", "http://:p@h/"] {
            assert_eq!(url(bad), Err(InvalidValue::UrlCredentials), "{bad}");
        }
        for bad in ["", "example.com/mcp", "http://", "https://h:99999/"] {
            assert!(matches!(url(bad), Err(InvalidValue::Url(_))), "{bad}");
        }
    }
}
