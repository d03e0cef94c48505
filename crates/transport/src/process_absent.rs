//! What is left of processes in a build without the feature `stdio`: types that have no values.
//!
//! Starting a server fails with a fault that says why.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use bowline_proto::fault::{Cause, Exit, Fault, ProcessEnd};

use crate::pipe::{FrameReader, InboundFrame, PipeWriter};

/// The parameters of [`spawn`].
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "nothing reads them in this build")]
pub struct Launch<'a> {
    pub name: &'a str,
    pub stdio: &'a bowline_config::Program,
    pub limit: usize,
    pub grace: Grace,
    pub records: Option<&'a Path>,
    pub watchdog: bool,
    pub stderr: Option<&'a StderrListener>,
}

/// Receives the stderr of a process, of which there is none.
#[derive(Clone, Debug)]
pub struct StderrListener(());

impl StderrListener {
    /// Creates a listener that is never called.
    pub fn new(_listener: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(())
    }
}

/// How long a process may take to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "nothing reads them in this build")]
pub struct Grace {
    pub eof: Duration,
    pub term: Duration,
}

/// A running server process, of which there is none.
#[derive(Debug)]
#[expect(missing_docs, reason = "no value of this type exists in this build")]
pub struct Process {
    pub writer: PipeWriter,
    pub reader: ProcessReader,
    pub handle: Handle,
}

/// Reads the stdout of a process, of which there is none.
#[derive(Debug)]
pub struct ProcessReader(Infallible);

/// Controls the lifetime of a process, of which there is none.
#[derive(Debug)]
pub struct Handle(Infallible);

/// Fails: there are no processes in this build.
#[expect(clippy::unused_async, reason = "it has the signature of the function that it replaces")]
pub async fn spawn(_launch: Launch<'_>) -> Result<Process, Fault> {
    Err(Fault::before_sending(Cause::NotBuilt { feature: "stdio" }))
}

/// A process that another program keeps, of which there is none.
#[derive(Debug)]
#[expect(missing_docs, reason = "no value of this type exists in this build")]
pub struct AttachedProcess {
    pub writer: PipeWriter,
    pub reader: AttachedReader,
    pub handle: AttachedHandle,
}

/// Reads the output of such a process.
#[derive(Debug)]
pub struct AttachedReader(Infallible);

/// Waits for the end of such a process.
#[derive(Debug)]
pub struct AttachedHandle(Infallible);

/// Fails: there are no processes in this build.
pub fn attach<R, W>(
    _streams: (R, W),
    _limit: usize,
    _server: &str,
    _listener: StderrListener,
) -> Result<AttachedProcess, Fault> {
    Err(Fault::before_sending(Cause::NotBuilt { feature: "stdio" }))
}

impl FrameReader for AttachedReader {
    async fn recv(&mut self) -> Result<InboundFrame, Fault> {
        match self.0 {}
    }
}

impl AttachedHandle {
    /// Waits for the end.
    #[expect(clippy::unused_async, reason = "it has the signature of the function that it replaces")]
    pub async fn wait_until_released(&self) {
        match self.0 {}
    }
}

impl FrameReader for ProcessReader {
    async fn recv(&mut self) -> Result<InboundFrame, Fault> {
        match self.0 {}
    }
}

impl Handle {
    /// How the process ended.
    pub fn end(&self) -> Option<ProcessEnd> {
        match self.0 {}
    }

    /// Ends the process.
    #[expect(clippy::unused_async, reason = "it has the signature of the function that it replaces")]
    pub async fn shutdown(&self) -> Exit {
        match self.0 {}
    }
}
