//! HTTP: one request and its response, as JSON or as a stream of events.
//!
//! This layer moves bytes. It knows connections, media types, compression, cookies and redirects;
//! which headers MCP requires on a request, and what a response means, is decided above it.
//!
//! | file | the decision it owns |
//! |---|---|
//! | `link` | what a request looks like, and which redirects are followed |
//! | `target` | which URLs are the same server |
//! | `headers` | which value wins when a header is set twice |
//! | `response`, `media` | what kind of body a response has, and how much of it is read |
//! | `event_stream` | where one event of a stream ends |
//! | `sse_legacy` | which stream and which endpoint make an HTTP+SSE link |
//! | `coding` | which compressions are understood |
//! | `exchange` | when a connection may be used again |
//! | `pool`, `http1_connection` | which connection a request takes, and which are kept |
//! | `http2_connection` | when a shared connection is dead, and what its errors prove |
//! | `wake_filter` | when the task that drives a connection is woken |
//! | `dial`, `resolve`, `proxy`, `tls` | how a connection is made, over TCP or a Unix socket |
//! | `socket`, `payload` | what is provable about the bytes of a request |
//! | `fence` | when a request that must not be repeated may be sent |
//! | `cookies` | which cookies a load balancer gets back |
//! | `credentials` | the interface that signs requests |
//! | `fetch` | one request to any address, and where it may be redirected |
//! | `address_guard` | which addresses a server may have us contact |
//! | `response_redactor`, `header_redaction` | which of our secrets are removed from responses |
//! | `probe` | the steps of a connection one by one, for diagnosis |
//! | `failure` | what an error below HTTP means, and whether the server can have acted |
//!
//! # Cancel safety
//!
//! Dropping the future of a request, or an [`EventStream`], ends that exchange at once: over
//! HTTP/1.1 its connection is closed, over HTTP/2 its stream is reset. A server of the modern era
//! reads this as the cancellation of the request. [`EventStream::next`] may be dropped and called
//! again; no event is lost.

mod address_guard;
mod coding;
#[cfg(feature = "cookies")]
mod cookies;
#[cfg(not(feature = "cookies"))]
#[path = "http/cookies_absent.rs"]
mod cookies;
mod credentials;
mod dial;
mod event_stream;
mod exchange;
mod failure;
mod fence;
mod fetch;
mod header_redaction;
mod headers;
mod http1_connection;
#[cfg(feature = "http2")]
mod http2_connection;
#[cfg(not(feature = "http2"))]
#[path = "http/http2_connection_absent.rs"]
mod http2_connection;
mod link;
mod media;
mod payload;
mod pool;
mod probe;
mod proxy;
mod resolve;
mod response;
mod response_redactor;
mod socket;
mod sse_legacy;
mod sync;
mod target;
mod tls;
mod tls_error;
mod wake_filter;

pub use address_guard::{AddressRefusal, AddressSource, RefusalReason, Zone, is_this_machine};
pub use credentials::Credentials;
pub use event_stream::EventStream;
pub use fence::{SendFence, SendWindow};
pub use fetch::{FetchError, FetchLimits, Fetcher};
pub use link::{HttpLink, Limits};
pub use probe::{ServerProbe, ServerRoute, TlsProbeError, TlsProbeReport};
pub use proxy::Proxies;
pub use resolve::{Lookup, LookupFuture};
pub use response::{HttpResponse, ResponseBody};
pub use sse_legacy::{SseLegacy, open_sse};
pub use tls_error::{NOT_TLS, TlsProblem};
