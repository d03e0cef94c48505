//! Owns how the tables for all servers are written: `[sampling]`, `[elicitation]`, `[roots]`,
//! `[auth]` and `[store]`. Only our own dialect has them.

use std::str::FromStr;

use super::fields::{Fields, Style};
use super::{auth, store};
use crate::elicitation::ElicitationPolicy;
use crate::problem::ProblemKind;
use crate::raw::{RawApp, RawElicitation, RawRoots, RawSampling, RawStore};
use crate::report::{Finding, Located, Location, Report};
use crate::sampling::{SamplingApi, SamplingPolicy, UnknownWord};
use crate::suggest;
use crate::tree::{Key, Node, Value};

/// The tables for all servers, not yet decoded.
#[derive(Default)]
pub(crate) struct GlobalTables {
    pub(crate) sampling: Option<UnreadTable>,
    pub(crate) elicitation: Option<UnreadTable>,
    pub(crate) roots: Option<UnreadTable>,
    pub(crate) auth: Option<UnreadTable>,
    pub(crate) store: Option<UnreadTable>,
}

/// A table whose keys are not yet decoded.
pub(crate) struct UnreadTable {
    pub(super) place: Location,
    pub(super) node: Node,
}

impl UnreadTable {
    /// Decodes it as `[sampling]`.
    pub(crate) fn decode_sampling(self, report: &mut Report<'_>) -> Option<Located<RawSampling>> {
        sampling(self.node, self.place, report)
    }

    /// Decodes it as `[elicitation]`.
    pub(crate) fn decode_elicitation(self, report: &mut Report<'_>) -> Option<RawElicitation> {
        elicitation(self.node, &self.place, report)
    }

    /// Decodes it as `[roots]`.
    pub(crate) fn decode_roots(self, report: &mut Report<'_>) -> Option<RawRoots> {
        roots(self.node, &self.place, report)
    }

    /// Decodes it as `[auth]`.
    pub(crate) fn decode_auth(self, report: &mut Report<'_>) -> Option<RawApp> {
        auth::decode_app(self.node, &self.place, report)
    }

    /// Decodes it as `[store]`.
    pub(crate) fn decode_store(self, report: &mut Report<'_>) -> Option<Located<RawStore>> {
        store::decode_store(self.node, self.place, report)
    }
}

fn sampling(node: Node, table: Location, report: &mut Report<'_>) -> Option<Located<RawSampling>> {
    let mut read = Fields { report, style: Style::Strict };
    let fields = fields(&mut read, node, &table)?;
    let mut raw = RawSampling::default();
    for (key, node) in fields {
        let place = table.join(&key.name, node.offset);
        match key.name.as_str() {
            "provider" => {
                raw.provider = keyword(&mut read, node, place, SamplingApi::ALL.map(SamplingApi::as_str));
                raw.garbled.extend(raw.provider.is_none().then_some("provider"));
            }
            "base_url" => {
                raw.base_url = read.string(node, place);
                raw.garbled.extend(raw.base_url.is_none().then_some("base_url"));
            }
            "model" => {
                raw.model = read.string(node, place);
                raw.garbled.extend(raw.model.is_none().then_some("model"));
            }
            "models" => {
                raw.models = read.strings(node, place);
                raw.garbled.extend(raw.models.is_none().then_some("model"));
            }
            "key_env" => raw.key_env = read.string(node, place),
            "headers" => raw.headers = read.map(node, place),
            "policy" => raw.policy = decode_policy(&mut read, node, place),
            "max_tokens" => raw.max_tokens = read.count(&node, place),
            "per_minute" => raw.per_minute = read.count(&node, place),
            "tokens_per_hour" => raw.tokens_per_hour = read.count(&node, place),
            "tool_rounds" => raw.tool_rounds = read.count(&node, place),
            "concurrent" => raw.concurrent = read.count(&node, place),
            "timeout" => raw.timeout = read.duration(&node, place),
            unknown => {
                let meant = suggest_key(unknown);
                raw.garbled.extend(meant.map(|meant| if meant == "models" { "model" } else { meant }));
                let mut finding = Finding::new(ProblemKind::UnknownKey, "unknown key");
                finding.hint = if is_api_key(unknown) {
                    Some("name the environment variable that holds the key in `key_env`".to_owned())
                } else {
                    meant.map(|meant| format!("did you mean `{meant}`?"))
                };
                read.report.error(&table.join(unknown, key.offset), finding);
            }
        }
    }
    Some(Located::new(raw, table))
}

