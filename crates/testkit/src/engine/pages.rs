//! Tools that require a URL elicitation first. 2025-11-25: they fail with `-32042` until it is
//! completed; modern: they request it as input.

use std::collections::HashSet;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::rounds::{self, Standing};
use super::tools::{Call, failed};
use super::{Engine, Era};
use crate::question::{Asks, Question};
use crate::rpc::{Refusal, URL_ELICITATION_REQUIRED};
use crate::sync::lock;

/// The ids of completed elicitations. They outlive sessions and restarts, because a person
/// completed them outside of any session.
#[derive(Debug, Default)]
pub(super) struct Visited(Mutex<HashSet<String>>);

/// Checks the elicitations of a call. `Complete(None)` lets it proceed, `Complete(Some)` is an
/// error result, and `Required` asks a modern client.
pub(super) fn visited(
    call: &Call<'_>,
    pages: &[(String, String)],
) -> Result<Standing<Option<Value>>, Refusal> {
    let Call { engine, caller, params, .. } = *call;
    let done = lock(&engine.visited.0).clone();
    let missing = pages.iter().filter(|(id, _)| !done.contains(id));
    let questions: Vec<Question> =
        missing.map(|(id, url)| Question::page(id, "Please visit this page", url)).collect();
    if questions.is_empty() {
        return Ok(Standing::Answered(None));
    }
    if caller.era == Era::Modern {
        // The client's `accept` counts as the visit, because the modern era has no other
        // notification.
        let answers = match rounds::modern(engine, caller, "tools/call", &Asks::once(questions), params)? {
            Standing::Ask(job) => return Ok(Standing::Ask(job)),
            Standing::Answered(answers) => answers,
        };
        let refused = answers.as_object().is_some_and(|all| all.values().any(|a| a["action"] != "accept"));
        return Ok(Standing::Answered(refused.then(|| failed("the page was not visited"))));
    }
    if !caller.knows_pages() {
        return Ok(Standing::Answered(Some(failed("this needs a page to be visited"))));
    }
    let elicitations: Vec<Value> = questions.into_iter().map(|question| question.params).collect();
    Err(Refusal::new(URL_ELICITATION_REQUIRED, "A page has to be visited first")
        .data(json!({"elicitations": elicitations})))
}

impl Engine {
    /// Marks an elicitation as completed and notifies each session that supports this. Returns how
    /// many.
    pub(crate) fn complete_elicitation(&self, id: &str) -> usize {
        lock(&self.visited.0).insert(id.to_owned());
        self.ledger.touch();
        let params = json!({"elicitationId": id});
        let knows = |session: &super::Session| session.version == "2025-11-25";
        self.announce_in_sessions("notifications/elicitation/complete", &params, knows)
    }
}
