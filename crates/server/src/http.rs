//! Hosts over Streamable HTTP, revisions 2024-11-05 to 2025-11-25, and over HTTP+SSE: each session
//! is a [`Host`](crate::Host). Hosts of 2026-07-28 have no session: each of their requests is a
//! [`StatelessRequest`](crate::StatelessRequest), on the same endpoint.
//!
//! | request | meaning |
//! |---|---|
//! | `POST /mcp` | messages of the host; `initialize` without a session id begins a session; a message of 2026-07-28 needs none |
//! | `GET /mcp` | the event stream of the session, or with `Last-Event-ID` a stream that broke |
//! | `DELETE /mcp` | ends the session |
//! | `GET /sse` | HTTP+SSE, if configured: begins a session with its only event stream |
//! | `POST /messages` | HTTP+SSE: messages of the host |
//! | `/mcp/NAME`, `/sse/NAME`, `/messages/NAME` | the same, for the view of this name |
//! | `GET /.well-known/oauth-protected-resource` | for a resource server: which issuers its tokens come from; also with the path of an endpoint behind it |
//! | `GET /healthz` | `ok` while the process runs |
//! | `GET /readyz` | `ok`, or 503 once no new sessions are accepted |
//! | `GET /status` | on a Unix socket: what [`HttpListener::report_status`] says |
//!
//! Which stream a message belongs to, and what can be resumed, is decided by
//! [`bowline_proto::server::event_streams`]; what headers mean, by [`bowline_proto::server::http`].

mod bearer;
mod connection;
mod control;
mod delete;
mod end_session;
mod endpoint;
mod event_body;
mod failure_reports;
mod get;
mod idle_watch;
mod journal;
mod listener;
mod post;
mod post_record;
mod refusal;
mod reply;
mod request_body;
mod resource_server;
mod restore;
mod resume;
mod session;
mod session_id;
mod sessions;
mod settings;
mod site;
mod socket;
mod source;
mod sse;
mod stateless;
mod stateless_sessions;
mod ticket;
mod unanswered;

pub use control::HttpControl;
pub use idle_watch::IdleWatch;
pub use listener::HttpListener;
pub use request_body::BodyMemory;
pub use resource_server::ResourceServer;
pub(crate) use session::HttpSession;
pub use session_id::SessionIdKey;
pub use settings::HttpSettings;
pub(crate) use source::HttpSource;
pub use stateless::RELAYED_PIPE_HEADER;
pub(crate) use ticket::{CancelFlag, PostTicket};
