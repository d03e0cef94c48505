//! Owns the way from raw keys to validated settings: placeholders are filled, values checked,
//! defaults applied.

mod auth;
mod client;
mod exposure;
mod hook;
mod program;
mod serve;
mod serve_limits;
mod server_requests;
mod store;
mod transport;
mod view;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::check::{self, InvalidValue};
use crate::dialect::ServerEntry;
use crate::placeholder::Filler;
use crate::problem::ProblemKind;
use crate::raw::{RawMap, RawServer};
use crate::report::{Finding, LocatedValue, Location, Report};
use crate::secret::Secret;
use crate::server::{Server, Timeouts, bytes_of_mib};
use exposure::ExposureKeys;
use transport::{HttpKeys, StdioKeys, TransportKeys};

/// Turns raw entries into validated settings, and reports every problem it meets.
pub(crate) struct Resolver<'r, 'a> {
    pub(crate) report: &'r mut Report<'a>,
    pub(crate) filler: Filler<'a>,
}

impl Resolver<'_, '_> {
    /// Resolves a server; `None` if a reported problem leaves no usable one.
    pub(crate) fn resolve_server(&mut self, entry: ServerEntry, raw: RawServer) -> Option<Server> {
        let named = self.ok_or_report(&entry.place, check::name(&entry.name));
        let RawServer {
            command,
            args,
            env,
            cwd,
            url,
            socket,
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
            message_limit_mib,
            share,
            idle_stop,
            enabled_tools,
            disabled_tools,
            prompts,
            resources,
            tool_names,
            tool_descriptions,
            enabled,
            protocol,
            sampling,
            roots,
            hooks,
            garbled,
        } = raw;

        let timeouts = self.resolve_timeouts(timeout, max_timeout, connect_timeout, probe_timeout);
        let written = TransportKeys {
            command,
            stdio: StdioKeys { args, env, cwd },
            url,
            http: HttpKeys {
                socket,
                headers,
                headers_command,
                auth,
                allow_http,
                ca_file,
                client_cert,
                client_key,
            },
            transport,
            kind,
            garbled: garbled.contains(&"command") || garbled.contains(&"url"),
        };
        let transport = self.resolve_transport(&entry.name, &entry.place, written);
        let keepalive = self.resolve_keepalive(keepalive_interval);
        let exposed =
            ExposureKeys { enabled_tools, disabled_tools, prompts, resources, tool_names, tool_descriptions };
        let exposure = self.resolve_exposure(exposed);
        let roots = roots.map(|folders| self.resolve_folders(folders));
        let hooks = hooks
            .into_iter()
            .flat_map(|hooks| hooks.value)
            .filter_map(|hook| self.resolve_hook(hook))
            .collect();
        named?;
        let mut server = Server::new(entry.name, transport?);
        set_if_given(&mut server.enabled, enabled);
        set_if_given(&mut server.protocol, protocol);
        set_if_given(&mut server.reconnect_wait, reconnect_wait);
        if let Some(mib) = message_limit_mib {
            server.message_limit = bytes_of_mib(mib.value);
        }
        set_if_given(&mut server.share, share);
        server.idle_stop = idle_stop.map(|after| after.value).filter(|after| !after.is_zero());
        server.exposure = exposure;
        server.timeouts = timeouts;
        server.keepalive = keepalive;
        server.sampling = sampling.map(|policy| policy.value);
        server.roots = roots;
        server.hooks = hooks;
        Some(server)
    }

