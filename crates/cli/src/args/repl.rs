//! Arguments of `bowline repl`.

use clap::Args;

use super::{HandlerArgs, TargetArgs};

/// `bowline repl`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Commands at the prompt:
  TOOL [KEY=VALUE]...      call a tool; `call TOOL …` is the same
  tools [TOOL]             list the tools, or show one of them in full
  resources, templates, prompts
  read URI, prompt NAME [KEY=VALUE]...
  info, ping, logs, tasks
  use SERVER               whose tools are meant from now on
  search WORDS             find tools of all servers, while none is in use
  servers, status          which servers there are, and how the connections fare
  help [COMMAND], exit

They take the options that they have in a shell, such as --json and --save. Words are quoted as in a shell, and nothing \
is expanded. Without SERVER, and before `use`, the server comes first: `files read_text_file path=notes.txt`.

Tab completes, the arrows recall earlier lines that begin alike, Ctrl-C cancels a running call, and Ctrl-D leaves. Lines \
are remembered in a file of yours alone, apart from those that begin with a space or seem to hold a secret.

If stdin is not a terminal, commands are read from it line by line, up to the first that fails; its exit code is that \
of bowline.

Examples:
  bowline repl files
  bowline repl
  bowline repl -- npx -y @modelcontextprotocol/server-everything
  printf 'use math\\nadd a=1 b=2\\n' | bowline repl")]
pub(crate) struct ReplArgs {
    /// A configured name, or a URL; left out for all configured servers, or with `-- COMMAND`
    #[arg(value_name = "SERVER")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) host: HandlerArgs,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}
