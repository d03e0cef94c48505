//! Results that request input of a modern host, and the retries that bring it.
//!
//! A modern server sends no requests. What a legacy server asks its host becomes a question under a
//! key of an `input_required` result, and the host answers with a retry of its request.

mod capabilities;
mod questions;

use std::fmt;

pub use self::capabilities::{check_question, forwarded_capabilities};
pub use self::questions::{InputError, input_required, question_from_request, url_questions};
use super::Refusal;
use crate::wire::view::{InputRequest, InputRequests};
use crate::wire::{Json, method, scan};

/// What a retry brings, beside the params of the first request.
#[derive(Clone, PartialEq, Eq)]
pub struct InputRetry {
    /// The `requestState` as the host sent it back. Untrusted.
    pub state: Option<String>,
    /// The `inputResponses`: an object. Untrusted.
    pub responses: Json,
}

/// The answers of a retry to the questions of the result before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputAnswers {
    /// The answers by the key of their question: the result of its method.
    pub given: Vec<(Box<str>, Result<Json, InvalidAnswer>)>,
    /// The questions without an answer, which are asked again.
    pub missing: InputRequests,
}

/// An answer that is not a result of the method of its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidAnswer {
    /// What the answer should be.
    pub expected: &'static str,
}

impl InputRetry {
    /// Reads what a request brings for an earlier `input_required`. `None` if it is no retry.
    // GW-07
    pub fn parse(params: Option<&Json>) -> Result<Option<Self>, Refusal> {
        let [state, responses] = params
            .map_or([const { None }; 2], |params| params.members_named(["requestState", "inputResponses"]));
        let [state, responses] = [state, responses].map(|value| value.filter(|value| !value.is_null()));
        if state.is_none() && responses.is_none() {
            return Ok(None);
        }
        let state = match state {
            Some(state) => {
                Some(state.decode().map_err(|_| Refusal::invalid_params("requestState must be a string"))?)
            }
            None => None,
        };
        let responses = responses.unwrap_or_else(Json::empty_object);
        if !responses.is_object() {
            return Err(Refusal::invalid_params("inputResponses must be an object"));
        }
        Ok(Some(Self { state, responses }))
    }

    /// Finds the answers to these questions. Other keys are ignored: they belong to no question, or
    /// to one of an earlier round.
    // GW-07, MR-02, MR-08
    pub fn answers(&self, questions: &InputRequests) -> InputAnswers {
        let mut found: Vec<Option<Json>> = vec![None; questions.len()];
        // The last one counts if a key occurs twice, as in most parsers.
        for (key, response) in scan::members(self.responses.as_bytes()).into_iter().flatten() {
            if let Some(at) = questions.iter().position(|(asked, _)| **asked == key) {
                found[at] = Some(self.responses.slice(response)).filter(|response| !response.is_null());
            }
        }
        let mut answers = InputAnswers { given: Vec::new(), missing: Vec::new() };
        for ((key, question), response) in questions.iter().zip(found) {
            match response {
                Some(response) => answers.given.push((key.clone(), check_answer(question, response))),
                None => answers.missing.push((key.clone(), question.clone())),
            }
        }
        answers
    }
}

impl fmt::Debug for InputRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Both may hold secrets.
        f.debug_struct("InputRetry").finish_non_exhaustive()
    }
}

impl InvalidAnswer {
    /// The refusal of the retry.
    pub fn refusal(&self) -> Refusal {
        Refusal::invalid_params(self.to_string())
    }
}

impl fmt::Display for InvalidAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an input response is not {}", self.expected)
    }
}

impl std::error::Error for InvalidAnswer {}

/// Checks the shape of an answer, which is passed on as it was written.
// EL-08, SA-06, RT-01
fn check_answer(question: &InputRequest, response: Json) -> Result<Json, InvalidAnswer> {
    let text = |name: &str| response.member(name).and_then(|value| value.decode::<String>().ok());
    let (is_valid, expected) = match &*question.method {
        method::ELICIT => {
            let is_known = matches!(text("action").as_deref(), Some("accept" | "decline" | "cancel"));
            let content = response.member("content").filter(|content| !content.is_null());
            (is_known && content.is_none_or(|content| content.is_object()), "the result of an elicitation")
        }
        method::SAMPLING => {
            let content = response.member("content");
            let has_content = content.is_some_and(|content| content.is_object() || content.is_array());
            (has_content && text("role").is_some() && text("model").is_some(), "a sampled message")
        }
        method::ROOTS_LIST => {
            (response.member("roots").is_some_and(|roots| roots.is_array()), "a list of roots")
        }
        _ => (response.is_object(), "an object"),
    };
    if is_valid { Ok(response) } else { Err(InvalidAnswer { expected }) }
}

#[cfg(test)]
mod tests;
