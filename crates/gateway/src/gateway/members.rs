//! [`Members`]: the hosts that use one connection to a server, and what of the server is for whom.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bowline::types::{LogLevel, code};
use bowline::{Handler, HandlerResult, Json, RpcError, ServerRequest};
use bowline_proto::server::call_owners::{CallEnd, CallKey, CallOwners, GracePeriods, Owner};
use bowline_proto::server::session::out_of_order;
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::tasks::TaskOwners;
use super::upstream::SessionLink;
use crate::error_response;
use crate::host_handler::ask_because_of;
use crate::open_calls::{OpenCall, find_open};

/// Names a session of a host, or all hosts without one that declare the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct MemberId(pub(super) u64);

/// The hosts that use one connection.
pub(super) struct Members(Mutex<State>);

struct State {
    owners: CallOwners<MemberId>,
    members: HashMap<MemberId, Member>,
    calls: HashMap<CallKey, Weak<OpenCall>>,
}

struct Member {
    /// `None` for hosts without a session.
    session: Option<SessionLink>,
    /// The least severe log messages that the host wants. `None` if it did not say.
    log_level: Option<LogLevel>,
}

/// Whom a message of the server is for.
pub(super) enum Recipient {
    /// The host of this session. Over HTTP, what belongs to the call goes onto its stream.
    Session { session: SessionLink, call: Option<Arc<OpenCall>>, log_level: Option<LogLevel> },
    /// One of several hosts, and the server does not say which.
    Unclear,
    /// No host.
    Nobody,
}

/// How long a server may still speak of a call that it has answered.
const ANSWERED_CALL_TIME: Duration = Duration::from_secs(10);

/// A call that was sent to the server. Dropping it without [`SentCall::answered`] says that the
/// server may still be working on it.
pub(super) struct SentCall<'a> {
    members: &'a Members,
    key: CallKey,
    end: CallEnd,
}

impl Members {
    /// Begins without members. The server may be working on a call that nobody waits for during
    /// `abandoned`.
    pub(super) fn new(abandoned: Duration) -> Self {
        let owners = CallOwners::new(GracePeriods { answered: ANSWERED_CALL_TIME, abandoned });
        Self(Mutex::new(State { owners, members: HashMap::new(), calls: HashMap::new() }))
    }

    pub(super) fn join(&self, id: MemberId, session: Option<SessionLink>, log_level: Option<LogLevel>) {
        let mut state = self.0.lock();
        state.owners.join(id);
        state.members.insert(id, Member { session, log_level });
    }

    /// Removes a member. Returns whether there are others.
    pub(super) fn leave(&self, id: MemberId) -> bool {
        let mut state = self.0.lock();
        state.members.remove(&id);
        state.owners.leave(id)
    }

    /// The cancellation of a call that is open and was not canceled.
    fn cancellation_of_open(&self) -> Option<CancellationToken> {
        find_open(self.0.lock().calls.values())
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.lock().members.len()
    }

    /// Sets the log messages that a member wants. Returns the least severe that any member wants.
    pub(super) fn set_log_level(&self, id: MemberId, level: LogLevel) -> Option<LogLevel> {
        let mut state = self.0.lock();
        if let Some(member) = state.members.get_mut(&id) {
            member.log_level = Some(level);
        }
        drop(state);
        self.log_level()
    }

    /// The least severe log messages that any member wants.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        self.0.lock().members.values().filter_map(|member| member.log_level).min()
    }

    /// Begins a call of a member, which is about to be sent to the server.
    pub(super) fn begin(&self, id: MemberId, call: &Arc<OpenCall>) -> SentCall<'_> {
        let mut state = self.0.lock();
        let key = state.owners.begin(id);
        state.calls.insert(key, Arc::downgrade(call));
        SentCall { members: self, key, end: CallEnd::Abandoned }
    }

    /// Whom a message of the server is for that belongs to no known call.
    pub(super) fn recipient(&self) -> Recipient {
        let state = self.0.lock();
        match state.owners.owner(Instant::now()) {
            Owner::Host { host, call } => {
                let Some(member) = state.members.get(&host) else { return Recipient::Nobody };
                let Some(session) = member.session.clone() else { return Recipient::Nobody };
                let call = call.and_then(|call| state.calls.get(&call)?.upgrade());
                Recipient::Session { session, call, log_level: member.log_level }
            }
            Owner::Unclear => Recipient::Unclear,
            Owner::Nobody => Recipient::Nobody,
        }
    }
}

