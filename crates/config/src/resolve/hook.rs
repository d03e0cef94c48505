//! Owns how a hook is resolved: exactly one action, and only the keys of that action.

use std::time::Duration;

use super::Resolver;
use super::transport::StdioKeys;
use crate::check::{self, InvalidValue};
use crate::hook::{Hook, HookAction};
use crate::problem::ProblemKind;
use crate::raw::RawHook;
use crate::report::{Finding, LocatedValue};

impl Resolver<'_, '_> {
    /// Resolves a hook; `None` if a reported problem leaves no usable one.
    pub(crate) fn resolve_hook(&mut self, hook: LocatedValue<RawHook>) -> Option<Hook> {
        let LocatedValue { value: raw, place } = hook;
        let RawHook { on, command, args, env, cwd, webhook, headers, timeout, garbled } = raw;
        let started = StdioKeys { args, env, cwd };
        let run = match (command, webhook) {
            (Some(command), None) => {
                self.refuse(headers.as_ref().map(|it| &it.place), &InvalidValue::NotWebhook);
                HookAction::Command(self.resolve_stdio(command, started)?)
            }
            (None, Some(url)) => {
                self.refuse(started.places(), &InvalidValue::NotHookCommand);
                let url = self.resolve_url(url, check::url);
                let headers = self.resolve_headers(headers);
                HookAction::Webhook { url: url?, headers }
            }
            (Some(_), Some(_)) => {
                let finding = Finding::new(ProblemKind::Conflict, "has both `command` and `webhook`")
                    .hint("a hook does one thing; make it two hooks");
                self.report.error(&place, finding);
                return None;
            }
            (None, None) => {
                if !garbled.contains(&"command") && !garbled.contains(&"webhook") {
                    let finding = Finding::new(ProblemKind::MissingKey, "needs `command` or `webhook`");
                    self.report.error(&place, finding);
                }
                return None;
            }
        };
        let timeout = timeout.map_or(Duration::from_secs(Hook::TIMEOUT), |timeout| timeout.value);
        Some(Hook { events: on.map_or_else(Vec::new, |on| on.value), action: run, timeout })
    }
}
