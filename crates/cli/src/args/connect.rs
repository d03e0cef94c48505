//! `bowline connect`: what can be typed. The flags of `mcp-remote` that people have in their
//! configurations mean here what they mean there.

use clap::{Args, ValueEnum};

use super::{TargetArgs, Verb};

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
    pub(crate) transport: Option<Strategy>,
    /// Log to stderr what happens
    #[arg(long)]
    pub(crate) debug: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Which transport to use for a server with a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strategy {
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
    /// How much is logged at least, as if `-v` had been said so often.
    pub(crate) fn verbosity(&self) -> u8 {
        match self {
            Self::Connect(args) if args.debug => 2,
            _ => 0,
        }
    }
}
