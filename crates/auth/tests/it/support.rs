//! The stage of the tests: an authorization server, a server that it protects, a store, and clients
//! that call the server the way a connection does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_auth::{
    Account, App, AuthError, DeviceCode, Identity, IdentitySetup, LoginOptions, LoginPage, LoginPrompt,
    PageReply, PromptFuture, RefusedRequest,
};
use bowline_config::{AuthSettings, ClientSettings, Http, Tls};
use bowline_store::EncryptedStore;
use bowline_testkit::{
    AuthScript, AuthServer, Browser, HttpServer, Protection, Tool, auth_server, server, with,
};
use bowline_transport::http::{AddressSource, Credentials, Fetcher, Proxies};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request};
use serde_json::json;
use url::Url;

/// Timeout of anything in these tests.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct TestStage {
    pub(crate) auth: AuthServer,
    pub(crate) server: HttpServer,
    pub(crate) store: EncryptedStore,
}

impl TestStage {
    pub(crate) async fn new() -> Self {
        Self::with(auth_server(), |protected| protected).await
    }

    pub(crate) async fn with(script: AuthScript, how: impl FnOnce(Protection) -> Protection) -> Self {
        let auth = script.start().await;
        let server = server()
            .tool(Tool::like("admin", "echo"))
            .protected(how(Protection::with_auth_server(&auth)))
            .run()
            .await;
        Self { auth, server, store: EncryptedStore::in_memory() }
    }

    pub(crate) fn http(&self) -> Http {
        Http::from_url(self.server.url().parse().unwrap())
    }

    /// A client with a person who can log in.
    pub(crate) fn client(&self) -> TestClient {
        TestClient::new(&self.store, self.http(), Some(Arc::default()))
    }

    /// A client without a person.
    pub(crate) fn client_without_person(&self) -> TestClient {
        TestClient::new(&self.store, self.http(), None)
    }

    pub(crate) fn client_with_auth(&self, auth: AuthSettings) -> TestClient {
        TestClient::new(&self.store, with!(self.http(), auth: auth), Some(Arc::default()))
    }

    /// A client that is logged in, and has called the server once.
    pub(crate) async fn logged_in_client(&self) -> TestClient {
        let host = self.client();
        host.identity.login(&LoginOptions::default()).await.unwrap();
        assert_eq!(host.call("tools/list").await.unwrap(), 200);
        host
    }
}

/// Settings of a client that has nothing but a secret.
pub(crate) fn client_settings(id: &str, secret: &str) -> ClientSettings {
    with!(ClientSettings::new(id), secret: Some(secret.into()))
}

/// Calls the server, and re-authenticates when it is refused.
#[derive(Clone)]
pub(crate) struct TestClient {
    pub(crate) identity: Identity,
    pub(crate) person: Option<Arc<TestPerson>>,
    credentials: Arc<dyn Credentials>,
    url: Url,
    fetch: Fetcher,
}

impl TestClient {
    pub(crate) fn new(store: &EncryptedStore, http: Http, person: Option<Arc<TestPerson>>) -> Self {
        Self::named("search", store, http, person)
    }

    pub(crate) fn named(
        name: &str,
        store: &EncryptedStore,
        http: Http,
        person: Option<Arc<TestPerson>>,
    ) -> Self {
        let url = http.url.clone();
        let identity = Identity::new(IdentitySetup {
            server: name.into(),
            http,
            app: Arc::new(App::default()),
            store: store.clone(),
            prompt: person.clone().map(|person| person as Arc<dyn LoginPrompt>),
            proxies: Proxies::Direct,
        });
        let credentials = identity.credentials();
        Self { identity, person, credentials, url, fetch: Fetcher::new(Tls::default(), Proxies::Direct) }
    }

    /// Calls the server as a connection does: refresh if due, then re-authenticate at most three
    /// times.
    pub(crate) async fn call(&self, operation: &str) -> Result<u16, AuthError> {
        for _ in 0..3 {
            self.identity.refresh_if_due().await?;
            match self.send(operation).await {
                Ok(status) => return Ok(status),
                Err(refusal) => self.identity.reauthenticate(&refusal).await?,
            }
        }
        match self.send(operation).await {
            Ok(status) => Ok(status),
            Err(refusal) => Ok(refusal.status),
        }
    }

    /// Sends one request, without re-authentication.
    pub(crate) async fn send(&self, operation: &str) -> Result<u16, RefusedRequest> {
        let generation = self.identity.generation();
        let (method, tool) = operation.split_once(' ').unwrap_or((operation, ""));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {
            "name": tool,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": bowline_testkit::MODERN_VERSION,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            },
        }});
        let mut request = Request::new(Bytes::from(body.to_string()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.as_str().parse().unwrap();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert("mcp-protocol-version", HeaderValue::from_static(bowline_testkit::MODERN_VERSION));
        headers.insert("mcp-method", method.parse().unwrap());
        if !tool.is_empty() {
            headers.insert("mcp-name", tool.parse().unwrap());
        }
        self.credentials.sign(&Method::POST, &self.url, headers);
        let response = self.fetch.send(request, AddressSource::User).await.unwrap();
        self.credentials.observe_response(&self.url, response.headers());
        let status = response.status().as_u16();
        if !matches!(status, 401 | 403) {
            return Ok(status);
        }
        let challenges = response.headers().get_all(WWW_AUTHENTICATE);
        let challenges = challenges.into_iter().map(|value| value.to_str().unwrap().to_owned()).collect();
        Err(RefusedRequest::new(status, challenges, generation, operation))
    }

    /// Re-authenticates as for a request that was refused with this challenge.
    pub(crate) async fn refuse(
        &self,
        status: u16,
        challenge: &str,
        operation: &str,
        background: bool,
    ) -> Result<(), AuthError> {
        let challenges = vec![challenge.to_owned()];
        let refusal = RefusedRequest::new(status, challenges, self.identity.generation(), operation);
        let refusal = if background { refusal.in_background() } else { refusal };
        self.identity.reauthenticate(&refusal).await
    }

    /// How many login pages the person was shown.
    pub(crate) fn pages(&self) -> usize {
        self.person.as_ref().map_or(0, |person| person.pages.load(Ordering::SeqCst))
    }

    pub(crate) async fn account(&self) -> Account {
        self.identity.account().await.unwrap().expect("there is a login")
    }
}

/// A person who logs in on every page.
#[derive(Default)]
pub(crate) struct TestPerson {
    pub(crate) pages: AtomicUsize,
    /// Notified when a page is shown.
    pub(crate) shown: tokio::sync::Notify,
    /// The account they log in with, where there is a choice.
    pub(crate) name: Option<String>,
    /// Whether they look at the page and do nothing.
    pub(crate) idle: bool,
}

impl LoginPrompt for TestPerson {
    fn show_page(&self, page: LoginPage) -> PromptFuture<'_, PageReply> {
        self.pages.fetch_add(1, Ordering::SeqCst);
        self.shown.notify_one();
        let browser = match &self.name {
            Some(name) => Browser::new().account(name),
            None => Browser::new(),
        };
        Box::pin(async move {
            if !self.idle {
                browser.login(page.url.as_str()).await;
            }
            std::future::pending().await
        })
    }

    fn show_device_code(&self, _: DeviceCode) -> PromptFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}
