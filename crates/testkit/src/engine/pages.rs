//! Tools that need a page to be visited first. 2025-11-25: `-32042` until it was; modern: a question.

use std::collections::HashSet;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::rounds::{self, Standing};
use super::tools::{Call, failed};
use super::{Engine, Era};
use crate::question::{Asks, Question};
use crate::rpc::{Refusal, URL_ELICITATION_REQUIRED};
use crate::sync::lock;

/// Elicitations that are over. They outlive sessions and restarts: it was a person who was there.
#[derive(Debug, Default)]
pub(super) struct Visited(Mutex<HashSet<String>>);

/// Whether the call can go on; the question, if a modern client has to be asked.
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
        // Who said yes comes back with the answer, and was there: nobody else would tell.
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
    /// Somebody was on the page. Tells each session that knows of such things, and gives the number.
    pub(crate) fn complete_elicitation(&self, id: &str) -> usize {
        lock(&self.visited.0).insert(id.to_owned());
        self.ledger.touch();
        let params = json!({"elicitationId": id});
        let knows = |session: &super::Session| session.version == "2025-11-25";
        self.announce_in_sessions("notifications/elicitation/complete", &params, knows)
    }
}
