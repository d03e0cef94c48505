//! Server requests in the course of a client request. Legacy: the server sends requests, and the
//! call continues when they are answered. Modern: the result is `input_required`, and the client
//! retries with the responses and the state it was given.

use parking_lot::Mutex;

use serde_json::{Map, Value, json};

use super::features::{Caller, PendingResult};
use super::{Engine, Step};
use crate::rpc::{self, INVALID_PARAMS, MISSING_CAPABILITY, Refusal};
use crate::scripted_request::{InputScript, ScriptedRequest};

/// The rounds that wait for their responses. They outlive connections and restarts, because a
/// modern server keeps no session.
#[derive(Debug, Default)]
pub(super) struct PendingRounds(Mutex<Vec<PendingRound>>);

#[derive(Clone, Debug)]
struct PendingRound {
    /// The `requestState` that the client must return.
    state: Option<String>,
    request: Value,
    capabilities: Value,
    number: usize,
    answers: Map<String, Value>,
}

/// Whether a request has the input it needs.
pub(super) enum InputState<T> {
    /// The client has to provide input; the result is `input_required`.
    Required(PendingResult),
    /// No input is missing.
    Complete(T),
}

/// Returns the server requests of a legacy call as steps, one per round.
pub(super) fn request_steps(engine: &Engine, asks: &InputScript) -> Vec<Step> {
    asks.rounds
        .iter()
        .map(|round| Step::Request(round.iter().map(|question| build_request(engine, question)).collect()))
        .collect()
}

pub(super) fn build_request(engine: &Engine, question: &ScriptedRequest) -> Value {
    rpc::request(engine.next_request_id(), &question.method, question.params.clone())
}

/// Returns a legacy client's responses by key: results as they are, errors and cancellations as an
/// object with that member.
pub(super) fn responses_by_key(asks: &InputScript, answers: Vec<Value>) -> Value {
    let keys = asks.rounds.iter().flatten().map(|question| question.key.clone());
    keys.zip(answers.into_iter().map(response_result)).collect::<Map<_, _>>().into()
}

pub(super) fn response_result(answer: Value) -> Value {
    match (answer.get("result"), answer.get("error")) {
        (Some(result), _) => result.clone(),
        (None, Some(error)) => json!({"error": error}),
        (None, None) => answer,
    }
}

/// Advances a modern request with the responses it carries. Once all are there, returns them by
/// key.
pub(super) fn advance_modern_request(
    engine: &Engine,
    caller: Caller<'_>,
    method: &str,
    asks: &InputScript,
    params: &Value,
) -> Result<InputState<Value>, Refusal> {
    let mut request = json!({"method": method, "params": params});
    for member in ["_meta", "inputResponses", "requestState"] {
        request["params"].as_object_mut().map(|params| params.remove(member));
    }
    let capabilities = caller.capabilities.clone();
    let fresh = PendingRound { state: None, request, capabilities, number: 0, answers: Map::new() };
    let is_retry = ["inputResponses", "requestState"].iter().any(|member| params.get(member).is_some());
    let mut round = if is_retry { take_pending_round(engine, fresh, params)? } else { fresh };
    if is_retry && record_responses(engine, &mut round, asks, params) {
        round.number += 1;
    }
    let Some(questions) = asks.rounds.get(round.number) else {
        return Ok(InputState::Complete(round.answers.into()));
    };
    if !asks.unchecked {
        questions.iter().try_for_each(|question| check_capability(caller.capabilities, question))?;
    }
    let mut result = json!({"resultType": "input_required"});
    if !questions.is_empty() {
        result["inputRequests"] =
            questions.iter().map(|q| (q.key.clone(), q.input_request())).collect::<Map<_, _>>().into();
    }
    round.state = match asks.states.get(round.number) {
        Some(state) => state.clone(),
        // Spaces, quotes and non-ASCII letters: a client that parses and rewrites the state breaks
        // it.
        None => Some(format!("state-{}  {{\"n\" :1.0, \"x\":\"\\u00e9\u{e9}\"}} ", engine.next_number())),
    };
    if let Some(state) = &round.state {
        result["requestState"] = state.as_str().into();
    }
    engine.pending_rounds.0.lock().push(round);
    Ok(InputState::Required(PendingResult::ready(result)))
}

/// Takes the pending round that this request answers.
fn take_pending_round(engine: &Engine, fresh: PendingRound, params: &Value) -> Result<PendingRound, Refusal> {
    let state = params["requestState"].as_str();
    let mut waiting = engine.pending_rounds.0.lock();
    // Without a state only the request itself identifies its round.
    let found = waiting.iter().position(|round| {
        round.state.as_deref() == state && (state.is_some() || round.request == fresh.request)
    });
    let Some(round) = found.map(|at| waiting.remove(at)) else {
        return Err(Refusal::new(INVALID_PARAMS, format!("requestState {state:?} was not given out")));
    };
    drop(waiting);
    // MR-03
    if round.request != fresh.request {
        engine.message_log.record_violation(format!("{} came again as {}", round.request, fresh.request));
    }
    // LC-09
    if round.capabilities != fresh.capabilities {
        engine.message_log.record_violation("the capabilities changed between two rounds");
    }
    Ok(round)
}

/// Records the responses. Returns false if one is missing; then the round is sent again.
fn record_responses(engine: &Engine, round: &mut PendingRound, asks: &InputScript, params: &Value) -> bool {
    let empty = Map::new();
    let given = params["inputResponses"].as_object().unwrap_or(&empty);
    let questions = asks.rounds.get(round.number).map_or(&[][..], Vec::as_slice);
    // MR-02, MR-08
    for key in given.keys().filter(|key| !questions.iter().any(|question| question.key == **key)) {
        engine.message_log.record_violation(format!("an answer to nothing: input {key}"));
    }
    for (key, answer) in given {
        if ["jsonrpc", "id", "resultType"].iter().any(|member| answer.get(member).is_some()) {
            engine.message_log.record_violation(format!("the answer to input {key} is wrapped: {answer}"));
        }
    }
    let complete = questions.iter().all(|question| given.contains_key(&question.key));
    if complete {
        round.answers.extend(given.clone());
    }
    complete
}

// GW-04
/// Fails if a request requires a capability that the client did not declare.
pub(super) fn check_capability(declared: &Value, question: &ScriptedRequest) -> Result<(), Refusal> {
    let needs = question.required_capabilities();
    for (kind, details) in needs.as_object().into_iter().flatten() {
        let is_declared = declared.get(kind).is_some_and(|declared| {
            details.as_object().into_iter().flatten().all(|(detail, _)| declared.get(detail).is_some())
        });
        if !is_declared {
            return Err(missing_capability(kind, &needs));
        }
    }
    Ok(())
}

pub(super) fn missing_capability(what: &str, needs: &Value) -> Refusal {
    Refusal::new(MISSING_CAPABILITY, format!("The client does not offer {what}"))
        .status(400)
        .data(json!({"requiredCapabilities": needs}))
}
