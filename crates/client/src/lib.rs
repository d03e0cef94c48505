//! MCP connections that hold: a complete client for the Model Context Protocol.
//!
//! | to | use |
//! |---|---|
//! | connect to one server | [`Client::connect`], [`Client::builder`] |
//! | call a tool | [`Client::call_tool`]; [`Client::call`] for progress, limits and cancellation |
//! | know how a call ended | [`Outcome`] and [`CallReport`], in the result and in the [`Error`] |
//! | connect to many servers | [`Registry`] |
//! | answer what servers ask | `host::Host`, or a [`Handler`] of your own |
//! | give tools to a model | `model::ModelContext` and `Registry::call_model` |
//! | log in | `auth::Auth` |
//! | watch | [`Client::events`], [`Client::status`], [`Layer`], and `tracing` |
//! | test a host | the crate `bowline-test` |
//!
//! # Connect
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use bowline::{Client, Server};
//! use serde_json::json;
//!
//! let client = Client::connect(Server::stdio("files", "my-mcp-server").args(["--root", "."])).await?;
//! for tool in client.list_tools().await? {
//!     println!("{}", tool.name);
//! }
//! let result = client.call_tool("search", &json!({ "query": "knots" })).await?;
//! println!("{}", result.text());
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Call with progress
//!
//! ```no_run
//! # async fn run(client: bowline::Client) -> bowline::Result<()> {
//! use std::time::Duration;
//!
//! let mut call = client.call("index").timeout(Duration::from_secs(600)).start();
//! let mut progress = call.progress();
//! let show = async {
//!     while let Some(step) = progress.next().await {
//!         println!("{}", step.progress);
//!     }
//! };
//! let (result, ()) = tokio::join!(call, show);
//! println!("sent {} times", result?.report.attempts);
//! # Ok(())
//! # }
//! ```
//!
//! # Many servers
//!
//! ```no_run
//! # async fn run() {
//! use bowline::{Registry, Server};
//!
//! let files = Server::stdio("files", "my-mcp-server").build().expect("a valid entry");
//! let docs = Server::http("docs", "https://example.com/mcp").build().expect("a valid entry");
//! let registry = Registry::open([files, docs]);
//! for server in registry.statuses() {
//!     println!("{}: {}", server.name, server.state.as_str());
//! }
//! registry.close().await;
//! # }
//! ```
//!
//! Examples of a model loop, of logins and of tests are on the pages of `model`, `auth` and
//! `bowline-test`.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `stdio` | yes | servers that run as processes |
//! | `http` | yes | servers that are reached by URL: Streamable HTTP and HTTP+SSE |
//! | `auth` | yes | logins (OAuth 2.1), kept in memory |
//! | `host` | yes | a ready-made handler of server requests: elicitation, sampling, roots |
//! | `cookies` | yes | cookies, by which load balancers find the instance that holds a session |
//! | `proxy` | yes | the proxies of the environment or the system |
//! | `network-watch` | yes | notices at once that the addresses of the machine changed |
//! | `compression` | | compressed responses |
//! | `config` | | configuration files: our own, and those of hosts |
//! | `store-sqlite`, `store-valkey` | | logins in a file, or in a Valkey or Redis server |
//! | `keyring` | | the key of that store in the system's keyring |
//! | `export` | | logins exported and imported, encrypted with a passphrase |
//! | `schema` | | checks of values against JSON Schema |
//! | `schemars` | | JSON Schemas of Rust types |
//! | `model` | | tools and results in the formats of model providers |
//! | `sampling` | | a model provider that answers sampling requests |
//! | `hooks` | | commands and webhooks when the state of a connection changes |
//! | `icons`, `skills` | | icons of servers and tools; skills |
//! | `disk-cache` | | negotiation outcomes kept for later processes |
//! | `full` | | all of them |
//!
//! # Cancel safety
//! Dropping the future of a call cancels it: a legacy server, or any server on a pipe, is sent
//! `notifications/cancelled`; a modern HTTP server sees the stream close. A late response is
//! discarded. A call that became a task is canceled with `tasks/cancel` only. Dropping any other
//! future has no effect on the wire.

#[cfg(feature = "auth")]
pub mod auth;
#[cfg(not(feature = "auth"))]
#[path = "auth_absent.rs"]
mod auth;
mod call;
mod client;
mod client_capabilities;
mod clock;
#[cfg(feature = "config")]
pub mod config_file;
mod connection;
mod error;
mod events;
mod features;
mod handler;
#[cfg(feature = "hooks")]
pub mod hooks;
#[cfg(not(feature = "hooks"))]
#[path = "hooks_absent.rs"]
mod hooks;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "icons")]
pub mod icons;
mod layer;
#[cfg(feature = "model")]
pub mod model;
pub mod negotiation;
mod random;
mod registry;
mod report;
#[cfg(feature = "sampling")]
pub mod sampling;
mod saved_session;
#[cfg(feature = "schema")]
pub mod schema;
mod status;

