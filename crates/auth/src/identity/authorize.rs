//! Obtains a new login: which grant is used, which scopes are requested, and that one login serves
//! every refused request.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_config::Secret;
use bowline_store::{Expect, Lease, Safe};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::held::Login as HeldLogin;
use super::made::Run;
use super::memory::JUST_NOW;
use super::renew::{is_passing, without_a_person};
use super::{Begun, Inner, LoginOptions, RefreshState};
use crate::account::Account;
use crate::challenge::Challenge;
use crate::client::OAuthClient;
use crate::discover;
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind};
use crate::grant::Ask;
use crate::headers::Headers;
use crate::listener;
use crate::login::{self, How, Login};
use crate::place::{Place, PlaceKind};
use crate::prompt::LoginPrompt;
use crate::record::{By, Made, Record};
use crate::refresh::core::{KeptRight, Over, Unsaved};
use crate::refresh::drive::{TTL, holding};
use crate::refresh::due;
use crate::register;
use crate::resource;
use crate::scope;
use crate::tokens::Tokens;

/// Why a login is needed.
#[derive(Clone, Debug)]
pub(super) struct Want {
    /// The server's challenge.
    pub(super) challenge: Challenge,
    /// The token that the server refused.
    pub(super) stale: Option<Secret>,
    /// Whether the server wants more scopes than that token has.
    pub(super) more: bool,
    /// Whether the server accepted the token before it refused it.
    pub(super) was_let_in: bool,
    /// Why the old login could not be refreshed.
    pub(super) why: Option<AuthError>,
}

/// Everything that is determined before a login starts.
struct Plan {
    place: Place,
    scopes: Vec<String>,
    resource: Option<String>,
    key: Option<dpop::Key>,
}

/// The server's response to a request without credentials.
enum Probed {
    /// The server wants a login.
    Refused(Challenge),
    /// The server processed the request.
    LetIn,
    /// Anything else, or the server is unreachable.
    Unknown,
}

/// How often the store is checked while another process is logging in.
const LOOK: Duration = Duration::from_millis(500);
/// How often the store is checked for another login while a page is shown.
const LOOK_OUT: Duration = Duration::from_secs(2);
/// How often a failed save is retried before the login is used unsaved; about six seconds in all.
const WRITES: u32 = 7;

impl Want {
    pub(super) fn of(challenge: Challenge) -> Self {
        Self { challenge, stale: None, more: false, was_let_in: false, why: None }
    }

    /// Whether a stored login differs from the refused one and has the scopes that are wanted.
    fn is_met(&self, record: &Record) -> bool {
        let asked = self.challenge.scope.as_deref().unwrap_or_default();
        let enough = !self.more || asked.iter().all(|scope| record.scopes().contains(scope));
        self.stale.as_ref() != Some(&record.access) && enough
    }
}

impl Inner {
    /// Obtains a login for all refused requests at once; a person is prompted once.
    pub(super) async fn authorization(self: &Arc<Self>, want: Want, quiet: bool) -> Result<(), AuthError> {
        let by = By::of(&self.ctx.auth.grant);
        if by == By::Person && (quiet || !self.begins_logins() || self.prompt.is_none()) {
            // Another process may have logged in.
            return if self.found(&want).await? { Ok(()) } else { Err(login_needed(&want)) };
        }
        let inner = Arc::clone(self);
        self.logins.join(|| Box::pin(inner.authorize(want))).await
    }

