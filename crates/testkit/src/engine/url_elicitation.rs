//! Tools that require a URL elicitation first. 2025-11-25: they fail with `-32042` until it is
//! completed; modern: they request it as input.

use std::collections::HashSet;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::input_rounds::{self, InputState};
use super::tools::{ToolCall, error_result};
use super::{Engine, Era};
use crate::rpc::{Refusal, URL_ELICITATION_REQUIRED};
use crate::scripted_request::{InputScript, ScriptedRequest};

/// The ids of completed elicitations. They outlive sessions and restarts, because a person
/// completed them outside of any session.
#[derive(Debug, Default)]
pub(super) struct CompletedElicitations(Mutex<HashSet<String>>);

/// Checks the elicitations of a call. `Complete(None)` lets it proceed, `Complete(Some)` is an
/// error result, and `Required` asks a modern client.
pub(super) fn check_elicitations(
    call: &ToolCall<'_>,
    pages: &[(String, String)],
) -> Result<InputState<Option<Value>>, Refusal> {
    let ToolCall { engine, caller, params, .. } = *call;
    let done = engine.completed_elicitations.0.lock().clone();
    let missing = pages.iter().filter(|(id, _)| !done.contains(id));
    let questions: Vec<ScriptedRequest> = missing
        .map(|(id, url)| ScriptedRequest::url_elicitation(id, "Please visit this page", url))
        .collect();
    if questions.is_empty() {
        return Ok(InputState::Complete(None));
    }
    if caller.era == Era::Modern {
        // The client's `accept` counts as the visit, because the modern era has no other
        // notification.
        let answers = match input_rounds::advance_modern_request(
            engine,
            caller,
            "tools/call",
            &InputScript::single_round(questions),
            params,
        )? {
            InputState::Required(job) => return Ok(InputState::Required(job)),
            InputState::Complete(answers) => answers,
        };
        let refused = answers.as_object().is_some_and(|all| all.values().any(|a| a["action"] != "accept"));
        return Ok(InputState::Complete(refused.then(|| error_result("the page was not visited"))));
    }
    if !caller.supports_url_elicitation() {
        return Ok(InputState::Complete(Some(error_result("this needs a page to be visited"))));
    }
    let elicitations: Vec<Value> = questions.into_iter().map(|question| question.params).collect();
    Err(Refusal::new(URL_ELICITATION_REQUIRED, "A page has to be visited first")
        .data(json!({"elicitations": elicitations})))
}

impl Engine {
    /// Marks an elicitation as completed and notifies each session that supports this. Returns how
    /// many.
    pub(crate) fn complete_elicitation(&self, id: &str) -> usize {
        self.completed_elicitations.0.lock().insert(id.to_owned());
        self.message_log.notify_waiters();
        let params = json!({"elicitationId": id});
        let knows = |session: &super::Session| session.version == "2025-11-25";
        self.announce_to_sessions("notifications/elicitation/complete", &params, knows)
    }
}
