//! Arguments of the verbs that change the configuration: `add`, `remove`, `enable`, `disable`, `list` and `edit`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `bowline add`
///
/// Connects to the server, shows what it is and offers, and writes an entry to your configuration if that worked.
#[derive(Debug, Args)]
#[command(
    override_usage = "bowline add [OPTIONS] [NAME] URL\n       \
                      bowline add [OPTIONS] [NAME] npm:PACKAGE|pypi:PACKAGE\n       \
                      bowline add [OPTIONS] [NAME] -- COMMAND [ARG]...",
    after_long_help = "\
The entry is added to your configuration file, or to the file of --config; comments and the order of the file stay as \
they are. Without NAME the name is made from the URL, the package or the command.

`npm:` runs a package with `npx -y`, `pypi:` with `uvx`; `@scope/package` is one of npm. The command is shown, and \
started after a yes.

A value may name a variable, which is filled in when the entry is used: -e 'TOKEN=${MY_TOKEN}'. With -e TOKEN the \
entry takes TOKEN from your environment; if it is not set, you are asked for it, and it is written into the entry.

Examples:
  bowline add https://mcp.example.com/mcp
  bowline add docs https://mcp.example.com/mcp -H 'Authorization: Bearer ${DOCS_TOKEN}'
  bowline add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  bowline add npm:@modelcontextprotocol/server-everything
  bowline add pypi:mcp-server-fetch"
)]
pub(crate) struct AddArgs {
    /// A name for the server, then a URL or a package
    #[arg(value_name = "NAME URL", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// Send this header with every request, for a server with a URL
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// Set this in the environment of a server that is started; KEY alone takes it from yours
    #[arg(short = 'e', long = "env", value_name = "KEY[=VALUE]")]
    pub(crate) envs: Vec<String>,
    /// The folder in which the command runs
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The transport of a URL, if it must be fixed
    #[arg(long, value_name = "WHICH")]
    pub(crate) transport: Option<UrlTransport>,
    /// Replace an entry of that name
    #[arg(long)]
    pub(crate) replace: bool,
    /// Write the entry without connecting to the server
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Start the command of a package without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// A command that starts the server
    #[arg(last = true, value_name = "COMMAND", help_heading = None::<&str>)]
    pub(crate) command: Vec<String>,
}

/// The transport of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UrlTransport {
    /// Streamable HTTP
    Http,
    /// HTTP+SSE, of servers from before March 2025
    Sse,
}

/// `bowline remove`
///
/// Removes entries from your configuration file, or from the file of --config, with the comments right above them. Logins
/// stay: `bowline logout` ends them.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Names of servers
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
}

/// `bowline enable` and `bowline disable`
///
/// Changes `enabled` of entries of your configuration file, or of the file of --config. A disabled server stays in the
/// file and is used by nothing.
#[derive(Debug, Args)]
pub(crate) struct ToggleArgs {
    /// Names of servers
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
}
