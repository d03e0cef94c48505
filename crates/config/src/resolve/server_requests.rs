//! Owns how `[sampling]` and `[roots]` are resolved.

use std::path::PathBuf;

use super::{Resolver, set_if_given};
use crate::check::{self, InvalidValue};
use crate::loopback::is_loopback;
use crate::problem::ProblemKind;
use crate::raw::{RawRoots, RawSampling};
use crate::report::{Finding, LocatedValue};
use crate::sampling::Sampling;

impl Resolver<'_, '_> {
    /// Resolves `[sampling]`; `None` if a reported problem leaves no usable model.
    pub(crate) fn resolve_sampling(&mut self, table: LocatedValue<RawSampling>) -> Option<Sampling> {
        let LocatedValue { value: raw, place } = table;
        let RawSampling {
            provider,
            base_url,
            model,
            models,
            key_env,
            headers,
            policy,
            max_tokens,
            per_minute,
            tokens_per_hour,
            tool_rounds,
            concurrent,
            timeout,
            garbled,
        } = raw;
        let missing = |key: &str, given: bool| !given && !garbled.contains(&key);
        if missing("provider", provider.is_some()) {
            self.report_missing(
                &place,
                "needs `provider`",
                "\"openai\" or \"anthropic\": what the endpoint speaks",
            );
        }
        if missing("base_url", base_url.is_some()) {
            self.report_missing(&place, "needs `base_url`", "for example \"http://127.0.0.1:8080/v1\"");
        }
        if missing("model", model.is_some()) && missing("models", models.is_some()) {
            self.report_missing(
                &place,
                "needs `model` or `models`",
                "the name by which the endpoint knows the model",
            );
        }
        let models = self.resolve_models(model, models);
        let url_place = base_url.as_ref().map(|url| url.place.clone());
        let base_url = base_url.and_then(|url| self.resolve_url(url, check::url));
        let headers = self.resolve_headers(headers);
        let key_env = key_env.and_then(|name| self.check_key_env(name));
        if let (Some(place), Some(url), Some(_)) = (url_place, &base_url, &key_env)
            && url.scheme() == "http"
            && !is_loopback(url)
        {
            let finding =
                Finding::new(ProblemKind::Doubtful, "the key is sent over a connection that others can read")
                    .hint("write an https URL");
            self.report.note(&place, finding);
        }
        let (provider, base_url) = (provider?, base_url?);
        let mut sampling = Sampling::with_defaults(provider.value, base_url, models);
        sampling.key_env = key_env;
        sampling.headers = headers;
        sampling.tokens_per_hour = tokens_per_hour.map(|it| it.value.into());
        set_if_given(&mut sampling.policy, policy);
        set_if_given(&mut sampling.max_tokens, max_tokens);
        set_if_given(&mut sampling.per_minute, per_minute);
        set_if_given(&mut sampling.tool_rounds, tool_rounds);
        set_if_given(&mut sampling.concurrent, concurrent);
        set_if_given(&mut sampling.timeout, timeout);
        Some(sampling)
    }

    /// Resolves `[roots]`; `None` if it has no `folders`, which differs from an empty list.
    pub(crate) fn resolve_roots(&mut self, table: LocatedValue<RawRoots>) -> Option<Vec<PathBuf>> {
        let RawRoots { folders, garbled: _ } = table.value;
        Some(self.resolve_folders(folders?))
    }

    /// Resolves folders to paths, each once.
    pub(super) fn resolve_folders(
        &mut self,
        folders: LocatedValue<Vec<LocatedValue<String>>>,
    ) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = Vec::new();
        for folder in folders.value {
            let folder = self.resolve_path(Some(folder));
            all.extend(folder.filter(|folder| !all.contains(folder)));
        }
        all
    }

    fn resolve_models(
        &mut self,
        model: Option<LocatedValue<String>>,
        models: Option<LocatedValue<Vec<LocatedValue<String>>>>,
    ) -> Vec<String> {
        let names = match (model, models) {
            (Some(_), Some(models)) => {
                let finding = Finding::new(ProblemKind::Conflict, "contradicts `model`")
                    .hint("they are one setting; keep one of them");
                self.report.error(&models.place, finding);
                return Vec::new();
            }
            (Some(model), None) => vec![model],
            (None, Some(models)) => {
                if models.value.is_empty() {
                    let finding = Finding::new(ProblemKind::InvalidValue, "names no model");
                    self.report.error(&models.place, finding);
                }
                models.value
            }
            (None, None) => Vec::new(),
        };
        let mut known: Vec<String> = Vec::new();
        for name in names {
            let name = self.resolve_text(name, check::model);
            known.extend(name.filter(|name| !known.contains(name)));
        }
        known
    }

    /// Checks the name of the variable that holds the key. A wrong name is neither shown nor
    /// filled: it may be the key itself.
    fn check_key_env(&mut self, name: LocatedValue<String>) -> Option<String> {
        if check::key_env_name(&name.value).is_err() {
            self.refuse([&name.place], &InvalidValue::KeyEnvName);
            return None;
        }
        if self.filler.var(&name.value).is_none_or(|key| key.is_empty()) {
            // A note, not an error: the servers of the file do not need the key.
            let finding = Finding::new(ProblemKind::Unresolved, "the environment variable is not set")
                .hint("set it before a server asks for the model");
            self.report.note(&name.place, finding);
        }
        Some(name.value)
    }
}
