//! Arguments of `install` and `uninstall`, which change the configuration files of hosts.

use std::path::PathBuf;

use bowline_hosts::{Host, Scope};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

/// `bowline install`
///
/// Writes one entry into the configuration file of a host, so that the host starts `bowline serve --stdio` and has all
/// your servers. Shows what it would change, and asks. Without HOST it lists the hosts that were found.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Nothing else in the file is changed, not one byte: comments, order and indentation stay. The file as it was is kept in \
bowline's state folder, and `bowline uninstall` restores it. If the file changes between the preview and your answer, \
nothing is written. Values in the file may be secrets, so the preview shows `…` in their place.

The entry names bowline by its path for hosts that are started from a desktop, which often have another PATH than your \
shell, and where bowline is not on PATH; otherwise it says `bowline`. If bowline was started with npx or uvx, the entry \
starts it in that way. A configuration that was named with --config is passed on.

With --servers the host gets one entry for each of these servers, `bowline connect NAME`, under the name of the server.

Examples:
  bowline install                                  # which hosts are there
  bowline install claude-code
  bowline install cursor opencode --yes
  bowline install codex --dry-run                  # only the preview
  bowline install vscode --scope project           # in .vscode/mcp.json of this folder
  bowline install zed --view review --name review
  bowline install gemini --servers docs,files")]
pub(crate) struct InstallArgs {
    /// Hosts, by name
    #[arg(value_name = "HOST", value_parser = host_parser(), hide_possible_values = true, help = HOSTS_HELP.as_str())]
    pub(crate) hosts: Vec<Host>,
    /// Write an entry for each of these servers, in place of one for all of them
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "hosts")]
    pub(crate) servers: Vec<String>,
    /// Serve the host this view of the servers, which the configuration defines as [views.NAME]
    #[arg(long, value_name = "VIEW", requires = "hosts", conflicts_with = "servers")]
    pub(crate) view: Option<String>,
    /// Remove the entries of servers that bowline serves from now on, so that the host has them once
    #[arg(long, requires = "hosts", conflicts_with = "view")]
    pub(crate) replace_servers: bool,
    #[command(flatten)]
    pub(crate) file: HostFileArgs,
}

/// `bowline uninstall`
///
/// Restores the configuration file of a host as it was before `bowline install`. If the file has changed since, only the
/// entries of bowline are removed, and everything else stays as it is.
#[derive(Debug, Args)]
#[command(after_long_help = "\
If `bowline install` was never used with the file, entries that were written by hand are removed: those that start \
`bowline serve --stdio` or `bowline connect`. What would be changed is shown, and you are asked. If the file changes between the preview and your answer, nothing is \
written.

Examples:
  bowline uninstall claude-code
  bowline uninstall cursor --dry-run
  bowline uninstall vscode --scope project --yes")]
pub(crate) struct UninstallArgs {
    /// Hosts, by name
    #[arg(value_name = "HOST", value_parser = host_parser(), required = true, hide_possible_values = true, help = HOSTS_HELP.as_str())]
    pub(crate) hosts: Vec<Host>,
    #[command(flatten)]
    pub(crate) file: HostFileArgs,
}

/// Which file of a host is changed, and whether that is asked about.
#[derive(Debug, Args)]
pub(crate) struct HostFileArgs {
    /// Whose file: yours, or that of the project in this folder
    #[arg(long, value_name = "SCOPE", default_value = "user", conflicts_with = "path")]
    pub(crate) scope: FileScope,
    /// This file, in the format of the host
    #[arg(id = "path", long = "file", value_name = "PATH", requires = "hosts")]
    pub(crate) path: Option<PathBuf>,
    /// The name of the entry [default: bowline]
    #[arg(long, value_name = "NAME", value_parser = parse_entry_name, requires = "hosts")]
    pub(crate) name: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Show what would be changed, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

/// Whose file is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileScope {
    /// The file of the user
    User,
    /// The file of the project in the current folder
    Project,
}

impl From<FileScope> for Scope {
    fn from(scope: FileScope) -> Self {
        match scope {
            FileScope::User => Self::User,
            FileScope::Project => Self::Project,
        }
    }
}

static HOSTS_HELP: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    let ids: Vec<&str> = Host::ALL.map(Host::id).to_vec();
    format!("Hosts: {}", ids.join(", "))
});

fn host_parser() -> impl TypedValueParser<Value = Host> {
    PossibleValuesParser::new(Host::ALL.map(Host::id))
        .try_map(|id| Host::from_id(&id).ok_or_else(|| "there is no such host".to_owned()))
}

/// Hosts show this name, and put it before the names of tools.
fn parse_entry_name(name: &str) -> Result<String, String> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_valid) {
        return Err(format!("at most {MAX_NAME_BYTES} of A-Z a-z 0-9 _ -"));
    }
    Ok(name.to_owned())
}

const MAX_NAME_BYTES: usize = 50;
