//! The driver: performs the actions of the session, reports events to it, and decides nothing.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use bowline_config::{Server, Stdio};
use bowline_proto::calls::{Calls, Limits as CallLimits};
use bowline_proto::era::Peer;
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::revision::{Era, Revision};
use bowline_proto::session::{
    Action, Announcement, Attempt, Command, Event, NegotiationMessage, Session, Settings, Status,
    TransportKind,
};
use bowline_transport::http::HttpLink;
use bowline_transport::process;
use http::HeaderValue;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::alive::{Traffic, Watch};
use super::errands::Errands;
use super::event_stream;
use super::link::{OpenLink, end_session, lock};
use super::meta::Tracer;
use super::page_guard::PageGuard;
use super::roots::RootsRequests;
use super::subscribe::{Part, Subscriptions};
use super::target::{MESSAGE_LIMIT, Target, has_credentials, settings};
use super::tokens::Tokens;
use super::track::Tracks;
use super::wake::{Wake, WakeChange};
use super::{Asking, Core, Identity, News, Shared, Waiter, Wire};
use crate::events::{EventSender, Life};
use crate::handler::Handler;
use crate::negotiation::{Cache, CacheEntry};
use crate::saved::SavedSession;

/// Everything that a connection is built from.
pub(crate) struct Setup {
    pub(crate) server: Server,
    pub(crate) target: Target,
    /// Folder for the records of server processes.
    pub(crate) records: Option<PathBuf>,
    /// The era to negotiate first.
    pub(crate) era: Option<Era>,
    /// Where the outcome of negotiations is cached.
    pub(crate) cache: Cache,
    pub(crate) identity: Identity,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) tracer: Option<Tracer>,
    /// A session to resume.
    pub(crate) session: Option<SavedSession>,
    /// The login identity used with this server; `None` if it needs no login.
    pub(crate) auth: Option<bowline_auth::Identity>,
    pub(crate) asking: Arc<Asking>,
}

/// Owns the links of one server.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    target: Target,
    /// Folder for the records of server processes.
    records: Option<PathBuf>,
    news: mpsc::UnboundedReceiver<News>,
    links: HashMap<Attempt, OpenLink>,
    /// Session id of the last link, if the server may still know it.
    kept: Option<HeaderValue>,
    /// Whether requests carry configured credentials.
    credentials: bool,
    /// Whether there was a session before, whose state a new one must be given.
    restored_once: bool,
    /// Tasks that open a link or authorize one.
    opening: Vec<AbortHandle>,
    /// Canceled once the event that announces a ready connection was emitted.
    announced: Option<CancellationToken>,
    alive: Watch,
    wake: Wake,
    /// Where the outcome of negotiations with this server is cached.
    cached: CacheEntry,
    /// Tasks that shut down links and store state.
    closing: TaskTracker,
}

impl Driver {
    /// Creates a connection, which does nothing before `Command::Connect`.
    pub(crate) fn new(setup: Setup) -> (Arc<Shared>, Self) {
        let Setup {
            server,
            target,
            records,
            era: preferred,
            cache,
            identity,
            handler,
            tracer,
            session: left,
            auth,
            asking,
        } = setup;
        let cached = CacheEntry::new(cache, &server);
        // A resumed session already implies what the server speaks.
        let recorded = if left.is_none() { cached.recall() } else { None };
        let (news_in, news) = mpsc::unbounded_channel();
        let authorizes = auth.is_some();
        let settings = Settings {
            preferred_era: preferred,
            record: recorded,
            can_authorize: authorizes,
            ..settings(&server, &target)
        };
        let mut session = Session::new(settings);
        let kept = left.filter(|_| matches!(target, Target::Http(_))).and_then(SavedSession::into_parts);
        let kept = kept.map(|(peer, id)| {
            session.resume(peer);
            id
        });
        let alive = Watch::new(server.keepalive);
        let credentials = has_credentials(&server);
        let resumed = kept.is_some();
        let page_guard = PageGuard::of(&server);
        let shared = Arc::new(Shared {
            name: Arc::from(server.name),
            timeouts: server.timeouts,
            reconnect_wait: server.reconnect_wait,
            identity,
            auth,
            asking,
            opened_as: AtomicU64::new(0),
            unasked: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            was_live: AtomicBool::new(false),
            handler,
            live: RwLock::default(),
            status: watch::Sender::new(session.status()),
            core: Mutex::new(Core {
                session,
                calls: if resumed { Calls::with_first_id(fastrand::u64(FOREIGN)) } else { Calls::default() },
                watched: None,
                traffic: Traffic::new(Instant::now()),
            }),
            events: EventSender::new(EVENT_BUFFER),
            news: news_in,
            serving: Mutex::default(),
            serving_count: AtomicUsize::new(0),
            roots_requests: RootsRequests::default(),
            tokens: Tokens::default(),
            annotations: Mutex::default(),
            errands: Errands::new(),
            told: Mutex::default(),
            catalog: Mutex::default(),
            cache: Mutex::default(),
            subscriptions: Subscriptions::default(),
            tracks: Tracks::default(),
            log_level: AtomicU8::new(0),
            tracer,
            leaves_session: AtomicBool::new(false),
            transport: server.transport.as_str(),
            page_guard,
            health: Mutex::default(),
            place: Mutex::default(),
        });
        let driver = Self {
            shared: Arc::clone(&shared),
            target,
            records,
            news,
            links: HashMap::new(),
            kept,
            credentials,
            restored_once: false,
            opening: Vec::new(),
            announced: None,
            alive,
            wake: Wake::new(),
            cached,
            closing: TaskTracker::new(),
        };
        (shared, driver)
    }

