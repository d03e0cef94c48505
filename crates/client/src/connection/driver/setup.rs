//! Builds a connection: its shared state and its driver.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use bowline_config::Server;
use bowline_proto::client::calls::Calls;
use bowline_proto::client::session::{Session, Settings};
use bowline_proto::revision::Era;
use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;

use super::Driver;
use crate::connection::background::BackgroundTasks;
use crate::connection::call::meta::Tracer;
use crate::connection::driver::keepalive::{CallTraffic, ServerKeepalive};
use crate::connection::driver::wake::WakeDetector;
use crate::connection::engine::progress_tokens::ProgressTokens;
use crate::connection::inbound::roots::RootsRequestCounter;
use crate::connection::inbound::url_guard::UrlGuard;
use crate::connection::link::target::{Target, has_credentials, session_settings};
use crate::connection::listen::Subscriptions;
use crate::connection::lists::tracking::ListTracking;
use crate::connection::{ClientDeclaration, Core, PromptClock, Shared};
use crate::events::EventSender;
use crate::handler::Handler;
use crate::negotiation::{CacheChoice, ServerCache};
use crate::saved_session::SavedSession;

/// Everything that a connection is built from.
pub(crate) struct ConnectionSetup {
    pub(crate) server: Server,
    pub(crate) target: Target,
    /// Folder for the records of server processes.
    pub(crate) process_records: Option<PathBuf>,
    /// The era to negotiate first.
    pub(crate) preferred_era: Option<Era>,
    /// Where the outcome of negotiations is cached.
    pub(crate) negotiation_cache: CacheChoice,
    pub(crate) declaration: ClientDeclaration,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) tracer: Option<Tracer>,
    /// A session to resume.
    pub(crate) saved_session: Option<SavedSession>,
    /// The login identity used with this server; `None` if it needs no login.
    pub(crate) auth: Option<bowline_auth::Identity>,
    pub(crate) prompt_clock: Arc<PromptClock>,
}

impl Driver {
    /// Creates a connection, which does nothing before `Command::Connect`.
    pub(crate) fn new(setup: ConnectionSetup) -> (Arc<Shared>, Self) {
        let ConnectionSetup {
            server,
            target,
            process_records: records,
            preferred_era: preferred,
            negotiation_cache: cache,
            declaration: identity,
            handler,
            tracer,
            saved_session: left,
            auth,
            prompt_clock: asking,
        } = setup;
        let cached = ServerCache::new(cache, &server);
        // A resumed session already implies what the server speaks.
        let recorded = if left.is_none() { cached.recall() } else { None };
        let (news_in, news) = mpsc::unbounded_channel();
        let authorizes = auth.is_some();
        let settings = Settings {
            preferred_era: preferred,
            record: recorded,
            can_authorize: authorizes,
            ..session_settings(&server, &target)
        };
        let mut session = Session::new(settings);
        let kept = left.filter(|_| matches!(target, Target::Http(_))).and_then(SavedSession::into_parts);
        let kept = kept.map(|(peer, id)| {
            session.resume(peer);
            id
        });
        let alive = ServerKeepalive::new(server.keepalive);
        let credentials = has_credentials(&server);
        let resumed = kept.is_some();
        let page_guard = UrlGuard::for_server(&server);
        let shared = Arc::new(Shared {
            name: Arc::from(server.name),
            timeouts: server.timeouts,
            reconnect_wait: server.reconnect_wait,
            declaration: identity,
            auth,
            prompt_clock: asking,
            link_generation: AtomicU64::new(0),
            login_prompt_skipped: AtomicBool::new(false),
            waiting_callers: AtomicUsize::new(0),
            was_connected: AtomicBool::new(false),
            handler,
            live: RwLock::default(),
            status: watch::Sender::new(session.status()),
            core: Mutex::new(Core {
                session,
                calls: if resumed {
                    Calls::with_first_id(fastrand::u64(RESUMED_SESSION_IDS))
                } else {
                    Calls::default()
                },
                next_deadline_check: None,
                traffic: CallTraffic::new(Instant::now()),
            }),
            events: EventSender::new(EVENT_BUFFER),
            driver_events: news_in,
            server_requests: Mutex::default(),
            server_request_count: AtomicUsize::new(0),
            roots_requests: RootsRequestCounter::default(),
            progress_tokens: ProgressTokens::default(),
            annotations: Mutex::default(),
            background: BackgroundTasks::new(),
            replay_state: Mutex::default(),
            catalog: Mutex::default(),
            result_cache: Mutex::default(),
            subscriptions: Subscriptions::default(),
            list_tracking: ListTracking::default(),
            log_level: AtomicU8::new(0),
            tracer,
            keeps_session: AtomicBool::new(false),
            transport: server.transport.as_str(),
            url_guard: page_guard,
            health: Mutex::default(),
            stream_position: Mutex::default(),
        });
        let driver = Self {
            shared: Arc::clone(&shared),
            target,
            process_records: records,
            events: news,
            links: HashMap::new(),
            resumable_session: kept,
            has_configured_credentials: credentials,
            had_session: false,
            opening_tasks: Vec::new(),
            ready_announced: None,
            keepalive: alive,
            wake_detector: WakeDetector::new(),
            negotiation_cache: cached,
            closing_tasks: TaskTracker::new(),
        };
        (shared, driver)
    }
}

/// First request id in a resumed session: far from the previous client's, exact in a double.
const RESUMED_SESSION_IDS: std::ops::Range<u64> = 1 << 32..1 << 52;
/// Number of events that a slow subscriber may fall behind.
const EVENT_BUFFER: usize = 1024;
