//! Defines the command line grammar. `settings` decides what the arguments mean.

mod complete;
mod connect;
mod content;
mod demo;
mod doctor;
mod duration;
mod entries;
mod examples;
mod handler;
mod hyphen_names;
mod import_servers;
mod install;
mod json_flag;
mod login;
mod logs;
mod multi_server;
mod repl;
mod resources;
mod separator_tip;
mod serve;
mod server_target;
mod shell;
mod tasks;
mod tools;
mod trust;
mod url_server;
mod verb_groups;

use std::path::PathBuf;
use std::time::Duration;

use bowline::types::LogLevel;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use complete::CompleteArgs;
pub(crate) use connect::ConnectArgs;
pub(crate) use content::{ContentArgs, Images};
pub(crate) use demo::DemoArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use duration::format_duration;
pub(crate) use entries::{AddArgs, PackageKind, RegistryArgs, RemoveArgs, ToggleArgs, UrlTransport};
pub(crate) use handler::{HandlerArgs, SamplingMode};
pub(crate) use import_servers::ImportServersArgs;
pub(crate) use install::{HostFileArgs, InstallArgs, UninstallArgs};
pub(crate) use json_flag::rewrite_json_flag;
pub(crate) use login::{
    AuthArgs, AuthVerb, DocumentArgs, ExportArgs, ImportArgs, LoginArgs, LogoutArgs, PassphraseArgs,
};
pub(crate) use logs::LogsArgs;
pub(crate) use multi_server::{PsArgs, StatusArgs, WatchArgs};
pub(crate) use repl::ReplArgs;
pub(crate) use resources::ResourcesArgs;
pub(crate) use separator_tip::suggest_separator;
pub(crate) use serve::{ListenArgs, ServeArgs, UnitKind, may_hear_hangups};
pub(crate) use shell::ShellArgs;
pub(crate) use tasks::TasksArgs;
pub(crate) use tools::{SearchArgs, ToolsArgs};
pub(crate) use trust::{TrustArgs, UntrustArgs};
pub(crate) use url_server::{OauthArgs, TransportChoice, UrlArgs};

use crate::{env, exit};

/// MCP connections that hold: connect to Model Context Protocol servers, look, and call.
///
/// SERVER is the name of a configured server, a URL, or is left out in favor of a command that
/// starts one, given after `--`:
///
///   bowline tools files
///   bowline tools https://mcp.example.com/mcp
///   bowline tools -- npx -y @modelcontextprotocol/server-everything
#[derive(Debug, Parser)]
#[command(
    name = "bowline",
    bin_name = "bowline",
    version,
    verbatim_doc_comment,
    max_term_width = 100,
    help_template = verb_groups::help_template(),
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = after_help(),
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What can be said with any verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Read this configuration file instead of the user's and the project's
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) config: Option<PathBuf>,
    /// Trust the project's `bowline.toml` and `.mcp.json` for this command alone
    ///
    /// They can start any program and send any of your environment variables anywhere. `bowline trust` shows what they
    /// would do, and remembers your answer until a file changes.
    #[arg(long, global = true)]
    pub(crate) trust_project: bool,
    /// Print JSON for machines, the server's own where there is one
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// How to print
    #[arg(long, global = true, value_name = "FORMAT", conflicts_with = "json")]
    pub(crate) output: Option<Format>,
    /// When to use color
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    /// Log more to stderr; up to three times
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// No notes and no progress on stderr; errors are still shown
    #[arg(short, long, global = true, alias = "silent")]
    pub(crate) quiet: bool,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people; plain and stable when piped
    Text,
    /// For machines
    Json,
}

