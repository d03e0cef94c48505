//! Arguments of `bowline connect`. The flags that `mcp-remote` also has mean the same as there.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{TargetArgs, Verb, duration};

/// `bowline connect`
///
/// Speaks MCP on stdin and stdout, for a host to start in place of the server. Whatever happens to the
/// server, the host's session stays: a lost session is opened again, a crashed process is started again, and
/// the call that was under way gets its answer.
#[derive(Debug, Args)]
#[command(after_long_help = "\
In a host's configuration:
  { \"mcpServers\": { \"docs\": { \"command\": \"bowline\", \"args\": [\"connect\", \"https://mcp.example.com/mcp\"] } } }

Examples:
  bowline connect docs
  bowline connect https://mcp.example.com/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'
  bowline connect http://127.0.0.1:8080/mcp --reconnect-wait 1m    # one that takes long to start
  bowline connect -- npx -y @modelcontextprotocol/server-everything")]
pub(crate) struct ConnectArgs {
    /// A configured name, or a URL; left out with `-- COMMAND`. A port after it is ignored
    #[arg(value_name = "SERVER")]
    pub(crate) words: Vec<String>,
    /// Allow a URL that is not encrypted and not on this machine
    #[arg(long)]
    pub(crate) allow_http: bool,
    /// Which transport to use for a server with a URL
    #[arg(long, value_name = "WHICH")]
    pub(crate) transport: Option<TransportStrategy>,
    /// Let a call wait this long for a server that is away, before it fails [default: 10s]
    ///
    /// A server that restarts is away for as long as it takes to start. A call that comes meanwhile is sent when the
    /// server is back, if that is within this time and within the limits of the call; else the host gets an error that
    /// says that nothing was executed. 0 fails at once. The same as `reconnect_wait` in the server's entry.
    #[arg(long, value_name = "TIME", value_parser = duration::parse_any)]
    pub(crate) reconnect_wait: Option<Duration>,
    /// Log to stderr what happens
    #[arg(long)]
    pub(crate) debug: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Which transport to use for a server with a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportStrategy {
    /// Streamable HTTP, or HTTP+SSE where that is refused
    HttpFirst,
    /// The same: Streamable HTTP is taken where both are there
    SseFirst,
    /// Streamable HTTP
    HttpOnly,
    /// HTTP+SSE
    SseOnly,
}

impl Verb {
    /// Returns the lowest log verbosity of this verb, counted as repetitions of `-v`.
    pub(crate) fn min_verbosity(&self) -> u8 {
        match self {
            Self::Connect(args) if args.debug => 2,
            _ => 0,
        }
    }
}