pub use bowline_config::{Config, HttpServer, IntoServer, Server, StdioServer};
pub use bowline_proto::client::negotiation::Peer;
pub use bowline_proto::client::session::Status;
pub use bowline_proto::client::tasks::TaskHandle;
pub use bowline_proto::fault::{Cause, Evidence, Execution, Exit, Fault, Limit, Misbehavior, SpawnError};
pub use bowline_proto::revision::{Era, Revision};
pub use bowline_proto::wire::{Defect, Id, Json, RpcError};

/// The settings of servers, logins, sampling and hooks.
pub mod config {
    pub use bowline_config::{
        AppSettings, AuthSettings, ClientSettings, Config, Dpop, ElicitationPolicy, Grant, HeadersCommand,
        Hook, HookAction, HookEvent, Http, HttpServer, Idp, IntoServer, InvalidValue, KeyLocation, Program,
        Protocol, Redirect, ResourceIndicator, Sampling, SamplingApi, SamplingPolicy, Secret, Server,
        SigningKey, StdioServer, StoreBackend, StoreConfig, Timeouts, Tls, TokenAuth, TokenSource, Transport,
    };
    #[cfg(feature = "config")]
    pub use bowline_config::{
        Environment, Errors, FileFormat, FixedEnvironment, Problem, ProblemKind, Source, parse,
    };
}

/// What the messages of the protocol contain: tools, resources, prompts, content, and the questions
/// of servers.
///
/// A type borrows nothing and copies little: it keeps slices of the message it was decoded from,
/// and reads rarely used members on demand. Decoding is lenient: a required member that is missing
/// or of the wrong type fails its object, an invalid optional member counts as absent, and an
/// invalid element of a list is left out. Unknown members stay in `json`. All text is untrusted.
pub mod types {
    pub use bowline_proto::wire::view::{
        CacheHint, CacheScope, CallToolResult, Capabilities, ChoiceOption, Completion, Content,
        ContentAnnotations, DroppedElement, ElicitResult, Elicitation, EmbeddedResource, FeatureCapability,
        Field, FieldKind, Form, GetPromptResult, Icon, Implementation, IncludeContext, JsonKind, ListItem,
        LogLevel, LogMessage, MediaContent, ModelPreferences, Page, Progress, Prompt, PromptArgument,
        PromptMessage, ReadResourceResult, Resource, ResourceBody, ResourceContents, ResourceTemplate, Role,
        SamplingBlock, SamplingMessage, SamplingRequest, SamplingResult, SkillDescriptor, SkillFile,
        SkillFiles, Task, TaskStatus, TaskSupport, TextContent, Tool, ToolAnnotations, ToolChoice, TurnError,
        UrlElicitation, ViewError,
    };
    pub use bowline_proto::wire::{code, method};
}

#[cfg(feature = "stdio")]
/// The server processes of all programs of this user that keep their records in the same folder.
pub mod processes {
    pub use bowline_transport::process::{Orphan, RunningProcess, RunningServer, list, sweep};
}

pub use bowline_proto::meta_key::{InvalidMetaKey, MetaKey};
pub use bowline_proto::trace::TraceContext;
pub use call::{Call, CallBuilder, ProgressStream};
pub use client::{Builder, Client};
pub use connection::{CallOptions, List};
pub use error::{Error, ErrorKind, Result, TaskEnd};
pub use events::{
    ConnectionEvent, ConnectionEventKind, Event, EventItem, EventReceiver, EventSender, ListChange, ListKind,
    Notification, StderrLine, Topic, channel as event_channel,
};
#[cfg(feature = "skills")]
pub use features::skills;
pub use features::{Completer, Reference, ResourceChange, Subscription, TaskOrResult, templates};
pub use handler::{Handler, HandlerResult, NoHandler, RootChanges, ServerRequest, UrlElicitationOutcome};
pub use layer::{Layer, LayerFuture, OutgoingRequest, Refusal};
pub use registry::{Registry, RegistryBuilder, ServerEvent, ServerState, ServerStatus};
pub use report::{CallEnded, CallReport, Outcome, ToolResult};
pub use saved_session::SavedSession;
pub use status::{Health, StatusWatch};
