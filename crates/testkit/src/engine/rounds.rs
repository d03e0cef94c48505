//! Server requests in the course of a client request. Legacy: the server sends requests, and the
//! call continues when they are answered. Modern: the result is `input_required`, and the client
//! retries with the responses and the state it was given.

use std::sync::Mutex;

use serde_json::{Map, Value, json};

use super::features::{Caller, Job};
use super::{Engine, Step};
use crate::question::{Asks, Question};
use crate::rpc::{self, INVALID_PARAMS, MISSING_CAPABILITY, Refusal};
use crate::sync::lock;

/// How often the last round is repeated within one legacy call by a tool that asks forever.
const FOR_EVER: usize = 1000;

/// The rounds that wait for their responses. They outlive connections and restarts, because a
/// modern server keeps no session.
#[derive(Debug, Default)]
pub(super) struct Rounds(Mutex<Vec<Round>>);

#[derive(Clone, Debug)]
struct Round {
    /// The `requestState` that the client must return.
    state: Option<String>,
    request: Value,
    capabilities: Value,
    number: usize,
    answers: Map<String, Value>,
}

/// Whether a request has the input it needs.
pub(super) enum Standing<T> {
    /// The client has to provide input; the result is `input_required`.
    Ask(Job),
    /// No input is missing.
    Answered(T),
}

/// Returns the server requests of a legacy call as steps, one per round.
pub(super) fn steps(engine: &Engine, asks: &Asks) -> Vec<Step> {
    let last = asks.rounds.last().filter(|_| asks.forever);
    let rounds = asks.rounds.iter().chain(last.into_iter().cycle().take(FOR_EVER));
    rounds.map(|round| Step::Ask(round.iter().map(|question| request(engine, question)).collect())).collect()
}

pub(super) fn request(engine: &Engine, question: &Question) -> Value {
    rpc::request(engine.next_ask_id(), &question.method, question.params.clone())
}

/// Returns a legacy client's responses by key: results as they are, errors and cancellations as an
/// object with that member.
pub(super) fn by_key(asks: &Asks, answers: Vec<Value>) -> Value {
    let keys = asks.rounds.iter().flatten().map(|question| question.key.clone());
    keys.zip(answers.into_iter().map(result_of)).collect::<Map<_, _>>().into()
}

pub(super) fn result_of(answer: Value) -> Value {
    match (answer.get("result"), answer.get("error")) {
        (Some(result), _) => result.clone(),
        (None, Some(error)) => json!({"error": error}),
        (None, None) => answer,
    }
}

/// Advances a modern request with the responses it carries. Once all are there, returns them by
/// key.
pub(super) fn modern(
    engine: &Engine,
    caller: Caller<'_>,
    method: &str,
    asks: &Asks,
    params: &Value,
) -> Result<Standing<Value>, Refusal> {
    let mut request = json!({"method": method, "params": params});
    for member in ["_meta", "inputResponses", "requestState"] {
        request["params"].as_object_mut().map(|params| params.remove(member));
    }
    let capabilities = caller.capabilities.clone();
    let fresh = Round { state: None, request, capabilities, number: 0, answers: Map::new() };
    let comes_again = ["inputResponses", "requestState"].iter().any(|member| params.get(member).is_some());
    let mut round = if comes_again { take_up(engine, fresh, params)? } else { fresh };
    if comes_again && complete(engine, &mut round, asks, params) {
        round.number += 1;
        if asks.forever {
            round.number = round.number.min(asks.rounds.len().saturating_sub(1));
        }
    }
    let Some(questions) = asks.rounds.get(round.number) else {
        return Ok(Standing::Answered(round.answers.into()));
    };
    if !asks.unchecked {
        questions.iter().try_for_each(|question| allowed(caller.capabilities, question))?;
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
        None => Some(format!("state-{}  {{\"n\" :1.0, \"x\":\"\\u00e9\u{e9}\"}} ", engine.number())),
    };
    if let Some(state) = &round.state {
        result["requestState"] = state.as_str().into();
    }
    lock(&engine.rounds.0).push(round);
    Ok(Standing::Ask(Job::done(result)))
}

/// Takes the pending round that this request answers.
fn take_up(engine: &Engine, fresh: Round, params: &Value) -> Result<Round, Refusal> {
    let state = params["requestState"].as_str();
    let mut waiting = lock(&engine.rounds.0);
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
        engine.ledger.violation(format!("{} came again as {}", round.request, fresh.request));
    }
    // LC-09
    if round.capabilities != fresh.capabilities {
        engine.ledger.violation("the capabilities changed between two rounds");
    }
    Ok(round)
}

/// Records the responses. Returns false if one is missing; then the round is sent again.
fn complete(engine: &Engine, round: &mut Round, asks: &Asks, params: &Value) -> bool {
    let empty = Map::new();
    let given = params["inputResponses"].as_object().unwrap_or(&empty);
    let questions = asks.rounds.get(round.number).map_or(&[][..], Vec::as_slice);
    // MR-02, MR-08
    for key in given.keys().filter(|key| !questions.iter().any(|question| question.key == **key)) {
        engine.ledger.violation(format!("an answer to nothing: input {key}"));
    }
    for (key, answer) in given {
        if ["jsonrpc", "id", "resultType"].iter().any(|member| answer.get(member).is_some()) {
            engine.ledger.violation(format!("the answer to input {key} is wrapped: {answer}"));
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
pub(super) fn allowed(declared: &Value, question: &Question) -> Result<(), Refusal> {
    let needs = question.needs();
    for (kind, details) in needs.as_object().into_iter().flatten() {
        let there = declared.get(kind).is_some_and(|declared| {
            details.as_object().into_iter().flatten().all(|(detail, _)| declared.get(detail).is_some())
        });
        if !there {
            return Err(lacks(kind, &needs));
        }
    }
    Ok(())
}

pub(super) fn lacks(what: &str, needs: &Value) -> Refusal {
    Refusal::new(MISSING_CAPABILITY, format!("The client does not offer {what}"))
        .status(400)
        .data(json!({"requiredCapabilities": needs}))
}
