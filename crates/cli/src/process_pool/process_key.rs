//! [`ProcessKey`]: whether a process that `bowline serve` keeps is the one that a command would start. It is a hash
//! over everything that a process is started with, so that secrets in it cannot be read.

use std::hash::Hash as _;
use std::path::{Path, PathBuf};

use bowline::Server;
use bowline::config::Program;
use serde::{Deserialize, Serialize};

use crate::key_hasher::{KeyHasher, program_variables};

/// What a process is started with (command, arguments, variables and configured folder), for which server, and how
/// much is read of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct ProcessKey(String);

impl ProcessKey {
    /// The key of the program of a server, as this process would start it.
    pub(super) fn new(server: &Server, program: &Program) -> Self {
        let mut hasher = KeyHasher::default();
        // Another version may speak another protocol.
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        (&server.name, server.message_limit).hash(&mut hasher);
        program.hash(&mut hasher);
        program_variables().hash(&mut hasher);
        Self(hasher.finish_hex())
    }
}

/// The folder that a program runs in, if it depends on where it is started. `Err` if that folder is not known, or has
/// a name that cannot be sent.
pub(super) fn starting_folder(program: &Program) -> Result<Option<PathBuf>, ()> {
    if program.cwd.as_deref().is_some_and(Path::is_absolute) {
        return Ok(None);
    }
    let folder = std::env::current_dir().map_err(|_| ())?;
    let folder = program.cwd.as_deref().map_or_else(|| folder.clone(), |cwd| folder.join(cwd));
    if folder.to_str().is_some() { Ok(Some(folder)) } else { Err(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(server: &Server) -> ProcessKey {
        ProcessKey::new(server, server.transport.program().unwrap())
    }

    #[test]
    fn everything_that_a_process_is_started_with_counts() {
        let server = Server::stdio("s", "run").build().unwrap();
        for other in [
            Server::stdio("s", "walk").build().unwrap(),
            Server::stdio("s", "run").args(["x"]).build().unwrap(),
            server.clone().with_env("TOKEN", "hunter2").unwrap(),
            server.clone().with_cwd("/tmp").unwrap(),
            server.clone().with_message_limit(1),
            Server::stdio("t", "run").build().unwrap(),
        ] {
            assert_ne!(key(&server), key(&other));
        }
        // What decides how a client uses it does not.
        assert_eq!(key(&server), key(&server.clone().with_keepalive(None)));
        assert_eq!(key(&server).0.len(), 64);
    }

    #[test]
    fn a_program_with_an_absolute_folder_runs_there_from_everywhere() {
        let server = Server::stdio("s", "run").build().unwrap();
        let here = std::env::current_dir().unwrap();
        let folder = |server: &Server| starting_folder(server.transport.program().unwrap()).unwrap();
        assert_eq!(folder(&server), Some(here.clone()));
        assert_eq!(folder(&server.clone().with_cwd("below").unwrap()), Some(here.join("below")));
        assert_eq!(folder(&server.with_cwd("/tmp").unwrap()), None);
    }
}