    /// Resolves the keepalive interval. Zero turns it off. One that is too short still asks for
    /// keepalive, so it is raised and not refused.
    fn resolve_keepalive(&mut self, interval: Option<LocatedValue<Duration>>) -> Option<Duration> {
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

    fn resolve_url(
        &mut self,
        url: LocatedValue<String>,
        check: fn(&str) -> Result<Url, InvalidValue>,
    ) -> Option<Url> {
        let place = url.place.clone();
        let url = self.fill(url)?;
        self.ok_or_report(&place, check(&url))
    }

    fn resolve_environment(&mut self, env: Option<LocatedValue<RawMap>>) -> BTreeMap<String, Secret> {
        let mut resolved = BTreeMap::new();
        for (name, value) in env.into_iter().flat_map(|env| env.value) {
            let named = self.ok_or_report(&name.place, check::env_name(&name.value));
            let value = self.resolve_text(value, check::no_nul);
            if let (Some(()), Some(value)) = (named, value) {
                resolved.insert(name.value, Secret::new(value));
            }
        }
        resolved
    }

    fn resolve_headers(&mut self, headers: Option<LocatedValue<RawMap>>) -> Vec<(String, Secret)> {
        let mut resolved: Vec<(String, Secret)> = Vec::new();
        for (name, value) in headers.into_iter().flat_map(|headers| headers.value) {
            let place = match check::header_name(&name.value) {
                // A valid header name may be shown; any other may be a secret.
                Ok(()) | Err(InvalidValue::ReservedHeader) => value.place.clone(),
                Err(_) => name.place,
            };
            let named = self.ok_or_report(&place, check::header_name(&name.value));
            let Some(value) = self.resolve_text(value, check::header_value) else {
                continue;
            };
            if named.is_none() {
                continue;
            }
            if resolved.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name.value)) {
                self.refuse([&place], &InvalidValue::DuplicateHeader);
                continue;
            }
            resolved.push((name.value, Secret::new(value)));
        }
        resolved
    }

    fn resolve_timeouts(
        &mut self,
        idle: Option<LocatedValue<Duration>>,
        total: Option<LocatedValue<Duration>>,
        connect: Option<LocatedValue<Duration>>,
        probe: Option<LocatedValue<Duration>>,
    ) -> Timeouts {
        if let (Some(idle), Some(total)) = (&idle, &total)
            && idle.value > total.value
        {
            let finding = Finding::new(ProblemKind::Conflict, "is shorter than `timeout`");
            self.report.error(&total.place, finding);
        }
        let default = Timeouts::default();
        let or = |given: Option<LocatedValue<Duration>>, default| given.map_or(default, |it| it.value);
        // If only one of the two is given, the default of the other adjusts to it.
        let (idle, total) = match (idle, total) {
            (Some(idle), None) => (idle.value, default.total.max(idle.value)),
            (None, Some(total)) => (default.idle.min(total.value), total.value),
            (idle, total) => (or(idle, default.idle), or(total, default.total)),
        };
        Timeouts { connect: or(connect, default.connect), idle, total, probe: or(probe, default.probe) }
    }

    fn resolve_path(&mut self, path: Option<LocatedValue<String>>) -> Option<PathBuf> {
        let path = path?;
        let place = path.place.clone();
        let text = self.resolve_text(path, check::no_nul)?;
        if text.is_empty() {
            let finding = Finding::new(ProblemKind::InvalidValue, "the path is empty");
            self.report.error(&place, finding);
            return None;
        }
        Some(self.filler.resolve_path(&text))
    }

    /// Fills the placeholders of a text and checks the result.
    fn resolve_text(
        &mut self,
        text: LocatedValue<String>,
        check: fn(&str) -> Result<(), InvalidValue>,
    ) -> Option<String> {
        let place = text.place.clone();
        let filled = self.fill(text)?;
        self.ok_or_report(&place, check(&filled))?;
        Some(filled)
    }

    fn fill(&mut self, text: LocatedValue<String>) -> Option<String> {
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

    fn ok_or_report<T>(&mut self, place: &Location, checked: Result<T, InvalidValue>) -> Option<T> {
        match checked {
            Ok(value) => Some(value),
            Err(invalid) => {
                self.refuse([place], &invalid);
                None
            }
        }
    }

    fn report_missing(&mut self, place: &Location, what: &str, hint: &str) {
        self.report.error(place, Finding::new(ProblemKind::MissingKey, what).hint(hint));
    }

    fn refuse<'p>(&mut self, places: impl IntoIterator<Item = &'p Location>, invalid: &InvalidValue) {
        let kind = match invalid {
            InvalidValue::NotStdio
            | InvalidValue::NotHttp
            | InvalidValue::NotHookCommand
            | InvalidValue::NotWebhook => ProblemKind::Conflict,
            InvalidValue::TlsPair => ProblemKind::MissingKey,
            InvalidValue::DuplicateHeader => ProblemKind::DuplicateKey,
            _ => ProblemKind::InvalidValue,
        };
        for place in places {
            let mut finding = Finding::new(kind, invalid.to_string());
            finding.hint = invalid.hint().map(str::to_owned);
            self.report.error(place, finding);
        }
    }
}

/// Iterates over the locations of those keys that are given.
macro_rules! places {
    ($($key:ident),+) => { [$($key.as_ref().map(|it| &it.place)),+].into_iter().flatten() };
}

use places;

/// Replaces a default with the given value.
fn set_if_given<T, U: From<T>>(setting: &mut U, given: Option<LocatedValue<T>>) {
    if let Some(given) = given {
        *setting = given.value.into();
    }
}
