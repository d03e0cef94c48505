//! Builds a connection: its shared state and its driver.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

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
use crate::connection::link::target::{Target, has_credentials, session_settings};
use crate::connection::lists::Lists;
use crate::connection::login::Login;
use crate::connection::login::prompt_clock::PromptClock;
use crate::connection::server::{ClientDeclaration, ServerSettings, Tracer};
use crate::connection::session_state::SessionState;
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
    pub(crate) fn new(setup: ConnectionSetup) -> (Arc<Connection>, Self) {
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
        let calls =
            if resumed { Calls::with_first_id(fastrand::u64(RESUMED_SESSION_IDS)) } else { Calls::default() };
        let connection = Arc::new(Connection {
            links: Links::new(session.status()),
            engine: Engine::new(session, calls, news_in),
            events: ConnectionEvents::new(),
            login: Login::new(auth, asking),
            inbound: Inbound::new(handler, &server),
            lists: Lists::default(),
            session: SessionState::default(),
            background: BackgroundTasks::new(),
            server: ServerSettings {
                transport: server.transport.as_str(),
                name: Arc::from(server.name),
                timeouts: server.timeouts,
                reconnect_wait: server.reconnect_wait,
                declaration: identity,
                tracer,
            },
        });
        let driver = Self {
            connection: Arc::clone(&connection),
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
        (connection, driver)
    }
}

/// First request id in a resumed session: far from the previous client's, exact in a double.
const RESUMED_SESSION_IDS: std::ops::Range<u64> = 1 << 32..1 << 52;
