//! Writes `input_required` results, with questions that the host can answer.

use std::fmt;

use crate::server::modern::{Refusal, STATUS_OK, declares};
use crate::wire::object::Edit;
use crate::wire::view::{InputRequest, InputRequests, SamplingRequest, UrlElicitation};
use crate::wire::{Json, RpcError, code, meta, method};

/// Why questions cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputError {
    /// The host did not declare these capabilities, which the questions require.
    MissingCapability(Json),
    /// The question under this key has a method or mode that no modern host answers.
    UnknownQuestion(Box<str>),
    /// There is neither a question nor a state, so that a retry would bring nothing.
    NothingToAsk,
}

/// Writes an `input_required` result. The keys of the questions must differ.
///
/// `capabilities` are those that the host declares for this very request. If one question requires
/// more than that, none is asked.
// GW-04, GW-07
pub fn input_required(
    questions: &InputRequests,
    state: Option<&str>,
    capabilities: &Json,
) -> Result<Json, InputError> {
    if questions.is_empty() && state.is_none() {
        return Err(InputError::NothingToAsk);
    }
    let mut missing = Requirements::default();
    let mut written = Vec::with_capacity(questions.len());
    for (key, question) in questions {
        let required = Requirements::of(question).ok_or_else(|| InputError::UnknownQuestion(key.clone()))?;
        missing.add(required.without_declared(capabilities));
        written.push((key, write_question(question, capabilities)));
    }
    if missing != Requirements::default() {
        return Err(InputError::MissingCapability(missing.to_json()));
    }
    let requests = written.iter().fold(Edit::new(), |edit, (key, question)| edit.set(key, question));
    let requests = requests.apply(None).expect("a new object is one");
    let mut edit = Edit::new().set_str("resultType", "input_required");
    if !written.is_empty() {
        edit = edit.set("inputRequests", &requests);
    }
    if let Some(state) = state {
        edit = edit.set_str("requestState", state);
    }
    Ok(edit.apply(None).expect("a new object is one"))
}

/// The question for a modern host that a request of a legacy server becomes: without members that
/// only the handshake era knows, and without keys of `_meta` that belong to the other connection.
// GW-16
pub fn question_from_request(method: &str, params: Option<&Json>) -> InputRequest {
    let params = params.filter(|params| params.is_object()).map(|params| {
        let hop_keys = Edit::new().remove(meta::PROGRESS_TOKEN).remove(meta::RELATED_TASK);
        let meta = params.member("_meta").and_then(|meta| hop_keys.apply(Some(&meta)).ok());
        let mut edit = Edit::new().remove("task").remove("elicitationId");
        edit = match &meta {
            Some(meta) if *meta != Json::empty_object() => edit.set("_meta", meta),
            _ => edit.remove("_meta"),
        };
        edit.apply(Some(params)).expect("checked to be an object")
    });
    InputRequest { method: method.into(), params }
}

/// The questions that error -32042 of 2025-11-25 stands for, under keys that begin with `prefix`.
/// `None` for other errors, and if it names no valid page.
// GW-16
pub fn url_questions(error: &RpcError, prefix: &str) -> Option<InputRequests> {
    if error.code != code::URL_ELICITATION_REQUIRED {
        return None;
    }
    let pages = UrlElicitation::from_error_data(error.data.as_ref()?);
    let question = |(index, page): (usize, &UrlElicitation)| {
        let params = Edit::new().set_str("mode", "url").set_str("message", &page.message);
        let params = params.set_str("url", &page.url).apply(None).expect("a new object is one");
        let question = InputRequest { method: method::ELICIT.into(), params: Some(params) };
        (format!("{prefix}{index}").into(), question)
    };
    let questions: InputRequests = pages.iter().enumerate().map(question).collect();
    (!questions.is_empty()).then_some(questions)
}

impl InputError {
    /// The refusal of the request whose server asks.
    pub fn refusal(&self) -> Refusal {
        match self {
            Self::MissingCapability(required) => Refusal::missing_capability(required),
            Self::UnknownQuestion(_) | Self::NothingToAsk => Refusal {
                status: STATUS_OK,
                error: RpcError::new(code::INTERNAL_ERROR, "the server asks what cannot be passed on"),
            },
        }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingCapability(required) => write!(f, "the host does not declare {required}"),
            Self::UnknownQuestion(key) => write!(f, "question {key:?} has an unknown method or mode"),
            Self::NothingToAsk => f.write_str("there is neither a question nor a state"),
        }
    }
}

impl std::error::Error for InputError {}

