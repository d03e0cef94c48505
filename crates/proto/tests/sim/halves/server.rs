//! [`SimServer`]: a server that drives the server's half of the protocol.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use bowline_proto::revision::Revision;
use bowline_proto::server::delivery::DeliveryQueue;
use bowline_proto::server::handshake::{ServerOffer, implementation};
use bowline_proto::server::requests::{RequestKey, Turn};
use bowline_proto::server::session::{Action, Attempt, HandshakeStatus, IgnoreReason, Session};
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::{Id, Json, ParseResult, method, outgoing};

use super::{SimEvent, World, number, numbered};

pub(super) struct SimServer {
    /// Requests are served by the number of their call, and waited for by a number of ours.
    session: Session<u64, u64>,
    attempt: Option<Attempt>,
    open: BTreeMap<RequestKey, OpenCall>,
    /// How many calls have come. Each number comes once.
    calls: BTreeMap<u64, RequestKey>,
    /// Requests to the host: its number, and how it ended.
    sent: BTreeMap<u64, SentRequest>,
    /// Notifications on their way, by their index.
    delivery: DeliveryQueue<u64, Release>,
    /// Notifications behind `delivery`.
    source: VecDeque<u64>,
    /// How many notifications there were.
    notifications: u64,
    released: Rc<RefCell<Vec<RequestKey>>>,
}

struct OpenCall {
    id: Id,
    call: u64,
    state: CallState,
    /// How many notifications came before the result.
    after: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    Served,
    Canceled,
}

struct SentRequest {
    id: u64,
    ends: u32,
}

/// Adds a request to the released ones when it is dropped.
struct Release {
    key: RequestKey,
    released: Rc<RefCell<Vec<RequestKey>>>,
}

impl Drop for Release {
    fn drop(&mut self) {
        self.released.borrow_mut().push(self.key);
    }
}

pub(super) enum ServerEvent {
    /// Answers `initialize`.
    Accept(RequestKey, Id),
    /// A request has its result.
    Complete(RequestKey),
    /// A canceled request was stopped.
    Stopped(RequestKey),
    /// Something is to be told to the host.
    Notify,
    /// Delivers the next notification.
    Deliver,
    /// Sends the request of this number to the host.
    Ask(u64),
    /// Gives up on the request of this number.
    CancelSent(u64),
}

impl SimServer {
    pub(super) fn new() -> Self {
        Self {
            session: Session::default(),
            attempt: None,
            open: BTreeMap::new(),
            calls: BTreeMap::new(),
            sent: BTreeMap::new(),
            delivery: DeliveryQueue::default(),
            source: VecDeque::new(),
            notifications: 0,
            released: Rc::default(),
        }
    }

