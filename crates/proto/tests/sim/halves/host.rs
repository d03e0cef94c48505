//! [`SimHost`]: a host that drives the client's half of the protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_proto::client::calls::{Calls, Limits};
use bowline_proto::client::negotiation::{EraChoice, Reply};
use bowline_proto::client::session::{
    Action, Attempt, Command, Event, NegotiationMessage, Session, Settings, TransportKind,
};
use bowline_proto::revision::Revision;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::outgoing::{self, ProgressMode, RequestMeta};
use bowline_proto::wire::{Id, Json, Message, ParseResult, RpcError, meta, method};

use super::{SimEvent, World, number, numbered};

pub(super) struct SimHost {
    session: Session,
    attempt: Option<Attempt>,
    /// The id of the negotiation message whose reply is awaited.
    negotiation_id: Option<u64>,
    /// Pending calls, each with its number.
    calls: Calls<u64>,
    /// How many calls are made.
    calls_planned: u64,
    ended_calls: BTreeMap<u64, CallEnd>,
    /// Requests of the server that are not answered, by their id, with their number.
    open_requests: BTreeMap<u64, u64>,
    /// Every id that the server has used.
    seen_ids: BTreeSet<u64>,
    /// How many notifications of the server were received.
    notifications: u64,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallEnd {
    Answered,
    Canceled,
    /// Canceled, and a response came all the same.
    CanceledAndAnswered,
}

pub(super) enum HostEvent {
    /// Makes the call with this number.
    Call(u64),
    /// Cancels the call with this id.
    Cancel(u64),
    /// Answers the server request with this id.
    Answer(u64),
    /// Sends progress of the server request with this id.
    Progress(u64),
}

impl SimHost {
    pub(super) fn new(world: &mut World, seed: u64) -> Self {
        let era_choice = if world.rng.bool() { EraChoice::Auto } else { EraChoice::Legacy };
        let settings = Settings { transport: TransportKind::Pipe, era_choice, seed, ..Settings::default() };
        let mut calls_planned = world.rng.u64(..30);
        // A few hosts send more than may run at once.
        if world.rng.u8(..100) == 0 {
            calls_planned = 700;
            world.serve_within = Duration::from_secs(2);
        }
        Self {
            session: Session::new(settings),
            attempt: None,
            negotiation_id: None,
            calls: Calls::default(),
            calls_planned,
            ended_calls: BTreeMap::new(),
            open_requests: BTreeMap::new(),
            seen_ids: BTreeSet::new(),
            notifications: 0,
        }
    }

    pub(super) fn connect(&mut self, world: &mut World) {
        self.session.handle_command(world.now, Command::Connect);
        self.perform_actions(world);
    }

    pub(super) fn handle_event(&mut self, world: &mut World, event: HostEvent) {
        match event {
            HostEvent::Call(call) => self.call(world, call),
            HostEvent::Cancel(id) => {
                let Some(call) = self.calls.end(id) else { return };
                self.ended_calls.insert(call, CallEnd::Canceled);
                world.tally.note("call: canceled");
                let frame = outgoing::notification(method::CANCELLED, Some(&numbered("requestId", id)));
                world.send_to_server(&frame);
            }
            HostEvent::Answer(id) => {
                let Some(request) = self.open_requests.remove(&id) else { return };
                let result = numbered("m", request);
                let error = RpcError { code: -1, message: "no".into(), data: Some(result.clone()) };
                let outcome = if world.rng.bool() { Ok(&result) } else { Err(&error) };
                world.send_to_server(&outgoing::response(&Id::from(id), outcome));
            }
            HostEvent::Progress(id) => {
                let params = numbered(meta::PROGRESS_TOKEN, id);
                world.send_to_server(&outgoing::notification(method::PROGRESS, Some(&params)));
            }
        }
    }

    pub(super) fn handle_message(&mut self, world: &mut World, message: ParseResult) {
        match message.expect("servers write well-formed messages") {
            Message::Request { id, params, .. } => self.handle_request(world, &id, &params.expect("params")),
            Message::Notification { method, params } => {
                self.handle_notification(world, &method, &params.expect("params"));
            }
            Message::Result { id, result } => self.handle_response(world, &id, Ok(result)),
            Message::Error { id, error } => self.handle_response(world, &id.expect("an id"), Err(error)),
        }
    }

    pub(super) fn assert_all_ended(&self) {
        assert!(self.calls.is_empty(), "calls were left without a response");
        assert_eq!(self.ended_calls.len() as u64, self.calls_planned, "each call ended once");
        assert!(self.open_requests.is_empty(), "requests of the server were left open");
    }

