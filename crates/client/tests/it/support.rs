//! Scripted servers of both transports and both eras to connect to.

use std::ops::Deref;
use std::time::Duration;

use bowline::config::Protocol;
use bowline::{Client, Server};
use bowline_config::TransportSettings as _;
use bowline_proto::wire::{self, Message};
use bowline_testkit::{Control, HttpServer, Script, StdioServer};
use bowline_transport::pipe::{FrameReader as _, InboundFrame, PipeReader, PipeWriter, pipe};
use serde_json::Value;
use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

/// Generous: the tests wait for events, and end long before.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A running scripted server on either transport.
pub(crate) enum RunningServer {
    Http(HttpServer),
    Stdio(StdioServer),
}

impl RunningServer {
    pub(crate) fn server(&self) -> Server {
        match self {
            Self::Http(server) => http(server),
            Self::Stdio(server) => stdio(server),
        }
    }
}

impl Deref for RunningServer {
    type Target = Control;

    fn deref(&self) -> &Control {
        match self {
            Self::Http(server) => server,
            Self::Stdio(server) => server,
        }
    }
}

/// The server's end of a connection over byte streams.
pub(crate) struct PipeEnd {
    pub(crate) writer: PipeWriter,
    pub(crate) reader: PipeReader,
}

impl PipeEnd {
    pub(crate) async fn next_message(&mut self) -> Message {
        loop {
            if let InboundFrame::Message(frame) = self.reader.recv().await.unwrap() {
                return wire::parse_one(&frame).unwrap();
            }
        }
    }
}

/// The streams for `connect_io`, and the server's end of them.
pub(crate) fn io_pair() -> ((ReadHalf<DuplexStream>, WriteHalf<DuplexStream>), PipeEnd) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(theirs);
    let (writer, reader) = pipe(reader, writer, 64 << 20);
    (tokio::io::split(ours), PipeEnd { writer, reader })
}

/// Whether each request for a page of the tool list had a cursor, in order.
pub(crate) fn tool_pages_with_cursor(server: &Control) -> Vec<bool> {
    let pages = server.received_with_method("tools/list");
    pages.iter().map(|page| page.params().get("cursor").is_some()).collect()
}

pub(crate) fn http(server: &HttpServer) -> Server {
    Server::http("test", server.url()).build().expect("a valid URL")
}

pub(crate) fn stdio(server: &StdioServer) -> Server {
    let command = server.command();
    let mut entry =
        Server::stdio("test", command.program.to_str().expect("UTF-8")).args(command.args).build().unwrap();
    for (name, value) in command.env {
        entry = entry.with_env(name, value).expect("a valid variable");
    }
    entry
}

/// Runs the script over both transports and in both eras, with the era pinned in the client too.
pub(crate) async fn run_everywhere(script: Script) -> Vec<(&'static str, RunningServer, Server)> {
    let mut all = Vec::new();
    for (name, era, protocol) in
        [("legacy", script.clone().legacy(), Protocol::Legacy), ("modern", script.modern(), Protocol::Modern)]
    {
        let web = RunningServer::Http(era.clone().run().await);
        let server = web.server().with_protocol(protocol);
        all.push((if name == "legacy" { "legacy http" } else { "modern http" }, web, server));
        let child = RunningServer::Stdio(era.stdio().await);
        let server = child.server().with_protocol(protocol);
        all.push((if name == "legacy" { "legacy stdio" } else { "modern stdio" }, child, server));
    }
    all
}

/// Makes this many concurrent calls of a tool, each of which succeeds.
pub(crate) async fn call_concurrently(client: &Client, calls: usize, tool: &'static str) {
    let calls: Vec<_> = (0..calls)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.call_tool(tool, &Value::Null).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
}
