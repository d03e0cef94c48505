//! Owns how a new login comes about: who is asked for it, for how much, and that one is enough for everybody.

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

/// What a login is wanted for.
#[derive(Clone, Debug)]
pub(super) struct Want {
    /// What the server said.
    pub(super) challenge: Challenge,
    /// The token that it refused.
    pub(super) stale: Option<Secret>,
    /// Whether it wants more scopes than that one had.
    pub(super) more: bool,
    /// Whether the server took the token before it refused it.
    pub(super) was_let_in: bool,
    /// Why the authorization server does not renew the old login.
    pub(super) why: Option<AuthError>,
}

/// Everything that is found out before anybody is asked.
struct Plan {
    place: Place,
    scopes: Vec<String>,
    resource: Option<String>,
    key: Option<dpop::Key>,
}

/// What a server says to a request without credentials.
enum Probed {
    /// It wants a login.
    Refused(Challenge),
    /// It answers.
    LetIn,
    /// Neither, or it cannot be reached.
    Unknown,
}

/// How often somebody else's login is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// The same while a person is being asked.
const LOOK_OUT: Duration = Duration::from_secs(2);
/// How long a login is tried to be written down.
const WRITES: u32 = 7;

impl Want {
    pub(super) fn of(challenge: Challenge) -> Self {
        Self { challenge, stale: None, more: false, was_let_in: false, why: None }
    }

    /// Whether a login is another than the refused one, and enough.
    fn is_met(&self, record: &Record) -> bool {
        let asked = self.challenge.scope.as_deref().unwrap_or_default();
        let enough = !self.more || asked.iter().all(|scope| record.scopes().contains(scope));
        self.stale.as_ref() != Some(&record.access) && enough
    }
}

impl Inner {
    /// Has a login for everybody who was refused, with one person asked once.
    pub(super) async fn authorization(self: &Arc<Self>, want: Want, quiet: bool) -> Result<(), AuthError> {
        let by = By::of(&self.ctx.auth.grant);
        if by == By::Person && (quiet || !self.begins_logins() || self.prompt.is_none()) {
            // Somebody may have logged in elsewhere.
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
        // One person is asked by one process; the others find what came of it.
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
            // AX-09: what was rejected is not shown again with every call.
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
                // While the page is shown, a login from elsewhere matters.
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

    /// Waits for a better login than the refused one, whoever makes it.
    async fn found_elsewhere(self: &Arc<Self>, want: &Want) {
        let mut changes = self.held.changes();
        let since = |inner: &Self| inner.held.login().map(|login| login.record.logged_in_at);
        let before = since(self);
        // Where the server does not say what it wants, a renewal is not more.
        let only_another = want.more && want.challenge.scope.as_deref().unwrap_or_default().is_empty();
        loop {
            tokio::select! {
                () = sleep(LOOK_OUT) => {}
                _ = changes.changed() => {}
            }
            // A store that is busy is looked at again.
            let found = Box::pin(self.found(want)).await.unwrap_or(false);
            if found && !(only_another && since(self) == before) {
                return;
            }
        }
    }

    /// Whether a better login than the refused one is there by now. If so, it is held.
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
        // It has only not been renewed yet: nobody was refused with it.
        match self.renewed(&login.record.access).await {
            Ok(()) => Ok(self.held.login().is_some_and(|login| want.is_met(&login.record))),
            Err(error) if is_passing(&error) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Finds out who to ask, and for what. The authorization server may be another than the last time (TK-04, AR-04).
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

    /// A login that was had a moment ago, from the same authorization server and for the same, and never taken: another
    /// one would not be either.
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
            // AX-08: the statement says it all.
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
            // What was had is worth more than what is remembered of the client.
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

    /// Writes a new login down, then holds it. It counts, whatever was there before. Goes on when dropped.
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

    // === A login that somebody asked for ===

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
                // Whoever is refused meanwhile, here or elsewhere, waits for this one. It waits for nobody.
                let lease = self.ctx.safe.acquire(&self.login_lease(), TTL).await?;
                let hold = Hold { safe: self.ctx.safe.clone(), lease };
                let record = hold.during(Box::pin(self.ask_person(&plan, &**prompt, how))).await;
                // Also after a no: the program may end now, and the next one is not to wait.
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
        // A server may let everybody in and want a login for some calls only; then it says who gives it.
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

    /// Asks the server for something, as nobody, to see what it says about how to be let in. A server that cannot be
    /// reached says nothing, and is found out about by what comes next.
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
            // It has looked at the request, and not at who sent it.
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

/// The right to ask a person. Given back when it is dropped, so that who gave up can begin again at once.
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
            // It ends by itself if it cannot be given back.
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
