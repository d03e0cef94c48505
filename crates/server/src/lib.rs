//! Listeners for hosts: they move the bytes of a session with a host, and
//! [`bowline_proto::server`] decides what its messages mean.
//!
//! [`Host`] is the program in front of us: on stdin and stdout, on another pair of streams, or in a
//! session over HTTP, which [`HttpListener`] accepts:
//!
//! ```no_run
//! # async fn run() {
//! use bowline_proto::wire::{Json, RpcError, code};
//! use bowline_server::{Host, HostEvent};
//!
//! let mut host = Host::stdio();
//! while let Some(event) = host.next().await {
//!     match event {
//!         HostEvent::Initialize(request) => {
//!             request.respond(Ok(&Json::empty_object())).await;
//!             request.accept();
//!         }
//!         HostEvent::Request { request, .. } => {
//!             let error = RpcError::new(code::METHOD_NOT_FOUND, "nothing is served here");
//!             request.respond(Err(&error)).await;
//!         }
//!         HostEvent::Stateless(_) | HostEvent::Overload(_) | HostEvent::Notification { .. } => {}
//!     }
//! }
//! # }
//! ```

mod admission;
mod audience;
mod given_up;
mod handshake;
mod host;
mod http;
mod limits;
mod link;
mod open_request;
mod output;
mod session_store;
mod stateless;
mod stdin;
mod stdout;
mod token_verifier;

pub use audience::Audience;
pub use handshake::{Handshake, InitializeRequest};
pub use host::{Host, HostEvent};
pub use http::{
    BodyMemory, HttpControl, HttpListener, HttpSettings, IdleWatch, RELAYED_PIPE_HEADER, ResourceServer,
    SessionIdKey,
};
pub use limits::{HOSTS_PER_IDENTITY, HostLimits, LimitsControl};
pub use link::HostLink;
pub use open_request::{CancelReason, OpenRequest, RefusedRequest};
pub use session_store::{RecordCheck, SessionStore, SessionStoreFuture, StoredSession};
pub use stateless::{StatelessRequest, StatelessRequests};
pub use token_verifier::{TokenIdentity, TokenRefusal, TokenVerifier, TokenVerifierFuture};
