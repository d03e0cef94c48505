//! Identifies a server without revealing its address.

use std::fmt;

use bowline_config::{Server, Transport};
use ring::digest::{Context, SHA256};

/// Identifies a server in a [`NegotiationCache`](super::NegotiationCache): a hash of its URL and
/// socket, or of its command line, working directory and configured environment, since all of them may contain
/// secrets. It is the same in every process. Headers do not count: credentials change, and the
/// server stays the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerKey([u8; KEY_BYTES]);

/// Length of the hash in bytes, enough to make a collision infeasible.
const KEY_BYTES: usize = 16;

impl ServerKey {
    /// The key of a server.
    pub fn from_server(server: &Server) -> Self {
        match &server.transport {
            Transport::Stdio(stdio) => {
                let cwd = stdio.cwd.as_ref().map(|cwd| cwd.display().to_string()).unwrap_or_default();
                let command = ["stdio", &stdio.command, &cwd].into_iter();
                let args = stdio.args.iter().map(String::as_str);
                // Variables configure a command as often as arguments do.
                let env = stdio.env.iter().flat_map(|(name, value)| ["env", name, value.expose()]);
                Self::from_parts(command.chain(args).chain(env))
            }
            Transport::Http(http) | Transport::Sse(http) => {
                let socket = http.socket.as_ref().map(|socket| socket.display().to_string());
                let socket = socket.iter().flat_map(|path| ["socket", path]);
                Self::from_parts(["http", http.url.as_str()].into_iter().chain(socket))
            }
            other => Self::from_parts([other.as_str(), &server.name]),
        }
    }

    /// Hashes the parts with their lengths, so that their boundaries count.
    fn from_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Context::new(&SHA256);
        for part in parts {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(&hash.finish().as_ref()[..KEY_BYTES]);
        Self(key)
    }
}

/// Hexadecimal digits.
impl fmt::Display for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_config::TransportSettings as _;

    #[test]
    fn what_is_reached_or_started_differently_is_another_server() {
        let base = Server::stdio("s", "run").args(["a", "b"]).build().unwrap();
        for other in [
            Server::stdio("s", "run").args(["ab"]).build().unwrap(),
            Server::stdio("s", "run").args(["a"]).build().unwrap(),
            Server::stdio("s", "runa").args(["b"]).build().unwrap(),
            Server::http("s", "http://h/run").build().unwrap(),
        ] {
            assert_ne!(ServerKey::from_server(&base), ServerKey::from_server(&other));
        }
        let with = |value: &str| base.clone().with_env("MODE", value).unwrap();
        assert_ne!(ServerKey::from_server(&with("a")), ServerKey::from_server(&with("b")));
        assert_ne!(ServerKey::from_server(&with("a")), ServerKey::from_server(&base));
        let renamed = Server::stdio("other", "run").args(["a", "b"]).build().unwrap();
        assert_eq!(ServerKey::from_server(&base), ServerKey::from_server(&renamed));
    }

    #[test]
    #[cfg(unix)]
    fn each_socket_is_another_server() {
        let server = || Server::http("s", "http://h/mcp");
        let key = |path: &str| ServerKey::from_server(&server().socket(path).build().unwrap());
        assert_eq!(key("/a"), key("/a"));
        assert_ne!(key("/a"), key("/b"));
        assert_ne!(key("/a"), ServerKey::from_server(&server().build().unwrap()));
    }

    /// Files are named by the key, so it must never change.
    #[test]
    fn a_key_is_the_same_in_every_process() {
        let key = ServerKey::from_server(&Server::http("s", "https://h/mcp?key=s3cret").build().unwrap());
        assert_eq!(key.to_string().len(), 32);
        assert_eq!(key.to_string(), "a5be7d5cbcaacb00672a8b6f45e8506d");
    }
}
