//! Arguments of the verbs that act on several servers: `status`, `watch` and `ps`.

use std::time::Duration;

use clap::Args;

use super::{UrlArgs, duration};

/// `bowline status`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Connects to all of them at the same time; one that is dead or slow delays no other. The exit code is 0 \
if all enabled servers are ready, otherwise that of the worst failure: not reached (3), no answer in time (4), a \
login is required (5), an entry that cannot be used (2). Hooks are run with --watch only.

Examples:
  bowline status                     all configured servers
  bowline status files search        these two
  bowline status --json | jq -r '.servers[] | select(.state != \"ready\") | .name'
  bowline status --watch             stay connected and show changes; Ctrl-C ends it

In a pipe each server is a line: name, state, protocol, transport, uptime, recoveries, next attempt, \
last error, separated by tabs. With --watch there is a line, or with --json an object, for each change.")]
pub(crate) struct StatusArgs {
    /// Configured names, or URLs [default: all that are configured]
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,
    /// Stay connected, show status changes, and run their hooks
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Print what is known after this long, whether all have answered or not
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse, conflicts_with = "watch")]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) url: UrlArgs,
}

/// `bowline watch`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Stays connected until Ctrl-C. Each event is one line: when, which server, what, how long it could not \
be called, and why.

Events:
  connected      calls can be sent
  disconnected   the server cannot be reached, or its process ended; it is tried again
  session_lost   the server forgot the session; a new one is opened at once
  recovered      calls can be sent again
  needs_login    a person has to log in
  tools_changed  the list of tools has changed
  failed         trying again cannot help

Hooks in the configuration are run on them:
  [[hooks]]                          # for all servers; [[servers.NAME.hooks]] for one
  on = [\"failed\", \"needs_login\"]
  command = \"notify-send\"
  args = [\"an MCP server needs you\"]

Examples:
  bowline watch                      all configured servers
  bowline watch files https://mcp.example.com/mcp
  bowline watch --json | jq -r 'select(.event == \"recovered\") | .outage_ms'")]
pub(crate) struct WatchArgs {
    /// Configured names, or URLs [default: all that are configured]
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,
    /// Print notifications of the servers as well
    #[arg(long)]
    pub(crate) notifications: bool,
    #[command(flatten)]
    pub(crate) url: UrlArgs,
}

/// `bowline ps`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Lists what every running bowline of this user has started, and all that these started in turn.

A server ends with the bowline that started it, even if that is killed. If one is left nevertheless, \
its owner is shown as gone, and --clean ends it. It ends nothing else: a process counts as left behind \
only if it is provably the one that was started.

Examples:
  bowline ps
  bowline ps --json | jq '[.servers[].memory] | add'
  bowline ps --clean")]
pub(crate) struct PsArgs {
    /// End servers whose bowline process is gone
    #[arg(long)]
    pub(crate) clean: bool,
}