    fn call(&mut self, world: &mut World, call: u64) {
        let limits = Limits { idle: Duration::from_secs(600), total: Duration::from_secs(600) };
        let id = self.calls.begin(world.now, limits, call);
        let params = numbered("n", call);
        let frame = outgoing::request(
            id,
            method::TOOLS_CALL,
            Some(&params),
            &RequestMeta::none(),
            ProgressMode::Wanted,
        );
        world.send_to_server(&frame.expect("params are an object"));
        if world.rng.u8(..4) == 0 {
            world.schedule(CANCEL_WITHIN, SimEvent::Host(HostEvent::Cancel(id)));
        }
    }

    fn handle_request(&mut self, world: &mut World, id: &Id, params: &Json) {
        let id = id.as_request_number().expect("a number");
        assert!(self.seen_ids.insert(id), "the id {id} was used before");
        self.open_requests.insert(id, number(params, "m"));
        if params.member("_meta").is_some() {
            world.schedule(ANSWER_WITHIN, SimEvent::Host(HostEvent::Progress(id)));
        }
        world.schedule(ANSWER_WITHIN, SimEvent::Host(HostEvent::Answer(id)));
    }

    fn handle_notification(&mut self, world: &mut World, method: &str, params: &Json) {
        if method == method::CANCELLED {
            let id = number(params, "requestId");
            assert!(self.seen_ids.contains(&id), "no request had the id {id}");
            if self.open_requests.remove(&id).is_some() {
                world.tally.note("request to the host: canceled at the host");
            }
            return;
        }
        assert_eq!(number(params, "index"), self.notifications, "a notification is out of order");
        self.notifications += 1;
        world.tally.note("notification: in order");
    }

    fn handle_response(&mut self, world: &mut World, id: &Id, outcome: Result<Json, RpcError>) {
        let id = id.as_request_number().expect("a number of ours");
        if self.negotiation_id == Some(id) {
            self.negotiation_id = None;
            let reply = match outcome {
                Ok(result) => Reply::Result(result),
                Err(error) => {
                    world.tally.note("host: refused discovery");
                    Reply::Error { status: None, error, stray: false }
                }
            };
            return self.report(world, Event::Reply(reply));
        }
        let result = outcome.expect("calls succeed");
        let call = number(&result, "n");
        assert!(number(&result, "after") <= self.notifications, "a response overtook a notification");
        let end = match self.calls.end(id) {
            Some(expected) => {
                assert_eq!(call, expected, "the response of another call");
                CallEnd::Answered
            }
            None => CallEnd::CanceledAndAnswered,
        };
        let before = self.ended_calls.insert(call, end);
        if end == CallEnd::Answered {
            assert_eq!(before, None, "call {call} has two responses");
            world.tally.note("call: answered");
        } else {
            assert_eq!(before, Some(CallEnd::Canceled), "call {call} has two responses");
            world.tally.note("call: canceled, but its response was on its way");
        }
    }

    fn report(&mut self, world: &mut World, event: Event) {
        let attempt = self.attempt.expect("a link");
        self.session.handle_event(world.now, attempt, event);
        self.perform_actions(world);
    }

    fn perform_actions(&mut self, world: &mut World) {
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Open(attempt, TransportKind::Pipe) => {
                    assert_eq!(self.attempt, None, "the link holds");
                    self.attempt = Some(attempt);
                    self.session.handle_event(world.now, attempt, Event::Opened { session: false });
                }
                Action::Send(_, message) => self.negotiate(world, message),
                Action::Restore(attempt, _) => self.session.handle_event(world.now, attempt, Event::Restored),
                Action::Ready(_, peer) => {
                    assert_eq!(peer.revision, Revision::NEWEST_LEGACY);
                    world.tally.note("host: ready");
                    for call in 0..self.calls_planned {
                        world.schedule(CALL_WITHIN, SimEvent::Host(HostEvent::Call(call)));
                    }
                }
                Action::Record(_) | Action::Announce(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn negotiate(&mut self, world: &mut World, message: NegotiationMessage) {
        let (method, revision) = match message {
            NegotiationMessage::Discover(revision) => (method::DISCOVER, revision),
            NegotiationMessage::Initialize(revision) => (method::INITIALIZE, revision),
            NegotiationMessage::Initialized(_) => {
                world.send_to_server(&outgoing::notification(method::INITIALIZED, None));
                return self.report(world, Event::Reply(Reply::Accepted));
            }
            NegotiationMessage::Resume(_) => panic!("pipes have no session to resume"),
        };
        let id = self.calls.next_id();
        self.negotiation_id = Some(id);
        let params =
            Edit::new().set_str("protocolVersion", revision.as_str()).apply(None).expect("an object");
        let frame =
            outgoing::request(id, method, Some(&params), &RequestMeta::none(), ProgressMode::Unwanted);
        world.send_to_server(&frame.expect("params are an object"));
    }
}

const CALL_WITHIN: Duration = Duration::from_millis(200);
const CANCEL_WITHIN: Duration = Duration::from_millis(150);
const ANSWER_WITHIN: Duration = Duration::from_millis(80);