    async fn authorize(self: Arc<Self>, want: Want) -> Result<(), AuthError> {
        let by = By::of(&self.ctx.auth.grant);
        if by != By::Person
            && let Some(error) = self.failures.standing()
        {
            return Err(error);
        }
        // One process prompts the person; the others wait and adopt its login.
        let hold = loop {
            if self.found(&want).await? {
                return Ok(());
            }
            if let Some(lease) = self.ctx.safe.acquire(&self.login_lease(), TTL).await? {
                break Hold { safe: self.ctx.safe.clone(), lease: Some(lease) };
            }
            tracing::debug!(server = %self.ctx.server, "somebody else is logging in");
            sleep(LOOK).await;
        };
        if self.found(&want).await? {
            return Ok(());
        }
        let outcome = hold.during(Box::pin(self.authorize_now(&want))).await;
        hold.end().await;
        match &outcome {
            Ok(()) => self.failures.clear(),
            // AX-09: credentials that were rejected are not sent again with every call.
            Err(error) if by != By::Person => self.failures.add(error),
            Err(_) => {}
        }
        outcome
    }

    async fn authorize_now(self: &Arc<Self>, want: &Want) -> Result<(), AuthError> {
        let plan = self.prepare(&want.challenge, want.more, &[]).await?;
        self.check_new(want, &plan.place)?;
        let made = match By::of(&self.ctx.auth.grant) {
            By::Person => {
                let Some(prompt) = &self.prompt else { return Err(login_needed(want)) };
                let how = How::choose(&self.ctx.auth, &plan.place, &**prompt);
                // While the page is shown, a login by another process counts too, so poll for it.
                self.set_missing(true);
                tokio::select! {
                    biased;
                    made = self.ask_person(&plan, &**prompt, how) => made?,
                    () = self.found_elsewhere(want) => return Ok(()),
                }
            }
            By::ClientCredentials | By::Enterprise | By::Workload => self.ask_nobody(&plan).await?,
        };
        self.publish(made).await
    }

    /// Waits until another login satisfies the reason, whichever process makes it.
    async fn found_elsewhere(self: &Arc<Self>, want: &Want) {
        let mut changes = self.held.changes();
        let since = |inner: &Self| inner.held.login().map(|login| login.record.logged_in_at);
        let before = since(self);
        // If the server names no scopes, a refresh of the same login is not an improvement.
        let only_another = want.more && want.challenge.scope.as_deref().unwrap_or_default().is_empty();
        loop {
            tokio::select! {
                () = sleep(LOOK_OUT) => {}
                _ = changes.changed() => {}
            }
            // A busy store is simply polled again.
            let found = Box::pin(self.found(want)).await.unwrap_or(false);
            if found && !(only_another && since(self) == before) {
                return;
            }
        }
    }

