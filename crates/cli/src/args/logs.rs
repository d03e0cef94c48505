//! Arguments of `bowline logs`.

use bowline::types::LogLevel;
use clap::Args;

use super::{HandlerArgs, ServerArgs};

/// `bowline logs`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Stays connected until Ctrl-C, also when the server is restarted. Each message is a line: when, which level, \
which part of the server, and what. What a server that is started by a command writes to stderr is printed as well, \
with `stderr` in place of the level.

A server that speaks 2026-07-28 or later logs only what it does for a request, and only if that asks for it: \
use `bowline call --log-level LEVEL` there.

Levels, from the least: debug, info, notice, warning, error, critical, alert, emergency.

Examples:
  bowline logs files
  bowline logs files --level warning
  bowline logs --json files | jq -r 'select(.logger == \"db\") | .data'
  bowline logs -- node server.js
  bowline call files search query=knots --log-level debug")]
pub(crate) struct LogsArgs {
    /// The lowest level to print
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = level)]
    pub(crate) level: LogLevel,
    #[command(flatten)]
    pub(crate) host: HandlerArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Parses the name of a log level.
pub(super) fn level(text: &str) -> Result<LogLevel, String> {
    let all = "debug, info, notice, warning, error, critical, alert, emergency";
    LogLevel::from_name(text).ok_or_else(|| format!("not a level; there are {all}"))
}
