//! Owns what is logged: nothing, unless asked for. Logs go to stderr.

use bowline::config::Environment;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::uptime;

use crate::env;

/// Starts logging as `-v` was repeated, or as the environment says.
pub(crate) fn start(verbose: u8, env: &dyn Environment) {
    let filter = match (env::given(env, env::LOG), verbose) {
        (Some(filter), _) => EnvFilter::new(filter),
        (None, 0) => return,
        (None, 1) => EnvFilter::new("info"),
        // Other crates' details are of use to nobody but their authors.
        (None, 2) => EnvFilter::new("info,bowline=debug"),
        (None, _) => EnvFilter::new("debug,bowline=trace"),
    };
    let logged = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_timer(uptime())
        .try_init();
    debug_assert!(logged.is_ok(), "logging starts once");
}