    /// Adopts the stored login if it satisfies the reason, refreshing it if due. Returns whether it
    /// did.
    async fn found(self: &Arc<Self>, want: &Want) -> Result<bool, AuthError> {
        self.reload().await?;
        let Some(login) = self.held.login().filter(|login| want.is_met(&login.record)) else {
            return Ok(false);
        };
        if !due::is_due(&login.record, SystemTime::now()) {
            return Ok(true);
        }
        if !login.record.is_renewable() {
            return Ok(false);
        }
        // The stored login merely needs a refresh; the server has not refused it.
        match self.renewed(&login.record.access).await {
            Ok(()) => Ok(self.held.login().is_some_and(|login| want.is_met(&login.record))),
            Err(error) if is_passing(&error) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Runs discovery and chooses scopes, resource and DPoP key.
    // TK-04, AR-04: the authorization server may have changed since the last login.
    async fn prepare(&self, challenge: &Challenge, more: bool, extra: &[String]) -> Result<Plan, AuthError> {
        let ctx = &self.ctx;
        let place = discover::locate(ctx, challenge).await?;
        let held = self.held.login().filter(|login| login.record.metadata.issuer == place.metadata.issuer);
        let initial = scope::initial(&ctx.auth, challenge, &place);
        let scopes = match &held {
            Some(login) if more => scope::step_up(&login.record.requested, challenge),
            Some(login) if ctx.auth.scope.is_none() => scope::union(&login.record.requested, &initial),
            _ => initial,
        };
        let scopes = scope::union(&scopes, extra);
        let resource = resource::value(&ctx.auth, &place, &ctx.url);
        let key = if dpop::wanted(&ctx.auth, &place, challenge.dpop)? {
            Some(dpop::Key::load_or_make(&ctx.safe, &self.shelf.key.id).await?)
        } else {
            None
        };
        Ok(Plan { place, scopes, resource, key })
    }

    /// Fails if a login from the same authorization server, made less than [`NEW_TOKEN_WINDOW`]
    /// ago, was never accepted: another one would be refused too.
    fn check_new(&self, want: &Want, place: &Place) -> Result<(), AuthError> {
        let Some(login) = self.held.login() else { return Ok(()) };
        let record = &login.record;
        let had = if record.by == By::Person { record.logged_in_at } else { record.obtained_at() };
        let new = SystemTime::now().duration_since(had).is_ok_and(|age| age < JUST_NOW);
        let other = want.more || want.was_let_in || want.why.is_some();
        if other || !new || record.metadata.issuer != place.metadata.issuer {
            return Ok(());
        }
        let issuer = &place.metadata.issuer;
        let words = want.challenge.error_description.as_ref();
        let words = words.map(|words| format!(": {words}")).unwrap_or_default();
        let what = format!("the server refuses a token that {issuer} has just given for it{words}");
        Err(AuthError::new(AuthErrorKind::Refused, what).hint(
            "whoever runs the server has to see why; `resource` and `scope` in its `auth` can be changed",
        ))
    }

    async fn ask_person(&self, plan: &Plan, prompt: &dyn LoginPrompt, how: How) -> Result<Record, AuthError> {
        let wanted = Login {
            ctx: &self.ctx,
            place: &plan.place,
            scopes: &plan.scopes,
            resource: plan.resource.as_deref(),
            dpop: plan.key.as_ref(),
        };
        let made = login::login(&wanted, prompt, how).await?;
        Ok(self.record(plan, Some(&made.client), made.tokens))
    }

    async fn ask_nobody(&self, plan: &Plan) -> Result<Record, AuthError> {
        let ctx = &self.ctx;
        plan.place.check_described(&ctx.server)?;
        let client = if By::of(&ctx.auth.grant) == By::Workload {
            // AX-08: the assertion identifies the workload; no client is needed.
            None
        } else {
            let redirect = listener::unheard(&ctx.auth.redirect);
            Some(register::client_for(ctx, &plan.place, &redirect, &plan.scopes).await?)
        };
        let ask = Ask {
            ctx,
            metadata: &plan.place.metadata,
            client: client.as_ref(),
            scopes: &plan.scopes,
            resource: plan.resource.as_deref(),
            dpop: plan.key.as_ref(),
        };
        let tokens = without_a_person(&ask, &ctx.auth.grant).await?;
        if let Some(client) = &client {
            // The tokens matter more than the record of the client.
            let _ = register::prove(ctx, client).await;
        }
        Ok(self.record(plan, client.as_ref(), tokens))
    }

    fn record(&self, plan: &Plan, client: Option<&OAuthClient>, tokens: Tokens) -> Record {
        let made = Made {
            server: &self.ctx.server,
            url: &self.ctx.url,
            auth: &self.ctx.auth,
            metadata: &plan.place.metadata,
            resource: plan.resource.clone(),
            client,
            requested: plan.scopes.clone(),
            dpop: plan.key.as_ref(),
        };
        Record::new(made, tokens, SystemTime::now())
    }

    /// Saves a new login in place of any other, then uses it. Runs in its own task, so it finishes
    /// when the caller is dropped.
    async fn publish(self: &Arc<Self>, record: Record) -> Result<(), AuthError> {
        let inner = Arc::clone(self);
        let task = tokio::spawn(async move { inner.write_down(record).await });
        task.await.unwrap_or_else(|_| {
            Err(AuthError::new(AuthErrorKind::Store, "the login was broken off: the program is ending"))
        })
    }

    async fn write_down(&self, record: Record) -> Result<(), AuthError> {
        let mut tries = 0;
        let version = loop {
            match self.ctx.safe.put(&self.shelf.key, &record, Expect::Anything).await {
                Ok(version) => break version,
                Err(error) if tries == WRITES => {
                    let server = &self.ctx.server;
                    tracing::warn!(
                        %server, %error,
                        "the login cannot be written down: unless it can be before this program ends, it is lost"
                    );
                    let unwritten = self.unwritten(&Over::Login(None), &error.to_string());
                    self.wait_for(RefreshState::Store(unwritten));
                    break None;
                }
                Err(_) => {
                    sleep(Duration::from_millis(50 << tries)).await;
                    tries += 1;
                }
            }
        };
        let before = self.held.login();
        let unsaved = version.is_none().then(|| {
            let replaced = before.as_deref().and_then(HeldLogin::kept_since);
            Unsaved { record: record.clone(), over: Over::Login(replaced), right: KeptRight::default() }
        });
        let mut login = HeldLogin::of(&self.ctx.safe, record, version, before.as_deref()).await?;
        login.unsaved = unsaved;
        self.failures.clear();
        self.set_missing(false);
        self.held.set_login(login);
        Ok(())
    }

    // === Explicit logins ===

    pub(super) async fn log_in(self: &Arc<Self>, options: &LoginOptions) -> Result<Account, AuthError> {
        let plan = self.prepare_login(options).await?;
        let record = match By::of(&self.ctx.auth.grant) {
            By::Person => {
                let Some(prompt) = &self.prompt else {
                    return Err(AuthError::new(
                        AuthErrorKind::LoginNeeded,
                        "there is nobody to ask for a login",
                    ));
                };
                let how = if options.device {
                    How::Device
                } else {
                    How::choose(&self.ctx.auth, &plan.place, &**prompt)
                };
                // Refused requests of any process wait for this login meanwhile. It does not wait
                // for theirs.
                let lease = self.ctx.safe.acquire(&self.login_lease(), TTL).await?;
                let hold = Hold { safe: self.ctx.safe.clone(), lease };
                let record = hold.during(Box::pin(self.ask_person(&plan, &**prompt, how))).await;
                // Release it also on failure: the program may exit now, and the next one must not
                // wait.
                hold.end().await;
                record?
            }
            By::ClientCredentials | By::Enterprise | By::Workload => self.ask_nobody(&plan).await?,
        };
        let account = Account::of(&self.shelf.key, &record, SystemTime::now());
        self.publish(record).await?;
        Ok(account)
    }

    pub(super) async fn begin(self: &Arc<Self>, options: &LoginOptions) -> Result<Begun, AuthError> {
        if By::of(&self.ctx.auth.grant) != By::Person {
            let what = "the configuration has tokens without a person, so that there is nothing to begin";
            return Err(AuthError::new(AuthErrorKind::Setup, what));
        }
        let plan = self.prepare_login(options).await?;
        let wanted = Login {
            ctx: &self.ctx,
            place: &plan.place,
            scopes: &plan.scopes,
            resource: plan.resource.as_deref(),
            dpop: plan.key.as_ref(),
        };
        login::begin(&wanted).await
    }

    pub(super) async fn finish(self: &Arc<Self>, pasted: &str) -> Result<Account, AuthError> {
        self.check_used()?;
        self.reload().await?;
        let finished = login::finish(&self.ctx, pasted).await?;
        let made = Made {
            server: &self.ctx.server,
            url: &self.ctx.url,
            auth: &self.ctx.auth,
            metadata: &finished.metadata,
            resource: finished.resource,
            client: Some(&finished.client),
            requested: finished.scopes,
            dpop: finished.dpop.as_ref(),
        };
        let record = Record::new(made, finished.tokens, SystemTime::now());
        let account = Account::of(&self.shelf.key, &record, SystemTime::now());
        self.publish(record).await?;
        Ok(account)
    }

    async fn prepare_login(self: &Arc<Self>, options: &LoginOptions) -> Result<Plan, AuthError> {
        self.check_used()?;
        if self.headers.as_ref().is_some_and(Headers::are_due) {
            self.run_headers(Run::Asked).await?;
        }
        self.reload().await?;
        let probed = match self.seen.get() {
            Some(challenge) => Probed::Refused(challenge),
            None => self.probe().await,
        };
        let challenge = match &probed {
            Probed::Refused(challenge) => challenge.clone(),
            Probed::LetIn | Probed::Unknown => Challenge::default(),
        };
        let plan = self.prepare(&challenge, false, &options.scopes).await?;
        // A server may need a login for some calls only; then its metadata names an authorization
        // server.
        if matches!(probed, Probed::LetIn) && plan.place.kind == PlaceKind::Default {
            let what = format!("{} lets everybody in: no login is needed", self.ctx.server);
            return Err(AuthError::new(AuthErrorKind::NotNeeded, what));
        }
        Ok(plan)
    }

    fn check_used(&self) -> Result<(), AuthError> {
        if self.uses_logins() {
            return self.ctx.net.check_encrypted(&self.ctx.url);
        }
        let why = if self.fixed { "it holds an Authorization header" } else { "it turns logins off" };
        let what = format!("the configuration has no use for a login: {why}");
        Err(AuthError::new(AuthErrorKind::Setup, what))
    }

    /// Sends a `ping` without credentials to learn the server's challenge. Failures are not
    /// reported here; discovery runs into them anyway.
    async fn probe(&self) -> Probed {
        let mut request = Request::new(Bytes::from_static(br#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#));
        *request.method_mut() = Method::POST;
        let Ok(uri) = self.ctx.url.as_str().parse() else { return Probed::Unknown };
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        match self.ctx.net.chosen(request).await {
            Ok(response) if response.status() == 401 => {
                let values = response.headers().get_all(WWW_AUTHENTICATE).into_iter();
                let values: Vec<String> =
                    values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
                Probed::Refused(Challenge::parse(&values))
            }
            // The server processed the request without checking who sent it.
            Ok(response) if matches!(response.status().as_u16(), 200..=299 | 400 | 405 | 406 | 415 | 422) => {
                Probed::LetIn
            }
            Ok(_) => Probed::Unknown,
            Err(error) => {
                tracing::debug!(server = %self.ctx.server, %error, "the server cannot be asked how to be let in");
                Probed::Unknown
            }
        }
    }

    fn login_lease(&self) -> String {
        format!("login/{}", self.shelf.key.id)
    }
}

/// The lease that allows one process to prompt the person. Dropping it releases it, so that a
/// canceled login can be repeated at once.
struct Hold {
    safe: Safe,
    lease: Option<Lease>,
}

impl Hold {
    async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        holding(&self.safe, self.lease.as_ref(), work).await
    }

    async fn end(mut self) {
        if let Some(lease) = self.lease.take() {
            // The lease expires by itself if the release fails.
            let _ = self.safe.release(lease).await;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let (Some(lease), Ok(runtime)) = (self.lease.take(), Handle::try_current()) {
            let safe = self.safe.clone();
            runtime.spawn(async move { safe.release(lease).await });
        }
    }
}

fn login_needed(want: &Want) -> AuthError {
    let (what, hint) = match (&want.why, &want.stale) {
        (Some(why), _) => (why.what.clone(), "log in again"),
        (None, Some(_)) if want.more => {
            ("the server wants more scopes than the login has".to_owned(), "log in again")
        }
        (None, Some(_)) => ("the server does not take the login any more".to_owned(), "log in again"),
        (None, None) => ("nobody has logged in yet".to_owned(), "log in"),
    };
    AuthError::new(AuthErrorKind::LoginNeeded, what).hint(hint)
}

#[cfg(test)]
mod tests;