/// When to use color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a run has one")]
pub(crate) enum Verb {
    /// List tools with their parameters: of all servers, or of one
    #[command(
        override_usage = "bowline tools [OPTIONS] [SERVER [TOOL]]\n       bowline tools [OPTIONS] [TOOL] -- COMMAND [ARG]..."
    )]
    Tools(ToolsArgs),
    /// Find tools, prompts and resources of all servers by words
    Search(SearchArgs),
    /// List the resources of a server, or watch them
    #[command(override_usage = usage("resources", ""))]
    Resources(ResourcesArgs),
    /// List the resource templates of a server
    #[command(override_usage = usage("templates", ""), after_long_help = examples::TEMPLATES)]
    Templates(ServerArgs),
    /// List the prompts of a server
    #[command(override_usage = usage("prompts", ""), after_long_help = examples::PROMPTS)]
    Prompts(ServerArgs),
    /// Call a tool
    #[command(override_usage = usage("call", "TOOL [KEY=VALUE]..."))]
    Call(CallArgs),
    /// List, wait for or cancel the tasks that calls became
    #[command(override_usage = usage("tasks", ""))]
    Tasks(TasksArgs),
    /// Read a resource
    #[command(override_usage = usage("read", "URI [KEY=VALUE]..."))]
    Read(ReadArgs),
    /// Expand a prompt
    #[command(override_usage = usage("prompt", "NAME [KEY=VALUE]..."))]
    Prompt(PromptArgs),
    /// Call tools at a prompt that stays connected
    #[command(
        override_usage = "bowline repl [OPTIONS] [SERVER]\n       bowline repl [OPTIONS] -- COMMAND [ARG]..."
    )]
    Repl(ReplArgs),
    /// Ask a server to complete an argument
    #[command(override_usage = usage("complete", "prompt|resource NAME ARG [VALUE]"))]
    Complete(CompleteArgs),
    /// Print the log messages and the stderr of a server as they come
    #[command(override_usage = usage("logs", ""))]
    Logs(LogsArgs),
    /// Measure how fast a server answers
    #[command(override_usage = usage("ping", ""))]
    Ping(PingArgs),
    /// Show a server's name, protocol revision and capabilities
    #[command(override_usage = usage("info", ""), after_long_help = examples::INFO)]
    Info(ServerArgs),
    /// Relay a server to an MCP host, reconnecting as needed
    #[command(override_usage = usage("connect", ""))]
    Connect(ConnectArgs),
    /// Serve all servers to MCP hosts as one, reconnecting as needed
    Serve(ServeArgs),
    /// Log in to a server, and stay logged in
    Login(LoginArgs),
    /// Log out: revoke a login and delete it
    Logout(LogoutArgs),
    /// List your logins; export and import them
    Auth(AuthArgs),
    /// Show the connection status of all servers
    Status(StatusArgs),
    /// Print events of servers as they happen, and run their hooks
    Watch(WatchArgs),
    /// List the processes of started servers, with their memory
    Ps(PsArgs),
    /// Find out what is wrong, whose fault it is and how to fix it
    #[command(
        override_usage = "bowline doctor [OPTIONS] [SERVER]\n       bowline doctor [OPTIONS] -- COMMAND [ARG]..."
    )]
    Doctor(DoctorArgs),
    /// Show what a project's configuration would do, and trust it
    Trust(TrustArgs),
    /// Stop trusting a project's configuration
    Untrust(UntrustArgs),
    /// Add a server to your configuration: a URL, a command or a package
    Add(AddArgs),
    /// Import the servers of MCP hosts on this machine
    Import(ImportServersArgs),
    /// Remove servers from your configuration
    Remove(RemoveArgs),
    /// Enable servers of your configuration
    #[command(after_long_help = examples::ENABLE)]
    Enable(ToggleArgs),
    /// Disable servers of your configuration
    #[command(after_long_help = examples::DISABLE)]
    Disable(ToggleArgs),
    /// List the configured servers, without connecting to them
    #[command(after_long_help = examples::LIST)]
    List,
    /// Open your configuration in an editor, and check it afterwards
    #[command(after_long_help = examples::EDIT)]
    Edit,
    /// Write an entry for bowline into the configuration of a host
    Install(InstallArgs),
    /// Restore the configuration of a host as it was before `install`
    Uninstall(UninstallArgs),
    /// Check the configuration, print its files or its schema
    #[command(after_long_help = examples::CONFIG)]
    Config(ConfigArgs),
    /// What could be typed next, for shells
    #[command(name = "__complete", hide = true)]
    Shell(ShellArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write all of them into a folder
    Man(ManArgs),
    /// Watch calls survive a server that keeps failing
    Demo(DemoArgs),
}

