//! The exchange with the endpoint of a model: its URL, the credentials, and what may be revealed
//! about failures.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use bowline_config::{Http, Sampling, SamplingApi, Secret};
use bowline_proto::fault::Execution;
use bowline_proto::wire::view::{SamplingBlock, SamplingRequest, SamplingResult, ToolChoice};
use bowline_transport::http::{HttpLink, Limits, ResponseBody};
use bytes::Bytes;
use http::HeaderMap;
use http::header::{ACCEPT, HeaderValue};
use parking_lot::Mutex;
use serde_json::Value;
use url::Url;

use super::approve::SamplingPlan;
use super::content_text::{UnreadableReply, UnsupportedContent};
use super::limits::TokenBudget;
use super::quirks::Quirks;
use super::tools::SamplingTools;
use super::{anthropic, openai};
use crate::host::SamplingRefusal;

mod redact;

use redact::Redactor;

/// The endpoint of a model.
pub(super) struct Endpoint {
    pub(super) settings: Sampling,
    link: HttpLink,
    redactor: Redactor,
    /// Parameters that its models have refused, by configured model name.
    quirks: Mutex<HashMap<Box<str>, Quirks>>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct EndpointError {
    /// The message for the server.
    message: String,
    /// A note for the log only, since endpoints may mention accounts and keys.
    note: Option<String>,
}

/// A model that cannot be used as configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the model cannot be used: {error_kind}")]
#[non_exhaustive]
pub struct ProviderError {
    error_kind: ProviderErrorKind,
}

/// What is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderErrorKind {
    /// The environment variable for the key is not set, or empty.
    #[error("the environment variable that `key_env` names is not set")]
    KeyMissing,
    /// The key has characters that a header cannot carry.
    #[error("the key holds characters that cannot be sent")]
    KeyUnsendable,
    /// No model is configured.
    #[error("no model is named")]
    NoModel,
    /// The URL or a header is invalid.
    #[error("{0}")]
    Unreachable(String),
}

/// Maximum size of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;
/// Maximum time for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of an endpoint's message in the log, in characters.
const MAX_NOTE_CHARS: usize = 300;

impl ProviderError {
    pub(super) fn new(problem: ProviderErrorKind) -> Self {
        Self { error_kind: problem }
    }

    /// What is wrong.
    pub fn kind(&self) -> &ProviderErrorKind {
        &self.error_kind
    }
}

// === impl Endpoint ===

impl Endpoint {
    pub(super) fn new(settings: Sampling, key: Option<Secret>) -> Result<Self, ProviderError> {
        let wrong = |problem| Err(ProviderError::new(problem));
        if settings.models.is_empty() {
            return wrong(ProviderErrorKind::NoModel);
        }
        let mut headers = settings.headers.clone();
        let secrets = headers.iter().map(|(_, value)| value.clone()).chain(key.clone());
        let redactor = Redactor::new(secrets).with_url(&settings.base_url);
        if let Some(key) = key {
            let unsendable = |byte: u8| !(0x21..=0x7e).contains(&byte);
            if key.expose().is_empty() || key.expose().bytes().any(unsendable) {
                return wrong(ProviderErrorKind::KeyUnsendable);
            }
            let (name, value) = match settings.api {
                SamplingApi::OpenAi => ("Authorization", Secret::new(format!("Bearer {}", key.expose()))),
                SamplingApi::Anthropic => ("x-api-key", key),
            };
            add_default_header(&mut headers, name, value);
        }
        if settings.api == SamplingApi::Anthropic {
            let (name, value) = anthropic::VERSION;
            add_default_header(&mut headers, name, Secret::new(value));
        }
        let url = endpoint_url(&settings);
        let mut http = Http::from_url(url);
        http.headers = headers;
        let limits = Limits {
            connect: CONNECT_TIMEOUT.min(settings.timeout),
            body: MAX_RESPONSE_BYTES,
            event: MAX_RESPONSE_BYTES,
        };
        match HttpLink::new(&http, limits) {
            Ok(link) => Ok(Self { settings, link, redactor, quirks: Mutex::default() }),
            Err(fault) => {
                wrong(ProviderErrorKind::Unreachable(redactor.redact(&fault.to_string(), MAX_NOTE_CHARS)))
            }
        }
    }

