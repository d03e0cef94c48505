//! Arguments of `login`, `logout` and `auth`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{OauthArgs, UrlArgs};

/// `bowline login`
///
/// Logs in to a server that requires authentication, and stores the login. From then on every bowline command
/// uses and refreshes it: those that you run, and those that a host runs.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The address of the login page is always printed; where there is a browser, it is opened as well. Over SSH, or \
without a display, open it on any machine. You end up on a page that cannot be shown: copy its address and paste \
it here. If the server offers codes for other devices, one is used instead.

Without a terminal nobody can be asked: the address is printed and the command ends with exit code 5. Log in there, \
and run the command again with --finish, within 15 minutes.

Other verbs log you in as well, if the server requires it and there is a terminal.

Examples:
  bowline login docs
  bowline login https://mcp.example.com/mcp
  bowline login docs --device
  bowline login docs --scope files:write
  bowline login https://mcp.example.com/mcp 9696 --static-oauth-client-info @client.json
  bowline login docs --finish 'http://127.0.0.1:49152/callback?code=…&state=…'")]
pub(crate) struct LoginArgs {
    /// A configured name, or a URL
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,
    /// The port of the redirect URI of a registered client (with --static-oauth-client-info)
    #[arg(value_name = "PORT", requires = "client_info")]
    pub(crate) port: Option<u16>,
    /// Log in with a code that you enter on another device
    #[arg(long, conflicts_with = "finish")]
    pub(crate) device: bool,
    /// Ask for this scope as well; can be repeated
    #[arg(long = "scope", value_name = "SCOPE", conflicts_with = "finish")]
    pub(crate) scopes: Vec<String>,
    /// Do not open a browser
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Finish a login that was started without a terminal, with the URL you were redirected to; `-` reads it from stdin
    #[arg(long, value_name = "URL")]
    pub(crate) finish: Option<String>,
    /// Send this header with every request to the server
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    #[command(flatten)]
    pub(crate) url: UrlArgs,
    #[command(flatten)]
    pub(crate) oauth: OauthArgs,
}

/// `bowline logout`
///
/// Revokes a login at the authorization server, where that is supported, and deletes it here.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bowline logout docs
  bowline logout --all")]
pub(crate) struct LogoutArgs {
    /// Configured names, or URLs
    #[arg(value_name = "SERVER", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) servers: Vec<String>,
    /// All stored logins
    #[arg(long)]
    pub(crate) all: bool,
}

/// `bowline auth`
///
/// Lists your logins, when they expire, and where they are stored.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  bowline auth
  bowline auth --json | jq -r '.logins[] | select(.by == \"login\" and .state != \"ok\") | .server'
  bowline auth export docs -o docs.login     # then, where there is no browser:
  bowline auth import docs.login

In a pipe each login is a line: server, account, state, when it ends, whether it is refreshed automatically, when it was \
last refreshed, authorization server, scopes, separated by tabs."
)]
pub(crate) struct AuthArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<AuthVerb>,
}

/// What to do with logins.
#[derive(Debug, Subcommand)]
pub(crate) enum AuthVerb {
    /// Write logins into a file, encrypted with a passphrase, to take them to another machine
    Export(ExportArgs),
    /// Import the logins from such a file
    Import(ImportArgs),
    /// Print the client metadata document, to publish at a URL of yours
    Document(DocumentArgs),
}

/// `bowline auth export`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Use a login on one machine only: most servers issue a new refresh token at each refresh, and take a second use of the \
old one for theft. `bowline logout` ends a login everywhere.

Examples:
  bowline auth export -o logins                      all of them
  bowline auth export docs search -o logins          these two
  bowline auth export -o - | ssh build 'bowline auth import - --passphrase-file ~/.passphrase'")]
pub(crate) struct ExportArgs {
    /// Configured names, or URLs [default: all]
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,
    /// The file to write, which only you can read; `-` for stdout
    #[arg(short, long = "out", value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseArgs,
}

/// `bowline auth import`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bowline auth import logins
  bowline auth import - --passphrase-file ~/.passphrase")]
pub(crate) struct ImportArgs {
    /// What `bowline auth export` has written; `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Replace newer logins, too
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseArgs,
}

/// Where the passphrase comes from. Never an argument: others can see those.
#[derive(Debug, Args)]
pub(crate) struct PassphraseArgs {
    /// Read the passphrase from the first line of this file [default: BOWLINE_PASSPHRASE, or you are asked]
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
}

/// `bowline auth document`
#[derive(Debug, Args)]
#[command(after_long_help = "\
An authorization server that knows Client ID Metadata Documents takes the URL of one for a client's id, and nothing \
needs to be registered. Publish what is printed at exactly this URL, then name it in the configuration:

  [auth]
  client_metadata_url = \"https://example.org/bowline.json\"

Examples:
  bowline auth document https://example.org/bowline.json > bowline.json")]
pub(crate) struct DocumentArgs {
    /// Where it will be found: https, with a path
    #[arg(value_name = "URL")]
    pub(crate) url: String,
}
