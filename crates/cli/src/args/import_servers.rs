//! Arguments of `bowline import`.

use clap::Args;

/// `bowline import`
///
/// Finds the servers that other MCP hosts on this machine have configured, shows what would become of each, and adds
/// them to your configuration after a yes. Nothing is started, and nothing is requested from a server.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag")]
#[command(
    override_usage = "bowline import [OPTIONS] [HOST|FILE]...",
    after_long_help = "\
Without HOST and FILE, the files of all hosts are read, and those of the project that you are in. HOST is one of \
claude-code, claude-desktop, opencode, codex, cursor, vscode, gemini, qwen, goose, hermes, zed, windsurf, copilot and \
mcporter.

A server that two hosts have is added once. If they differ under the same name, the second one gets the name of its \
host: github-cursor. An entry of your own that differs stays, unless you say --replace. A server that needs something \
first, such as a variable that is not set, is added but not enabled. `npx mcp-remote URL` becomes an entry with that \
URL.

Secrets are never shown. They are copied into your configuration. With --store-secrets each one is written, unencrypted, to a \
file of its own in the folder `secrets` beside the configuration, which only you can read (0600), and the entry refers to \
it as `{file:secrets/NAME}`.

Examples:
  bowline import
  bowline import --dry-run
  bowline import cursor vscode --yes
  bowline import ./mcp.json --store-secrets"
)]
pub(crate) struct ImportServersArgs {
    /// Hosts whose files are read, or files
    #[arg(value_name = "HOST|FILE")]
    pub(crate) sources: Vec<String>,
    /// Import without asking
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
    /// Show what would be done, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Replace entries of the same name that differ
    #[arg(long)]
    pub(crate) replace: bool,
    /// Write each secret to a private file (0600) that the configuration refers to
    #[arg(long)]
    pub(crate) store_secrets: bool,
    /// Read only the files of the project that you are in
    #[arg(long)]
    pub(crate) project: bool,
}
