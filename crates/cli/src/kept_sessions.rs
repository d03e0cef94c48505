//! [`KeptSessions`]: connections that stay open between the commands of one prompt.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline::{Client, Server, Status};

use crate::args::HandlerArgs;
use crate::closing::ClosingConnection;
use crate::dialog::Dialogs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::session::{self, OpenSession, SessionCallback, SessionRetention};
use crate::settings::Settings;

/// The connections of a prompt. All of them share its terminal.
pub(crate) struct KeptSessions {
    pub(crate) dialogs: Dialogs,
    /// What servers get that ask for something.
    handler_args: HandlerArgs,
    /// A server that was named at the start: as commands name it, and what it is.
    named: Option<(String, Server)>,
    sessions: RefCell<Vec<Rc<KeptSession>>>,
    /// Is told of every connection that is opened.
    on_open: OpenCallback,
    busy: BusyFlag,
}

/// Is called for a connection that is opened.
pub(crate) type OpenCallback = Box<dyn Fn(&Client, &BusyFlag)>;

/// Whether a command runs. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct BusyFlag(Arc<AtomicBool>);

/// A connection that is open.
struct KeptSession {
    server: Server,
    client: Client,
    /// Gets the session when the prompt ends, if a task needs it.
    retained: Cell<Option<SessionCallback>>,
}

/// Most connections. The oldest one is closed for another.
const MAX_SESSIONS: usize = 64;

impl KeptSessions {
    pub(crate) fn new(
        dialogs: Dialogs,
        handler_args: HandlerArgs,
        named: Option<(String, Server)>,
        on_open: OpenCallback,
    ) -> Self {
        let (sessions, busy) = (RefCell::default(), BusyFlag::default());
        Self { dialogs, handler_args, named, sessions, on_open, busy }
    }

    /// Returns the server that was named at the start by this word.
    pub(crate) fn named_server(&self, word: &str) -> Option<&Server> {
        self.named.as_ref().filter(|(name, _)| name == word).map(|(_, server)| server)
    }

    /// Returns whether a command is to use a kept connection: it is, unless it says how the server's requests
    /// are to be handled, or needs a session of an earlier command.
    pub(crate) fn takes(&self, settings: &Settings, server: &Server, needs_saved: bool) -> bool {
        let is_retained = |kept: &Rc<KeptSession>| {
            let callback = kept.retained.take();
            let found = callback.is_some();
            kept.retained.set(callback);
            found
        };
        let has_own_handlers = settings.handler_args != HandlerArgs::default();
        !has_own_handlers && (!needs_saved || self.find(server).as_ref().is_some_and(is_retained))
    }

    /// Runs `work` with the connection to `server`, which is opened if there is none.
    ///
    /// Dropping the future cancels the work's call on the server, and leaves the connection open.
    pub(crate) async fn run<T>(
        &self,
        settings: &Settings,
        server: &Server,
        work: impl AsyncFnOnce(&Client, &OpenSession) -> Outcome<T>,
    ) -> Outcome<T> {
        let kept = self.open(settings, server).await?;
        let open = OpenSession { retention: SessionRetention::default(), dialogs: self.dialogs.clone() };
        let outcome = {
            let _busy = self.busy.set();
            tokio::select! {
                outcome = work(&kept.client, &open) => outcome,
                () = self.dialogs.interrupted() => Err(Failure::Signal(Exit::Interrupted)),
            }
        };
        // Pending questions of the server have lost their purpose.
        self.dialogs.dismiss_current().await;
        if let Some(callback) = open.retention.take() {
            kept.retained.set(Some(callback));
        }
        outcome
    }

    /// Returns the client of a server, which is connected if it is not.
    pub(crate) async fn client(&self, settings: &Settings, server: &Server) -> Outcome<Client> {
        Ok(self.open(settings, server).await?.client.clone())
    }

    /// Returns the clients that are open, with their servers.
    pub(crate) fn clients(&self) -> Vec<(Server, Client)> {
        self.sessions.borrow().iter().map(|kept| (kept.server.clone(), kept.client.clone())).collect()
    }

    /// Closes all connections.
    pub(crate) async fn close(&self, settings: &Settings) {
        for kept in self.sessions.take() {
            Self::close_session(&kept, settings).await;
        }
    }

    fn find(&self, server: &Server) -> Option<Rc<KeptSession>> {
        self.sessions.borrow().iter().find(|kept| kept.server == *server).cloned()
    }

    async fn open(&self, settings: &Settings, server: &Server) -> Outcome<Rc<KeptSession>> {
        if let Some(kept) = self.find(server) {
            // One that cannot recover by itself is opened anew.
            if !matches!(
                kept.client.status().current(),
                Status::Failed(_) | Status::NeedsLogin(_) | Status::Closed
            ) {
                return Ok(kept);
            }
            self.sessions.borrow_mut().retain(|other| other.server != *server);
            Self::close_session(&kept, settings).await;
        }
        let client = session::open_client(settings, server, &self.handler_args, &self.dialogs).await?;
        (self.on_open)(&client, &self.busy);
        let kept = Rc::new(KeptSession { server: server.clone(), client, retained: Cell::default() });
        let oldest = {
            let mut sessions = self.sessions.borrow_mut();
            sessions.push(Rc::clone(&kept));
            (sessions.len() > MAX_SESSIONS).then(|| sessions.remove(0))
        };
        if let Some(oldest) = oldest {
            Self::close_session(&oldest, settings).await;
        }
        Ok(kept)
    }

    async fn close_session(kept: &KeptSession, settings: &Settings) {
        let client = kept.client.clone();
        let leaving = ClosingConnection {
            client: client.clone(),
            interrupt: Interrupt::listen(),
            interrupted: false,
            refreshes: settings.refreshes.clone(),
        };
        match kept.retained.take() {
            Some(callback) => {
                let left = async {
                    if let Some(session) = client.leave().await {
                        callback(session);
                    }
                };
                leaving.finish(left).await;
            }
            None => settings.pending_closes.close(leaving),
        }
    }
}

impl BusyFlag {
    /// Returns whether a command runs.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self) -> impl Drop + use<> {
        struct Unset(BusyFlag);
        impl Drop for Unset {
            fn drop(&mut self) {
                self.0.0.store(false, Ordering::Relaxed);
            }
        }
        self.0.store(true, Ordering::Relaxed);
        Unset(self.clone())
    }
}
