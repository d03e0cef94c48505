//! Owns the life of a connection in a command: connect, work, and close, whatever happens between.

use std::time::Duration;

use bowline::config::Server;
use bowline::{Builder, Client};

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::print::Printer;
use crate::print::progress::Bar;

/// Connects to `server` and does `work` with it.
///
/// A signal drops the work, which cancels its call on the server; then the connection is closed in
/// good order, and the command ends. A second signal leaves at once.
pub(crate) async fn with<T>(
    printer: &Printer,
    server: &Server,
    work: impl AsyncFnOnce(&Client) -> bowline::Result<T>,
) -> Outcome<T> {
    let connecting = Client::builder(server.clone());
    with_builder(printer, server, connecting, async |client| {
        work(client).await.map_err(|error| Failure::call(&error, server))
    })
    .await
}

/// [`with`], for work that can fail in ways of its own.
pub(crate) async fn with_builder<T>(
    printer: &Printer,
    server: &Server,
    builder: Builder,
    work: impl AsyncFnOnce(&Client) -> Outcome<T>,
) -> Outcome<T> {
    let mut interrupt = Interrupt::listen();
    let builder = builder.client_info("bowline", env!("CARGO_PKG_VERSION"));
    let bar = Bar::start(printer, &format!("connecting to {}", server.name));
    let client = builder.open().map_err(|error| Failure::call(&error, server))?;
    let connected = tokio::select! {
        connected = client.ready() => connected.map_err(|error| Failure::call(&error, server)),
        exit = interrupt.next() => Err(Failure::Signal(exit)),
    };
    bar.finish();
    let outcome = match connected {
        Ok(_) => tokio::select! {
            outcome = work(&client) => outcome,
            exit = interrupt.next() => {
                printer.note("interrupted");
                Err(Failure::Signal(exit))
            }
        },
        Err(failure) => Err(failure),
    };
    // The server is told that we leave; one that does not listen is left all the same.
    tokio::select! {
        _ = tokio::time::timeout(CLOSING, client.close()) => {}
        _ = interrupt.next() => {}
    }
    outcome
}

/// Longer than a process is given to end: stdin closed, then TERM, then KILL.
const CLOSING: Duration = Duration::from_secs(15);
