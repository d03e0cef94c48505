//! Owns the way from raw keys to validated settings: placeholders are filled, values checked,
//! defaults applied.

mod asks;
mod auth;
mod client;
mod hook;
mod keeping;
mod program;
mod transport;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::check::{self, Invalid};
use crate::dialect::{Decoded, Entry};
use crate::placeholder::Filler;
use crate::problem::ProblemKind;
use crate::raw::{RawMap, RawServer};
use crate::report::{Finding, Located, Place, Report};
use crate::secret::Secret;
use crate::server::{Server, Timeouts};
use transport::{Reached, Started, Written};

/// Turns raw entries into validated settings, and reports every problem it meets.
pub(crate) struct Resolver<'r, 'a> {
    pub(crate) report: &'r mut Report<'a>,
    pub(crate) filler: Filler<'a>,
}

impl Resolver<'_, '_> {
    /// Resolves a server; `None` if a reported problem leaves no usable one.
    pub(crate) fn server(&mut self, entry: Entry, decoded: Decoded) -> Option<Server> {
        let named = self.checked(&entry.place, check::name(&entry.name));
        let RawServer {
            command,
            args,
            env,
            cwd,
            url,
            transport,
            kind,
            headers,
            headers_command,
            auth,
            allow_http,
            ca_file,
            client_cert,
            client_key,
            timeout,
            max_timeout,
            connect_timeout,
            probe_timeout,
            keepalive_interval,
            reconnect_wait,
            enabled,
            protocol,
            sampling,
            roots,
            hooks,
        } = decoded.raw;

        let timeouts = self.timeouts(timeout, max_timeout, connect_timeout, probe_timeout);
        let written = Written {
            command,
            started: Started { args, env, cwd },
            url,
            reached: Reached { headers, headers_command, auth, allow_http, ca_file, client_cert, client_key },
            transport,
            kind,
            garbled: decoded.transport_garbled,
        };
        let transport = self.transport(&entry.name, &entry.place, written);
        let keepalive = self.keepalive(keepalive_interval);
        let roots = roots.map(|folders| self.folders(folders));
        let hooks = hooks.into_iter().filter_map(|hook| self.hook(hook)).collect();
        named?;
        Some(Server {
            name: entry.name,
            enabled: enabled.is_none_or(|enabled| enabled.value),
            transport: transport?,
            timeouts,
            protocol: protocol.map_or_else(Default::default, |protocol| protocol.value),
            keepalive,
            reconnect_wait: reconnect_wait
                .map_or(Duration::from_secs(Server::RECONNECT_WAIT), |wait| wait.value),
            sampling: sampling.map(|policy| policy.value),
            roots,
            hooks,
        })
    }

    /// Resolves the keepalive interval. Zero turns it off. One that is too short still asks for
    /// keepalive, so it is raised and not refused.
    fn keepalive(&mut self, interval: Option<Located<Duration>>) -> Option<Duration> {
        let Some(interval) = interval else {
            return Some(Duration::from_secs(Server::KEEPALIVE));
        };
        if interval.value.is_zero() {
            return None;
        }
        let floor = Server::KEEPALIVE_FLOOR;
        if interval.value < floor {
            let message = format!("used as {} s, the shortest there is", floor.as_secs());
            let finding = Finding::new(ProblemKind::Doubtful, message).hint("write 0 to turn it off");
            self.report.note(&interval.place, finding);
        }
        Some(interval.value.max(floor))
    }

    fn url(&mut self, url: Located<String>) -> Option<Url> {
        let place = url.place.clone();
        let url = self.fill(url)?;
        self.checked(&place, check::url(&url))
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
                // A valid header name may be shown; any other may be a secret.
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
        // If only one of the two is given, the default of the other adjusts to it.
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

    /// Fills the placeholders of a text and checks the result.
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
            Invalid::NotStdio | Invalid::NotHttp | Invalid::NotHookCommand | Invalid::NotWebhook => {
                ProblemKind::Conflict
            }
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
