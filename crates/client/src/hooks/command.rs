//! Owns what a hook's command is told: the facts, on stdin as JSON and in the environment.

use std::io;
use std::path::Path;
use std::time::Duration;

use bowline_transport::process::{OneShot, OneShotOutput};

use super::notice::Notice;

/// What is run.
pub(super) struct Run<'a> {
    pub(super) program: &'a str,
    pub(super) args: &'a [String],
    pub(super) env: &'a std::collections::BTreeMap<String, bowline_config::Secret>,
    pub(super) cwd: Option<&'a Path>,
    pub(super) limit: Duration,
}

/// How much of its output is kept for the log.
const OUTPUT: usize = 4096;

impl Run<'_> {
    /// Runs it once. Dropping the future kills it, and everything in its process group.
    pub(super) async fn run(&self, notice: &Notice) -> io::Result<OneShotOutput> {
        let Self { program, args, env, cwd, limit } = *self;
        let json = format!("{}\n", notice.to_json());
        let variables: Vec<_> = notice.variables().collect();
        let stdin_text = Some(json.as_bytes());
        OneShot {
            program,
            args,
            env,
            extra_env: &variables,
            cwd,
            stdin_text,
            timeout: limit,
            max_stdout: OUTPUT,
        }
        .run()
        .await
    }
}