    pub(super) fn handle_message(&mut self, world: &mut World, message: ParseResult) {
        match self.session.handle_message(message) {
            Action::Send(frame) => world.send_to_host(&frame),
            Action::Initialize { key, id, attempt, params } => {
                assert_eq!(params.revision, Revision::NEWEST_LEGACY);
                self.attempt = Some(attempt);
                world.schedule(world.serve_within, SimEvent::Server(ServerEvent::Accept(key, id)));
            }
            Action::Serve { key, id, method, params } => {
                assert_eq!(&*method, method::TOOLS_CALL);
                let call = number(&params.expect("params"), "n");
                assert_eq!(self.calls.insert(call, key), None, "call {call} came twice");
                let open = OpenCall { id, call, state: CallState::Served, after: 0 };
                assert!(self.open.insert(key, open).is_none(), "a key was used twice");
                if self.session.attach(key, call).is_some() {
                    begin(world, key);
                } else {
                    assert_eq!(self.session.turn(key), Some(Turn::Waiting));
                    world.tally.note("call: waited for its turn");
                }
            }
            Action::Cancel { task: call, .. } => {
                let key = self.calls[&call];
                if self.session.turn(key).is_none() {
                    world.tally.note("call: canceled while it waited");
                }
                let open = self.open.get_mut(&key).expect("an open call");
                assert_eq!(open.state, CallState::Served, "call {call} was canceled twice");
                open.state = CallState::Canceled;
                world.schedule(STOP_WITHIN, SimEvent::Server(ServerEvent::Stopped(key)));
            }
            Action::Deliver { waiter, outcome } => {
                let told = outcome.unwrap_or_else(|error| error.data.expect("data"));
                assert_eq!(number(&told, "m"), waiter, "the response to another request");
                self.sent.get_mut(&waiter).expect("a request of ours").ends += 1;
                world.tally.note("request to the host: answered");
            }
            Action::Notify { method, params } => {
                assert_eq!(&*method, method::PROGRESS);
                let request = number(&params.expect("params"), "progressToken") - TOKEN_OFFSET;
                assert_eq!(self.sent[&request].ends, 0, "progress of an ended request");
                world.tally.note("request to the host: progress");
            }
            Action::Ignore(IgnoreReason::Handshake) => self.begin_work(world),
            Action::Ignore(IgnoreReason::UnknownRequest) => world.tally.note("call: canceled in vain"),
            Action::Ignore(IgnoreReason::UnknownResponse) => {
                world.tally.note("request to the host: answered in vain");
            }
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn handle_event(&mut self, world: &mut World, event: ServerEvent) {
        match event {
            ServerEvent::Accept(key, id) => {
                let offer = ServerOffer {
                    revision: Revision::NEWEST_LEGACY,
                    capabilities: Json::parse(r#"{"tools":{}}"#).expect("an object"),
                    server_info: implementation("simulated", "1"),
                    instructions: None,
                };
                let frame = self.session.respond(key, &id, Ok(&offer.to_result()));
                world.send_to_host(&frame.expect("it has no response yet"));
                self.session.accept(self.attempt.expect("an attempt"));
                self.end(world, key);
            }
            ServerEvent::Complete(key) => {
                let Some(open) = self.open.get_mut(&key) else { return };
                open.after = self.notifications;
                let in_source = self.source.len() as u64;
                self.delivery.wait(in_source, Release { key, released: Rc::clone(&self.released) });
                world.schedule(DELIVER_WITHIN, SimEvent::Server(ServerEvent::Deliver));
            }
            ServerEvent::Stopped(key) => self.end(world, key),
            ServerEvent::Notify => {
                // By one of two ways, as events and progress come.
                if world.rng.bool() {
                    self.source.push_back(self.notifications);
                } else {
                    for index in self.source.drain(..) {
                        self.delivery.push(index, 1);
                    }
                    self.delivery.push(self.notifications, 1);
                }
                self.notifications += 1;
                world.schedule(DELIVER_WITHIN, SimEvent::Server(ServerEvent::Deliver));
            }
            ServerEvent::Deliver => self.deliver(world),
            ServerEvent::Ask(request) => self.ask(world, request),
            ServerEvent::CancelSent(request) => {
                let sent = self.sent.get_mut(&request).expect("a request of ours");
                if let Some(frame) = self.session.cancel_sent(sent.id) {
                    sent.ends += 1;
                    world.tally.note("request to the host: canceled");
                    world.send_to_host(&frame);
                }
            }
        }
    }

    pub(super) fn assert_all_ended(&self) {
        assert!(self.open.is_empty(), "calls were left open");
        assert!(self.sent.values().all(|sent| sent.ends == 1), "each request to the host ends once");
        assert!(self.source.is_empty(), "notifications were left behind");
    }

    /// Begins to talk to the host, once its handshake is done.
    fn begin_work(&mut self, world: &mut World) {
        let status = self.session.handshake().status(self.attempt.expect("an attempt"));
        assert_eq!(status, HandshakeStatus::Ready);
        for _ in 0..world.rng.u8(..10) {
            world.schedule(WORK_WITHIN, SimEvent::Server(ServerEvent::Notify));
        }
        for request in 0..world.rng.u64(..6) {
            world.schedule(WORK_WITHIN, SimEvent::Server(ServerEvent::Ask(request)));
        }
    }

    /// Ends a request, and begins the one whose turn has come.
    fn end(&mut self, world: &mut World, key: RequestKey) {
        self.open.remove(&key);
        if let Some(next) = self.session.end_request(key) {
            let next = self.calls[&*next];
            begin(world, next);
        }
    }

    /// Delivers one notification, and sends the responses that waited for those before it.
    fn deliver(&mut self, world: &mut World) {
        let source = &mut self.source;
        let next = self.delivery.next(|| source.pop_front().map(|index| (index, 1)));
        let released = std::mem::take(&mut *self.released.borrow_mut());
        for key in released {
            let Some(open) = self.open.get(&key) else { continue };
            let result = numbered("n", open.call);
            let after = Json::encode(&open.after).expect("a number");
            let result = Edit::new().set("after", &after).apply(Some(&result)).expect("an object");
            match self.session.respond(key, &open.id, Ok(&result)) {
                Some(frame) => {
                    assert_eq!(open.state, CallState::Served, "a canceled call has a response");
                    world.send_to_host(&frame);
                    self.end(world, key);
                }
                None => assert_eq!(open.state, CallState::Canceled, "a call has no response"),
            }
        }
        if let Some(index) = next {
            let frame = outgoing::notification("notifications/message", Some(&numbered("index", index)));
            world.send_to_host(&frame);
            world.schedule(DELIVER_WITHIN, SimEvent::Server(ServerEvent::Deliver));
        }
    }

    fn ask(&mut self, world: &mut World, request: u64) {
        let mut params = numbered("m", request);
        if world.rng.bool() {
            let meta = numbered("progressToken", TOKEN_OFFSET + request);
            params = Edit::new().set("_meta", &meta).apply(Some(&params)).expect("an object");
        }
        let (id, frame) =
            self.session.send_request(method::ROOTS_LIST, &params, request).expect("it is open");
        self.sent.insert(request, SentRequest { id, ends: 0 });
        world.send_to_host(&frame);
        if world.rng.u8(..4) == 0 {
            world.schedule(WORK_WITHIN, SimEvent::Server(ServerEvent::CancelSent(request)));
        }
    }
}

/// Begins to serve a request.
fn begin(world: &mut World, key: RequestKey) {
    if world.rng.bool() {
        world.schedule(world.serve_within, SimEvent::Server(ServerEvent::Notify));
    }
    world.schedule(world.serve_within, SimEvent::Server(ServerEvent::Complete(key)));
}

/// Tokens of the server are no ids.
const TOKEN_OFFSET: u64 = 1_000_000;
const STOP_WITHIN: Duration = Duration::from_millis(10);
const DELIVER_WITHIN: Duration = Duration::from_millis(5);
const WORK_WITHIN: Duration = Duration::from_millis(200);
