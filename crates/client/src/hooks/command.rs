//! Runs a hook's command, with the notice as JSON on stdin and in environment variables.

use std::io;
use std::path::Path;
use std::time::Duration;

use bowline_transport::process::{OneShot, OneShotOutput};

use super::notice::Notice;

/// The command of a hook.
pub(super) struct HookCommand<'a> {
    pub(super) program: &'a str,
    pub(super) args: &'a [String],
    pub(super) env: &'a std::collections::BTreeMap<String, bowline_config::Secret>,
    pub(super) cwd: Option<&'a Path>,
    pub(super) limit: Duration,
}

/// Maximum size of its output that is logged, in bytes.
const MAX_OUTPUT_BYTES: usize = 4096;

impl HookCommand<'_> {
    /// Runs it once. Dropping the future kills it and its process group.
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
            max_stdout: MAX_OUTPUT_BYTES,
        }
        .run()
        .await
    }
}
