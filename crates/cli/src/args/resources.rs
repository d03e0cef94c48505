//! Arguments of `bowline resources`.

use clap::Args;

use super::{HandlerArgs, ServerArgs};

/// `bowline resources`
#[derive(Debug, Args)]
#[command(after_long_help = "\
With --watch it stays connected until Ctrl-C, also when the server is restarted, and prints a line for each \
change: when, what, and which resource. After a gap in which changes could have been missed, a watched resource \
counts as changed.

Examples:
  bowline resources files
  bowline resources files --watch file:///notes.txt file:///todo.txt
  bowline resources files --watch file:///notes.txt --read
  bowline resources files --watch                  changes of the list alone
  bowline resources --json files --watch file:///a | jq -r .uri")]
pub(crate) struct ResourcesArgs {
    /// Print changes of these resources, and of the list, as they happen
    #[arg(short, long, value_name = "URI", num_args = 0..)]
    pub(crate) watch: Option<Vec<String>>,
    /// Print the new contents as well
    #[arg(long, requires = "watch")]
    pub(crate) read: bool,
    #[command(flatten)]
    pub(crate) host: HandlerArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
