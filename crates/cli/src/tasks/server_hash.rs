//! Hashes what distinguishes servers of the same name. It is a hash because URLs and arguments
//! often hold keys.

use std::fmt::Write as _;

use bowline::Server;
use bowline::config::Transport;
use ring::digest::{Context, SHA256};

/// Hashes the command or URL of a server, the same way in every run. Credentials are left out,
/// since they change.
pub(super) fn hash_server(server: &Server) -> String {
    match &server.transport {
        Transport::Stdio(stdio) => {
            let cwd = stdio.cwd.as_ref().map(|cwd| cwd.display().to_string()).unwrap_or_default();
            let mut parts = vec!["stdio", &stdio.command, &cwd];
            parts.extend(stdio.args.iter().map(String::as_str));
            hash_parts(&parts)
        }
        Transport::Http(http) | Transport::Sse(http) => {
            let socket = http.socket.as_ref().map(|socket| socket.display().to_string());
            let mut parts = vec!["http", http.url.as_str()];
            parts.extend(socket.as_deref());
            hash_parts(&parts)
        }
        other => hash_parts(&[other.as_str(), &server.name]),
    }
}

/// Hashes several texts with their boundaries.
pub(super) fn hash_parts(parts: &[&str]) -> String {
    let mut hash = Context::new(&SHA256);
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let mut text = String::with_capacity(2 * HASH_BYTES);
    for byte in &hash.finish().as_ref()[..HASH_BYTES] {
        write!(text, "{byte:02x}").expect("writing to a string");
    }
    text
}

/// Length of the hash; enough that nobody finds a second server for it.
const HASH_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_config::TransportSettings as _;

    #[test]
    fn what_is_started_differently_is_another_server() {
        let base = Server::stdio("s", "run").args(["a", "b"]).build().unwrap();
        for other in [
            Server::stdio("s", "run").args(["ab"]).build().unwrap(),
            Server::stdio("s", "run").args(["a"]).build().unwrap(),
            Server::stdio("s", "runa").args(["b"]).build().unwrap(),
        ] {
            assert_ne!(hash_server(&base), hash_server(&other));
        }
        #[cfg(unix)]
        {
            let server = |path: &str| Server::http("s", "http://h/").socket(path).build().unwrap();
            assert_ne!(hash_server(&server("/a")), hash_server(&server("/b")));
        }
        let with_key = base.clone().with_env("TOKEN", "new").unwrap();
        assert_eq!(hash_server(&base), hash_server(&with_key));
        // The hash is stored in files and must never change.
        assert_eq!(hash_parts(&["a", "b"]), hash_parts(&["a", "b"]));
        assert_eq!(hash_parts(&["a", "b"]).len(), 32);
    }
}
