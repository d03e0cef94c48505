//! The host's logins: where they are stored, and who prompts a person for one.
//!
//! ```no_run
//! use bowline::auth::{Auth, LoginPage, LoginPrompt, DeviceCode, PageReply, PromptFuture};
//! use bowline::{Client, Server};
//!
//! struct Terminal;
//!
//! impl LoginPrompt for Terminal {
//!     fn show_page(&self, page: LoginPage) -> PromptFuture<'_, PageReply> {
//!         println!("log in to {}: {}", page.server, page.url);
//!         // The browser comes back by itself.
//!         Box::pin(std::future::pending())
//!     }
//!
//!     fn show_device_code(&self, code: DeviceCode) -> PromptFuture<'_, ()> {
//!         println!("log in to {} at {} with {}", code.server, code.url, code.code);
//!         Box::pin(std::future::pending())
//!     }
//! }
//!
//! # async fn run() -> bowline::Result<()> {
//! let server = Server::http("search", "https://search.example.com/mcp").build().unwrap();
//! let client = Client::builder(server).auth(Auth::in_memory().prompt(Terminal)).connect().await?;
//! # client.close().await;
//! # Ok(()) }
//! ```

mod timed_prompt;

use std::fmt;
use std::sync::Arc;

use bowline_auth::IdentitySetup;
pub use bowline_auth::{
    Account, AccountState, App, AuthError, AuthErrorKind, ClientOrigin, DeviceCode, ForeignHostChoice,
    ForeignLoginHost, Identity, LoginOptions, LoginPage, LoginPrompt, LogoutOutcome, PageReply, PendingLogin,
    PromptFuture, RefreshState, RefusedRequest, Scheme, Watch, accounts, client_metadata_document,
    missing_scopes,
};
#[cfg(feature = "export")]
pub use bowline_auth::{Overwrite, export, export_accounts, import, import_with};
use bowline_config::{Grant, Http, Server, Transport};
use bowline_store::EncryptedStore;
use bowline_transport::http::Proxies;

use crate::connection::PromptClock;
use timed_prompt::TimedPrompt;

/// Where logins are stored, and what a store of a host's own has to do.
pub mod store {
    #[cfg(feature = "store-sqlite")]
    pub use bowline_store::SqliteStore;
    #[cfg(feature = "store-valkey")]
    pub use bowline_store::ValkeyStore;
    pub use bowline_store::{
        AppendOptions, DecryptError, Durability, EncryptedStore, Key, Lease, Lock, LockHolder, LogEntry,
        LogName, LogSlice, LogStore, MAX_LEASE_TTL, MAX_TTL, MemoryStore, OpenedStore, Position,
        Precondition, ReadLimits, SealKey, Store, StoreError, StoreFuture, StoreKeyLocation, StoreRecord,
        Version, open, open_lazily, open_unusable, open_with_key,
    };
}

/// How a host logs in to servers. Cheap to clone; one is enough for all servers.
///
/// It carries out what [`Http::auth`] configures. Without an `Auth`, only those servers get tokens
/// that need neither a person nor a store.
#[derive(Clone)]
pub struct Auth {
    encrypted_store: EncryptedStore,
    app: Arc<App>,
    prompt: Option<Arc<dyn LoginPrompt>>,
    on_identity: Option<Arc<IdentityObserver>>,
}

/// Observes each identity that is created.
type IdentityObserver = dyn Fn(&Server, &Identity) + Send + Sync;

impl Auth {
    /// Keeps logins in `store`; [`store::open`] opens the default one.
    pub fn new(store: EncryptedStore) -> Self {
        Self { encrypted_store: store, app: Arc::new(App::default()), prompt: None, on_identity: None }
    }

    /// Keeps logins in memory, for as long as this value lives.
    pub fn in_memory() -> Self {
        Self::new(EncryptedStore::in_memory())
    }

    /// Sets the application that the host registers as.
    #[must_use]
    pub fn app(mut self, app: App) -> Self {
        self.app = Arc::new(app);
        self
    }

    /// Sets who prompts a person for a login. Without a prompt, a server that needs an interactive
    /// login is an error, until someone logs in elsewhere with the same store.
    #[must_use]
    pub fn prompt(mut self, prompt: impl LoginPrompt) -> Self {
        self.prompt = Some(Arc::new(prompt));
        self
    }

    /// Sets an observer of each identity that is created, whether for a connection or by
    /// [`Auth::identity`]. It lets a program show what refreshes wait for, and settle all logins
    /// before it ends. It must not block.
    #[must_use]
    pub fn on_identity(mut self, observer: impl Fn(&Server, &Identity) + Send + Sync + 'static) -> Self {
        self.on_identity = Some(Arc::new(observer));
        self
    }

    /// The identity for one server, for logging in and out without a connection. `None` for a
    /// server that is started as a process.
    pub fn identity(&self, server: &Server) -> Option<Identity> {
        self.identity_with(server, self.prompt.clone())
    }

    /// The identity for a connection, with its prompts timed by `clock`.
    pub(crate) fn identity_with_clock(&self, server: &Server, clock: &Arc<PromptClock>) -> Option<Identity> {
        let timed =
            |prompt| -> Arc<dyn LoginPrompt> { Arc::new(TimedPrompt { prompt, clock: Arc::clone(clock) }) };
        self.identity_with(server, self.prompt.clone().map(timed))
    }

    fn identity_with(&self, server: &Server, prompt: Option<Arc<dyn LoginPrompt>>) -> Option<Identity> {
        let (Transport::Http(http) | Transport::Sse(http)) = &server.transport else { return None };
        let identity = Identity::new(IdentitySetup {
            server: Arc::from(&*server.name),
            http: http.clone(),
            app: Arc::clone(&self.app),
            store: self.encrypted_store.clone(),
            prompt,
            proxies: Proxies::System,
        });
        if let Some(observer) = &self.on_identity {
            observer(server, &identity);
        }
        Some(identity)
    }

    /// The store of the logins.
    pub fn store(&self) -> &EncryptedStore {
        &self.encrypted_store
    }
}

/// The identity for a server without an [`Auth`]; `None` unless its configuration needs no person.
pub(crate) fn identity_without_person(server: &Server) -> Option<Identity> {
    let (Transport::Http(http) | Transport::Sse(http)) = &server.transport else { return None };
    needs_no_person(http).then(|| Auth::in_memory().identity(server)).flatten()
}

fn needs_no_person(http: &Http) -> bool {
    let machine =
        matches!(http.auth.grant, Grant::ClientCredentials | Grant::Enterprise(_) | Grant::Workload(_));
    machine || http.headers_command.is_some()
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { encrypted_store: safe, app, prompt, on_identity } = self;
        f.debug_struct("Auth")
            .field("safe", safe)
            .field("app", app)
            .field("prompt", &prompt.is_some())
            .field("on_identity", &on_identity.is_some())
            .finish()
    }
}
