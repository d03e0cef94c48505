//! A client of a fake server in each era and on each transport.

use bowline::Client;
use bowline::host::Host;
use bowline_test::{FakeControl, FakeHttpServer, FakeIoServer, FakeServer};

/// A running server, which lives as long as this.
pub(crate) enum Running {
    Http(FakeHttpServer),
    Io(FakeIoServer),
}

impl Running {
    pub(crate) fn control(&self) -> FakeControl {
        match self {
            Self::Http(server) => server.control(),
            Self::Io(server) => server.control(),
        }
    }
}

/// Serves what `add` adds to an empty server in each era on each transport, and connects to it.
pub(crate) async fn everywhere(
    host: &Host,
    add: impl Fn(FakeServer) -> FakeServer,
) -> Vec<(Running, Client)> {
    let mut all = Vec::new();
    for empty in [FakeServer::new, FakeServer::modern] {
        let server = add(empty()).serve_http().await.unwrap();
        let client = Client::builder(server.server()).handler(host.clone()).connect().await.unwrap();
        all.push((Running::Http(server), client));
        let server = add(empty()).serve_io();
        let (reader, writer) = server.streams();
        let builder = Client::builder(server.server()).handler(host.clone());
        all.push((Running::Io(server), builder.connect_io(reader, writer).await.unwrap()));
    }
    all
}
