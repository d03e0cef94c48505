//! The driver: does what the session says, tells it what happened, and decides nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bowline_config::{Protocol, Server, Stdio, Timeouts, Transport};
use bowline_proto::calls::{Calls, Limits as CallLimits};
use bowline_proto::era::{Choice, Link, Peer, Reply};
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::revision::Era;
use bowline_proto::session::{Action, Attempt, Command, Event, Hello, Session, Settings, Status};
use bowline_proto::wire::Json;
use bowline_proto::wire::outgoing::Meta;
use bowline_transport::http::{HttpLink, Limits};
use bowline_transport::{memory, process};
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::errands::Errands;
use super::exchange::{self, Exchange};
use super::hello::hello_headers;
use super::link::{OpenLink, lock};
use super::{Core, Identity, Live, News, Shared, Waiter, Wire, headers, listen};
use crate::handler::Handler;

/// The largest message taken from a server.
const MESSAGE_LIMIT: usize = 64 * 1024 * 1024;

/// Where to connect to, and again.
pub(crate) enum Target {
    Stdio(Stdio),
    Http(HttpLink),
    /// Can be opened once.
    Memory(Option<memory::End>),
}

/// Owns the links of one server.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    target: Target,
    news: mpsc::UnboundedReceiver<News>,
    links: HashMap<Attempt, OpenLink>,
    /// Processes that are being shut down.
    closing: TaskTracker,
}

impl Driver {
    /// A connection that does nothing before it is told to connect.
    pub(crate) fn new(
        server: Server,
        target: Target,
        client_info: Json,
        handler: Arc<dyn Handler>,
    ) -> (Arc<Shared>, Self) {
        let (news_in, news) = mpsc::unbounded_channel();
        let session = Session::new(settings(&server, &target));
        let shared = Arc::new(Shared {
            name: Arc::from(server.name),
            timeouts: server.timeouts,
            identity: Identity { client_info, capabilities: handler.capabilities() },
            handler,
            live: RwLock::default(),
            status: watch::Sender::new(session.status()),
            core: Mutex::new(Core { session, calls: Calls::default(), watched: None }),
            events: broadcast::Sender::new(EVENT_BUFFER),
            news: news_in,
            serving: Mutex::default(),
            annotations: Mutex::default(),
            errands: Errands::new(),
        });
        let driver = Self {
            shared: Arc::clone(&shared),
            target,
            news,
            links: HashMap::new(),
            closing: TaskTracker::new(),
        };
        (shared, driver)
    }

