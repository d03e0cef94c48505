//! Parses configuration files into validated servers.
//!
//! This crate is pure. It opens no file, reads no environment and knows no clock: the text comes
//! in as a [`Source`], and placeholders are filled from an [`Environment`].
//!
//! ```
//! use bowline_config::{FixedEnvironment, Source, Transport, parse};
//!
//! let source = Source::new(
//!     "bowline.toml",
//!     r#"
//!         [servers.files]
//!         command = "mcp-files"
//!         args = ["--root", "${ROOT:-/srv}"]
//!
//!         [servers.search]
//!         url = "https://search.example.com/mcp"
//!         headers = { Authorization = "Bearer {env:SEARCH_TOKEN}" }
//!         timeout = "20s"
//!     "#,
//! );
//! let env = FixedEnvironment::default().with_var("SEARCH_TOKEN", "s3cret");
//! let config = parse(&source, &env)?;
//!
//! let Transport::Stdio(files) = &config.servers["files"].transport else {
//!     unreachable!()
//! };
//! assert_eq!(files.args, ["--root", "/srv"]);
//! assert!(!format!("{config:?}").contains("s3cret"));
//! # Ok::<(), bowline_config::Errors>(())
//! ```
//!
//! # Transports
//!
//! `command` makes a server a child process, `url` one that is reached over HTTP. There are two
//! transports over HTTP. Streamable HTTP is tried first, and HTTP+SSE if the server refuses it,
//! unless the file names the transport:
//!
//! | the file says | transport |
//! |---|---|
//! | a `url` alone, or `type` "remote" | Streamable HTTP, or HTTP+SSE if that is refused |
//! | `transport` or `type` "http" or "streamable-http", or a host's `httpUrl` | Streamable HTTP only |
//! | `transport` or `type` "sse" | HTTP+SSE only |
//!
//! # Hooks and trust
//!
//! A hook runs a command or calls a URL. Hooks for all servers stay in [`Config::hooks`], apart
//! from those of each server, until [`Config::server`] joins them. A program that reads a file it
//! does not trust drops its servers and those hooks together, by not layering it
//! ([`Config::layered`]). Only the TOML form has hooks; hosts use the word for something else. An
//! untrusted file is inspected with [`outline()`], which fills in nothing: even reading a variable
//! or a file for a stranger gives something away.
//!
//! # Logins
//!
//! A server that is reached by URL has [`AuthSettings`], which by default discover everything when
//! the server requires a login, and perhaps a [`HeadersCommand`]. [`Config::auth`] says how this
//! client presents itself to all of them. Where logins are stored ([`Config::store`]) is the user's
//! alone: [`Config::layered`] drops what a project says about it.
//!
//! # Features
//!
//! `files` (on by default) reads files. Without it the crate has the types of the settings only, for
//! programs that construct them, and neither a TOML nor a JSON parser.
//!
//! # What can grow
//!
//! Structs and enumerations are `#[non_exhaustive]`, because later versions have more settings and
//! more values of a setting. The exceptions are enumerations of which every value needs code of its
//! own at many places; their documentation says so. Structs are created by a constructor or `default`, and their fields are
//! set. Code that carries out a setting must refuse a value that it does not know, or choose what is
//! safe: never what permits more.
//!
//! # Stages
//!
//! `tree` (text into values with their locations) → `dialect` (values into the keys of `raw`) →
//! `resolve` (placeholders, checks, defaults) → [`Server`]. Every problem is collected on the way:
//! [`Errors`] holds all of them, not only the first.

// The pages on docs.rs name the feature that each item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests may read the clock and files"
    )
)]

#[cfg(feature = "files")]
mod anchor;
mod auth;
mod check;
mod config;
#[cfg(feature = "files")]
mod dialect;
#[cfg(feature = "files")]
mod duration;
mod elicitation;
#[cfg(feature = "files")]
mod environment;
mod exposure;
mod hook;
#[cfg(feature = "files")]
mod keys;
mod loopback;
#[cfg(feature = "files")]
mod outline;
#[cfg(feature = "files")]
mod parse;
#[cfg(feature = "files")]
mod placeholder;
mod problem;
#[cfg(feature = "files")]
mod raw;
#[cfg(feature = "files")]
mod report;
#[cfg(feature = "files")]
mod resolve;
mod root_folder;
mod sampling;
#[cfg(feature = "files")]
mod schema;
mod secret;
mod serve;
mod server;
mod server_builder;
#[cfg(feature = "files")]
mod server_name;
#[cfg(feature = "files")]
mod source;
mod store;
#[cfg(feature = "files")]
mod suggest;
mod transport_settings;
#[cfg(feature = "files")]
pub mod tree;
mod view;
mod words;

pub use auth::{
    AppSettings, AuthSettings, ClientSettings, Dpop, Grant, HeadersCommand, Idp, Program, Redirect,
    ResourceIndicator, SigningKey, TokenAuth, TokenSource,
};
pub use check::{InvalidValue, is_reserved_header};
pub use config::{Config, Diff, diff};
#[cfg(feature = "files")]
pub use dialect::split_plain_command;
#[cfg(feature = "files")]
pub use duration::{InvalidDuration, ZeroMeaning, parse_duration};
pub use elicitation::ElicitationPolicy;
#[cfg(feature = "files")]
pub use environment::{Environment, FixedEnvironment};
pub use exposure::{Exposure, ToolPattern};
pub use hook::{Hook, HookAction, HookEvent};
pub use loopback::{is_loopback, is_loopback_host};
#[cfg(feature = "files")]
pub use outline::{EndpointOutline, Outline, ProgramOutline, ServerOutline, SettingOutline, outline};
#[cfg(feature = "files")]
pub use parse::{parse, parse_partial};
#[cfg(feature = "files")]
pub use placeholder::{Placeholder, escape_placeholders, find_placeholders};
pub use problem::{Errors, Problem, ProblemKind};
pub use root_folder::{RootCloseness, RootFolder};
pub use sampling::{Sampling, SamplingApi, SamplingPolicy};
#[cfg(feature = "files")]
pub use schema::json_schema;
pub use secret::Secret;
pub use serve::{OAuthResource, ServeLimits, ServeRate, ServeSettings};
pub use server::{Http, Protocol, Server, Share, Timeouts, Tls, Transport};
pub use server_builder::{HttpServer, IntoServer, StdioServer};
#[cfg(feature = "files")]
pub use server_name::{numbered_server_names, valid_server_name};
#[cfg(feature = "files")]
pub use source::{FileFormat, Source};
pub use store::{KeyLocation, StoreBackend, StoreConfig};
#[cfg(feature = "files")]
pub use suggest::closest_name;
pub use transport_settings::TransportSettings;
pub use view::View;
