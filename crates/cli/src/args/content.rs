//! Arguments that say how binary content is shown, for the verbs that show content.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// How content is shown that is not text.
#[derive(Debug, Args)]
pub(crate) struct ContentArgs {
    /// Save images, sounds and binary resources into this folder
    ///
    /// Without it, what the terminal does not draw is saved into a new folder among the system's temporary
    /// files. Where each went is printed; with --json, as an object on stderr.
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
    /// How to draw images in the terminal
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub(crate) images: Images,
}

/// How to draw images in the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Images {
    /// In the way that the terminal supports; not at all in a pipe
    Auto,
    /// Kitty, Ghostty
    Kitty,
    /// iTerm2, WezTerm
    Iterm2,
    /// Terminals that know sixels
    Sixel,
    /// Not at all: they are saved
    None,
}
