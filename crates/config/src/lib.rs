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
//! # Stages
//!
//! `tree` (text into values with their locations) → `dialect` (values into the keys of `raw`) →
//! `resolve` (placeholders, checks, defaults) → [`Server`]. Every problem is collected on the way:
//! [`Errors`] holds all of them, not only the first.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests may read the clock and files"
    )
)]

mod anchor;
mod auth;
mod check;
mod config;
mod dialect;
mod duration;
mod elicitation;
mod environment;
mod hook;
mod keys;
mod outline;
mod placeholder;
mod problem;
mod raw;
mod report;
mod resolve;
mod sampling;
mod schema;
mod secret;
mod server;
mod server_builder;
mod source;
mod store;
mod suggest;
mod tree;
mod words;

pub use auth::{
    AppSettings, AuthSettings, ClientSettings, Dpop, Grant, HeadersCommand, Idp, Program, Redirect,
    ResourceIndicator, SigningKey, TokenAuth, TokenSource,
};
pub use check::InvalidValue;
pub use config::{Config, Diff, diff};
pub use duration::{InvalidDuration, ZeroMeaning, parse_duration};
pub use elicitation::ElicitationPolicy;
pub use environment::{Environment, FixedEnvironment};
pub use hook::{Hook, HookAction, HookEvent};
pub use outline::{EndpointOutline, Outline, ProgramOutline, ServerOutline, SettingOutline, outline};
pub use problem::{Errors, Problem, ProblemKind};
pub use sampling::{Sampling, SamplingApi, SamplingPolicy};
pub use schema::json_schema;
pub use secret::Secret;
pub use server::{Http, Protocol, Server, Timeouts, Tls, Transport};
pub use server_builder::{HttpServer, IntoServer, StdioServer};
pub use source::{Dialect, Source};
pub use store::{KeyLocation, StoreBackend, StoreConfig};
pub use suggest::closest_name;

use keys::KeyTable;
use placeholder::Filler;
use raw::{RawElicitation, RawFile};
use report::{Located, Report};
use resolve::Resolver;
use tree::Node;

/// Parses a configuration, or returns everything that is wrong with it.
///
/// A disabled server whose placeholders cannot be filled is not an error: it is left out, with a
/// note.
pub fn parse(source: &Source, env: &dyn Environment) -> Result<Config, Errors> {
    let (config, errors) = parse_partial(source, env);
    match errors {
        None => Ok(config),
        Some(errors) => Err(errors),
    }
}

/// Parses what can be parsed: the servers without a problem, and the problems of the others. For
/// callers that should not lose all servers to one broken entry.
pub fn parse_partial(source: &Source, env: &dyn Environment) -> (Config, Option<Errors>) {
    let mut report = Report::new(source);
    let mut config = Config { sources: vec![source.path.clone()], ..Config::default() };
    if let Some(root) = tree::read(source, &mut report) {
        let filler = Filler::new(env, &source.path);
        let mut file = dialect::read_document(source.dialect, root, &mut report);
        let hooks = file.hooks.take().map_or_else(Vec::new, |hooks| hooks.value);
        let servers = file.servers.take().map_or_else(Vec::new, |servers| servers.value);
        read_global_tables(file, &mut config, &mut report, filler);
        for hook in hooks {
            let mark = report.mark();
            let decoded = dialect::decode_hook(hook, &mut report);
            let hook = Resolver { report: &mut report, filler }.resolve_hook(decoded);
            // A hook with a problem is dropped: half of it could do something that was not asked
            // for.
            config.hooks.extend(hook.filter(|_| report.problems_since(&mark).is_empty()));
        }
        for mut entry in servers {
            let name = entry.name.clone();
            let mark = report.enter_server(&name);
            let raw = dialect::decode_server(source.dialect, &mut entry, &mut report);
            let disabled = raw.enabled.as_ref().is_some_and(|it| !it.value);
            let resolver = &mut Resolver { report: &mut report, filler };
            let server = resolver.resolve_server(entry, raw);
            let found = report.problems_since(&mark);
            let unresolved = |problem: &Problem| problem.kind == ProblemKind::Unresolved;
            match server {
                Some(server) if found.is_empty() => {
                    config.servers.insert(name, server);
                }
                _ => {
                    // Often disabled because its credentials are gone: worth a note, and no reason
                    // to refuse the file.
                    if disabled && found.iter().all(unresolved) {
                        report.downgrade_since(&mark);
                    }
                    config.left_out.insert(name);
                }
            }
            report.leave_server();
        }
    }
    let (problems, notes) = report.finish();
    // A duplicate name, or one whose value is no table, is known only from its problem.
    let troubled = problems.iter().filter_map(|problem| problem.server.clone());
    config.left_out.extend(troubled);
    config.servers.retain(|name, _| !config.left_out.contains(name));
    config.notes = notes;
    (config, Errors::from_problems(problems))
}

/// Reads the tables for all servers. A table with a problem falls back to the cautious setting: no
/// model, elicitations declined, no roots, default auth settings.
fn read_global_tables<'a>(file: RawFile, config: &mut Config, report: &mut Report<'a>, filler: Filler<'a>) {
    let RawFile { servers: _, hooks: _, sampling, elicitation, roots, auth, store, garbled: _ } = file;
    let resolver = &mut Resolver { report, filler };
    config.sampling = read_table(sampling, resolver, Resolver::resolve_sampling).unwrap_or_default();
    let policy = |_: &mut Resolver<'_, '_>, raw: Located<RawElicitation>| Some(raw.value.policy?.value);
    config.elicitation =
        read_table(elicitation, resolver, policy).unwrap_or(Some(ElicitationPolicy::Decline));
    config.roots = read_table(roots, resolver, Resolver::resolve_roots).unwrap_or(Some(Vec::new()));
    let app = |resolver: &mut Resolver<'_, '_>, raw| Some(resolver.resolve_app(raw));
    config.auth = read_table(auth, resolver, app).flatten().unwrap_or_default();
    config.store = read_table(store, resolver, Resolver::resolve_store).unwrap_or_default();
}

/// Reads a table for all servers. The outer `None` is a table with a problem, which has been
/// reported; the inner one is a table that is absent or sets nothing.
#[expect(clippy::option_option, reason = "absent and wrong are two things here")]
fn read_table<'r, 'a, T: KeyTable, U>(
    table: Option<Located<Node>>,
    resolver: &mut Resolver<'r, 'a>,
    resolve: impl FnOnce(&mut Resolver<'r, 'a>, Located<T>) -> Option<U>,
) -> Option<Option<U>> {
    let Some(table) = table else { return Some(None) };
    let mark = resolver.report.mark();
    let raw = dialect::decode_table(table, resolver.report);
    let settings = raw.and_then(|raw| resolve(resolver, raw));
    resolver.report.problems_since(&mark).is_empty().then_some(settings)
}
