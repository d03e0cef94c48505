//! What is left of a shared daemon where there are no Unix sockets: each host is served alone.

use bowline::Server;

use super::views::ViewMap;
use crate::args::ServeArgs;
use crate::settings::Settings;

/// Whether the host was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrontOutcome {
    /// It never is.
    Served,
    NoDaemon,
}

/// Serves nothing.
#[expect(clippy::unused_async, reason = "it has the signature of the function that it replaces")]
pub(super) async fn run(
    _args: &ServeArgs,
    _settings: &Settings,
    _servers: (&[Server], &ViewMap),
) -> FrontOutcome {
    FrontOutcome::NoDaemon
}