    /// Runs until the connection is closed. Never awaits the network.
    pub(crate) async fn run(mut self) {
        let attending = self.shared.auth.is_some().then(|| tokio::spawn(Arc::clone(&self.shared).attend()));
        loop {
            let (actions, due, status) = {
                let mut core = self.shared.core();
                let actions: Vec<_> = std::iter::from_fn(|| core.session.poll_action()).collect();
                let due =
                    [core.session.poll_timeout(), core.watched, self.alive.due(), Some(self.wake.due())];
                (actions, due.into_iter().flatten().min(), core.session.status())
            };
            let lives: Vec<_> = actions.into_iter().filter_map(|action| self.perform(action)).collect();
            let closed = status == Status::Closed;
            self.shared.status.send_if_modified(|seen| {
                let changed = *seen != status;
                *seen = status;
                changed
            });
            // Emitted after the status, so that a subscriber that reads the status sees the change.
            for life in lives {
                self.shared.tell(crate::events::Event::Life(life));
            }
            if let Some(announced) = self.announced.take() {
                announced.cancel();
            }
            if closed {
                break;
            }
            tokio::select! {
                news = self.news.recv() => match news {
                    Some(news) => self.take(news),
                    None => self.take(News::Command(Command::Close)),
                },
                () = sleep_until(due) => {
                    let now = Instant::now();
                    self.shared.core().session.handle_timeout(now);
                    if let Some(attempt) = self.shared.expire_calls(now) {
                        self.alive.doubt(now, &self.shared, attempt, None);
                    }
                    if now >= self.wake.due() {
                        let change = self.wake.look(now);
                        self.wake(now, change);
                    }
                    self.alive.look(now, &self.shared);
                }
            }
        }
        if let Some(attending) = attending {
            attending.abort();
        }
        if let Some(auth) = self.shared.auth.clone() {
            // Store a refreshed login before the connection ends. A slower refresh continues in its
            // own task; a full disk is retried only by `Client::settle_login`.
            let name = Arc::clone(&self.shared.name);
            self.closing.spawn(async move {
                if timeout(SETTLING, auth.settle()).await.is_err() {
                    tracing::warn!(server = %name, "closed before the renewed login could be written down");
                }
            });
        }
        // Over HTTP a call can outlive its link, so fail what is still open.
        self.shared.fail_calls(&Fault::new(Cause::Closed));
        for opening in self.opening.drain(..) {
            opening.abort();
        }
        self.end_kept_session();
        self.closing.close();
        self.closing.wait().await;
    }