    /// Runs until the connection is closed. Never awaits the network.
    pub(crate) async fn run(mut self) {
        loop {
            let (actions, due, status) = {
                let mut core = self.shared.core();
                let actions: Vec<_> = std::iter::from_fn(|| core.session.poll_action()).collect();
                let due = [core.session.poll_timeout(), core.watched].into_iter().flatten().min();
                (actions, due, core.session.status())
            };
            for action in actions {
                self.perform(action);
            }
            let closed = status == Status::Closed;
            self.shared.status.send_if_modified(|seen| {
                let changed = *seen != status;
                *seen = status;
                changed
            });
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
                    self.shared.expire_calls(now);
                }
            }
        }
        self.closing.close();
        self.closing.wait().await;
    }

    fn take(&mut self, news: News) {
        let now = Instant::now();
        let mut core = self.shared.core();
        match news {
            News::Command(command) => core.session.handle_command(now, command),
            // The loop looks at the clock anew.
            News::Deadline => {}
            News::Link(attempt, event) => core.session.handle_event(now, attempt, event),
            // An answer that was on its way when its question was given up is no answer to the next (DE-05).
            News::Reply(attempt, id, reply) => {
                let asked = self.links.get(&attempt).and_then(|link| link.hello.as_ref());
                if asked.is_some_and(|(asked, _)| *asked == id) {
                    core.session.handle_event(now, attempt, Event::Reply(reply));
                }
            }
            News::Opened(attempt, link) if attempt == core.session.attempt() => {
                core.session.handle_event(now, attempt, Event::Opened);
                drop(core);
                self.links.insert(attempt, *link);
            }
            // Opened too late: nobody wants it any more.
            News::Opened(_, link) => {
                drop(core);
                let (shared, errands) = (Arc::clone(&self.shared), CancellationToken::new());
                self.closing.spawn(async move { link.shut(&shared, true, errands).await });
            }
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Open(attempt) => self.open(attempt),
            Action::Send(attempt, hello) => self.send(attempt, hello),
            Action::Ready(attempt, peer) => self.go_live(attempt, peer),
            Action::Close(attempt, fault) => self.close(attempt, &fault),
        }
    }

    fn open(&mut self, attempt: Attempt) {
        match &mut self.target {
            Target::Http(link) => {
                // A new session is a new start for the load balancer too.
                link.clear_cookies();
                let wire = Wire::Http { link: link.clone(), headers: Arc::default() };
                self.links.insert(attempt, OpenLink::new(wire));
                self.shared.report(attempt, Event::Opened);
            }
            Target::Memory(end) => {
                let Some(end) = end.take() else {
                    let fault = Fault::before_sending(Cause::Closed).note("an in-memory link opens once");
                    self.shared.report(attempt, Event::Lost(fault));
                    return;
                };
                let link = OpenLink::piped(&self.shared, attempt, end.writer, end.reader);
                self.links.insert(attempt, link);
                self.shared.report(attempt, Event::Opened);
            }
            Target::Stdio(stdio) => {
                let stdio = stdio.clone();
                self.spawn(attempt, stdio);
            }
        }
    }

    /// Starts the process in a task of its own: looking for a command can take a while.
    fn spawn(&self, attempt: Attempt, stdio: Stdio) {
        let shared = Arc::clone(&self.shared);
        self.closing.spawn(async move {
            let launch = process::Launch {
                stdio: &stdio,
                name: &shared.name,
                limit: MESSAGE_LIMIT,
                grace: process::Grace::default(),
            };
            let news = match process::spawn(launch).await {
                Ok(process) => {
                    let mut link = OpenLink::piped(&shared, attempt, process.writer, process.reader);
                    link.process = Some(process.handle);
                    News::Opened(attempt, Box::new(link))
                }
                Err(fault) => News::Link(attempt, Event::Lost(fault)),
            };
            // If the driver is gone, dropping the link ends the process.
            let _ = shared.news.send(news);
        });
    }

    /// Sends a message of the negotiation. An earlier one that is still open is given up: its late answer
    /// must find nobody (DE-05).
    fn send(&mut self, attempt: Attempt, hello: Hello) {
        let Some(link) = self.links.get_mut(&attempt) else { return };
        if let Some((id, task)) = link.hello.take() {
            self.shared.core().calls.end(id);
            task.abort();
        }
        let id = match hello {
            Hello::Initialized(_) => 0,
            Hello::Discover(_) | Hello::Initialize(_) => {
                self.shared.core().calls.begin(Instant::now(), HELLO_LIMITS, Waiter::Hello(attempt))
            }
        };
        let frame = self.shared.hello(id, hello);
        let (shared, wire, session) =
            (Arc::clone(&self.shared), link.wire.clone(), Arc::clone(&link.session));
        let task = tokio::spawn(async move {
            let reply = match &wire {
                Wire::Pipe(writer) => match (writer.send(&frame).await, hello) {
                    (Err(fault), _) => Reply::Fault(fault),
                    (Ok(()), Hello::Initialized(_)) => Reply::Accepted,
                    // The reader finds the answer.
                    (Ok(()), _) => return,
                },
                // What a server writes under a notification is nobody's business.
                Wire::Http { link, .. } if matches!(hello, Hello::Initialized(_)) => {
                    match link.post(frame.body(), &hello_headers(hello, &session)).await {
                        Ok(answer) if !(200..300).contains(&answer.status) => exchange::refusal(&answer),
                        Ok(_) => Reply::Accepted,
                        Err(fault) => Reply::Fault(fault),
                    }
                }
                Wire::Http { link, .. } => {
                    let headers = hello_headers(hello, &session);
                    let era = if matches!(hello, Hello::Discover(_)) { Era::Modern } else { Era::Legacy };
                    let exchange = Exchange { shared: &shared, link, wire: &wire, id, era };
                    match hello {
                        Hello::Initialize(_) => exchange.run_opening(frame.body(), &headers, &session).await,
                        _ => exchange.run(frame.body(), &headers).await,
                    }
                }
            };
            shared.core().calls.end(id);
            let _ = shared.news.send(News::Reply(attempt, id, reply));
        });
        link.hello = Some((id, task.abort_handle()));
        if let Hello::Initialized(revision) = hello {
            link.agreed = revision;
        }
    }

    /// The session is ready: calls may take the link.
    fn go_live(&mut self, attempt: Attempt, peer: Arc<Peer>) {
        let Some(link) = self.links.get_mut(&attempt) else { return };
        let meta = match peer.era() {
            Era::Legacy => Meta::none(),
            Era::Modern => self.shared.modern_meta(peer.revision),
        };
        if let Wire::Http { headers, .. } = &mut link.wire {
            *headers = Arc::new(headers::base(peer.revision, lock(&link.session).as_ref()));
        }
        let live = Arc::new(Live { attempt, peer, meta, wire: link.wire.clone() });
        if matches!(live.wire, Wire::Http { .. }) && live.peer.era() == Era::Legacy {
            let mut listening = Box::pin(listen::listen(Arc::clone(&self.shared), Arc::clone(&live)));
            // The stream is asked for before the first call can be: a server that has both at once may
            // choose either for what it says. The task polls again at once, so no wake-up is lost.
            let _ = listening.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            link.tasks.push(tokio::spawn(listening).abort_handle());
        }
        self.shared.set_live(live);
    }

    fn close(&mut self, attempt: Attempt, fault: &Fault) {
        let Some(link) = self.links.remove(&attempt) else { return };
        self.shared.leave(attempt);
        self.shared.fail_calls(fault);
        let (shared, errands) = (Arc::clone(&self.shared), self.shared.errands.part());
        let orderly = fault.cause == Cause::Closed;
        self.closing.spawn(async move { link.shut(&shared, orderly, errands).await });
    }
}

fn settings(server: &Server, target: &Target) -> Settings {
    let Timeouts { connect, probe, .. } = server.timeouts;
    Settings {
        link: match target {
            Target::Http(_) => Link::Http,
            Target::Stdio(_) | Target::Memory(_) => Link::Pipe,
        },
        choice: match server.protocol {
            Protocol::Auto => Choice::Auto,
            Protocol::Legacy => Choice::Legacy,
            Protocol::Modern => Choice::Modern,
        },
        connect,
        probe,
        seed: fastrand::u64(..),
        ..Settings::default()
    }
}

impl Target {
    pub(crate) fn of(server: &Server) -> Result<Self, Fault> {
        match &server.transport {
            Transport::Stdio(stdio) => Ok(Self::Stdio(stdio.clone())),
            Transport::Http(http) => {
                let limits =
                    Limits { connect: server.timeouts.connect, body: MESSAGE_LIMIT, ..Limits::default() };
                HttpLink::new(http, limits).map(Self::Http)
            }
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// How many notifications a slow subscriber may fall behind.
const EVENT_BUFFER: usize = 1024;
/// The session has its own clock for these; the table must not interfere.
const HELLO_LIMITS: CallLimits = CallLimits { idle: Duration::MAX, total: Duration::MAX };
