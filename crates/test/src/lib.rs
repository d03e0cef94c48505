//! A fake MCP server for the tests of hosts.
//!
//! [`FakeServer`] runs in the test itself. It is served over a loopback HTTP port or over byte
//! streams, says what arrived, and fails on demand.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use bowline::Client;
//! use bowline_test::FakeServer;
//! use serde_json::json;
//!
//! let server = FakeServer::new()
//!     .tool("echo", |args| args["text"].as_str().unwrap_or_default().to_owned())
//!     .serve_http()
//!     .await?;
//! let client = Client::connect(server.server()).await?;
//!
//! // The server forgets the session; the client opens another one within the call.
//! server.lose_session();
//! let result = client.call_tool("echo", &json!({ "text": "hello" })).await?;
//! assert_eq!(result.text(), "hello");
//! server.assert_called("echo", 1);
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Tools that do more
//! An asynchronous tool has a [`ToolContext`]: it can report progress and ask the person behind the
//! host, in both eras of the protocol.
//!
//! ```
//! # use bowline_test::{ElicitationReply, FakeServer, ToolError};
//! # use serde_json::json;
//! let server = FakeServer::modern().async_tool("order", |cx, args| async move {
//!     cx.progress(1.0, Some(2.0), Some("looking it up"));
//!     let schema = json!({ "type": "object", "properties": { "size": { "type": "string" } } });
//!     match cx.elicit_form("Which size?", schema).await? {
//!         ElicitationReply::Accept(form) => Ok(format!("{} in {}", args["item"], form["size"])),
//!         _ => Err(ToolError::new("nothing was ordered")),
//!     }
//! });
//! ```
//!
//! # Changes
//! [`FakeControl::update_resource`], [`FakeControl::remove_tool`] and [`FakeControl::restore_tool`]
//! change what the server offers while it runs, and notify the clients that asked for it.
//!
//! # A paused clock
//! All time limits of a client and of the fake server are timers of tokio. Over
//! [`FakeServer::serve_io`] nothing else is waited for, so a test that pauses the clock
//! (`#[tokio::test(start_paused = true)]`, which needs tokio's feature `test-util`) skips every
//! wait: as soon as all tasks are idle, the clock jumps to the next timer. A limit of 60 seconds
//! elapses at once, and exactly.
//!
//! ```
//! # use std::time::Duration;
//! # use bowline_test::FakeServer;
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = FakeServer::new().tool("slow", |_| "done").serve_io();
//! let client = server.connect().await?;
//! server.delay_next(Duration::from_secs(3600));
//! let begun = tokio::time::Instant::now();
//! client.call_tool("slow", &()).await.unwrap_err();
//! assert_eq!(begun.elapsed().as_secs(), 60);
//! # Ok(())
//! # }
//! ```
//!
//! Do not pause the clock over HTTP: while a request is on its way through the operating system, all
//! tasks look idle, and the limits elapse before the answer can arrive.

// The pages on docs.rs name the feature that each item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod control;
mod engine;
mod fake_server;
mod http;
mod io;
mod listeners;
mod request_outcome;
mod running_call;
mod tool;

pub use control::{FakeControl, ReceivedMessage};
pub use fake_server::FakeServer;
pub use http::FakeHttpServer;
pub use io::FakeIoServer;
pub use tool::{ElicitationReply, IntoToolReply, ToolContext, ToolError, ToolReply};

/// Compiles the example of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