    fn take(&mut self, news: News) {
        let now = Instant::now();
        let mut core = self.shared.core();
        match news {
            News::Command(command) => core.session.handle_command(now, command),
            // The loop computes its deadline again.
            News::Deadline => {}
            News::Suspect(attempt) => {
                drop(core);
                self.alive.doubt(now, &self.shared, attempt, None);
            }
            News::Doubt(attempt, id, left) => {
                drop(core);
                self.alive.doubt(now, &self.shared, attempt, Some((id, left)));
            }
            News::Link(attempt, event) => {
                if attempt == core.session.attempt() && matches!(event, Event::SessionLost { .. }) {
                    self.alive.session_dropped(now, core.traffic);
                }
                core.session.handle_event(now, attempt, event);
            }
            News::Probed(attempt, probed) => {
                if let Some(event) = self.alive.answered(now, attempt, probed) {
                    if matches!(event, Event::SessionLost { .. }) {
                        self.alive.session_dropped(now, core.traffic);
                    }
                    if let Some(since) = self.alive.evidence() {
                        core.session.suspect(since);
                    }
                    core.session.handle_event(now, attempt, event);
                }
            }
            // DE-05: the reply to an abandoned message must not answer the next one.
            News::Reply(attempt, id, reply) => {
                let asked = self.links.get(&attempt).and_then(|link| link.hello.as_ref());
                if asked.is_some_and(|(asked, _)| *asked == id) {
                    core.session.handle_event(now, attempt, Event::Reply(reply));
                }
            }
            News::Opened(attempt, link) if attempt == core.session.attempt() => {
                core.session.handle_event(now, attempt, Event::Opened { session: false });
                drop(core);
                self.links.insert(attempt, *link);
            }
            // The attempt was superseded before the link opened.
            News::Opened(_, link) => {
                drop(core);
                let (shared, errands) = (Arc::clone(&self.shared), CancellationToken::new());
                self.closing.spawn(async move { link.shut(&shared, true, errands).await });
            }
        }
    }

    /// Reconnects after a suspend or a network change.
    fn wake(&mut self, now: Instant, change: WakeChange) {
        if change == WakeChange::None {
            return;
        }
        tracing::debug!(server = %self.shared.name, ?change, "connections are made anew");
        self.shared.core().session.handle_command(now, Command::Wake);
        if let Target::Http(link) = &self.target {
            link.forget_connections();
            // After a suspend the peers have forgotten these connections, so waiting is pointless.
            if change == WakeChange::Suspend {
                link.abort_in_flight();
            }
        }
        self.alive.hurry(&self.shared);
    }

    /// Performs an action. Returns the event to emit, if the action announces one.
    fn perform(&mut self, action: Action) -> Option<Life> {
        match action {
            Action::Open(attempt, carrier) => self.open(attempt, carrier),
            Action::Send(attempt, hello) => self.send(attempt, hello),
            Action::Restore(attempt, peer) => self.restore(attempt, peer),
            Action::Ready(attempt, peer) => self.go_live(attempt, peer),
            Action::Close(attempt, fault) => self.close(attempt, &fault),
            Action::Authorize(attempt, refused) => {
                let authorizing = Arc::clone(&self.shared).authorize(attempt, refused);
                self.opening.retain(|opening| !opening.is_finished());
                self.opening.push(tokio::spawn(authorizing).abort_handle());
            }
            Action::Record(finding) => self.cached.change(&self.closing, finding),
            Action::Announce(announcement) => return Some(self.record(announcement)),
        }
        None
    }

    fn open(&mut self, attempt: Attempt, carrier: TransportKind) {
        match &mut self.target {
            Target::Http(http) if carrier == TransportKind::EventStream => {
                let http = http.clone();
                self.open_stream(attempt, http);
            }
            Target::Http(http) => {
                // The network under idle connections may be what was lost.
                http.forget_connections();
                let wire = Wire::Http { link: http.clone(), headers: Arc::default() };
                let link = OpenLink::new(wire);
                *lock(&link.session) = self.kept.take();
                let session = lock(&link.session).is_some();
                self.links.insert(attempt, link);
                let opened = Event::Opened { session };
                match &self.shared.auth {
                    Some(_) => self.prepare(attempt, opened),
                    None => self.shared.report(attempt, opened),
                }
            }
            Target::Memory(end) => {
                let Some(end) = end.take() else {
                    let fault =
                        Fault::before_sending(Cause::Closed).with_note("an in-memory link opens once");
                    self.shared.report(attempt, Event::LinkLost(fault));
                    return;
                };
                let link = OpenLink::piped(&self.shared, attempt, end.writer, end.reader);
                self.links.insert(attempt, link);
                self.shared.report(attempt, Event::Opened { session: false });
            }
            Target::Stdio(stdio) => {
                let stdio = stdio.clone();
                self.spawn(attempt, stdio);
            }
        }
    }