impl SentCall<'_> {
    /// The server has responded, or never got the call.
    pub(super) fn answered(mut self) {
        self.end = CallEnd::Answered;
    }
}

impl Drop for SentCall<'_> {
    fn drop(&mut self) {
        let mut state = self.members.0.lock();
        state.calls.remove(&self.key);
        state.owners.end(self.key, self.end, Instant::now());
    }
}

/// Handles requests of a server by forwarding them to the host that they are for.
pub(super) struct MembersHandler {
    pub(super) members: Arc<Members>,
    /// The tasks that hosts know of.
    pub(super) tasks: Arc<TaskOwners>,
    /// The capabilities of the hosts, which the server is told of.
    pub(super) capabilities: Json,
    /// How long a host may take to respond. Often a person has to decide, so it is long; but
    /// nothing waits forever.
    pub(super) response_timeout: Duration,
    /// Called for each request of the server.
    pub(super) on_question: QuestionObserver,
}

/// Called for each request of a server.
pub(super) type QuestionObserver = Arc<dyn Fn() + Send + Sync>;

/// Handles what a shared server asks because of one call, where the server says that: on the stream of
/// the call, or in a result that requires input.
pub(super) struct CallHandler {
    call: Weak<OpenCall>,
    session: SessionLink,
    on_question: QuestionObserver,
    response_timeout: Duration,
}

impl CallHandler {
    pub(super) fn new(
        call: &Arc<OpenCall>,
        session: SessionLink,
        on_question: QuestionObserver,
        response_timeout: Duration,
    ) -> Self {
        Self { call: Arc::downgrade(call), session, on_question, response_timeout }
    }
}

impl Handler for CallHandler {
    fn capabilities(&self) -> Json {
        // Those of the connection count.
        Json::empty_object()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(async move {
            (self.on_question)();
            match self.call.upgrade() {
                Some(call) => ask(&self.session, Some(call), &request, self.response_timeout, || None).await,
                None => Err(out_of_order("the host has canceled the call")),
            }
        })
    }
}

impl Handler for MembersHandler {
    fn capabilities(&self) -> Json {
        self.capabilities.clone()
    }

    fn handle(&self, request: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        Box::pin(async move {
            (self.on_question)();
            if let Some(owner) = self.tasks.owner_of(&request) {
                return owner.ask(request).await;
            }
            let (session, call) = match self.members.recipient() {
                Recipient::Session { session, call, .. } => (session, call),
                Recipient::Unclear => return Err(unclear_recipient()),
                Recipient::Nobody => return Err(out_of_order("no host is there")),
            };
            // The question may be about another call, if one is open.
            let next_open = || self.members.cancellation_of_open();
            ask(&session, call, &request, self.response_timeout, next_open).await
        })
    }
}

/// Asks a host what a server asks, and waits for its answer, unless its call and all others of `next_open` are canceled
/// meanwhile.
async fn ask(
    session: &SessionLink,
    call: Option<Arc<OpenCall>>,
    request: &ServerRequest,
    response_timeout: Duration,
    next_open: impl Fn() -> Option<CancellationToken>,
) -> HandlerResult {
    let answer = async {
        // A server may send requests as soon as its own handshake is done; the host gets them only
        // after its own.
        if !session.handshake.wait_until_ready().await {
            return Err(out_of_order("the host was turned away"));
        }
        match call {
            Some(call) => ask_because_of(&call, request, next_open).await,
            None => session.link.send_request(&request.method, &request.params).await,
        }
    };
    timeout(response_timeout, answer).await.unwrap_or_else(|_| {
        tracing::warn!(method = %request.method, "the host did not answer the server in time");
        Err(error_response::host_timeout())
    })
}

/// The error for a request of a server that several hosts share.
// GW-15
fn unclear_recipient() -> RpcError {
    let message = "several hosts share this server, and it does not say which of their calls it asks for; \
                   `share = \"session\"` in its entry gives each session a server of its own";
    RpcError::new(code::INVALID_REQUEST, message)
}
