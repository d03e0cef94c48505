//! Arguments of `bowline complete`.

use clap::Args;

use super::TargetArgs;

/// `bowline complete`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Prints one suggestion per line, the server's best first. VALUE is what has been typed so far; without it the \
server suggests from the start.

Examples:
  bowline complete docs prompt translate language
  bowline complete docs prompt translate language ger
  bowline complete docs prompt visit city --with country=NO
  bowline complete repo resource 'file:///{path}' path src/")]
pub(crate) struct CompleteArgs {
    /// SERVER, unless a command is given; `prompt` or `resource`; its name or template; the argument; its value
    #[arg(value_name = "SERVER prompt|resource NAME ARG VALUE")]
    pub(crate) words: Vec<String>,
    /// Another argument that has been chosen already; may be repeated
    #[arg(long = "with", value_name = "KEY=VALUE")]
    pub(crate) chosen: Vec<String>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}
