//! Returns how the server of a verb is reached, whichever verb it is.

use super::{TargetArgs, Verb};

impl Verb {
    /// Returns the connection options of a verb that takes one server.
    pub(crate) fn target_args(&self) -> Option<&TargetArgs> {
        let target = match self {
            Self::Tools(args) => &args.target,
            Self::Templates(args) | Self::Prompts(args) | Self::Info(args) => &args.target,
            Self::Resources(args) => &args.server.target,
            Self::Call(args) => &args.target,
            Self::Tasks(args) => &args.server.target,
            Self::Read(args) => &args.target,
            Self::Prompt(args) => &args.target,
            Self::Repl(args) => &args.target,
            Self::Complete(args) => &args.target,
            Self::Logs(args) => &args.server.target,
            Self::Ping(args) => &args.server.target,
            Self::Connect(args) => &args.target,
            Self::Doctor(args) => &args.target,
            _ => return None,
        };
        Some(target)
    }
}
