//! Builds a connection: its shared state and its driver.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline_config::Server;
use bowline_proto::client::calls::Calls;
use bowline_proto::client::session::{Session, Settings};
use bowline_proto::revision::Era;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::Driver;
use super::keepalive::ServerKeepalive;
use super::wake::WakeDetector;
use crate::connection::Connection;
use crate::connection::background::BackgroundTasks;
use crate::connection::engine::Engine;
use crate::connection::events::ConnectionEvents;
use crate::connection::inbound::Inbound;
use crate::connection::link::live::Links;
use crate::connection::link::target::{AttachedStreams, Target, has_credentials, session_settings};
use crate::connection::lists::Lists;
use crate::connection::login::Login;
use crate::connection::login::prompt_clock::PromptClock;
use crate::connection::server::{ClientDeclaration, ServerSettings, Tracer};
use crate::connection::session_state::SessionState;
use crate::handler::Handler;
use crate::layer::Layers;
use crate::negotiation::{CacheChoice, ServerCache};
use crate::random::random_u64;
use crate::saved_session::SavedSession;

/// Everything that a connection is built from.
pub(crate) struct ConnectionSetup {
    pub(crate) server: Server,
    pub(crate) target: Target,
    /// A process that another program keeps, for the first link.
    pub(crate) attached: Option<AttachedStreams>,
    /// Folder for the records of server processes.
    pub(crate) process_records: Option<PathBuf>,
    /// Whether the watchdog ends server processes if this process is killed.
    pub(crate) watchdog: bool,
    /// How long a server process may take to end by itself.
    pub(crate) exit_wait: Duration,
    /// The era to negotiate first.
    pub(crate) preferred_era: Option<Era>,
    /// Where the outcome of negotiations is cached.
    pub(crate) negotiation_cache: CacheChoice,
    pub(crate) declaration: ClientDeclaration,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) layers: Layers,
    /// Delay before a tracked list is fetched after the server announced a change.
    pub(crate) list_change_delay: Duration,
    /// A session to resume.
    pub(crate) saved_session: Option<SavedSession>,
    /// The login identity used with this server; `None` if it needs no login.
    pub(crate) auth: Option<crate::auth::Identity>,
    pub(crate) prompt_clock: Arc<PromptClock>,
}

impl Driver {
    /// Creates a connection, which does nothing before `Command::Connect`.
    pub(crate) fn new(setup: ConnectionSetup) -> (Arc<Connection>, Self) {
        let ConnectionSetup { server, target, saved_session, auth, .. } = setup;
        let negotiation_cache = ServerCache::new(setup.negotiation_cache, &server);
        // A resumed session already implies what the server speaks.
        let record = if saved_session.is_none() { negotiation_cache.recall() } else { None };
        let (news_in, events) = mpsc::unbounded_channel();
        let mut session = Session::new(Settings {
            preferred_era: setup.preferred_era,
            record,
            can_authorize: auth.is_some(),
            ..session_settings(&server, &target)
        });
        let kept =
            saved_session.filter(|_| matches!(target, Target::Http(_))).and_then(SavedSession::into_parts);
        let resumable_session = kept.map(|(peer, id)| {
            session.resume(peer);
            id
        });
        let keepalive = ServerKeepalive::new(server.keepalive);
        let has_configured_credentials = has_credentials(&server);
        let attached = setup.attached.filter(|_| matches!(target, Target::Stdio(_)));
        let calls = if resumable_session.is_some() || attached.is_some() {
            let range = RESUMED_SESSION_IDS.end - RESUMED_SESSION_IDS.start;
            Calls::with_first_id(RESUMED_SESSION_IDS.start + random_u64() % range)
        } else {
            Calls::default()
        };
        let connection = Arc::new(Connection {
            links: Links::new(session.status()),
            engine: Engine::new(session, calls, news_in),
            events: ConnectionEvents::new(),
            login: Login::new(auth, setup.prompt_clock),
            inbound: Inbound::new(setup.handler, &server),
            lists: Lists::default(),
            session: SessionState::default(),
            background: BackgroundTasks::new(),
            server: ServerSettings {
                transport: server.transport.as_str(),
                name: Arc::from(server.name),
                timeouts: server.timeouts,
                reconnect_wait: server.reconnect_wait,
                message_limit: server.message_limit,
                list_change_delay: setup.list_change_delay,
                declaration: setup.declaration,
                tracer: setup.tracer,
                layers: setup.layers,
            },
        });
        let driver = Self {
            connection: Arc::clone(&connection),
            target,
            attached,
            process_records: setup.process_records,
            watchdog: setup.watchdog,
            exit_wait: setup.exit_wait,
            events,
            links: HashMap::new(),
            resumable_session,
            has_configured_credentials,
            had_session: false,
            opening_tasks: Vec::new(),
            ready_announced: None,
            keepalive,
            wake_detector: WakeDetector::new(),
            negotiation_cache,
            closing_tasks: TaskTracker::new(),
        };
        (connection, driver)
    }
}

/// First request id in a session that another client began: far from the previous client's, exact in a double.
const RESUMED_SESSION_IDS: std::ops::Range<u64> = 1 << 32..1 << 52;
