//! Owns the settings that a server has only with a transport, as setters of any server.

use std::path::PathBuf;

use crate::auth::{AuthSettings, HeadersCommand};
use crate::check::{self, InvalidValue};
use crate::secret::Secret;
use crate::server::{Server, Tls};

/// Setters of what belongs to one transport, for a [`Server`] whose transport is known only when the
/// program runs: one that was read from a file, or that a command line names. Each fails with
/// [`InvalidValue`] if the server has another transport.
///
/// A program that writes a server itself uses the builder of its transport
/// ([`StdioServer`](crate::StdioServer), [`HttpServer`](crate::HttpServer)), which has no settings of
/// another one.
pub trait TransportSettings: Sized {
    /// Adds an entry to the child's environment, replacing one of the same name.
    fn with_env(self, name: impl Into<String>, value: impl Into<Secret>) -> Result<Self, InvalidValue>;

    /// Sets the folder the child runs in.
    fn with_cwd(self, cwd: impl Into<PathBuf>) -> Result<Self, InvalidValue>;

    /// Reaches the server on a Unix socket, in place of the host and port of its URL, which must be
    /// `http`. The path must be absolute. Refused where there are no Unix sockets.
    fn with_socket(self, path: impl Into<PathBuf>) -> Result<Self, InvalidValue>;

    /// Adds a header to every request, replacing one of the same name.
    fn with_header(self, name: impl Into<String>, value: impl Into<Secret>) -> Result<Self, InvalidValue>;

    /// Sets certificate authorities and client certificate in addition to the system's.
    fn with_tls(self, tls: Tls) -> Result<Self, InvalidValue>;

    /// Sets how tokens are obtained if the server requires a login.
    fn with_auth(self, auth: AuthSettings) -> Result<Self, InvalidValue>;

    /// Sets the program that prints further headers.
    fn with_headers_command(self, command: HeadersCommand) -> Result<Self, InvalidValue>;

    /// Turns off the fallback to HTTP+SSE when Streamable HTTP is refused.
    fn without_fallback(self) -> Result<Self, InvalidValue>;

    /// Says whether credentials may be sent over plain `http` to another machine (default: no).
    fn with_allow_http(self, allow: bool) -> Result<Self, InvalidValue>;
}

impl TransportSettings for Server {
    fn with_env(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Result<Self, InvalidValue> {
        self.stdio_mut()?.set_variable(name.into(), value.into())?;
        Ok(self)
    }

    fn with_cwd(mut self, cwd: impl Into<PathBuf>) -> Result<Self, InvalidValue> {
        self.stdio_mut()?.cwd = Some(cwd.into());
        Ok(self)
    }

    fn with_socket(mut self, path: impl Into<PathBuf>) -> Result<Self, InvalidValue> {
        let (path, http) = (path.into(), self.http_mut()?);
        check::socket(&path, &http.url)?;
        http.socket = Some(path);
        Ok(self)
    }

    fn with_header(
        mut self,
        name: impl Into<String>,
        value: impl Into<Secret>,
    ) -> Result<Self, InvalidValue> {
        check::set_header(&mut self.http_mut()?.headers, name.into(), value.into())?;
        Ok(self)
    }

    fn with_tls(mut self, tls: Tls) -> Result<Self, InvalidValue> {
        if tls.client_cert.is_some() != tls.client_key.is_some() {
            return Err(InvalidValue::TlsPair);
        }
        self.http_mut()?.tls = tls;
        Ok(self)
    }

    fn with_auth(mut self, auth: AuthSettings) -> Result<Self, InvalidValue> {
        self.http_mut()?.auth = auth;
        Ok(self)
    }

    fn with_headers_command(mut self, command: HeadersCommand) -> Result<Self, InvalidValue> {
        self.http_mut()?.headers_command = Some(command);
        Ok(self)
    }

    fn without_fallback(mut self) -> Result<Self, InvalidValue> {
        self.http_mut()?.fallback = false;
        Ok(self)
    }

    fn with_allow_http(mut self, allow: bool) -> Result<Self, InvalidValue> {
        self.http_mut()?.allow_http = allow;
        Ok(self)
    }
}
