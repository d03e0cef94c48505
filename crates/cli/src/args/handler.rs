//! Arguments for requests that a server sends to us: elicitation, sampling and roots.

use std::path::PathBuf;

use bowline::config::{ElicitationPolicy, SamplingPolicy};
use clap::{Args, ValueEnum};

use super::Verb;

/// What a server gets that asks for something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "When the server asks")]
pub(crate) struct HandlerArgs {
    /// What to do when the server asks for your input; without a terminal you decline [default: ask]
    #[arg(long, value_name = "WHAT")]
    pub(crate) elicit: Option<ElicitationMode>,
    /// Fill in this field of a form beforehand
    ///
    /// In a terminal you still see the form before it is sent. Without one, or with `--elicit decline` or
    /// `cancel`, a form is sent if these answers and its own defaults are all that it needs.
    #[arg(long = "answer", value_name = "FIELD=VALUE")]
    pub(crate) answers: Vec<String>,
    /// Offer the server this folder as a root; can be repeated [default: those of the configuration]
    ///
    /// A server may take it in place of the folders that it was started with.
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,
    /// Offer the server no folder, whatever the configuration says
    #[arg(long, conflicts_with = "roots")]
    pub(crate) no_roots: bool,
    /// What to do when the server asks your model something; there must be one in the configuration
    #[arg(long, value_name = "WHAT")]
    pub(crate) sampling: Option<SamplingMode>,
}

/// What to do when the server asks something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ElicitationMode {
    /// Ask you what to answer
    Ask,
    /// Decline the request
    Decline,
    /// Tell the server that nobody answered
    Cancel,
}

/// What to do when the server asks a model something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SamplingMode {
    /// Ask you, before the model sees it and before the server sees the answer
    Ask,
    /// Allow it without asking
    Allow,
    /// Refuse; sampling is not declared to the server
    Deny,
}

impl From<ElicitationMode> for ElicitationPolicy {
    fn from(typed: ElicitationMode) -> Self {
        match typed {
            ElicitationMode::Ask => Self::Ask,
            ElicitationMode::Decline => Self::Decline,
            ElicitationMode::Cancel => Self::Cancel,
        }
    }
}

impl From<SamplingMode> for SamplingPolicy {
    fn from(typed: SamplingMode) -> Self {
        match typed {
            SamplingMode::Ask => Self::Ask,
            SamplingMode::Allow => Self::Allow,
            SamplingMode::Deny => Self::Deny,
        }
    }
}

impl Verb {
    /// Returns the arguments for server requests. Verbs that only list or connect briefly have
    /// none: for them the configuration decides.
    pub(crate) fn handler_args(&self) -> HandlerArgs {
        match self {
            Self::Call(args) => args.host.clone(),
            Self::Read(args) => args.host.clone(),
            Self::Tasks(args) => args.host.clone(),
            Self::Prompt(args) => args.host.clone(),
            Self::Resources(args) => args.host.clone(),
            Self::Logs(args) => args.host.clone(),
            Self::Repl(args) => args.host.clone(),
            _ => HandlerArgs::default(),
        }
    }
}
