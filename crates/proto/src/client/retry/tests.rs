//! Tests of the retry decision, step by step, with the exact failure and outcome.

mod busy;
mod credentials;
mod evidence;
mod time;

use super::*;
use crate::wire::Json;

pub(super) const LIMITS: Limits = Limits { idle: Duration::from_secs(8), total: Duration::from_secs(20) };
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_secs(10);

/// A legacy session over HTTP that has answered something, of a server that offers a list.
pub(super) const LINK: LinkFacts = LinkFacts {
    http: true,
    modern: false,
    session: true,
    credentials: false,
    can_authorize: false,
    proven: true,
    challenged: false,
    list_method: Some(method::TOOLS_LIST),
};

/// One request with a virtual clock.
pub(super) struct Scenario {
    pub(super) retry: Retry,
    pub(super) start: Instant,
    pub(super) now: Instant,
    pub(super) link: LinkFacts,
}

impl Scenario {
    /// Creates the call of a tool that may have effects.
    pub(super) fn new() -> Self {
        Self::with_harmless(Some(false))
    }

    pub(super) fn with_harmless(harmless: Option<bool>) -> Self {
        let now = Instant::now();
        let request = RequestFacts {
            method: method::TOOLS_CALL.into(),
            harmless,
            pinned: false,
            quiet: false,
            max_retry_after: MAX_RETRY_AFTER,
        };
        Self { retry: Retry::new(request, now, LIMITS), start: now, now, link: LINK }
    }

    pub(super) fn fail(&mut self, reply: Reply) -> Step {
        let verdict = reply.session_verdict(method::TOOLS_CALL, self.link.session, self.link.credentials);
        self.retry.handle_failure(self.now, self.link, SendFailure::Reply(verdict, reply))
    }

    pub(super) fn answer_probe(&mut self, probe: Probe, reply: Reply) -> Step {
        let method = self.link.probe_method(probe);
        let verdict = reply.session_verdict(method, self.link.session, self.link.credentials);
        self.retry.handle_probe(self.now, Some((verdict, reply)))
    }

    pub(super) fn reconnect(&mut self) -> Step {
        self.retry.handle_link(self.now, Ok(self.link))
    }
}

pub(super) const PING: Probe = Probe::Ping;
pub(super) const LIST: Probe = Probe::List(method::TOOLS_LIST);

pub(super) fn result() -> Reply {
    Reply::Result(Json::empty_object())
}

/// A refusal with a JSON-RPC error that names our request.
pub(super) fn error_reply(status: u16, code: i64, message: &str) -> Reply {
    let error = RpcError { code, message: message.to_owned(), data: None };
    Reply::Error { status: (status != 200).then_some(status), error, stray: false }
}

/// A refusal in plain text, whose outcome is unknown to the transport.
pub(super) fn text_reply(status: u16, body: &str) -> Reply {
    let fault = Fault::new(Cause::Status { code: status, retry_after: None }).with_body(body.as_bytes());
    Reply::Fault(fault)
}

pub(super) fn cut_reply() -> Reply {
    Reply::Fault(Fault::new(Cause::Cut))
}

pub(super) fn refused_reply() -> Reply {
    Reply::Fault(Fault::before_sending(Cause::Refused))
}

/// The cause and the outcome with which a step ends the request.
#[track_caller]
pub(super) fn final_fault(step: &Step) -> (Cause, Execution) {
    match step {
        Step::Finish(FinalFailure::Fault(fault)) => (fault.cause.clone(), fault.execution),
        other => panic!("not the end with a fault: {other:?}"),
    }
}

#[track_caller]
pub(super) fn assert_server_error(step: &Step, message: &str) {
    match step {
        Step::Finish(FinalFailure::ServerError(error)) => assert_eq!(error.message, message),
        other => panic!("not the server's own answer: {other:?}"),
    }
}
