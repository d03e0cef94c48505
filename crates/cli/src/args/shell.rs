//! Arguments of `bowline __complete`, which completion scripts call; see `shell`.

use clap::Args;

/// `bowline __complete`
#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    /// The line up to the cursor, from shells whose words are not ours
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) line: Option<String>,
    /// The characters at which such a shell cuts words
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) breaks: Option<String>,
    /// The words up to the cursor, without the name of the command
    #[arg(last = true)]
    pub(crate) words: Vec<String>,
}