/// Client capabilities that questions require.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Requirements(u8);

impl Requirements {
    const FORM: Self = Self(1);
    const URL: Self = Self(1 << 1);
    const SAMPLING: Self = Self(1 << 2);
    const SAMPLING_TOOLS: Self = Self(1 << 3);
    const ROOTS: Self = Self(1 << 4);
    const ALL: [Self; 5] = [Self::FORM, Self::URL, Self::SAMPLING, Self::SAMPLING_TOOLS, Self::ROOTS];

    /// What a question requires. `None` if no modern host answers it.
    pub(super) fn of(question: &InputRequest) -> Option<Self> {
        let member = |name: &str| question.params.as_ref()?.member(name).filter(|value| !value.is_null());
        match &*question.method {
            // EL-02
            method::ELICIT => match member("mode").map(|mode| mode.decode::<String>()) {
                None => Some(Self::FORM),
                Some(Ok(mode)) if mode == "form" => Some(Self::FORM),
                Some(Ok(mode)) if mode == "url" => Some(Self::URL),
                Some(_) => None,
            },
            method::SAMPLING => {
                let decoded = question.params.as_ref().map(SamplingRequest::decode);
                let uses_tools = match decoded {
                    Some(Ok(request)) => request.uses_tools(),
                    _ => member("tools").or_else(|| member("toolChoice")).is_some(),
                };
                // SA-04
                Some(if uses_tools {
                    Self(Self::SAMPLING.0 | Self::SAMPLING_TOOLS.0)
                } else {
                    Self::SAMPLING
                })
            }
            method::ROOTS_LIST => Some(Self::ROOTS),
            _ => None,
        }
    }

    pub(super) fn without_declared(self, capabilities: &Json) -> Self {
        let has = |path: &[&str]| declares(capabilities, path);
        let declared = Self::ALL.into_iter().filter(|part| match *part {
            Self::FORM => Self::declares_form(capabilities),
            Self::URL => has(&["elicitation", "url"]),
            Self::SAMPLING => has(&["sampling"]),
            Self::SAMPLING_TOOLS => has(&["sampling", "tools"]),
            _ => has(&["roots"]),
        });
        declared.fold(self, |rest, part| Self(rest.0 & !part.0))
    }

    /// Whether a host declares forms.
    // EL-01: without any mode, forms are meant.
    pub(super) fn declares_form(capabilities: &Json) -> bool {
        let has = |path: &[&str]| declares(capabilities, path);
        has(&["elicitation", "form"]) || (has(&["elicitation"]) && !has(&["elicitation", "url"]))
    }

    fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    fn includes(self, part: Self) -> bool {
        self.0 & part.0 != 0
    }

    /// Writes the requirements as a `ClientCapabilities` object.
    pub(super) fn to_json(self) -> Json {
        let empty = Json::empty_object();
        let object = |names: &[(&'static str, Self)]| {
            let required = names.iter().filter(|(_, part)| self.includes(*part));
            let edit = required.fold(Edit::new(), |edit, (name, _)| edit.set(name, &empty));
            edit.apply(None).expect("a new object is one")
        };
        let elicitation = object(&[("form", Self::FORM), ("url", Self::URL)]);
        let sampling = object(&[("tools", Self::SAMPLING_TOOLS)]);
        let members = [
            ("elicitation", &elicitation, self.includes(Self::FORM) || self.includes(Self::URL)),
            ("sampling", &sampling, self.includes(Self::SAMPLING) || self.includes(Self::SAMPLING_TOOLS)),
            ("roots", &empty, self.includes(Self::ROOTS)),
        ];
        let required = members.into_iter().filter(|(_, _, is_required)| *is_required);
        let edit = required.fold(Edit::new(), |edit, (name, value, _)| edit.set(name, value));
        edit.apply(None).expect("a new object is one")
    }
}

/// Writes a question. A host that does not declare `sampling.context` is not asked to include any:
/// it may ignore that member in any case.
// SA-01
fn write_question(question: &InputRequest, capabilities: &Json) -> Json {
    let is_context_declared = declares(capabilities, &["sampling", "context"]);
    let reduced = question
        .params
        .as_ref()
        .filter(|_| *question.method == *method::SAMPLING && !is_context_declared)
        .and_then(|params| Edit::new().remove("includeContext").apply(Some(params)).ok());
    let mut edit = Edit::new().set_str("method", &question.method);
    if let Some(params) = reduced.as_ref().or(question.params.as_ref()) {
        edit = edit.set("params", params);
    }
    edit.apply(None).expect("a new object is one")
}