    /// Loads stored credentials before opening the link; a missing one surfaces later as 401.
    fn prepare(&mut self, attempt: Attempt, opened: Event) {
        let shared = Arc::clone(&self.shared);
        self.opening.retain(|opening| !opening.is_finished());
        let preparing = self.closing.spawn(async move {
            let prepared = shared.prepare().await;
            shared.report(attempt, prepared.map_or_else(Event::LinkLost, |()| opened));
        });
        self.opening.push(preparing.abort_handle());
    }

    fn open_stream(&mut self, attempt: Attempt, http: HttpLink) {
        let shared = Arc::clone(&self.shared);
        self.opening.retain(|opening| !opening.is_finished());
        let opening = self.closing.spawn(async move {
            let opened = match shared.prepare().await {
                Ok(()) => {
                    shared.note_opening();
                    event_stream::open(&shared, attempt, &http).await
                }
                Err(fault) => Err(fault),
            };
            let news = match opened {
                Ok(link) => News::Opened(attempt, Box::new(link)),
                Err(fault) => News::Link(attempt, Event::LinkLost(fault)),
            };
            let _ = shared.news.send(news);
        });
        self.opening.push(opening.abort_handle());
    }

    /// Ends a session on the server that may have outlived its connection.
    fn end_kept_session(&mut self) {
        if let (Some(session), Target::Http(link), false) =
            (self.kept.take(), &self.target, self.shared.leaves_session())
        {
            let link = link.clone();
            self.closing.spawn(async move { end_session(&link, Revision::NEWEST_LEGACY, &session).await });
        }
    }

    /// Starts the process in its own task, since finding the command can take a while.
    fn spawn(&self, attempt: Attempt, stdio: Stdio) {
        let (shared, records) = (Arc::clone(&self.shared), self.records.clone());
        self.closing.spawn(async move {
            let launch = process::Launch {
                stdio: &stdio,
                name: &shared.name,
                limit: MESSAGE_LIMIT,
                grace: process::Grace::default(),
                records: records.as_deref(),
            };
            let news = match process::spawn(launch).await {
                Ok(process) => {
                    let mut link = OpenLink::piped(&shared, attempt, process.writer, process.reader);
                    link.process = Some(process.handle);
                    News::Opened(attempt, Box::new(link))
                }
                Err(fault) => News::Link(attempt, Event::LinkLost(fault)),
            };
            // If the driver has ended, dropping the link ends the process.
            let _ = shared.news.send(news);
        });
    }

    /// Sends a negotiation message and abandons an earlier one: its late reply is ignored (DE-05).
    fn send(&mut self, attempt: Attempt, hello: NegotiationMessage) {
        self.shared.note_opening();
        let Some(link) = self.links.get_mut(&attempt) else { return };
        if let Some((id, task)) = link.hello.take() {
            self.shared.core().calls.end(id);
            task.abort();
        }
        let id = match hello {
            NegotiationMessage::Initialized(_) => 0,
            NegotiationMessage::Discover(_)
            | NegotiationMessage::Initialize(_)
            | NegotiationMessage::Resume(_) => {
                self.shared.core().calls.begin(Instant::now(), HELLO_LIMITS, Waiter::Hello(attempt))
            }
        };
        if let (NegotiationMessage::Initialize(_), Wire::Http { link: http, .. }) = (hello, &link.wire) {
            // A new session may go to another backend, and must not name the old session.
            http.clear_cookies();
            lock(&link.session).take();
            // Requests of the old session need no response any more.
            self.shared.errands.end_session();
        }
        if let NegotiationMessage::Initialized(revision) = hello {
            link.agreed = revision;
            link.roots_asked_before = self.shared.roots_requests.asked();
        }
        let frame = self.shared.hello(id, hello);
        let (shared, wire, session) =
            (Arc::clone(&self.shared), link.wire.clone(), Arc::clone(&link.session));
        let task = tokio::spawn(async move {
            let Some(reply) = shared.greet(&wire, &session, id, hello, &frame).await else { return };
            shared.core().calls.end(id);
            let _ = shared.news.send(News::Reply(attempt, id, reply));
        });
        link.hello = Some((id, task.abort_handle()));
    }

