//! MCP connections that hold: a complete client for the Model Context Protocol.
//!
//! | to | use |
//! |---|---|
//! | connect to one server | [`Client::connect`], [`Client::builder`] |
//! | call a tool | [`Client::call_tool`]; [`Client::call`] for progress, limits and cancellation |
//! | know how a call ended | [`Outcome`] and [`CallReport`], in the result and in the [`Error`] |
//! | connect to many servers | [`Registry`] |
//! | answer what servers ask | [`host::Host`], or a [`Handler`] of your own |
//! | give tools to a model | [`model::ModelContext`] and [`Registry::call_model`] |
//! | log in | [`auth::Auth`] |
//! | watch | [`Client::events`], [`Client::status`], [`Layer`], and `tracing` |
//! | test a host | the crate `bowline-test` |
//!
//! The examples on this page run against a fake server when the documentation is tested; the lines
//! that start it are hidden. The crate needs Rust 1.90 or newer.
//!
//! # Connect
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let fake = bowline_test::FakeServer::new()
//! #     .tool("search", |args| format!("found {}", args["query"].as_str().unwrap_or_default()))
//! #     .serve_http()
//! #     .await?;
//! # let url = fake.url();
//! use bowline::{Client, Server};
//! use serde_json::json;
//!
//! // `Server::stdio("files", "my-mcp-server").args(["--root", "."])` starts a program.
//! let client = Client::connect(Server::http("docs", url)).await?;
//! for tool in client.list_tools().await? {
//!     println!("{}", tool.name);
//! }
//! let result = client.call_tool("search", &json!({ "query": "knots" })).await?;
//! assert_eq!(result.text(), "found knots");
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Call with progress
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let fake = bowline_test::FakeServer::new()
//! #     .async_tool("index", |cx, _| async move {
//! #         cx.progress(1.0, Some(2.0), None);
//! #         cx.progress(2.0, Some(2.0), None);
//! #         Ok::<_, bowline_test::ToolError>("indexed")
//! #     })
//! #     .serve_io();
//! # let client = fake.connect().await?;
//! use std::time::Duration;
//!
//! let mut call = client.call("index").timeout(Duration::from_secs(600)).start();
//! let mut progress = call.progress();
//! let show = async {
//!     let mut steps = 0;
//!     // Ends with the call.
//!     while let Some(step) = progress.next().await {
//!         println!("{} of {:?}", step.progress, step.total);
//!         steps += 1;
//!     }
//!     steps
//! };
//! let (result, steps) = tokio::join!(call, show);
//! let result = result?;
//! assert_eq!((&*result.text(), steps, result.report.attempts), ("indexed", 2, 1));
//! # Ok(())
//! # }
//! ```
//!
//! # Many servers
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let fake = bowline_test::FakeServer::new().tool("search", |_| "found").serve_http().await?;
//! # let url = fake.url();
//! use bowline::{Registry, Server, ServerState};
//!
//! let docs = Server::http("docs", url).build()?;
//! let down = Server::http("down", "http://127.0.0.1:9/mcp").build()?;
//! // `Config::discover` gives a host the servers that its user configured.
//! let registry = Registry::open([docs, down]);
//! registry.settled().await;
//! let statuses = registry.statuses();
//! for server in &statuses {
//!     println!("{}: {}", server.name, server.state.as_str());
//! }
//! // A server that is down is retried in the background, and stops nothing.
//! assert_eq!(statuses[0].state, ServerState::Ready);
//! assert_ne!(statuses[1].state, ServerState::Ready);
//! let client = registry.get("docs").expect("a configured server");
//! assert_eq!(client.call_tool("search", &()).await?.text(), "found");
//! registry.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # A model loop
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let fake = bowline_test::FakeServer::new()
//! #     .tool("add", |args| (args["a"].as_i64().unwrap_or(0) + args["b"].as_i64().unwrap_or(0)).to_string())
//! #     .serve_http()
//! #     .await?;
//! # let server = bowline::Server::http("math", fake.url()).build()?;
//! use bowline::model::{ModelApi, ModelOptions};
//! use bowline::{CallOptions, Registry};
//! use serde_json::json;
//!
//! let registry = Registry::open([server]);
//! registry.settled().await;
//! let context = registry.model_context(&ModelOptions::new(ModelApi::Anthropic)).await;
//! let request = json!({ "system": context.instructions, "tools": context.definitions() });
//! # assert_eq!(request["tools"][0]["name"], "math__add");
//! // The provider's response to the request asks for this call.
//! let (name, input) = ("math__add", json!({ "a": 40, "b": 2 }));
//! let called = registry.call_model(&context, name, &input, &CallOptions::new()).await;
//! // A failure is a result too, so that the model can correct itself.
//! let result = called.unwrap_or_else(|error| context.error_result(&error));
//! assert_eq!((&*result.text, result.is_error), ("42", false));
//! # registry.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Log in
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use bowline_testkit::{Browser, Protection, Script, auth_server};
//! # let login_server = auth_server().start().await;
//! # let fake = Script::default().tool("echo").protected(Protection::with_auth_server(&login_server)).run().await;
//! # let url = fake.url();
//! # async fn open_in_browser(url: &str) -> String { Browser::new().follow(url).await }
//! use bowline::auth::{Auth, DeviceCode, LoginPage, LoginPrompt, PageReply, PromptFuture};
//! use bowline::{Client, Server};
//!
//! struct Person;
//!
//! impl LoginPrompt for Person {
//!     fn show_page(&self, page: LoginPage) -> PromptFuture<'_, PageReply> {
//!         // The browser returns to this machine by itself, or a person pastes where it ended up.
//!         Box::pin(async move { PageReply::Pasted(open_in_browser(page.url.as_str()).await) })
//!     }
//!
//!     fn show_device_code(&self, code: DeviceCode) -> PromptFuture<'_, ()> {
//!         println!("type {} in at {}", code.code, code.url);
//!         Box::pin(std::future::pending())
//!     }
//! }
//!
//! // `Auth::new` takes a store that keeps logins for the next run.
//! let auth = Auth::in_memory().prompt(Person);
//! let client = Client::builder(Server::http("mail", url)).auth(auth).connect().await?;
//! assert_eq!(client.list_tools().await?.len(), 1);
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Test a host
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use bowline::Outcome;
//! use bowline_test::FakeServer;
//!
//! let server = FakeServer::new().tool("pay", |_| "paid").serve_io();
//! let client = server.connect().await?;
//! assert_eq!(client.call_tool("pay", &()).await?.report.outcome, Outcome::Done);
//! server.assert_called("pay", 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Tracing
//!
//! For `tracing` there is one span for each request of a caller. Nothing is built for it unless a
//! subscriber wants it. These names are stable:
//!
//! | what | value |
//! |---|---|
//! | name, target, level | `mcp.request`, `bowline`, `INFO` |
//! | `mcp.method.name` | the method, such as `tools/call` |
//! | `mcp.server.name` | the configured name of the server |
//! | `mcp.protocol.version` | the revision of the connection, if there is one when the request ends |
//! | `gen_ai.tool.name` | the tool, for `tools/call`; recorded again if a layer chose another one |
//! | `bowline.outcome` | the outcome as [`Outcome::as_str`] has it |
//! | `bowline.attempts` | how often the request was sent |
//! | `error.type` | only if it did not succeed: `tool_error`, the code of the server's error, the kind of the fault ([`Cause::kind`]), `declined` or `abandoned` |
//!
//! Tool calls are also logged in one line each, with the target `bowline::calls` at level `INFO`, by a
//! [`Layer`] of the library. Arguments and results appear in neither.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `stdio` | yes | servers that run as processes |
//! | `http` | yes | servers that are reached by URL: Streamable HTTP and HTTP+SSE |
//! | `http2` | yes | HTTP/2 with servers that offer it; without it, HTTP/1.1 |
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
//! Dropping the future of a request cancels it: a legacy server, or any server on a pipe, is sent
//! `notifications/cancelled`; a modern HTTP server sees the stream close. A late response is
//! discarded. A call that became a task is canceled with `tasks/cancel` only.
//!
//! Dropping the future of [`Client::connect`] closes what was opened, and that of
//! [`Client::subscribe`] unsubscribes. What was begun to end something goes on in the background, such
//! as [`Client::close`]. A future that only waits, such as that of [`Client::ready`] or of the next item
//! of a stream, is dropped without an effect. Each function says what applies to it.

