//! Complete logins: a real authorization server, a real listener, and a browser that follows
//! redirects.

mod device;
mod page;
mod pending;

use std::sync::Arc;

use bowline_config::{AuthSettings, ClientSettings};
use bowline_testkit::{AuthClient, AuthScript, AuthServer, with};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::*;
use crate::prompt::PromptFuture;
use crate::testing::{self, RESOURCE};

const WAIT: Duration = Duration::from_secs(20);

/// A scripted person.
struct Person {
    pages: mpsc::UnboundedSender<LoginPage>,
    codes: mpsc::UnboundedSender<DeviceCode>,
    /// Their reply to a page; `None` keeps the page open.
    reply: Mutex<Option<PageReply>>,
    /// Whether they give up on a device code at once.
    gives_up: bool,
    /// Whether they can paste.
    pastes: bool,
}

/// The prompts that a person was shown.
struct ShownPrompts {
    pages: mpsc::UnboundedReceiver<LoginPage>,
    codes: mpsc::UnboundedReceiver<DeviceCode>,
}

fn person(reply: Option<PageReply>) -> (Arc<Person>, ShownPrompts) {
    let ((pages, shown_pages), (codes, shown_codes)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let person = Person { pages, codes, reply: Mutex::new(reply), gives_up: false, pastes: false };
    (Arc::new(person), ShownPrompts { pages: shown_pages, codes: shown_codes })
}

impl LoginPrompt for Person {
    fn show_page(&self, page: LoginPage) -> PromptFuture<'_, PageReply> {
        self.pages.send(page).unwrap();
        let reply = self.reply.lock().take();
        Box::pin(async move {
            match reply {
                Some(reply) => reply,
                None => std::future::pending().await,
            }
        })
    }

    fn show_device_code(&self, code: DeviceCode) -> PromptFuture<'_, ()> {
        self.codes.send(code).unwrap();
        let leaves = self.gives_up;
        Box::pin(async move {
            if !leaves {
                std::future::pending::<()>().await;
            }
        })
    }

    fn can_paste(&self) -> bool {
        self.pastes
    }
}

/// An authorization server with a known client, and a server that requires a login there.
struct LoginScene {
    server: AuthServer,
    discovery: Discovery,
    ctx: AuthContext,
}

type LoginTask = tokio::task::JoinHandle<Result<LoginOutcome, AuthError>>;

const CLIENT: &str = "known";

impl LoginScene {
    async fn new() -> Self {
        Self::with(AuthServer::builder()).await
    }

    async fn with(script: AuthScript) -> Self {
        let server = script.client(AuthClient::public(CLIENT)).start().await;
        let discovery = testing::discovery(&server);
        Self { discovery, ctx: testing::ctx(auth()), server }
    }

    fn login(&self) -> LoginParams<'_> {
        LoginParams {
            ctx: &self.ctx,
            discovery: &self.discovery,
            scopes: &[],
            resource: Some(RESOURCE),
            dpop: None,
        }
    }

    /// Starts a login in the background.
    fn start(&self, person: Arc<Person>, method: LoginMethod) -> LoginTask {
        let (ctx, discovery) = (self.ctx.clone(), self.discovery.clone());
        tokio::spawn(async move {
            let (ctx, discovery, resource) = (&ctx, &discovery, Some(RESOURCE));
            let login = LoginParams { ctx, discovery, scopes: &[], resource, dpop: None };
            super::login(&login, &*person, method).await
        })
    }

    /// Starts a login in the background, and returns the page that the person is shown.
    async fn start_page(&self) -> (LoginTask, LoginPage) {
        let (person, mut shown) = person(None);
        let task = self.start(person, LoginMethod::Page);
        (task, shown.pages.recv().await.unwrap())
    }
}

/// With a configured client, so that nothing is registered.
fn auth() -> AuthSettings {
    let client = ClientSettings::new(CLIENT);
    with!(AuthSettings::default(), client: Some(client))
}

fn connect_to(url: &Url) -> std::io::Result<std::net::TcpStream> {
    std::net::TcpStream::connect(("127.0.0.1", url.port().unwrap()))
}

async fn join<T>(task: tokio::task::JoinHandle<T>) -> T {
    timeout(WAIT, task).await.expect("it ends").expect("it does not panic")
}