    /// The origin of the endpoint, without parts that may be secret.
    pub(super) fn origin(&self) -> String {
        self.settings.base_url.origin().ascii_serialization()
    }

    /// Asks the model once. The cost is settled in `budget`.
    pub(super) async fn sample(
        &self,
        request: &SamplingRequest,
        plan: &SamplingPlan,
        budget: &mut TokenBudget,
    ) -> Result<SamplingResult, EndpointError> {
        let tools = SamplingTools::from_request(request, self.settings.api)?;
        let limit = self.settings.timeout;
        let exchange = self.exchange(request, plan, &tools, budget);
        let body = tokio::time::timeout(limit, exchange)
            .await
            .unwrap_or_else(|_| endpoint_error(format!("the model did not answer within {limit:?}")))?;
        let said = match self.settings.api {
            SamplingApi::OpenAi => openai::read(&body, &tools, &plan.model),
            SamplingApi::Anthropic => anthropic::read(&body, &tools, &plan.model),
        };
        let said = said.or_else(|UnreadableReply(what)| endpoint_error(what))?;
        if let Some(tokens) = said.tokens {
            budget.set_cost(tokens);
        }
        if let Some(length) = said.output_tokens.filter(|length| *length > plan.max_tokens) {
            let (model, most) = (&plan.model, plan.max_tokens);
            tracing::warn!(%model, length, most, "the endpoint answered with more tokens than it was allowed");
        }
        let uses = |block: &SamplingBlock| matches!(block, SamplingBlock::ToolUse { .. });
        let may_use = !request.tools.is_empty() && request.tool_choice != Some(ToolChoice::None);
        if !may_use && said.result.content.iter().any(uses) {
            return endpoint_error("the model called a tool where it was given none");
        }
        Ok(said.result)
    }

    async fn exchange(
        &self,
        request: &SamplingRequest,
        plan: &SamplingPlan,
        tools: &SamplingTools,
        budget: &mut TokenBudget,
    ) -> Result<Bytes, EndpointError> {
        let api = self.settings.api;
        let write = |quirks| match api {
            SamplingApi::OpenAi => openai::write(request, plan, tools, quirks),
            SamplingApi::Anthropic => anthropic::write(request, plan, tools, quirks),
        };
        let known = self.quirks.lock().get(&plan.model).copied().unwrap_or_default();
        let mut quirks = known;
        let mut body = write(quirks)?;
        loop {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
            budget.mark_sent();
            let answer = match self.link.post(Bytes::from(body.to_string()), &headers).await {
                Ok(answer) => answer,
                Err(fault) => {
                    if fault.is_outage() && fault.execution == Execution::NotExecuted {
                        budget.set_cost(0);
                    }
                    let note = Some(self.redactor.redact(&fault.to_string(), MAX_NOTE_CHARS));
                    return Err(EndpointError {
                        message: "no answer of the model's endpoint".to_owned(),
                        note,
                    });
                }
            };
            let bytes = match (answer.status, &answer.body) {
                (200..300, ResponseBody::Json(bytes)) => {
                    // Recorded only after it helped: the refusal may have had another reason.
                    if quirks != known {
                        self.quirks.lock().insert(plan.model.clone(), quirks);
                    }
                    return Ok(bytes.clone());
                }
                (200..300, _) => return endpoint_error("the model's endpoint did not answer with JSON"),
                (_, ResponseBody::Json(bytes) | ResponseBody::Other(bytes)) => bytes.clone(),
                (_, ResponseBody::Empty | ResponseBody::Events(_)) => Bytes::new(),
            };
            // A refused request costs nothing.
            budget.set_cost(0);
            let adapted = quirks.after_refusal(api, &bytes).filter(|_| answer.status == 400);
            let other = adapted.map(write).transpose()?.filter(|other| *other != body);
            match (adapted, other) {
                (Some(next), Some(other)) => (quirks, body) = (next, other),
                _ => return Err(self.status_error(answer.status, &bytes)),
            }
        }
    }

