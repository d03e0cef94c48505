//! Builders of servers by a program: one per transport, so that a setting of the other one does not
//! compile.

use std::path::PathBuf;
use std::time::Duration;

use crate::TransportSettings as _;
use crate::auth::{AuthSettings, HeadersCommand, Program};
use crate::check::{self, InvalidValue};
use crate::exposure::Exposure;
use crate::hook::Hook;
use crate::sampling::SamplingPolicy;
use crate::secret::Secret;
use crate::server::{Http, Protocol, Server, Share, Tls, Transport};

/// Builds a server that is started as a child process. Begins with [`Server::stdio`].
///
/// A value that cannot be used is reported by [`StdioServer::build`], or when a client connects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a builder does nothing until it is built or connected to"]
pub struct StdioServer {
    name: String,
    server: Result<Server, InvalidValue>,
}

/// Builds a server that is reached by URL. Begins with [`Server::http`] or [`Server::sse`].
///
/// A value that cannot be used, such as a malformed URL, is reported by [`HttpServer::build`], or
/// when a client connects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a builder does nothing until it is built or connected to"]
pub struct HttpServer {
    name: String,
    server: Result<Server, InvalidValue>,
}

/// A server, or a builder of one. A client can be connected to each.
pub trait IntoServer: sealed::Sealed {
    /// Returns its name, and the server or why it cannot be used.
    #[doc(hidden)]
    fn into_parts(self) -> (String, Result<Server, InvalidValue>);
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Server {}
    impl Sealed for super::StdioServer {}
    impl Sealed for super::HttpServer {}
}

impl Server {
    /// Begins a server that is started as a child process, with the defaults of a configuration
    /// file. Whether the command exists shows when it is started.
    ///
    /// ```
    /// # use bowline_config::Server;
    /// let server = Server::stdio("files", "npx").args(["-y", "server-files"]).env("MODE", "fast");
    /// ```
    pub fn stdio(name: impl Into<String>, command: impl Into<String>) -> StdioServer {
        let name = name.into();
        let program = Program::new(command, [""; 0]);
        StdioServer { server: Ok(Self::new(name.clone(), Transport::Stdio(program))), name }
    }

    /// Begins a server that is reached by URL, with the defaults of a configuration file:
    /// Streamable HTTP, and HTTP+SSE where that is refused.
    ///
    /// ```
    /// # use bowline_config::Server;
    /// let server = Server::http("docs", "https://docs.example/mcp").header("X-Team", "knots");
    /// ```
    ///
    /// An environment is a setting of a process:
    ///
    /// ```compile_fail
    /// # use bowline_config::Server;
    /// let server = Server::http("docs", "https://docs.example/mcp").env("MODE", "fast");
    /// ```
    pub fn http(name: impl Into<String>, url: impl AsRef<str>) -> HttpServer {
        HttpServer::new(
            name.into(),
            check::url(url.as_ref()).map(|url| Transport::Http(Http::new(url, true))),
        )
    }

    /// Begins a server that speaks HTTP+SSE, with the defaults of a configuration file.
    pub fn sse(name: impl Into<String>, url: impl AsRef<str>) -> HttpServer {
        HttpServer::new(
            name.into(),
            check::url(url.as_ref()).map(|url| Transport::Sse(Http::new(url, false))),
        )
    }
}

impl StdioServer {
    /// Appends arguments of the command.
    pub fn args<A: Into<String>>(self, args: impl IntoIterator<Item = A>) -> Self {
        self.change(|mut server| {
            server.stdio_mut()?.args.extend(args.into_iter().map(Into::into));
            Ok(server)
        })
    }

    /// Appends an argument of the command.
    pub fn arg(self, arg: impl Into<String>) -> Self {
        self.args([arg])
    }

    /// Adds an entry to the child's environment, replacing one of the same name.
    pub fn env(self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.change(|server| server.with_env(name, value))
    }

    /// Sets the folder the child runs in.
    pub fn cwd(self, folder: impl Into<PathBuf>) -> Self {
        self.change(|server| server.with_cwd(folder))
    }
}

impl HttpServer {
    fn new(name: String, transport: Result<Transport, InvalidValue>) -> Self {
        Self { server: transport.map(|transport| Server::new(name.clone(), transport)), name }
    }

    /// Reaches the server on a Unix socket; see [`Server::with_socket`].
    pub fn socket(self, path: impl Into<PathBuf>) -> Self {
        self.change(|server| server.with_socket(path))
    }

    /// Adds a header to every request, replacing one of the same name.
    pub fn header(self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.change(|server| server.with_header(name, value))
    }

    /// Sets certificate authorities and client certificate in addition to the system's.
    pub fn tls(self, tls: Tls) -> Self {
        self.change(|server| server.with_tls(tls))
    }

    /// Sets how tokens are obtained if the server requires a login.
    pub fn auth(self, auth: AuthSettings) -> Self {
        self.change(|server| server.with_auth(auth))
    }

    /// Sets the program that prints further headers.
    pub fn headers_command(self, command: HeadersCommand) -> Self {
        self.change(|server| server.with_headers_command(command))
    }

