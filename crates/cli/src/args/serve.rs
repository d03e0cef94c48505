//! Arguments of `bowline serve`.

use clap::Args;

/// `bowline serve`
///
/// Speaks MCP on stdin and stdout, for a host to start as its only server. The host gets the tools, prompts and
/// resources of all servers, and keeps its session whatever happens to them: a lost session is opened again, a
/// crashed process is started again, and the call that was under way gets its answer.
#[derive(Debug, Args)]
#[command(after_long_help = "\
A host is answered at once, from what the servers offered when they were last connected; it is told when that has \
changed. A server that is down keeps its place in the lists, whose `_meta` says which servers could not be asked.

A name that two servers have is prefixed with the name of its server, as in `docs__search`. Names are at most 50 \
characters of A-Z a-z 0-9 _ -, so that every model accepts them behind the prefix of every host.

In a host's configuration:
  { \"mcpServers\": { \"bowline\": { \"command\": \"bowline\", \"args\": [\"serve\", \"--stdio\"] } } }

Examples:
  bowline serve --stdio                    all configured servers
  bowline serve --stdio files docs         these two
  bowline serve --stdio --prefix           every name with the name of its server")]
pub(crate) struct ServeArgs {
    /// Configured names, or URLs [default: all that are configured]
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,
    /// Serve the host that starts this command, on stdin and stdout
    #[arg(long, required = true)]
    pub(crate) stdio: bool,
    /// Put the name of its server before every name, and not only where two servers have the same one
    #[arg(long)]
    pub(crate) prefix: bool,
}