// The pages on docs.rs name the feature that each item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

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
mod config_file;
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
pub use bowline_proto::fault::{
    Cause, Evidence, Execution, Exit, Fault, Limit, Misbehavior, ProcessEnd, Recovery, ShutdownStep,
    SpawnError,
};
pub use bowline_proto::revision::{Era, Revision};
pub use bowline_proto::wire::{Defect, Id, Json, RpcError};

/// The settings of servers, logins, sampling and hooks: what a configuration file says, and what a
/// program passes to [`Client`], [`Registry`], `auth::Auth` and `sampling::Provider`.
pub mod config {
    #[cfg(feature = "config")]
    pub use crate::config_file::{ConfigFileError, ProcessEnvironment};
    pub use bowline_config::{
        AppSettings, AuthSettings, ClientSettings, Diff, Dpop, ElicitationPolicy, Exposure, Grant,
        HeadersCommand, Hook, HookAction, HookEvent, Http, Idp, InvalidValue, KeyLocation, OAuthResource,
        Program, Protocol, Redirect, ResourceIndicator, RootCloseness, RootFolder, Sampling, SamplingApi,
        SamplingPolicy, Secret, ServeLimits, ServeRate, ServeSettings, Share, SigningKey, StoreBackend,
        StoreConfig, Timeouts, Tls, TokenAuth, TokenSource, ToolPattern, Transport, View,
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
        Field, FieldKind, Form, GetPromptResult, Icon, Implementation, IncludeContext, InputRequest,
        InputRequests, JsonKind, JsonString, ListItem, LogLevel, LogMessage, MediaContent, ModelPreferences,
        Page, Progress, Prompt, PromptArgument, PromptMessage, ReadResourceResult, Resource, ResourceBody,
        ResourceContents, ResourceTemplate, Role, SamplingBlock, SamplingMessage, SamplingRequest,
        SamplingResult, SkillDescriptor, SkillFile, SkillFiles, Task, TaskDialect, TaskStatus, TaskSupport,
        TextContent, Tool, ToolAnnotations, ToolChoice, TurnError, UrlElicitation, ViewError,
    };

