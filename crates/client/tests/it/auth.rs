//! Connections to a protected server and its authorization server.

mod background;
mod calls;
mod connecting;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bowline::auth::{Auth, DeviceCode, LoginPage, LoginPrompt, PageReply, PromptFuture};
use bowline::config::Protocol;
use bowline::{Client, Server};
use bowline_testkit::{AuthScript, AuthServer, Browser, HttpServer, Protection, Script};

use crate::support::http;

/// A person who agrees to every login in a browser, and counts the prompts.
#[derive(Clone, Default)]
pub(crate) struct Person {
    prompt_count: Arc<AtomicUsize>,
    /// Held by a test to delay the person's agreement.
    prompt_lock: Arc<tokio::sync::Mutex<()>>,
}

impl Person {
    pub(crate) fn prompt_count(&self) -> usize {
        self.prompt_count.load(Ordering::SeqCst)
    }
}

impl LoginPrompt for Person {
    fn show_page(&self, page: LoginPage) -> PromptFuture<'_, PageReply> {
        self.prompt_count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let _gate = self.prompt_lock.lock().await;
            PageReply::Pasted(Browser::new().follow(page.url.as_str()).await)
        })
    }

    fn show_device_code(&self, _: DeviceCode) -> PromptFuture<'_, ()> {
        self.prompt_count.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }
}

/// Starts a protected server of one era with an echo tool.
pub(crate) async fn start_protected(
    auth: AuthScript,
    era: Protocol,
    how: impl FnOnce(Protection) -> Protection,
) -> (AuthServer, HttpServer, Server) {
    let auth = auth.start().await;
    let script =
        Script::default().tool("echo").tool("counter").protected(how(Protection::with_auth_server(&auth)));
    let script = match era {
        Protocol::Modern => script.modern(),
        _ => script.legacy(),
    };
    let web = script.run().await;
    let server = http(&web).with_protocol(era);
    (auth, web, server)
}

/// Connects and logs in, which takes one prompt.
pub(crate) async fn connect_logged_in(server: &Server, person: &Person) -> (Client, Auth) {
    let auth = Auth::in_memory().prompt(person.clone());
    let client = Client::builder(server.clone()).auth(auth.clone()).connect().await.expect("a login");
    assert_eq!(person.prompt_count(), 1);
    (client, auth)
}
