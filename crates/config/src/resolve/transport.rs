//! Owns which transport an entry has: what follows from its keys, and whether `transport` and
//! `type` agree with that.

use std::path::PathBuf;

use url::Url;

use super::Resolver;
use super::places;
use super::program::ServerRef;
use crate::auth::{AuthSettings, Program};
use crate::check::{self, InvalidValue};
use crate::problem::ProblemKind;
use crate::raw::{RawAuth, RawHeadersCommand, RawMap, RawTransport};
use crate::report::{Finding, LocatedValue, Location};
use crate::server::{Http, Tls, Transport};

/// The keys of an entry that decide its transport.
pub(super) struct TransportKeys {
    pub(super) command: Option<LocatedValue<String>>,
    pub(super) stdio: StdioKeys,
    pub(super) url: Option<LocatedValue<String>>,
    pub(super) http: HttpKeys,
    pub(super) transport: Option<LocatedValue<RawTransport>>,
    pub(super) kind: Option<LocatedValue<RawTransport>>,
    /// Whether `command` or `url` was given but unreadable, which has been reported.
    pub(super) garbled: bool,
}

/// Keys that only a server with `command` may have.
pub(super) struct StdioKeys {
    pub(super) args: Option<LocatedValue<Vec<LocatedValue<String>>>>,
    pub(super) env: Option<LocatedValue<RawMap>>,
    pub(super) cwd: Option<LocatedValue<String>>,
}

/// Keys that only a server with `url` may have.
pub(super) struct HttpKeys {
    pub(super) socket: Option<LocatedValue<String>>,
    pub(super) headers: Option<LocatedValue<RawMap>>,
    pub(super) headers_command: Option<LocatedValue<RawHeadersCommand>>,
    pub(super) auth: Option<LocatedValue<RawAuth>>,
    pub(super) allow_http: Option<LocatedValue<bool>>,
    pub(super) ca_file: Option<LocatedValue<String>>,
    pub(super) client_cert: Option<LocatedValue<String>>,
    pub(super) client_key: Option<LocatedValue<String>>,
}

impl Resolver<'_, '_> {
    pub(super) fn resolve_transport(
        &mut self,
        name: &str,
        entry: &Location,
        written: TransportKeys,
    ) -> Option<Transport> {
        let TransportKeys { command, stdio: started, url, http: reached, transport, kind, garbled } = written;
        let claim = self.declared_transport(transport, kind);
        match (command, url) {
            (Some(command), None) => {
                if let Some(claim) = claim.filter(|claim| claim.value != RawTransport::Stdio) {
                    let message =
                        "says that the server is reached by URL, but the entry has a `command` and no `url`";
                    self.report.error(&claim.place, Finding::new(ProblemKind::Conflict, message));
                }
                self.refuse(reached.places(), &InvalidValue::NotHttp);
                self.resolve_stdio(command, started).map(Transport::Stdio)
            }
            (None, Some(url)) => {
                self.refuse(started.places(), &InvalidValue::NotStdio);
                let http = self.resolve_http(name, url, reached);
                match claim {
                    None => Some(Transport::Http(http?)),
                    Some(LocatedValue { value: RawTransport::Remote, .. }) => Some(Transport::Http(http?)),
                    Some(LocatedValue { value: RawTransport::Http, .. }) => {
                        Some(Transport::Http(Http { fallback: false, ..http? }))
                    }
                    Some(LocatedValue { value: RawTransport::Sse, .. }) => {
                        Some(Transport::Sse(Http { fallback: false, ..http? }))
                    }
                    Some(LocatedValue { value: RawTransport::Stdio, place }) => {
                        let message =
                            "says that the server is started, but the entry has a URL and no `command`";
                        self.report.error(&place, Finding::new(ProblemKind::Conflict, message));
                        None
                    }
                }
            }
            (Some(_), Some(_)) => {
                let message = "has both `command` and a URL";
                let finding = Finding::new(ProblemKind::Conflict, message)
                    .hint("a server is either started or reached by URL; make it two entries");
                self.report.error(entry, finding);
                None
            }
            (None, None) => {
                if !garbled {
                    let message = "needs `command` or `url`";
                    self.report.error(entry, Finding::new(ProblemKind::MissingKey, message));
                }
                None
            }
        }
    }

