//! Owns which transport an entry has: what follows from its keys, and whether `transport` and
//! `type` agree with that.

use super::Resolver;
use super::program::Asker;
use crate::auth::Auth;
use crate::check::{self, Invalid};
use crate::problem::ProblemKind;
use crate::raw::{RawAuth, RawHeadersCommand, RawMap, Reach};
use crate::report::{Finding, Located, Place};
use crate::server::{Http, Stdio, Tls, Transport};

/// The keys of an entry that decide its transport.
pub(super) struct Written {
    pub(super) command: Option<Located<String>>,
    pub(super) started: Started,
    pub(super) url: Option<Located<String>>,
    pub(super) reached: Reached,
    pub(super) transport: Option<Located<Reach>>,
    pub(super) kind: Option<Located<Reach>>,
    /// `command` or `url` was given but unreadable; see
    /// [`DecodedServer`](crate::dialect::DecodedServer).
    pub(super) garbled: bool,
}

/// Keys that only a server with `command` may have.
pub(super) struct Started {
    pub(super) args: Option<Located<Vec<Located<String>>>>,
    pub(super) env: Option<Located<RawMap>>,
    pub(super) cwd: Option<Located<String>>,
}

/// Keys that only a server with `url` may have.
pub(super) struct Reached {
    pub(super) headers: Option<Located<RawMap>>,
    pub(super) headers_command: Option<Located<RawHeadersCommand>>,
    pub(super) auth: Option<Located<RawAuth>>,
    pub(super) allow_http: Option<Located<bool>>,
    pub(super) ca_file: Option<Located<String>>,
    pub(super) client_cert: Option<Located<String>>,
    pub(super) client_key: Option<Located<String>>,
}

impl Resolver<'_, '_> {
    pub(super) fn transport(&mut self, name: &str, entry: &Place, written: Written) -> Option<Transport> {
        let Written { command, started, url, reached, transport, kind, garbled } = written;
        let claim = self.claim(transport, kind);
        match (command, url) {
            (Some(command), None) => {
                if let Some(claim) = claim.filter(|claim| claim.value != Reach::Stdio) {
                    let message =
                        "says that the server is reached by URL, but the entry has a `command` and no `url`";
                    self.report.error(&claim.place, Finding::new(ProblemKind::Conflict, message));
                }
                self.refuse(reached.places(), &Invalid::NotHttp);
                self.stdio(command, started).map(Transport::Stdio)
            }
            (None, Some(url)) => {
                self.refuse(started.places(), &Invalid::NotStdio);
                let http = self.http(name, url, reached);
                match claim {
                    None => Some(Transport::Http(http?)),
                    Some(Located { value: Reach::Remote, .. }) => Some(Transport::Http(http?)),
                    Some(Located { value: Reach::Http, .. }) => {
                        Some(Transport::Http(Http { fallback: false, ..http? }))
                    }
                    Some(Located { value: Reach::Sse, .. }) => {
                        Some(Transport::Sse(Http { fallback: false, ..http? }))
                    }
                    Some(Located { value: Reach::Stdio, place }) => {
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
    fn claim(
        &mut self,
        transport: Option<Located<Reach>>,
        kind: Option<Located<Reach>>,
    ) -> Option<Located<Reach>> {
        let (transport, kind) = match (transport, kind) {
            (Some(transport), Some(kind)) => (transport, kind),
            (transport, kind) => return transport.or(kind),
        };
        match (transport.value, kind.value) {
            (Reach::Remote, Reach::Http | Reach::Sse) => return Some(kind),
            (Reach::Http | Reach::Sse, Reach::Remote) => {}
            (one, other) if one == other => {}
            _ => {
                let finding = Finding::new(ProblemKind::Conflict, "contradicts `transport`")
                    .hint("they are one setting; keep one of them");
                self.report.error(&kind.place, finding);
            }
        }
        Some(transport)
    }

    pub(super) fn stdio(&mut self, command: Located<String>, started: Started) -> Option<Stdio> {
        let Started { args, env, cwd } = started;
        let command = self.text(command, check::command);
        let args = args.map_or_else(Vec::new, |args| {
            let texts = args.value.into_iter();
            texts.filter_map(|arg| self.text(arg, check::no_nul)).collect()
        });
        let env = self.environment(env);
        let cwd = self.path(cwd);
        Some(Stdio { command: command?, args, env, cwd })
    }

    fn http(&mut self, name: &str, url: Located<String>, reached: Reached) -> Option<Http> {
        let Reached { headers, headers_command, auth, allow_http, ca_file, client_cert, client_key } =
            reached;
        if let (Some(half), None) | (None, Some(half)) = (&client_cert, &client_key) {
            self.refuse([&half.place], &Invalid::TlsPair);
        }
        let url = self.url(url);
        let headers = self.headers(headers);
        self.doubt_login(auth.as_ref(), headers_command.as_ref(), &headers);
        let auth = match auth {
            Some(auth) => self.auth(auth),
            None => Some(Auth::default()),
        };
        let headers_command =
            headers_command.and_then(|it| self.headers_command(it, Asker { name, url: url.as_ref() }));
        let tls = Tls {
            ca_file: self.path(ca_file),
            client_cert: self.path(client_cert),
            client_key: self.path(client_key),
        };
        let allow_http = allow_http.is_some_and(|allow| allow.value);
        let url = url?;
        Some(Http {
            headers,
            tls,
            fallback: true,
            auth: auth?,
            headers_command,
            allow_http,
            ..Http::plain(url)
        })
    }
}

impl Started {
    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        let Self { args, env, cwd } = self;
        let places = [
            args.as_ref().map(|it| &it.place),
            env.as_ref().map(|it| &it.place),
            cwd.as_ref().map(|it| &it.place),
        ];
        places.into_iter().flatten()
    }
}

impl Reached {
    fn places(&self) -> impl Iterator<Item = &Place> {
        let Self { headers, headers_command, auth, allow_http, ca_file, client_cert, client_key } = self;
        let places = [
            headers.as_ref().map(|it| &it.place),
            headers_command.as_ref().map(|it| &it.place),
            auth.as_ref().map(|it| &it.place),
            allow_http.as_ref().map(|it| &it.place),
            ca_file.as_ref().map(|it| &it.place),
            client_cert.as_ref().map(|it| &it.place),
            client_key.as_ref().map(|it| &it.place),
        ];
        places.into_iter().flatten()
    }
}
