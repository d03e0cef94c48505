//! Arguments of `trust` and `untrust`, which are about a project's configuration file.

use std::path::PathBuf;

use clap::Args;

/// `bowline trust`
///
/// Nothing of a project's `bowline.toml` or `.mcp.json` is used before you trust it: it can start any program, and
/// send any of your environment variables and files anywhere.
#[derive(Debug, Args)]
#[command(after_long_help = "\
What is remembered is where the file is and every byte in it. When it changes, nothing of it is used until you have \
been asked again. A file that others could change is never trusted: it and the folders above it must belong to you or \
to root, and nobody else may write to them.

Examples:
  bowline trust                    # the nearest bowline.toml and .mcp.json, here or above
  bowline trust ~/src/project
  bowline trust --yes              # for scripts that know what is in it
  bowline trust --list")]
pub(crate) struct TrustArgs {
    /// The file or its folder [default: the nearest `bowline.toml` and `.mcp.json`, here or above]
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// List the files that you trust
    #[arg(long, conflicts_with_all = ["path", "yes"])]
    pub(crate) list: bool,
}

/// `bowline untrust`
///
/// From then on nothing of the project's `bowline.toml` and `.mcp.json` is used. They need not exist any more.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bowline untrust                  # the nearest bowline.toml and .mcp.json, here or above
  bowline untrust ~/src/project")]
pub(crate) struct UntrustArgs {
    /// The file or its folder [default: the nearest `bowline.toml` and `.mcp.json`, here or above]
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
}
