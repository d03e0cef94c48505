//! Arguments of `bowline tools` and `bowline search`.

use clap::Args;

use super::TargetArgs;

/// `bowline tools`
#[derive(Debug, Args)]
#[command(after_long_help = "\
With SERVER it asks the server. Without, it lists the tools of all configured servers from what they listed last, \
and asks only those that were never asked, or all of them with --refresh.

A parameter is shown as it is typed: a=<number>, in [brackets] if it may be left out; mode=fast|slow takes one of \
these words; tags=<text>... can be given several times.

Examples:
  bowline tools                      all tools of all servers
  bowline tools files                those of one server
  bowline tools files search         one tool: its parameters, and a command to call it
  bowline tools --json | jq -r '.servers[] | .server as $s | .tools[] | \"\\($s) \\(.name)\"'
  bowline tools -- npx -y @modelcontextprotocol/server-everything

In a pipe each tool is a line: name, hints, description, parameters, separated by tabs; without SERVER the name of \
the server comes first.")]
pub(crate) struct ToolsArgs {
    /// A configured name, or a URL; left out with `-- COMMAND`; then a tool
    #[arg(value_name = "SERVER TOOL", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// Without SERVER: ask all servers, instead of showing what they listed last
    #[arg(long)]
    pub(crate) refresh: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// `bowline search`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Searches names, titles, descriptions and parameters of what the configured servers listed last, and prints the best \
matches first. \
Servers that were never asked are asked now; the others need not be running. Words that begin alike or are \
misspelled are found as well.

Examples:
  bowline search screenshot
  bowline search create an issue
  bowline search --limit 3 --json weather | jq -r '.results[].name'

In a pipe each result is a line: kind, server, name, description, separated by tabs.")]
pub(crate) struct SearchArgs {
    /// What to search for
    #[arg(value_name = "WORD", required = true)]
    pub(crate) words: Vec<String>,
    /// Print at most this many results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Ask all servers first, instead of searching what they listed last
    #[arg(long)]
    pub(crate) refresh: bool,
}
