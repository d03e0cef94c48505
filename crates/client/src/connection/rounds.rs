//! Modern results that ask for input, answered by the handler that also serves legacy servers (group MR).

use std::sync::Arc;
use std::time::Instant;

use bowline_proto::fault::{Execution, Fault, Misbehaviour};
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::{InputRequests, InputRequired, ResultType, result_type};
use bowline_proto::wire::{Json, method};

use super::requests::purpose;
use super::retry::Ask;
use super::{CallOptions, Failure, Live, Shared};
use crate::error::Result;

impl Shared {
    /// Modern results say what they are (BM-05). Input that is asked for is given, a bounded number of
    /// times (MR-01 to MR-08).
    pub(super) async fn rounds(
        self: &Arc<Self>,
        live: &Arc<Live>,
        ask: Ask<'_>,
        mut result: Json,
    ) -> Result<Json> {
        let Ask { method, params, options } = ask;
        let mut live = Arc::clone(live);
        let broken = |misbehaviour| self.error(method, Failure::Fault(Fault::protocol(misbehaviour)));
        // The cap holds for all rounds together. The time that the host takes to answer is not the server's.
        let mut left = self.limits(options).total;
        for _ in 0..MAX_ROUNDS {
            match result_type(&result) {
                ResultType::Complete => return Ok(result),
                ResultType::InputRequired if may_ask(method) => {}
                // TN-02: nowhere else, and not unless it was offered.
                ResultType::Task if method == method::TOOLS_CALL && self.declares_tasks() => {
                    if options.raw {
                        return Ok(result);
                    }
                    let during = purpose(method, params);
                    return self.follow_created(ask, during, &result, left).await;
                }
                ResultType::InputRequired | ResultType::Task | ResultType::Unknown(_) => {
                    return Err(broken(Misbehaviour::ResultType));
                }
            }
            let wanted = InputRequired::decode(&result).map_err(|_| broken(Misbehaviour::BadResult))?;
            let retry = self.answer_inputs(method, params, &wanted).await?;
            let round = CallOptions { total: Some(left), ..options.clone() };
            let begun = Instant::now();
            let ask = Ask { method, params: Some(&retry), options: &round };
            // The server has begun: whatever becomes of this round, nobody can say that nothing was done.
            let delivered = self.deliver(&live, ask).await.map_err(|failure| match failure {
                Failure::Fault(fault) => Failure::Fault(Fault { execution: Execution::Unknown, ..fault }),
                other => other,
            });
            let (saved, given) = delivered.map_err(|failure| self.error(method, failure))?;
            live = saved.unwrap_or(live);
            result = given;
            left = left.saturating_sub(begun.elapsed());
        }
        Err(broken(Misbehaviour::Rounds))
    }

    /// The params of the retry: the original ones, the answers under their keys, and the state as it came
    /// (MR-02 to MR-05).
    async fn answer_inputs(
        &self,
        method: &str,
        params: Option<&Json>,
        wanted: &InputRequired,
    ) -> Result<Json> {
        let given = self.ask_inputs(method, &wanted.requests, purpose(method, params)).await?;
        let answers = given.iter().fold(Edit::new(), |answers, (key, answer)| answers.set(key, answer));
        let answers = answers.apply(None).map_err(|error| self.usage(method, error))?;
        let mut edit = Edit::new();
        if !given.is_empty() {
            edit = edit.set("inputResponses", &answers);
        }
        if let Some(state) = &wanted.state {
            edit = edit.set("requestState", state);
        }
        edit.apply(params).map_err(|error| self.usage(method, error))
    }

    /// Has the host answer what a call or its task asks for, one after the other. All of it, or nothing.
    pub(super) async fn ask_inputs(
        &self,
        method: &str,
        wanted: &InputRequests,
        during: Arc<str>,
    ) -> Result<Vec<(Box<str>, Json)>> {
        let mut given = Vec::with_capacity(wanted.len());
        for (key, request) in wanted {
            // MR-07
            if !self.declared(&request.method) {
                let asked: String = request.method.chars().take(80).collect();
                let fault = Fault::protocol(Misbehaviour::Undeclared).note(asked);
                return Err(self.error(method, Failure::Fault(fault)));
            }
            let during = Some(Arc::clone(&during));
            let answer = self.ask_handler(request.method.clone(), request.params.clone(), during).await;
            given.push((key.clone(), answer.map_err(|error| self.error(method, Failure::Declined(error)))?));
        }
        Ok(given)
    }
}

/// MR-01: only these may ask for input.
fn may_ask(method: &str) -> bool {
    matches!(method, method::TOOLS_CALL | method::PROMPTS_GET | method::RESOURCES_READ)
}

/// MR-06: how often a server may ask for more before we stop answering.
const MAX_ROUNDS: usize = 16;