/// A verb that takes a server and nothing else.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// A configured name, or a URL; left out with `-- COMMAND`
    #[arg(value_name = "SERVER")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// How the server is reached, apart from its name.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Connection options")]
pub(crate) struct TargetArgs {
    /// Give up a call when nothing is heard for this long; progress counts [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    /// Give up a call after this long, progress or not [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) max_timeout: Option<Duration>,
    /// Give up connecting after this long [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) connect_timeout: Option<Duration>,
    /// Accept messages of the server of up to this many MiB [default: 64]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) message_limit: Option<u32>,
    /// Which era of the protocol to speak
    #[arg(long, value_name = "ERA")]
    pub(crate) protocol: Option<Protocol>,
    /// Send this header with every request, for a server with a URL
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    #[command(flatten)]
    pub(crate) url: UrlArgs,
    /// Set this in the environment of a server that is started
    #[arg(short = 'e', long = "env", value_name = "KEY=VALUE")]
    pub(crate) envs: Vec<String>,
    /// Start the server for this command alone, also if `bowline serve` keeps it running
    #[arg(long)]
    pub(crate) no_daemon: bool,
    /// A command that starts the server, in place of SERVER
    #[arg(last = true, value_name = "COMMAND", help_heading = None::<&str>)]
    pub(crate) command: Vec<String>,
}

impl TargetArgs {
    /// Whether anything says how a server is reached.
    pub(crate) fn has_overrides(&self) -> bool {
        let Self {
            timeout,
            max_timeout,
            connect_timeout,
            message_limit,
            protocol,
            headers,
            url,
            envs,
            no_daemon,
            command,
        } = self;
        let UrlArgs { transport, ca_file } = url;
        let has_time = timeout.is_some() || max_timeout.is_some() || connect_timeout.is_some();
        let has_lists = !headers.is_empty() || !envs.is_empty() || !command.is_empty();
        let has_url = transport.is_some() || ca_file.is_some();
        has_time || has_lists || has_url || message_limit.is_some() || protocol.is_some() || *no_daemon
    }
}

/// Which era of the protocol to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// Find out
    Auto,
    /// Revisions up to 2025-11-25
    Legacy,
    /// Revision 2026-07-28 and later
    Modern,
}

/// `bowline call`
///
/// Arguments are checked against the tool's input schema before anything is sent.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Arguments:
  key=value      what the tool's input schema makes of it: text stays text; numbers, booleans,
                 arrays and objects are read as JSON where the schema asks for them
  key=@path      the text of a file; key=@- that of stdin
  key:=json      JSON, whatever the schema says; key:=@path the JSON in a file
  --args '{…}'   all at once; key=value is laid over it
  --json '{…}'   the same as --args; --json without an object prints the result as JSON
  -              the object from stdin; --file PATH that in a file

A tool whose name begins with `-` comes after `--`, and options come before that:
  bowline call SERVER -- -x key=value

At a terminal, what the tool requires and was not given is asked for in a form. Nothing is sent before you have seen \
all of it.

Examples:
  bowline call files search query=knots limit=5
  bowline call files search
  bowline call media transcode file=a.mov --task     # then: bowline tasks media
  bowline call https://mcp.example.com/mcp add --json '{\"a\": 1, \"b\": 2}'
  echo '{\"a\": 1, \"b\": 2}' | bowline call math add - --output json
  bowline call echo message=hello -- npx -y @modelcontextprotocol/server-everything")]