fn elicitation(node: Node, table: &Location, report: &mut Report<'_>) -> Option<RawElicitation> {
    let mut read = Fields { report, style: Style::Strict };
    let fields = fields(&mut read, node, table)?;
    let mut raw = RawElicitation::default();
    for (key, node) in fields {
        let place = table.join(&key.name, node.offset);
        match key.name.as_str() {
            "policy" => {
                raw.policy =
                    keyword(&mut read, node, place, ElicitationPolicy::ALL.map(ElicitationPolicy::as_str));
            }
            unknown => {
                unknown_key(read.report, &table.join(unknown, key.offset), unknown, RawElicitation::KEYS);
            }
        }
    }
    Some(raw)
}

fn roots(node: Node, table: &Location, report: &mut Report<'_>) -> Option<RawRoots> {
    let mut read = Fields { report, style: Style::Strict };
    let fields = fields(&mut read, node, table)?;
    let mut raw = RawRoots::default();
    for (key, node) in fields {
        let place = table.join(&key.name, node.offset);
        match key.name.as_str() {
            "folders" => raw.folders = read.strings(node, place),
            unknown => unknown_key(read.report, &table.join(unknown, key.offset), unknown, RawRoots::KEYS),
        }
    }
    Some(raw)
}

/// Decodes a sampling policy, of `[sampling]` or of one server.
pub(super) fn decode_policy(
    read: &mut Fields<'_, '_>,
    node: Node,
    place: Location,
) -> Option<Located<SamplingPolicy>> {
    keyword(read, node, place, SamplingPolicy::ALL.map(SamplingPolicy::as_str))
}

fn fields(read: &mut Fields<'_, '_>, node: Node, table: &Location) -> Option<Vec<(Key, Node)>> {
    match node.value {
        Value::Table(fields) => Some(fields),
        other => {
            read.report_wrong_type(table, "a table", &other);
            None
        }
    }
}

fn keyword<T: FromStr<Err = UnknownWord>, const N: usize>(
    read: &mut Fields<'_, '_>,
    node: Node,
    place: Location,
    known: [&'static str; N],
) -> Option<Located<T>> {
    let Located { value, place } = read.string(node, place)?;
    match value.parse() {
        Ok(word) => Some(Located::new(word, place)),
        Err(unknown) => {
            let mut finding = Finding::new(ProblemKind::InvalidValue, unknown.to_string());
            finding.hint = suggest::closest(&value, known).map(|meant| format!("did you mean \"{meant}\"?"));
            read.report.error(&place, finding);
            None
        }
    }
}

fn unknown_key<const N: usize>(
    report: &mut Report<'_>,
    place: &Location,
    unknown: &str,
    known: [&'static str; N],
) {
    let mut finding = Finding::new(ProblemKind::UnknownKey, "unknown key");
    finding.hint = suggest::closest(unknown, known).map(|meant| format!("did you mean `{meant}`?"));
    report.error(place, finding);
}

/// Guesses which key an unknown one stands for.
fn suggest_key(key: &str) -> Option<&'static str> {
    if is_api_key(key) {
        return Some("key_env");
    }
    match key {
        "api" | "type" => Some("provider"),
        "url" | "endpoint" | "api_base" | "baseUrl" => Some("base_url"),
        "approval" | "mode" => Some("policy"),
        "rate_limit" | "requests_per_minute" => Some("per_minute"),
        _ => suggest::closest(key, RawSampling::KEYS),
    }
}

/// Whether a key was meant to hold an API key, which never belongs in a file.
fn is_api_key(key: &str) -> bool {
    matches!(key, "key" | "api_key" | "apiKey" | "token")
}
