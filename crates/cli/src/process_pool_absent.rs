//! What is left of the processes that `bowline serve` keeps where there are no Unix sockets: each command starts its
//! own.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bowline::host::Root;
use bowline::{ClientBuilder, Server};

use crate::settings::Settings;

/// Whether a command may use a process that is kept, which it never does.
#[derive(Debug, Default)]
pub(crate) struct PoolUse;

/// A process that is kept, of which there is none.
pub(crate) struct Attachment(Infallible);

/// Processes that are kept, of which there are none.
pub(crate) struct ProcessPool(Infallible);

impl ProcessPool {
    /// Fails: there are no Unix sockets.
    pub(crate) fn open(_settings: &Settings, _servers: &[Server]) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Takes over other servers.
    pub(crate) fn set_servers(&self, _servers: &[Server]) {
        match self.0 {}
    }

    /// Whether no command has used a process for this long.
    pub(crate) fn is_idle_for(&self, _limit: Duration) -> bool {
        match self.0 {}
    }

    /// Waits until no command has used a process for this long.
    #[expect(clippy::unused_async, reason = "it has the signature of the function that it replaces")]
    pub(crate) async fn wait_until_idle_for(&self, _limit: Duration) {
        match self.0 {}
    }

    /// Ends all processes.
    #[expect(clippy::unused_async, reason = "it has the signature of the function that it replaces")]
    pub(crate) async fn shut_down(&self, _limit: Duration) {
        match self.0 {}
    }
}

impl PoolUse {
    /// Has no effect.
    pub(crate) fn set_allowed(&self, _is_allowed: bool) {}

    /// Has no effect.
    pub(crate) fn set_attached(&self, _is_attached: bool) {}

    /// No.
    pub(crate) fn is_attached(&self) -> bool {
        false
    }
}

impl Attachment {
    /// Has a client use the process.
    pub(crate) fn add_to(self, _builder: ClientBuilder) -> ClientBuilder {
        match self.0 {}
    }
}

/// Finds nothing.
#[expect(clippy::unused_async, reason = "it has the signature of the function that it replaces")]
pub(crate) async fn attach(_settings: &Settings, _server: &Server, _roots: &[Root]) -> Option<Attachment> {
    None
}
