//! Arguments of `bowline doctor`.

use std::path::PathBuf;

use clap::Args;

use super::TargetArgs;

/// `bowline doctor`
///
/// Checks the installation and all configured servers; with SERVER, that one alone. No tool is called, nothing is
/// changed, and servers of a project's file that is not trusted are not started.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Each check says how long it took, what was seen, whose fault it is, and what fixes it, where possible as a command. A \
check that cannot be made because an earlier one failed is skipped.

Checks of the installation: version, configuration, trust, state, store, logins, clock, processes, daemon
Checks of a server with a URL: configuration, proxy, dns, tcp (or socket), tls, challenge, resource_metadata, \
authorization_server, pkce, dpop, client, login, connection, era, requests, keepalive, session, clock
Checks of a command: configuration, program, connection, era, requests, keepalive, session, output, shutdown

The exit code is 0 if no check failed; a warning is no failure. Else it is that of the worst: a server cannot be \
reached, started or understood (3), a time limit ran out (4), a login is required (5), a server answers with errors \
(6), or the configuration or this machine has to be fixed (2).

Examples:
  bowline doctor                                 everything that is configured
  bowline doctor docs                            one server, step by step
  bowline doctor https://mcp.example.com/mcp
  bowline doctor -- npx -y @modelcontextprotocol/server-everything
  bowline doctor --json | jq -r '.servers[] | select(.ok | not) | .name'
  bowline doctor docs --report                   a file without secrets, to attach to a bug

In a pipe each check is a line: server (or `-`), check, status, time, whose fault, what was seen, what to do, the \
command, separated by tabs.")]
pub(crate) struct DoctorArgs {
    /// A configured name, or a URL; left out with `-- COMMAND` [default: all that are configured]
    #[arg(value_name = "SERVER")]
    pub(crate) words: Vec<String>,
    /// Write a report without secrets, to attach to a bug [default name: bowline-doctor.md]
    ///
    /// An existing file is not overwritten. Only you can read the file.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_REPORT_NAME)]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

const DEFAULT_REPORT_NAME: &str = "bowline-doctor.md";
