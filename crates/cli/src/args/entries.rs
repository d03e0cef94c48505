//! Arguments of the verbs that change the configuration: `add`, `remove`, `enable`, `disable`, `list` and `edit`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::duration;

/// `bowline add`
///
/// Connects to the server, shows what it is and offers, and writes an entry to your configuration if that worked.
#[derive(Debug, Args)]
#[command(
    override_usage = "bowline add [OPTIONS] [NAME] URL\n       \
                      bowline add [OPTIONS] [NAME] npm:PACKAGE|pypi:PACKAGE\n       \
                      bowline add [OPTIONS] [NAME] REGISTRY_NAME[@VERSION]\n       \
                      bowline add [OPTIONS] [NAME] INSTALL_LINK\n       \
                      bowline add [OPTIONS] [NAME] -- COMMAND [ARG]...",
    after_long_help = "\
The entry is added to your configuration file, or to the file of --config; comments and the order of the file stay as \
they are. Without NAME the name is made from the URL, the package, the name in the registry or the command.

`npm:` runs a package with `npx -y`, `pypi:` with `uvx`; `@scope/package` is one of npm. The command is shown, and \
started after a yes.

A name such as `io.github.owner/server` is looked up in the MCP registry, which says where the server is and what it \
needs. If there are several ways to use it, you choose one; without a terminal a URL is preferred. What is missing is \
asked for; -e, -H and --arg give it beforehand.

A link by which a page installs a server in Cursor (`cursor://…/mcp/install?…`) or VS Code (`vscode:mcp/install?…`) is \
read, and nothing is opened. Its whole entry is shown, and used after a yes. Write the link in single quotes.

A value may name a variable, which is filled in when the entry is used: -e 'TOKEN=${MY_TOKEN}'. With -e TOKEN the \
entry takes TOKEN from your environment; if it is not set, you are asked for it, and it is written into the entry. So is a variable that a value names and that \
is not set. A server that requires a login has you log in at once, if there is a terminal.

Examples:
  bowline add https://mcp.example.com/mcp
  bowline add docs https://mcp.example.com/mcp -H 'Authorization: Bearer ${DOCS_TOKEN}'
  bowline add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  bowline add npm:@modelcontextprotocol/server-everything
  bowline add pypi:mcp-server-fetch
  bowline add io.github.owner/server
  bowline add notes io.github.owner/server@1.2.0 --package npm -e API_KEY --arg folder=~/notes
  bowline add 'cursor://anysphere.cursor-deeplink/mcp/install?name=docs&config=eyJ1cmwiOiJodHRwczovL21jcC5leGFtcGxlLmNvbS9tY3AifQ=='"
)]
pub(crate) struct AddArgs {
    /// A name for the server, then a URL, a package, a name in the registry or an install link
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
    /// Trust the certificate authorities in this PEM file as well, for a URL
    #[arg(long, value_name = "PATH")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Give up connecting after this long, now and whenever the entry is used [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) connect_timeout: Option<Duration>,
    /// Accept messages of up to this many MiB, now and whenever the entry is used [default: 64]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) message_limit: Option<u32>,
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
    /// Replace an entry of that name
    #[arg(long)]
    pub(crate) replace: bool,
    /// Write the entry without connecting to the server
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Start the command of a package, or use the server of an install link, without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// A command that starts the server
    #[arg(last = true, value_name = "COMMAND", help_heading = None::<&str>)]
    pub(crate) command: Vec<String>,
}

/// What is asked of the registry, and which of its answers is used.
#[derive(Debug, Default, Args)]
pub(crate) struct RegistryArgs {
    /// Set an argument or a variable that a server of the registry takes
    #[arg(long = "arg", value_name = "NAME=VALUE")]
    pub(crate) arguments: Vec<String>,
    /// Use a server of the registry by its URL
    #[arg(long, conflicts_with = "package")]
    pub(crate) remote: bool,
    /// Use a server of the registry by its package of this kind
    #[arg(long, value_name = "KIND")]
    pub(crate) package: Option<PackageKind>,
    /// The registry that names are looked up in, instead of https://registry.modelcontextprotocol.io
    #[arg(long = "registry", value_name = "URL")]
    pub(crate) url: Option<String>,
}

/// The transport of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UrlTransport {
    /// Streamable HTTP
    Http,
    /// HTTP+SSE, of servers from before March 2025
    Sse,
}

/// A kind of package that can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PackageKind {
    /// npm, started with npx
    Npm,
    /// PyPI, started with uvx
    Pypi,
    /// A container image, started with docker
    Oci,
}

/// `bowline remove`
///
/// Removes entries from your configuration file, or from the file of --config, with the comments right above them. Logins
/// stay: `bowline logout` ends them.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The entries are removed from your configuration file; its comments and the order of the rest stay as they are. Files of \
secrets that `bowline import --store-secrets` made are removed when nothing refers to them any more. Logins are kept: \
`bowline logout NAME` ends one.

Examples:
  bowline remove docs
  bowline remove docs files")]
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
