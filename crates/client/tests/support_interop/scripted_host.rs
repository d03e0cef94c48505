//! A scripted host for [`Host`](bowline::host::Host): a person and a model with prepared responses,
//! which record the requests they get.

use std::collections::VecDeque;
use std::sync::Arc;

use bowline::host::{Elicit, FormRequest, HostFuture, Sample, SampleRequest, SamplingRefusal, UrlRequest};
use bowline::types::{Content, ElicitResult, SamplingBlock, SamplingResult};
use bowline::{Json, UrlElicitationOutcome};
use bowline_testkit::with;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

/// A person with prepared responses, used in order; further requests are dismissed. Clones share
/// their state.
#[derive(Clone)]
pub(crate) struct ScriptedPerson {
    answers: Arc<Mutex<VecDeque<ElicitResult>>>,
    forms: Arc<Mutex<Vec<FormRequest>>>,
    pages: Arc<Mutex<Vec<UrlRequest>>>,
    /// The outcome of a call that waits for this person to visit a URL.
    pub(crate) url_outcome: UrlElicitationOutcome,
}

impl ScriptedPerson {
    pub(crate) fn new(answers: impl IntoIterator<Item = ElicitResult>) -> Self {
        let answers = Arc::new(Mutex::new(answers.into_iter().collect()));
        Self {
            answers,
            forms: Arc::default(),
            pages: Arc::default(),
            url_outcome: UrlElicitationOutcome::Retry,
        }
    }

    /// Returns the forms that were shown.
    pub(crate) fn forms(&self) -> Vec<FormRequest> {
        lock(&self.forms).clone()
    }

    /// Returns the URL elicitations that were shown.
    pub(crate) fn pages(&self) -> Vec<UrlRequest> {
        lock(&self.pages).clone()
    }

    fn next_response(&self) -> HostFuture<'_, ElicitResult> {
        let answer = lock(&self.answers).pop_front().unwrap_or(ElicitResult::Cancel);
        Box::pin(async { answer })
    }
}

impl Elicit for ScriptedPerson {
    fn form(&self, request: FormRequest) -> HostFuture<'_, ElicitResult> {
        lock(&self.forms).push(request);
        self.next_response()
    }

    fn url(&self, request: UrlRequest) -> HostFuture<'_, ElicitResult> {
        lock(&self.pages).push(request);
        self.next_response()
    }

    fn await_url(&self, _: Arc<str>, _: Vec<Box<str>>) -> HostFuture<'_, UrlElicitationOutcome> {
        Box::pin(async { self.url_outcome })
    }
}

/// Makes the response that accepts a form with this content.
pub(crate) fn accept_with(content: &Value) -> ElicitResult {
    ElicitResult::Accept(Some(Json::encode(content).expect("a value is JSON")))
}

/// A model that always gives the same reply, or always refuses. Clones share the recorded requests.
#[derive(Clone)]
pub(crate) struct ScriptedModel {
    reply: Result<&'static str, SamplingRefusal>,
    asked: Arc<Mutex<Vec<SampleRequest>>>,
}

impl ScriptedModel {
    pub(crate) fn new(says: Result<&'static str, SamplingRefusal>) -> Self {
        Self { reply: says, asked: Arc::default() }
    }

    /// Returns the recorded requests.
    pub(crate) fn requests(&self) -> Vec<SampleRequest> {
        lock(&self.asked).clone()
    }
}

impl Sample for ScriptedModel {
    fn sample(&self, request: SampleRequest) -> HostFuture<'_, Result<SamplingResult, SamplingRefusal>> {
        lock(&self.asked).push(request);
        let answer = self.reply.clone().map(|says| {
            let block = Json::encode(&json!({ "type": "text", "text": says })).expect("a value is JSON");
            let block = SamplingBlock::Content(Content::decode(&block).expect("a block of text"));
            with!(SamplingResult::new("knot-1", vec![block]), stop_reason: Some("endTurn".into()))
        });
        Box::pin(async { answer })
    }
}

fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock()
}
