//! A test authorization server (OAuth 2.1, OpenID Connect Discovery) with injectable faults, and
//! the protection of the scripted MCP server.
//!
//! | endpoint | path below the issuer's | response |
//! |---|---|---|
//! | `metadata` | the well-known forms that a specification requires | RFC 8414 and OpenID Connect metadata |
//! | `authorize` | `/authorize` | a redirect with `code`, `state`, `iss`; a form if interactive |
//! | `token` | `/token` | tokens, for six grants |
//! | `register` | `/register` | a client (RFC 7591) |
//! | `device`, `verify` | `/device`, `/verify` | a device code (RFC 8628), and the page a person opens |
//! | `revoke` | `/revoke` | an empty body (RFC 7009) |
//! | `jwks`, `userinfo` | `/jwks`, `/userinfo` | the current public key; the account |

mod authenticate;
mod authorize;
mod browser;
mod client;
mod control;
mod device;
mod dpop;
mod fault;
mod jwt;
mod metadata;
mod protection;
mod register;
mod request;
mod request_log;
mod script;
mod serve;
mod site;
mod token;
mod vault;

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::armed_faults::ArmedFaults;
use crate::script::millis;
use crate::server_thread::ServerThread;

pub use browser::{Browser, WebPage, follow_authorize_url, with_query_parameter};
pub use client::AuthClient;
pub use control::{AuthControl, IssuedTokens};
pub use fault::{AuthFault, AuthFaultKind};
pub use jwt::SigningKey;
pub use protection::Protection;
pub use request_log::{AuthCounts, ReceivedAuthRequest};
pub use script::{AuthScript, RefreshTokenPolicy};
pub(crate) use serve::{PortOwner, serve_request};
use site::AuthSite;

/// A running authorization server on a loopback port.
///
/// # Behavior
///
/// - It runs on its own thread, so it responds even while the test blocks, and other processes can
///   use it.
/// - Dropping the handle closes the port and every connection before the drop returns.
/// - Its record stays readable through a clone of its [`AuthControl`].
pub struct AuthServer {
    control: AuthControl,
    site: Arc<AuthSite>,
    thread: ServerThread,
}

impl AuthServer {
    /// Starts an authorization server that follows the specifications and consents to everything.
    pub async fn start() -> Self {
        AuthScript::default().start().await
    }

    /// Returns the script of an authorization server, to change and start it.
    pub fn builder() -> AuthScript {
        AuthScript::default()
    }

    /// Returns the address it listens on. It survives [`stop`](Self::stop) and
    /// [`listen`](Self::listen).
    pub fn addr(&self) -> SocketAddr {
        self.site.port.addr()
    }

    /// Stops listening and closes every connection: from now on connections are refused. Issued
    /// tokens stay valid.
    pub async fn stop(&self) {
        let site = self.site.clone();
        self.thread.run(async move { site.stop().await }).await.expect("the port can be kept");
    }

    /// Listens again after [`stop`](Self::stop).
    pub async fn listen(&self) {
        let site = self.site.clone();
        self.thread.run(async move { site.start().await }).await.expect("the port can be listened on");
    }

    /// Returns a handle for other tasks, usable also after the server is dropped.
    pub fn control(&self) -> AuthControl {
        self.control.clone()
    }
}

impl AuthScript {
    /// Starts the server on a free loopback port.
    pub async fn start(self) -> AuthServer {
        let host = ServerThread::start("testkit-auth");
        let tasks = host.spawner.clone();
        let (site, core) = host
            .run(async move {
                let (site, core) = AuthSite::new(tasks, self).expect("a loopback port is free");
                site.start().await.expect("the port can be listened on");
                (site, core)
            })
            .await;
        AuthServer { control: AuthControl { core }, site, thread: host }
    }
}

impl Deref for AuthServer {
    type Target = AuthControl;

    fn deref(&self) -> &AuthControl {
        &self.control
    }
}

/// The state of an authorization server, shared by all requests.
pub(crate) struct AuthCore {
    /// `http://127.0.0.1:port`.
    origin: String,
    script: Mutex<Arc<AuthScript>>,
    faults: ArmedFaults<AuthFaultKind>,
    request_log: request_log::RequestLog,
    vault: Mutex<vault::Vault>,
    /// The key that signs, which can be rotated.
    key: Mutex<Arc<SigningKey>>,
    /// How far the server's clock is ahead, in milliseconds.
    clock_offset_ms: AtomicU64,
}

impl AuthCore {
    fn new(origin: String, script: AuthScript) -> Self {
        let armed = ArmedFaults::default();
        for fault in &script.faults {
            fault.assert_possible();
            armed.add(fault.clone());
        }
        let mut vault = vault::Vault::default();
        if script.dpop_nonce {
            vault.nonce = Some(jwt::random_text());
        }
        Self {
            origin,
            script: Mutex::new(Arc::new(script)),
            faults: armed,
            request_log: request_log::RequestLog::default(),
            vault: Mutex::new(vault),
            key: Mutex::new(Arc::new(SigningKey::generate())),
            clock_offset_ms: AtomicU64::new(0),
        }
    }

    fn script(&self) -> Arc<AuthScript> {
        self.script.lock().clone()
    }

    fn edit_script(&self, change: impl FnOnce(AuthScript) -> AuthScript) {
        let mut script = self.script.lock();
        *script = Arc::new(change(AuthScript::clone(&script)));
        if script.dpop_nonce {
            self.vault.lock().nonce.get_or_insert_with(jwt::random_text);
        }
    }

    /// Returns the key that signs now.
    fn key(&self) -> Arc<SigningKey> {
        self.key.lock().clone()
    }

    /// Returns the issuer for clients that use this origin.
    fn issuer_at(&self, origin: &str) -> String {
        let script = self.script();
        script.issuer.clone().unwrap_or_else(|| format!("{origin}{}", script.path))
    }

    /// Returns the server's time since 1970.
    fn now(&self) -> Duration {
        wall_clock() + Duration::from_millis(self.clock_offset_ms.load(Ordering::Relaxed))
    }

    fn advance_clock(&self, by: Duration) {
        self.clock_offset_ms.fetch_add(millis(by), Ordering::Relaxed);
        self.request_log.notify_waiters();
    }
}

/// Returns the real time since 1970, for what clients date themselves: assertions and proofs.
fn wall_clock() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970")
}
