//! Arguments of `bowline serve`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::duration;

/// Options that say how hosts reach a socket. Those of a Unix socket exist only where there are any;
/// they come last.
const STDIO_CONFLICTS: &[&str] = {
    let all: &[&str] = &[
        "listen",
        "token_file",
        "no_token",
        "allow_host",
        "allow_remote",
        "drain",
        "exit_when_idle",
        "session_idle",
        "socket",
        "detached",
    ];
    if cfg!(unix) { all } else { all.split_at(8).0 }
};

/// `bowline serve`
///
/// Serves the tools, prompts and resources of all servers to hosts, as one MCP server. A host keeps its session
/// whatever happens to the servers: a lost session is opened again, a crashed process is started again, and the call
/// that was under way gets its answer.
#[derive(Debug, Args)]
#[command(after_long_help = "\
With --stdio all hosts with the same configuration share one daemon in the background, which is started if there is none, \
and again if it was killed: a host keeps its session. It ends when it has had no host for five minutes. Where there are no \
Unix sockets, each host is served alone.

Without --stdio it runs until Ctrl-C or SIGTERM and serves any number of hosts over Streamable HTTP, and over HTTP+SSE at \
/sse. They need the token that is made at the first start and kept in a file of yours, whose path is shown.

A host is answered at once, from what the servers offered when they were last connected; it is told when that has \
changed. A server that is down keeps its place in the lists, whose `_meta` says which servers could not be asked.

A name that two servers have is prefixed with the name of its server, as in `docs__search`. Names are at most 50 \
characters of A-Z a-z 0-9 _ -, so that every model accepts them behind the prefix of every host.

A changed configuration is taken over while it runs, and on SIGHUP at once: servers that are as before are not touched, and \
hosts keep their sessions. A file that is not valid changes nothing, and a note says why.

Commands such as `bowline call` use the processes of servers that it keeps running, unless they are given --no-daemon.

A view shows a host a part of the servers, and nothing else can be reached through it. It is defined as [views.NAME] in \
your configuration, and selected with --view, or over HTTP by the path /mcp/NAME or by the token of the view. A host that \
selects none gets the view with the folder that it works in, if a view names it (`roots`).

In a host's configuration:
  { \"mcpServers\": { \"bowline\": { \"command\": \"bowline\", \"args\": [\"serve\", \"--stdio\"] } } }

Examples:
  bowline serve --stdio                    all configured servers, for the host that starts this
  bowline serve --stdio files docs         these two
  bowline serve --stdio --view review      what [views.review] shows of them
  bowline serve                            for hosts on this machine, at http://127.0.0.1:7355/mcp
  bowline serve --socket /run/user/1000/bowline.sock
  bowline serve --print-unit systemd       how systemd runs it; the output says where to save it")]
pub(crate) struct ServeArgs {
    /// Configured names, or URLs [default: all that are configured]
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,
    /// Serve the host that starts this command, on stdin and stdout
    #[arg(long, conflicts_with_all = STDIO_CONFLICTS)]
    pub(crate) stdio: bool,
    /// Serve that host in this process alone, and not through the daemon that hosts share
    #[arg(long, requires = "stdio")]
    pub(crate) alone: bool,
    /// Serve that host this view of the servers, which the configuration defines as [views.NAME]
    #[arg(long, value_name = "NAME", requires = "stdio")]
    pub(crate) view: Option<String>,
    /// Put the name of its server before every name, and not only where two servers have the same one
    #[arg(long)]
    pub(crate) prefix: bool,
    /// Print the file with which a service manager runs this command, and do nothing else
    #[arg(long, value_name = "MANAGER", conflicts_with = "stdio")]
    pub(crate) print_unit: Option<UnitKind>,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
}

/// The service managers that can run `bowline serve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum UnitKind {
    /// A user unit of systemd.
    Systemd,
    /// The socket of that unit, with which systemd starts it, and on which hosts wait while it restarts.
    SystemdSocket,
    /// A launch agent of launchd on macOS.
    Launchd,
}

/// How hosts reach a socket.
#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Listen on this address
    #[arg(id = "listen", long = "listen", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7355")]
    pub(crate) address: SocketAddr,
    /// Listen on a Unix socket instead, which only you can connect to; no token is needed
    #[cfg(unix)]
    #[arg(long, value_name = "PATH", conflicts_with_all = ["listen", "token_file", "no_token", "allow_remote"])]
    pub(crate) socket: Option<PathBuf>,
    /// Read the token of hosts from this file, which is made if it is missing
    #[arg(long, value_name = "PATH")]
    pub(crate) token_file: Option<PathBuf>,
    /// Serve hosts without a token: every program and user on this machine can call your tools. With
    /// `[serve.oauth]` in the configuration, hosts need a token of one of its issuers then
    #[arg(long, conflicts_with = "token_file")]
    pub(crate) no_token: bool,
    /// Allow hosts to address it by this name, besides localhost, 127.0.0.1 and [::1]
    #[arg(long, value_name = "NAME[:PORT]")]
    pub(crate) allow_host: Vec<String>,
    /// Allow an address that other machines can reach. Nothing is encrypted: put a proxy with TLS in front
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// After SIGTERM or Ctrl-C, let open calls go on for this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse_any)]
    pub(crate) drain: Duration,
    /// End a session that has had no request and no open stream for this long
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = duration::parse)]
    pub(crate) session_idle: Duration,
    /// Exit when there has been no session for this long [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) exit_when_idle: Option<Duration>,
    /// Run as the daemon of the hosts whose configuration has this key
    #[cfg(unix)]
    #[arg(long, value_name = "KEY", hide = true, requires = "socket")]
    pub(crate) detached: Option<String>,
}

impl ListenArgs {
    /// Whether the process is the daemon of fronts.
    pub(crate) fn is_daemon(&self) -> bool {
        #[cfg(unix)]
        return self.detached.is_some();
        #[cfg(not(unix))]
        false
    }
}

/// Whether SIGHUP means to read the configuration again, as far as can be told before the arguments are parsed. A front
/// of a daemon ends with it.
pub(crate) fn may_hear_hangups(words: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<OsString> = words.skip(1).take_while(|word| word != "--").collect();
    let has = |expected: &str| words.iter().any(|word| word == expected);
    has("serve") && (!has("--stdio") || has("--alone"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hangups_are_heard_by_what_reads_its_configuration_again() {
        for (line, expected) in [
            ("bowline serve", true),
            ("bowline --config serve.toml serve --listen 127.0.0.1:0", true),
            ("bowline serve --stdio --alone", true),
            ("bowline serve --stdio", false),
            ("bowline serve --stdio -- --alone", false),
            ("bowline call files read", false),
            ("serve", false),
        ] {
            let words = line.split(' ').map(OsString::from);
            assert_eq!(may_hear_hangups(words), expected, "{line}");
        }
    }
}