    /// Turns off the fallback to HTTP+SSE when Streamable HTTP is refused.
    pub fn without_fallback(self) -> Self {
        self.change(Server::without_fallback)
    }

    /// Says whether credentials may be sent over plain `http` to another machine (default: no).
    pub fn allow_http(self, allow: bool) -> Self {
        self.change(|server| server.with_allow_http(allow))
    }
}

/// The settings that do not depend on the transport.
macro_rules! common_settings {
    ($Builder:ident) => {
        impl $Builder {
            /// Returns the server, or why it cannot be used.
            pub fn build(self) -> Result<Server, InvalidValue> {
                self.server
            }

            /// Sets how long a call may be silent, which configuration files call `timeout`; see
            /// [`Server::with_idle_timeout`].
            pub fn idle_timeout(self, call: Duration) -> Self {
                self.change(|server| Ok(server.with_idle_timeout(call)))
            }

            /// Sets how long a call may take in all, which configuration files call `max_timeout`; see
            /// [`Server::with_timeout`].
            pub fn timeout(self, max: Duration) -> Self {
                self.change(|server| Ok(server.with_timeout(max)))
            }

            /// Sets how long connecting may take (default 30 s).
            pub fn connect_timeout(self, connect: Duration) -> Self {
                self.change(|server| Ok(server.with_connect_timeout(connect)))
            }

            /// Sets how long the modern era is waited for before the legacy one is tried (default
            /// 3 s).
            pub fn probe_timeout(self, probe: Duration) -> Self {
                self.change(|server| Ok(server.with_probe_timeout(probe)))
            }

            /// Pins the era, or leaves it to be negotiated.
            pub fn protocol(self, protocol: Protocol) -> Self {
                self.change(|server| Ok(server.with_protocol(protocol)))
            }

            /// Sets the idle time after which a keepalive probe is sent; see
            /// [`Server::with_keepalive`].
            pub fn keepalive(self, interval: Option<Duration>) -> Self {
                self.change(|server| Ok(server.with_keepalive(interval)))
            }

            /// Sets how long a call waits for a connection that is down (default 10 s).
            pub fn reconnect_wait(self, wait: Duration) -> Self {
                self.change(|server| Ok(server.with_reconnect_wait(wait)))
            }

            /// Sets how many bytes a message of it may have (default 64 MiB).
            pub fn message_limit(self, bytes: usize) -> Self {
                self.change(|server| Ok(server.with_message_limit(bytes)))
            }

            /// Sets which hosts of a gateway share a connection to it.
            pub fn share(self, share: Share) -> Self {
                self.change(|server| Ok(server.with_share(share)))
            }

            /// Sets after how long without a call a gateway closes a connection to it (default
            /// never).
            pub fn idle_stop(self, after: Option<Duration>) -> Self {
                self.change(|server| Ok(server.with_idle_stop(after)))
            }

            /// Sets what a gateway exposes of it.
            pub fn exposure(self, exposure: Exposure) -> Self {
                self.change(|server| Ok(server.with_exposure(exposure)))
            }

            /// Sets who must approve sampling requests of this server.
            pub fn sampling(self, policy: SamplingPolicy) -> Self {
                self.change(|server| Ok(server.with_sampling(policy)))
            }

            /// Sets the roots announced to this server.
            pub fn roots(self, folders: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
                self.change(|server| Ok(server.with_roots(folders)))
            }

            /// Appends a hook.
            pub fn hook(self, hook: Hook) -> Self {
                self.change(|server| Ok(server.with_hook(hook)))
            }

            /// Changes the server, unless a value before was invalid: the first problem is reported.
            fn change(mut self, change: impl FnOnce(Server) -> Result<Server, InvalidValue>) -> Self {
                self.server = self.server.and_then(change);
                self
            }
        }

        impl IntoServer for $Builder {
            fn into_parts(self) -> (String, Result<Server, InvalidValue>) {
                (self.name, self.server)
            }
        }
    };
}

common_settings!(StdioServer);
common_settings!(HttpServer);

impl IntoServer for Server {
    fn into_parts(self) -> (String, Result<Server, InvalidValue>) {
        (self.name.clone(), Ok(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_invalid_value_is_reported() {
        let server = Server::http("a", "ftp://h/").header("bad name", "x").idle_timeout(Duration::ZERO);
        assert_eq!(server.clone().into_parts(), ("a".to_owned(), Err(InvalidValue::UrlScheme)));
        assert_eq!(server.build(), Err(InvalidValue::UrlScheme));
        assert_eq!(Server::http("a", "http://h/").header("a b", "x").build(), Err(InvalidValue::HeaderName));
        assert_eq!(Server::stdio("a", "x").env("A=B", "x").build(), Err(InvalidValue::EnvName));
    }

    #[test]
    fn arguments_are_appended() {
        let server = Server::stdio("a", "x").args(["1", "2"]).arg("3").cwd("/tmp").build().unwrap();
        let Transport::Stdio(program) = server.transport else { panic!("not stdio") };
        assert_eq!(program, Program { cwd: Some("/tmp".into()), ..Program::new("x", ["1", "2", "3"]) });
    }
}
