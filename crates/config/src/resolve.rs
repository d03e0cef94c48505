//! Owns the way from what was written to what was meant: placeholders filled, values checked,
//! one transport chosen, defaults put in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::check::{self, Invalid};
use crate::dialect::{Decoded, Entry};
use crate::placeholder::Filler;
use crate::problem::ProblemKind;
use crate::raw::{RawMap, RawServer};
use crate::report::{Finding, Located, Place, Report};
use crate::secret::Secret;
use crate::server::{Http, Server, Stdio, Timeouts, Tls, Transport};

pub(crate) struct Resolver<'r, 'a> {
    pub(crate) report: &'r mut Report<'a>,
    pub(crate) filler: Filler<'a>,
}

impl Resolver<'_, '_> {
    /// The server, or `None` when something about it has been reported that leaves none.
    pub(crate) fn server(&mut self, entry: Entry, decoded: Decoded) -> Option<Server> {
        let named = self.checked(&entry.place, check::name(&entry.name));
        let RawServer {
            command,
            args,
            env,
            cwd,
            url,
            headers,
            ca_file,
            client_cert,
            client_key,
            timeout,
            max_timeout,
            connect_timeout,
            probe_timeout,
            enabled,
            protocol,
        } = decoded.raw;

        let started = Started { args, env, cwd };
        let reached = Reached { headers, ca_file, client_cert, client_key };
        let timeouts = self.timeouts(timeout, max_timeout, connect_timeout, probe_timeout);
        let transport = match (command, url) {
            (Some(command), None) => {
                self.refuse(reached.places(), &Invalid::NotHttp);
                self.stdio(command, started).map(Transport::Stdio)
            }
            (None, Some(url)) => {
                self.refuse(started.places(), &Invalid::NotStdio);
                self.http(url, reached).map(Transport::Http)
            }
            (Some(_), Some(_)) => {
                let message = "has both `command` and a URL";
                let finding = Finding::new(ProblemKind::Conflict, message)
                    .hint("a server is either started or reached by URL; make it two entries");
                self.report.error(&entry.place, finding);
                None
            }
            (None, None) => {
                if !decoded.transport_garbled {
                    let message = "needs `command` or `url`";
                    let finding = Finding::new(ProblemKind::MissingKey, message);
                    self.report.error(&entry.place, finding);
                }
                None
            }
        };
        named?;
        Some(Server {
            name: entry.name,
            enabled: enabled.is_none_or(|enabled| enabled.value),
            transport: transport?,
            timeouts,
            protocol: protocol.map_or_else(Default::default, |protocol| protocol.value),
        })
    }

