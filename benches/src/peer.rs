//! Defines which clients are compared, and how the process of each is started.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::scenario::Scenario;

/// Environment variable: the Node binary that runs the TypeScript client.
const NODE_VARIABLE: &str = "BOWLINE_NODE";
/// Environment variable: the folder whose `node_modules` holds the TypeScript client.
const NODE_MODULES_VARIABLE: &str = "BOWLINE_BENCH_NODE_MODULES";
/// Environment variable: the Python that has the Python client installed.
const PYTHON_VARIABLE: &str = "BOWLINE_BENCH_PYTHON";

/// A client under measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Peer {
    /// No client at all: prebuilt bytes out, bytes in. Only the start-up scenarios parse the lists.
    Floor,
    /// This library.
    Bowline,
    /// rmcp with its defaults.
    Rmcp,
    /// rmcp with an HTTP client of the caller that keeps connections alive.
    RmcpPooled,
    /// The TypeScript client on Node.
    Typescript,
    /// The Python client.
    Python,
}

/// How to start a leg: a program and the arguments that precede the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LaunchCommand {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
}

// === impl Launch ===

impl LaunchCommand {
    /// Starts the leg with a job. The caller reads both of its outputs.
    pub(crate) fn start(&self, job: &str) -> io::Result<Child> {
        Command::new(&self.program)
            .args(&self.args)
            .arg(job)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }
}

// === impl Peer ===

impl Peer {
    pub(crate) const ALL: [Self; 6] =
        [Self::Floor, Self::Bowline, Self::Rmcp, Self::RmcpPooled, Self::Typescript, Self::Python];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Bowline => "bowline",
            Self::Rmcp => "rmcp",
            Self::RmcpPooled => "rmcp-pooled",
            Self::Typescript => "typescript",
            Self::Python => "python",
        }
    }

    /// Whether the scenario is meaningful for this client: a connection pool means nothing to a
    /// pipe, and only this library has a relay.
    pub(crate) fn takes_part_in(self, scenario: Scenario) -> bool {
        match scenario {
            Scenario::Relay => self == Self::Bowline,
            // Memory and time of a garbage-collected runtime say little beside the Rust legs.
            Scenario::Idle | Scenario::OpenLegacy { .. } => !matches!(self, Self::Typescript | Self::Python),
            // The others send the same requests, whether they know the server or not.
            Scenario::OpenUnknown { .. } => matches!(self, Self::Floor | Self::Bowline),
            _ => !(self == Self::RmcpPooled && scenario.is_stdio()),
        }
    }

    /// Returns how to start this client, or why it cannot run here.
    pub(crate) fn launch(self, env: impl Fn(&str) -> Option<String>) -> Result<LaunchCommand, String> {
        let need = |name: &str| env(name).filter(|v| !v.is_empty()).ok_or(format!("{name} is not set"));
        match self {
            Self::Floor | Self::Bowline | Self::Rmcp | Self::RmcpPooled => Ok(LaunchCommand {
                program: std::env::current_exe().map_err(|e| e.to_string())?,
                args: vec!["client".into(), self.name().into()],
            }),
            Self::Typescript => {
                let node = need(NODE_VARIABLE)?;
                let modules = need(NODE_MODULES_VARIABLE)?;
                // Garbage collection on demand makes the memory figure that of live objects.
                let args = vec!["--expose-gc".into(), script("typescript.mjs"), modules];
                Ok(LaunchCommand { program: node.into(), args })
            }
            Self::Python => {
                Ok(LaunchCommand { program: need(PYTHON_VARIABLE)?.into(), args: vec![script("python.py")] })
            }
        }
    }
}

fn script(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_without_its_environment_says_what_is_missing() {
        let nothing = |_: &str| None;
        assert_eq!(Peer::Typescript.launch(nothing), Err("BOWLINE_NODE is not set".into()));
        assert_eq!(Peer::Python.launch(nothing), Err("BOWLINE_BENCH_PYTHON is not set".into()));

        let node_only = |name: &str| (name == NODE_VARIABLE).then(|| "node".to_owned());
        assert_eq!(Peer::Typescript.launch(node_only), Err("BOWLINE_BENCH_NODE_MODULES is not set".into()));
    }

    #[test]
    fn names_match_the_command_line() {
        for peer in Peer::ALL {
            assert_eq!(Peer::from_str(peer.name(), false), Ok(peer));
        }
    }
}
