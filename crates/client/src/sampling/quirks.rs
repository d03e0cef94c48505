//! Learns which optional parameters a model does not accept, from its refusals.

use bowline_config::SamplingApi;
use serde::Deserialize;

/// Optional parameters that one model has refused and that are left out. The server's content is
/// never left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Quirks {
    /// Whether the token limit must use its newer name, `max_completion_tokens`.
    pub(super) completion_tokens: bool,
    pub(super) no_temperature: bool,
    pub(super) no_stop: bool,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorDetail,
}

#[derive(Deserialize)]
struct ErrorDetail {
    /// Chat completions: the parameter that was refused, and why.
    param: Option<String>,
    code: Option<String>,
    /// Messages: the kind of the error. Only the message names the parameter.
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
}

impl Quirks {
    /// What to change after a refusal with status 400, if it is about an optional parameter.
    ///
    /// Each refusal adds a change, so the number of attempts is bounded.
    pub(super) fn after_refusal(self, api: SamplingApi, refusal: &[u8]) -> Option<Self> {
        let ErrorBody { error } = serde_json::from_slice(refusal).ok()?;
        let next = match api {
            SamplingApi::OpenAi => self.after_completion(error.param.as_deref()?, error.code.as_deref()?),
            SamplingApi::Anthropic => {
                let invalid = error.kind.as_deref() == Some("invalid_request_error");
                // This API names the parameter only in the message. If the word is there for
                // another reason, the request is refused again without the parameter, and nothing
                // is learned.
                let named = error.message.is_some_and(|message| message.contains("temperature"));
                (invalid && named).then_some(Self { no_temperature: true, ..self })
            }
        };
        next.filter(|next| *next != self)
    }

    /// Handles a refusal of chat completions. A refused value says nothing about other values,
    /// unless the model accepts only its default.
    fn after_completion(self, param: &str, code: &str) -> Option<Self> {
        let unknown = matches!(code, "unsupported_parameter" | "unknown_parameter");
        let unsupported = unknown || code == "unsupported_value";
        match param {
            "max_tokens" if unknown => Some(Self { completion_tokens: true, ..self }),
            "temperature" if unsupported => Some(Self { no_temperature: true, ..self }),
            "stop" if unsupported => Some(Self { no_stop: true, ..self }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_what_is_not_supported_at_all_is_left_out() {
        let after = |api, error: Value| {
            Quirks::default().after_refusal(api, json!({ "error": error }).to_string().as_bytes())
        };
        let completion = |param: Value, code: Value| {
            after(SamplingApi::OpenAi, json!({ "message": "temperature", "param": param, "code": code }))
        };
        let none = Quirks::default();
        for (param, code, next) in [
            ("max_tokens", "unsupported_parameter", Some(Quirks { completion_tokens: true, ..none })),
            ("max_tokens", "unknown_parameter", Some(Quirks { completion_tokens: true, ..none })),
            ("temperature", "unsupported_value", Some(Quirks { no_temperature: true, ..none })),
            ("stop", "unsupported_parameter", Some(Quirks { no_stop: true, ..none })),
            // This value is too large; another may not be.
            ("max_tokens", "unsupported_value", None),
            ("max_tokens", "invalid_value", None),
            ("temperature", "decimal_above_max_value", None),
            ("stop", "array_above_max_length", None),
            ("messages", "unsupported_value", None),
        ] {
            assert_eq!(completion(param.into(), code.into()), next, "{param} {code}");
        }
        for (param, code) in [(json!("temperature"), Value::Null), (Value::Null, json!("unsupported_value"))]
        {
            assert_eq!(completion(param, code), None, "sentences are not read");
        }
        let messages = |kind: &str, message: &str| {
            after(SamplingApi::Anthropic, json!({ "type": kind, "message": message }))
        };
        let deprecated = "`temperature` is deprecated for this model.";
        let without = Quirks { no_temperature: true, ..none };
        assert_eq!(messages("invalid_request_error", deprecated), Some(without));
        assert_eq!(messages("invalid_request_error", "max_tokens: too large"), None);
        assert_eq!(messages("rate_limit_error", deprecated), None);
        let again =
            json!({ "error": { "type": "invalid_request_error", "message": deprecated } }).to_string();
        assert_eq!(
            without.after_refusal(SamplingApi::Anthropic, again.as_bytes()),
            None,
            "it was left out already"
        );
        assert_eq!(none.after_refusal(SamplingApi::OpenAi, b"<html>"), None);
    }
}