    /// The error for a status, with the endpoint's message for the log, shortened and redacted.
    fn status_error(&self, status: u16, body: &[u8]) -> EndpointError {
        let note = error_message(body).map(|note| self.redactor.redact(&note, MAX_NOTE_CHARS));
        EndpointError { message: format!("the model's endpoint answered with HTTP status {status}"), note }
    }
}

impl EndpointError {
    /// Logs the error of a request of `server`, and returns what the server is told.
    pub(super) fn log_and_refuse(self, server: &str) -> SamplingRefusal {
        let Self { message: told, note } = self;
        tracing::warn!(server, why = told, note, "no model answered");
        SamplingRefusal::Failed(told)
    }
}

impl From<UnsupportedContent> for EndpointError {
    fn from(UnsupportedContent(told): UnsupportedContent) -> Self {
        Self { message: told, note: None }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Adds a header unless the configuration sets it.
fn add_default_header(headers: &mut Vec<(String, Secret)>, name: &str, value: Secret) {
    if !headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
        headers.push((name.to_owned(), value));
    }
}

fn endpoint_error<T>(told: impl Into<String>) -> Result<T, EndpointError> {
    Err(EndpointError { message: told.into(), note: None })
}

/// The base URL with the API path, of which the base may already have a part.
fn endpoint_url(settings: &Sampling) -> Url {
    let mut url = settings.base_url.clone();
    let path = match settings.api {
        SamplingApi::OpenAi => openai::PATH,
        SamplingApi::Anthropic => anthropic::PATH,
    };
    let base = url.path().trim_end_matches('/').to_owned();
    let rest = match path.split_once('/') {
        _ if base.ends_with(&format!("/{path}")) => "",
        Some((first, rest)) if base.ends_with(&format!("/{first}")) => rest,
        _ => path,
    };
    let whole = if rest.is_empty() { base } else { format!("{base}/{rest}") };
    url.set_path(&whole);
    url
}

/// The message in an error response: both APIs have `error.message`, others have less.
fn error_message(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let error = &body["error"];
    [&error["message"], error, &body["message"], &body["detail"]]
        .into_iter()
        .find_map(Value::as_str)
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_testkit::with;

    #[test]
    fn the_path_is_added_once() {
        for (api, base, whole) in [
            (SamplingApi::OpenAi, "http://h", "http://h/chat/completions"),
            (SamplingApi::OpenAi, "http://h/v1/", "http://h/v1/chat/completions"),
            (SamplingApi::OpenAi, "http://h/v1?api-version=1", "http://h/v1/chat/completions?api-version=1"),
            (SamplingApi::OpenAi, "http://h/v1/chat/completions", "http://h/v1/chat/completions"),
            (SamplingApi::Anthropic, "http://h", "http://h/v1/messages"),
            (SamplingApi::Anthropic, "http://h/proxy/v1", "http://h/proxy/v1/messages"),
            (SamplingApi::Anthropic, "http://h/v1/messages/", "http://h/v1/messages"),
        ] {
            let settings = Sampling::new(api, base, "m").unwrap();
            assert_eq!(endpoint_url(&settings).as_str(), whole, "{base}");
        }
    }

    #[test]
    fn a_key_that_cannot_be_sent_is_not_shown() {
        let settings = || Sampling::new(SamplingApi::OpenAi, "http://h/", "m").unwrap();
        for key in ["hunter2\r\nX: y", "hunter2 hunter2", "", "hünter2"] {
            let error = Endpoint::new(settings(), Some(Secret::new(key))).unwrap_err();
            assert_eq!(error.kind(), &ProviderErrorKind::KeyUnsendable);
            assert!(!format!("{error} {error:?}").contains("unter2"));
        }
        let none = with!(settings(), models: Vec::new());
        assert_eq!(Endpoint::new(none, None).unwrap_err().kind(), &ProviderErrorKind::NoModel);
    }
}
