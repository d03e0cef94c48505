//! Arguments of `bowline connect`. All options of `mcp-remote` are accepted, with the meaning that they have there.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{OauthArgs, TargetArgs, Verb, duration};

/// `bowline connect`
///
/// Speaks MCP on stdin and stdout, for a host to start in place of the server. Whatever happens to the
/// server, the host's session stays: a lost session is opened again, a crashed process is started again, and
/// the call that was under way gets its answer.
#[derive(Debug, Args)]
#[command(after_long_help = "\
In a host's configuration:
  { \"mcpServers\": { \"docs\": { \"command\": \"bowline\", \"args\": [\"connect\", \"https://mcp.example.com/mcp\"] } } }

In place of `npx mcp-remote URL …`, write `bowline connect URL …`: all its options are accepted, and a port after the \
URL is that of the redirect URI of a registered client. A login is never started here: run the `bowline login` command that \
the host is told.

Examples:
  bowline connect docs
  bowline connect https://mcp.example.com/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'
  bowline connect http://127.0.0.1:8080/mcp --reconnect-wait 1m    # one that takes long to start
  bowline connect docs --ignore-tool 'delete*' --ignore-tool drop
  bowline connect -- npx -y @modelcontextprotocol/server-everything")]
#[command(mut_arg("timeout", |timeout| timeout.help(TIMEOUT_HELP)))]
pub(crate) struct ConnectArgs {
    /// A configured name, or a URL; left out with `-- COMMAND`
    #[arg(value_name = "SERVER")]
    pub(crate) words: Vec<String>,
    /// Allow a URL that is not encrypted and not on this machine
    #[arg(long)]
    pub(crate) allow_http: bool,
    /// Hide this tool from the host, and refuse calls of it; `*` stands for anything; can be repeated
    #[arg(long = "ignore-tool", value_name = "PATTERN")]
    pub(crate) ignored_tools: Vec<String>,
    /// Send the headers in this file, one `Name: value` per line; `#` begins a comment
    #[arg(long = "header-file", value_name = "PATH")]
    pub(crate) header_files: Vec<PathBuf>,
    /// Send a ping when nothing was sent for 30 seconds
    #[arg(long)]
    pub(crate) keep_alive: bool,
    /// Send a ping when nothing was sent for this long [default: 3m]
    #[arg(long, value_name = "TIME", value_parser = duration::parse_any)]
    pub(crate) ping_interval: Option<Duration>,
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
    pub(crate) oauth: OauthArgs,
    #[command(flatten)]
    pub(crate) unused: UnusedArgs,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Of a call that a host made, the host decides how long it may be silent: it cancels what it no longer waits for.
const TIMEOUT_HELP: &str = "Give up a call when nothing is heard for this long; progress counts [default: the host \
     decides, within --max-timeout]";

/// Options of `mcp-remote` that have nothing to change here.
#[derive(Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag")]
pub(crate) struct UnusedArgs {
    /// Proxies of the environment are always used
    #[arg(long, hide = true)]
    enable_proxy: bool,
    #[arg(long, hide = true)]
    auth_timeout: Option<String>,
    #[arg(long, hide = true)]
    auth_success_url: Option<String>,
    #[arg(long, hide = true)]
    headers_timeout: Option<String>,
    #[arg(long, hide = true)]
    body_timeout: Option<String>,
    #[arg(long, hide = true)]
    token_endpoint: Option<String>,
    #[arg(long, hide = true)]
    ipv4: bool,
    #[arg(long, hide = true)]
    disable_cookies: bool,
    #[arg(long, hide = true)]
    use_id_token: bool,
    #[arg(long, hide = true)]
    device_code: bool,
}

impl UnusedArgs {
    /// Returns the options that were given although they change nothing, in words for a note. `--enable-proxy` is
    /// left out: what it asks for is done.
    pub(crate) fn note(&self) -> Option<String> {
        let Self {
            enable_proxy: _,
            auth_timeout,
            auth_success_url,
            headers_timeout,
            body_timeout,
            token_endpoint,
            ipv4,
            disable_cookies,
            use_id_token,
            device_code,
        } = self;
        let given: Vec<&str> = [
            ("--auth-timeout", auth_timeout.is_some()),
            ("--auth-success-url", auth_success_url.is_some()),
            ("--headers-timeout", headers_timeout.is_some()),
            ("--body-timeout", body_timeout.is_some()),
            ("--token-endpoint", token_endpoint.is_some()),
            ("--ipv4", *ipv4),
            ("--disable-cookies", *disable_cookies),
            ("--use-id-token", *use_id_token),
            ("--device-code", *device_code),
        ]
        .into_iter()
        .filter_map(|(option, is_given)| is_given.then_some(option))
        .collect();
        match &*given {
            [] => None,
            [option] => Some(format!("{option} has no effect in `bowline connect`")),
            options => Some(format!("{} have no effect in `bowline connect`", options.join(", "))),
        }
    }
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