    /// Gives a new session the old one's state, and the roots if requested, before calls use it.
    fn restore(&mut self, attempt: Attempt, peer: Arc<Peer>) {
        let Some(link) = self.links.get_mut(&attempt) else { return };
        let legacy = peer.era() == Era::Legacy;
        let live = link.live(&self.shared, attempt, peer, self.credentials);
        link.fresh = self.restored_once;
        self.restored_once = true;
        let has_told = legacy && self.shared.has_told();
        // A server that asked for no roots in its first session will not ask now.
        let may_ask = !link.fresh || self.shared.roots_requests.asked() > 0;
        let waits = legacy && may_ask && !self.shared.handler.roots_request_wait().is_zero();
        if !waits && !has_told {
            self.shared.report(attempt, Event::Restored);
            return;
        }
        if waits {
            link.listen(&self.shared, &live);
        }
        let (before, silent) = (link.roots_asked_before, link.stream_over.clone());
        let shared = Arc::clone(&self.shared);
        let restoring = async move {
            if waits {
                shared.wait_for_roots_request(before, silent).await;
            }
            if has_told {
                shared.restore(live).await;
            } else {
                shared.report(attempt, Event::Restored);
            }
        };
        link.tasks.push(tokio::spawn(restoring).abort_handle());
    }

    /// Makes the link available to calls.
    fn go_live(&mut self, attempt: Attempt, peer: Arc<Peer>) {
        let Some(link) = self.links.get_mut(&attempt) else { return };
        // A resumed session may have missed notifications, unless its stream is resumed as well.
        let resumed = self.restored_once && !link.is_restored();
        if resumed && lock(&self.shared.place).is_none() {
            link.fresh = true;
        }
        let live = link.live(&self.shared, attempt, peer, self.credentials);
        self.alive.connected(&live);
        if live.wire.is_http() {
            let watching = Arc::clone(&self.shared).watch_kept_connections(Arc::clone(&live));
            link.tasks.push(tokio::spawn(watching).abort_handle());
        }
        link.listen(&self.shared, &live);
        // Changes found by refreshing lists are emitted after the connection event.
        let announced = self.announced.get_or_insert_default().clone();
        // Before checking for tracking: whoever starts tracking later finds the link.
        self.shared.set_live(Arc::clone(&live));
        if live.peer.era() == Era::Modern {
            // Missed changes are looked for once the subscription is open.
            let gap = link.fresh || self.shared.is_tracking();
            for (part, gap) in [(Part::Changes, gap), (Part::Tasks, false)] {
                let supervised = Arc::clone(&self.shared).supervise(Arc::clone(&live), part, gap);
                let announced = announced.clone();
                link.supervisors.push(tokio::spawn(async move {
                    announced.cancelled().await;
                    supervised.await;
                }));
            }
            return;
        }
        let shared = Arc::clone(&self.shared);
        let fresh = link.fresh;
        if fresh || shared.is_tracking() {
            let looking = tokio::spawn(async move {
                announced.cancelled().await;
                if fresh { shared.look_again(live).await } else { shared.look(live).await }
            });
            link.tasks.push(looking.abort_handle());
        }
    }

    fn record(&self, announcement: Announcement) -> Life {
        let attempt = self.shared.core().session.attempt_count();
        let life = Life::new(&self.shared.name, attempt, announcement);
        lock(&self.shared.health).record(&life);
        life
    }

    fn close(&mut self, attempt: Attempt, fault: &Fault) {
        self.alive.disconnected();
        let Some(link) = self.links.remove(&attempt) else { return };
        self.shared.leave(attempt);
        // Over HTTP each call has its own exchange, which ends by itself.
        if !link.wire.is_http() || fault.cause == Cause::Closed {
            self.shared.fail_calls(fault);
        }
        // Only the connection is lost, so the session may be resumed.
        if fault.cause != Cause::Closed && fault.cause != Cause::SessionLost {
            self.kept = lock(&link.session).take();
        }
        // On an orderly close, responses in flight get a moment to be sent.
        if self.kept.is_none() && fault.cause != Cause::Closed {
            self.shared.errands.end_session();
        }
        let (shared, errands) = (Arc::clone(&self.shared), self.shared.errands.part());
        let orderly = fault.cause == Cause::Closed;
        self.closing.spawn(async move { link.shut(&shared, orderly, errands).await });
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// First request id in a resumed session: far from the previous client's, exact in a double.
const FOREIGN: std::ops::Range<u64> = 1 << 32..1 << 52;
/// Number of events that a slow subscriber may fall behind.
const EVENT_BUFFER: usize = 1024;
/// Maximum time that closing waits for a token refresh to be stored.
const SETTLING: Duration = Duration::from_secs(25);
/// The session has its own timeouts for these messages; the call table must not interfere.
const HELLO_LIMITS: CallLimits = CallLimits { idle: Duration::MAX, total: Duration::MAX };