    fn stdio(&mut self, command: Located<String>, started: Started) -> Option<Stdio> {
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

    fn http(&mut self, url: Located<String>, reached: Reached) -> Option<Http> {
        let Reached { headers, ca_file, client_cert, client_key } = reached;
        if let (Some(half), None) | (None, Some(half)) = (&client_cert, &client_key) {
            self.refuse([&half.place], &Invalid::TlsPair);
        }
        let place = url.place.clone();
        let url = self.fill(url);
        let url = url.and_then(|url| self.checked(&place, check::url(&url)));
        let headers = self.headers(headers);
        let tls = Tls {
            ca_file: self.path(ca_file),
            client_cert: self.path(client_cert),
            client_key: self.path(client_key),
        };
        Some(Http { url: url?, headers, tls })
    }

    fn environment(&mut self, env: Option<Located<RawMap>>) -> BTreeMap<String, Secret> {
        let mut resolved = BTreeMap::new();
        for (name, value) in env.into_iter().flat_map(|env| env.value) {
            let named = self.checked(&name.place, check::env_name(&name.value));
            let value = self.text(value, check::no_nul);
            if let (Some(()), Some(value)) = (named, value) {
                resolved.insert(name.value, Secret::new(value));
            }
        }
        resolved
    }

    fn headers(&mut self, headers: Option<Located<RawMap>>) -> Vec<(String, Secret)> {
        let mut resolved: Vec<(String, Secret)> = Vec::new();
        for (name, value) in headers.into_iter().flat_map(|headers| headers.value) {
            let place = match check::header_name(&name.value) {
                // A name that is one may be shown.
                Ok(()) | Err(Invalid::ReservedHeader) => value.place.clone(),
                Err(_) => name.place,
            };
            let named = self.checked(&place, check::header_name(&name.value));
            let Some(value) = self.text(value, check::header_value) else {
                continue;
            };
            if named.is_none() {
                continue;
            }
            if resolved.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name.value)) {
                self.refuse([&place], &Invalid::DuplicateHeader);
                continue;
            }
            resolved.push((name.value, Secret::new(value)));
        }
        resolved
    }

    fn timeouts(
        &mut self,
        call: Option<Located<Duration>>,
        max: Option<Located<Duration>>,
        connect: Option<Located<Duration>>,
        probe: Option<Located<Duration>>,
    ) -> Timeouts {
        if let (Some(call), Some(max)) = (&call, &max)
            && call.value > max.value
        {
            let finding = Finding::new(ProblemKind::Conflict, "is shorter than `timeout`");
            self.report.error(&max.place, finding);
        }
        let default = Timeouts::default();
        let or = |given: Option<Located<Duration>>, default| given.map_or(default, |it| it.value);
        // Where only one of the two is given, the default of the other gives way.
        let (call, max) = match (call, max) {
            (Some(call), None) => (call.value, default.max.max(call.value)),
            (None, Some(max)) => (default.call.min(max.value), max.value),
            (call, max) => (or(call, default.call), or(max, default.max)),
        };
        Timeouts { connect: or(connect, default.connect), call, max, probe: or(probe, default.probe) }
    }

    fn path(&mut self, path: Option<Located<String>>) -> Option<PathBuf> {
        let path = path?;
        let place = path.place.clone();
        let text = self.text(path, check::no_nul)?;
        if text.is_empty() {
            let finding = Finding::new(ProblemKind::InvalidValue, "the path is empty");
            self.report.error(&place, finding);
            return None;
        }
        Some(self.filler.locate(&text))
    }

    /// The text with its placeholders filled, if it passes `check`.
    fn text(&mut self, text: Located<String>, check: fn(&str) -> Result<(), Invalid>) -> Option<String> {
        let place = text.place.clone();
        let filled = self.fill(text)?;
        self.checked(&place, check(&filled))?;
        Some(filled)
    }

    fn fill(&mut self, text: Located<String>) -> Option<String> {
        match self.filler.expand(&text.value) {
            Ok(filled) => Some(filled),
            Err(findings) => {
                for finding in findings {
                    self.report.error(&text.place, finding);
                }
                None
            }
        }
    }

    fn checked<T>(&mut self, place: &Place, checked: Result<T, Invalid>) -> Option<T> {
        match checked {
            Ok(value) => Some(value),
            Err(invalid) => {
                self.refuse([place], &invalid);
                None
            }
        }
    }

    fn refuse<'p>(&mut self, places: impl IntoIterator<Item = &'p Place>, invalid: &Invalid) {
        let kind = match invalid {
            Invalid::NotStdio | Invalid::NotHttp => ProblemKind::Conflict,
            Invalid::TlsPair => ProblemKind::MissingKey,
            Invalid::DuplicateHeader => ProblemKind::DuplicateKey,
            _ => ProblemKind::InvalidValue,
        };
        for place in places {
            let mut finding = Finding::new(kind, invalid.to_string());
            finding.hint = invalid.hint().map(str::to_owned);
            self.report.error(place, finding);
        }
    }
}

/// What only a server that is started has.
struct Started {
    args: Option<Located<Vec<Located<String>>>>,
    env: Option<Located<RawMap>>,
    cwd: Option<Located<String>>,
}

/// What only a server that is reached by URL has.
struct Reached {
    headers: Option<Located<RawMap>>,
    ca_file: Option<Located<String>>,
    client_cert: Option<Located<String>>,
    client_key: Option<Located<String>>,
}

impl Started {
    fn places(&self) -> impl Iterator<Item = &Place> {
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
        let Self { headers, ca_file, client_cert, client_key } = self;
        let places = [
            headers.as_ref().map(|it| &it.place),
            ca_file.as_ref().map(|it| &it.place),
            client_cert.as_ref().map(|it| &it.place),
            client_key.as_ref().map(|it| &it.place),
        ];
        places.into_iter().flatten()
    }
}