pub(crate) struct CallArgs {
    /// SERVER, unless a command is given; TOOL; then key=value or key:=json
    #[arg(value_name = "SERVER TOOL KEY=VALUE")]
    pub(crate) words: Vec<String>,
    /// The arguments as a JSON object; `--json '{…}'` means the same
    #[arg(long, value_name = "JSON", conflicts_with = "file")]
    pub(crate) args: Option<String>,
    /// The arguments as a JSON object in a file, or `-` for stdin
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Send the arguments without checking them against the tool's schema; key=value is then always text
    #[arg(long)]
    pub(crate) unchecked: bool,
    /// Run the call in the background, if the server can: prints the task's id, for `bowline tasks`
    ///
    /// A call that the server answers at once is answered at once. Without this flag a call that becomes a task
    /// is waited for like any other.
    #[arg(long, conflicts_with = "log_level")]
    pub(crate) task: bool,
    /// Print the server's log lines about this call, from this level up, to stderr
    #[arg(long, value_name = "LEVEL", value_parser = logs::level)]
    pub(crate) log_level: Option<LogLevel>,
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    #[command(flatten)]
    pub(crate) host: HandlerArgs,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// `bowline read`
#[derive(Debug, Args)]
#[command(after_long_help = "\
A URI with variables is a template of RFC 6570; each variable is given as key=value, a list by giving it again. \
`key=` leaves it out.

In a pipe, a single binary content goes to stdout as it is, unless --save is given.

Examples:
  bowline read files file:///notes.txt
  bowline read files file:///photo.png > photo.png
  bowline read repo 'repo://{owner}/{name}/{+path}' owner=me name=knots path=src/lib.rs
  bowline read repo 'search://all{?tag*}' tag=rope tag=sea")]
pub(crate) struct ReadArgs {
    /// SERVER, unless a command is given; then the URI, and key=value where it is a template
    #[arg(value_name = "SERVER URI KEY=VALUE")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    #[command(flatten)]
    pub(crate) host: HandlerArgs,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// `bowline prompt`
#[derive(Debug, Args)]
#[command(after_long_help = "\
At a terminal, what the prompt needs and was not given is asked for in a form, with what the server suggests for it.

Examples:
  bowline prompt docs summarize
  bowline prompt docs translate text='A knot that holds' language=de")]
pub(crate) struct PromptArgs {
    /// SERVER, unless a command is given; the prompt's name; then key=value
    #[arg(value_name = "SERVER NAME KEY=VALUE")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    #[command(flatten)]
    pub(crate) host: HandlerArgs,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// `bowline ping`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bowline ping docs
  bowline ping -n 5 --interval 200ms https://mcp.example.com/mcp")]
pub(crate) struct PingArgs {
    /// How many pings to send
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: u32,
    /// How long to wait between two pings
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse_any)]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `bowline config`
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) verb: ConfigVerb,
}

/// What to look at.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Check the files and list the servers they define
    #[command(after_long_help = examples::CONFIG_CHECK)]
    Check,
    /// Print the JSON schema of the file, for editors
    #[command(after_long_help = examples::CONFIG_SCHEMA)]
    Schema,
    /// Print which files are read; a later one overrides an earlier one
    #[command(after_long_help = examples::CONFIG_PATH)]
    Path,
}

/// `bowline completions`
#[derive(Debug, Args)]
#[command(after_long_help = "\
In bash, zsh and fish the script asks bowline itself: it offers the servers that are configured, and the tools, \
prompts, resources and arguments that were last seen of them. Values of a prompt's arguments are asked from the \
server, for a second and a half at most, and never from one of a project that is not trusted.

Examples:
  bowline completions bash > ~/.local/share/bash-completion/completions/bowline
  bowline completions zsh > ~/.zfunc/_bowline        # a folder of $fpath
  bowline completions fish > ~/.config/fish/completions/bowline.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

/// `bowline man`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bowline man | man -l -
  bowline man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The folder to write a page per verb into
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

/// Formats the usage line of `verb` with both ways to name the server; `words` follow the server.
fn usage(verb: &str, words: &str) -> String {
    let spaced = if words.is_empty() { String::new() } else { format!(" {words}") };
    format!(
        "bowline {verb} [OPTIONS] SERVER{spaced}\n       bowline {verb} [OPTIONS]{spaced} -- COMMAND [ARG]..."
    )
}

fn after_help() -> String {
    format!("{}\n\n{}", exit::HELP, env::HELP)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_grammar_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_is_taken_as_it_stands() {
        let argv = ["bowline", "call", "echo", "a=1", "-q", "--", "npx", "-y", "--json", "srv", "--", "x"];
        let cli = Cli::try_parse_from(argv).unwrap();
        let Verb::Call(call) = cli.verb else { panic!("not a call") };
        assert_eq!(call.words, ["echo", "a=1"]);
        assert_eq!(call.target.command, ["npx", "-y", "--json", "srv", "--", "x"]);
        assert!(cli.global.quiet);
        assert!(!cli.global.json);
    }
}
