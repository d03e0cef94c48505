//! Tests of the retry decision, step by step, with the exact failure and outcome.

mod credentials;
mod evidence;
mod time;

use super::*;
use crate::wire::Json;

pub(super) const LIMITS: Limits = Limits { idle: Duration::from_secs(8), total: Duration::from_secs(20) };
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A legacy session over HTTP that has answered something, of a server that offers a list.
pub(super) const LINK: Link = Link {
    http: true,
    modern: false,
    session: true,
    credentials: false,
    authorizes: false,
    proven: true,
    challenged: false,
    list: Some(method::TOOLS_LIST),
};

/// One request with a virtual clock.
pub(super) struct Play {
    pub(super) retry: Retry,
    pub(super) start: Instant,
    pub(super) now: Instant,
    pub(super) link: Link,
}

impl Play {
    /// Creates the call of a tool that may have effects.
    pub(super) fn new() -> Self {
        Self::of(Some(false))
    }

    pub(super) fn of(harmless: Option<bool>) -> Self {
        let now = Instant::now();
        let request = Request {
            method: method::TOOLS_CALL.into(),
            harmless,
            pinned: false,
            quiet: false,
            patience: PATIENCE,
        };
        Self { retry: Retry::new(request, now, LIMITS), start: now, now, link: LINK }
    }

    pub(super) fn fails(&mut self, reply: Reply) -> Step {
        let verdict = reply.sign(method::TOOLS_CALL, self.link.session, self.link.credentials);
        self.retry.handle_failure(self.now, self.link, Failure::Reply(verdict, reply))
    }

    pub(super) fn answers(&mut self, probe: Probe, reply: Reply) -> Step {
        let method = self.link.probe_method(probe);
        let verdict = reply.sign(method, self.link.session, self.link.credentials);
        self.retry.handle_probe(self.now, Some((verdict, reply)))
    }

    pub(super) fn reconnects(&mut self) -> Step {
        self.retry.handle_link(self.now, Ok(self.link))
    }
}

pub(super) const PING: Probe = Probe::Ping;
pub(super) const LIST: Probe = Probe::List(method::TOOLS_LIST);

pub(super) fn result() -> Reply {
    Reply::Result(Json::empty_object())
}

/// A refusal with a JSON-RPC error that names our request.
pub(super) fn own(status: u16, code: i64, message: &str) -> Reply {
    let error = RpcError { code, message: message.to_owned(), data: None };
    Reply::Error { status: (status != 200).then_some(status), error, stray: false }
}

/// A refusal in plain text, whose outcome is unknown to the transport.
pub(super) fn text(status: u16, body: &str) -> Reply {
    let fault = Fault::new(Cause::Status { code: status, retry_after: None }).body(body.as_bytes());
    Reply::Fault(fault)
}

pub(super) fn cut() -> Reply {
    Reply::Fault(Fault::new(Cause::Cut))
}

pub(super) fn refused() -> Reply {
    Reply::Fault(Fault::before_sending(Cause::Refused))
}

/// The cause and the outcome with which a step ends the request.
#[track_caller]
pub(super) fn ends(step: &Step) -> (Cause, Execution) {
    match step {
        Step::Finish(Outcome::Fault(fault)) => (fault.cause.clone(), fault.execution),
        other => panic!("not the end with a fault: {other:?}"),
    }
}

#[track_caller]
pub(super) fn ends_with_own_answer(step: &Step, message: &str) {
    match step {
        Step::Finish(Outcome::Server(error)) => assert_eq!(error.message, message),
        other => panic!("not the server's own answer: {other:?}"),
    }
}