    /// The error codes of JSON-RPC and of the protocol.
    pub mod code {
        pub use bowline_proto::wire::code::{
            HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND,
            MISSING_CLIENT_CAPABILITY, PARSE_ERROR, RESOURCE_NOT_FOUND, UNSUPPORTED_VERSION,
            URL_ELICITATION_REQUIRED, USER_REJECTED,
        };
    }

    /// The names of requests and notifications.
    pub mod method {
        pub use bowline_proto::wire::method::{
            CANCELLED, COMPLETE, DISCOVER, ELICIT, ELICIT_COMPLETE, INITIALIZE, INITIALIZED, LISTEN,
            LISTEN_ACKNOWLEDGED, LOG, PING, PROGRESS, PROMPTS_CHANGED, PROMPTS_GET, PROMPTS_LIST,
            RESOURCE_UPDATED, RESOURCES_CHANGED, RESOURCES_LIST, RESOURCES_READ, RESOURCES_SUBSCRIBE,
            RESOURCES_UNSUBSCRIBE, ROOTS_CHANGED, ROOTS_LIST, SAMPLING, SET_LEVEL, SKILLS_GET, SKILLS_LIST,
            TASK, TASK_STATUS, TASKS_CANCEL, TASKS_GET, TASKS_LIST, TASKS_RESULT, TASKS_UPDATE,
            TEMPLATES_LIST, TOOLS_CALL, TOOLS_CHANGED, TOOLS_LIST,
        };
    }
}

#[cfg(feature = "stdio")]
/// The server processes of all programs of this user that keep their records in the same folder.
pub mod processes {
    pub use bowline_transport::process::{Orphan, RunningProcess, RunningServer, list, sweep};
}

pub use bowline_proto::meta_key::{InvalidMetaKey, MetaKey};
pub use bowline_proto::trace::TraceContext;
pub use call::{Call, CallBuilder, ProgressStream};
pub use client::{Client, ClientBuilder};
#[cfg(feature = "config")]
pub use config_file::LoadConfig;
pub use connection::{CallOptions, List};
pub use error::{Error, ErrorKind, Result, TaskEnd};
pub use events::{
    ConnectionEvent, ConnectionEventKind, Event, EventReceiver, EventSender, ListChange, ListKind,
    Notification, StderrLine, Topic,
};
#[cfg(feature = "skills")]
pub use features::skills;
pub use features::{Completer, Reference, ResourceChange, Subscription, TaskOrResult, templates};
pub use handler::{Handler, HandlerResult, NoHandler, RootChanges, ServerRequest, UrlElicitationOutcome};
pub use layer::{Layer, LayerFuture, OutgoingRequest, Refusal};
pub use registry::{Registry, RegistryBuilder, ServerEvent, ServerState, ServerStatus};
pub use report::{CallRecord, CallReport, Outcome, ToolResult};
pub use saved_session::SavedSession;
pub use status::{Health, StatusWatch};

/// Compiles the example of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles both sides of the page about moving from rmcp.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/migrating-from-rmcp.md")]
struct MigrationPage;