    /// Merges `transport` and `type`, two names of one key. `Remote`, which leaves the transport
    /// open, gives way to the other.
    fn declared_transport(
        &mut self,
        transport: Option<LocatedValue<RawTransport>>,
        kind: Option<LocatedValue<RawTransport>>,
    ) -> Option<LocatedValue<RawTransport>> {
        let (transport, kind) = match (transport, kind) {
            (Some(transport), Some(kind)) => (transport, kind),
            (transport, kind) => return transport.or(kind),
        };
        match (transport.value, kind.value) {
            (RawTransport::Remote, RawTransport::Http | RawTransport::Sse) => return Some(kind),
            (RawTransport::Http | RawTransport::Sse, RawTransport::Remote) => {}
            (one, other) if one == other => {}
            _ => {
                let finding = Finding::new(ProblemKind::Conflict, "contradicts `transport`")
                    .hint("they are one setting; keep one of them");
                self.report.error(&kind.place, finding);
            }
        }
        Some(transport)
    }

    pub(super) fn resolve_stdio(
        &mut self,
        command: LocatedValue<String>,
        started: StdioKeys,
    ) -> Option<Program> {
        let StdioKeys { args, env, cwd } = started;
        if args.is_none() {
            self.warn_command_line(&command);
        }
        let command = self.resolve_text(command, check::command);
        let args = args.map_or_else(Vec::new, |args| {
            let texts = args.value.into_iter();
            texts.filter_map(|arg| self.resolve_text(arg, check::no_nul)).collect()
        });
        let env = self.resolve_environment(env);
        let cwd = self.resolve_path(cwd);
        Some(Program { command: command?, args, env, cwd })
    }

    /// Notes a `command` that looks like a program with its arguments. No shell splits it.
    fn warn_command_line(&mut self, command: &LocatedValue<String>) {
        let mut words = command.value.split_whitespace();
        let program = words.next().unwrap_or_default();
        let args: Vec<String> = words.map(|word| format!("{word:?}")).collect();
        // A path may have spaces in it.
        if !args.is_empty() && !program.contains(['/', '\\']) {
            let finding =
                Finding::new(ProblemKind::Doubtful, "contains spaces and is used as one program name")
                    .hint(format!("write command = {program:?} and args = [{}]", args.join(", ")));
            self.report.note(&command.place, finding);
        }
    }

    fn resolve_http(&mut self, name: &str, url: LocatedValue<String>, reached: HttpKeys) -> Option<Http> {
        let HttpKeys { socket, headers, headers_command, auth, allow_http, ca_file, client_cert, client_key } =
            reached;
        if let (Some(half), None) | (None, Some(half)) = (&client_cert, &client_key) {
            self.refuse([&half.place], &InvalidValue::TlsPair);
        }
        let url = self.resolve_url(url, check::url);
        let socket = self.resolve_socket(socket, url.as_ref());
        let headers = self.resolve_headers(headers);
        self.warn_unused_login(auth.as_ref(), headers_command.as_ref(), &headers);
        let auth = match auth {
            Some(auth) => self.resolve_auth(auth),
            None => Some(AuthSettings::default()),
        };
        let headers_command = headers_command
            .and_then(|it| self.resolve_headers_command(it, ServerRef { name, url: url.as_ref() }));
        let tls = Tls {
            ca_file: self.resolve_path(ca_file),
            client_cert: self.resolve_path(client_cert),
            client_key: self.resolve_path(client_key),
        };
        let allow_http = allow_http.is_some_and(|allow| allow.value);
        let url = url?;
        Some(Http {
            socket,
            headers,
            tls,
            fallback: true,
            auth: auth?,
            headers_command,
            allow_http,
            ..Http::from_url(url)
        })
    }

    /// Resolves `socket`; `None` if there is none, or if it was reported.
    fn resolve_socket(&mut self, socket: Option<LocatedValue<String>>, url: Option<&Url>) -> Option<PathBuf> {
        let place = socket.as_ref()?.place.clone();
        let path = self.resolve_path(socket)?;
        // An unusable URL has been reported.
        self.ok_or_report(&place, check::socket(&path, url?))?;
        Some(path)
    }
}

impl StdioKeys {
    pub(super) fn places(&self) -> impl Iterator<Item = &Location> {
        let Self { args, env, cwd } = self;
        places![args, env, cwd]
    }
}

impl HttpKeys {
    fn places(&self) -> impl Iterator<Item = &Location> {
        let Self { socket, headers, headers_command, auth, allow_http, ca_file, client_cert, client_key } =
            self;
        places![socket, headers, headers_command, auth, allow_http, ca_file, client_cert, client_key]
    }
}
