//! Arguments of `bowline tasks`.

use clap::Args;

use super::{ContentArgs, HandlerArgs, ServerArgs};

/// `bowline tasks`
///
/// Lists the tasks of a server that `bowline call --task` has begun, and those that the server itself lists.
#[derive(Debug, Args)]
#[command(after_long_help = "\
A task is a call that goes on after it was answered. `bowline call --task` prints its id and keeps it, so that it \
can be taken up from anywhere by the same user: after a lost connection, after a restart of the server if that \
keeps its tasks, another day. The server says for how long it keeps one.

ID is an id or the beginning of one. Ctrl-C during --wait leaves the task as it is.

A server that is started by a command ends with each bowline, and most lose their tasks then: for such a server \
leave --task out, and the call is waited for.

Examples:
  bowline call media transcode file=a.mov --task
  bowline tasks media
  bowline tasks media --wait 7f3a
  bowline tasks media --cancel 7f3a
  bowline tasks https://mcp.example.com/mcp --json | jq -r '.[] | select(.status == \"completed\") | .id'

In a pipe each task is a line: id, status, age, tool, what the server says of it, separated by tabs.")]
pub(crate) struct TasksArgs {
    #[command(flatten)]
    pub(crate) what: TaskArgs,
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    #[command(flatten)]
    pub(crate) host: HandlerArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// What to do with one of them.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct TaskArgs {
    /// Wait for the end of a task and print its result
    ///
    /// Without --max-timeout for as long as the server keeps the task, and answers.
    #[arg(long, value_name = "ID")]
    pub(crate) wait: Option<String>,
    /// Print the result of a task that has ended
    #[arg(long, value_name = "ID")]
    pub(crate) result: Option<String>,
    /// Ask the server to end a task; it may take its time, or finish all the same
    #[arg(long, value_name = "ID")]
    pub(crate) cancel: Option<String>,
}
