//! Runs a login with a person, from the page they are sent to until the tokens arrive.
//!
//! Each login has its own `state`, verifier and socket, so that any number can run at once. The
//! browser's redirect and a person's input are raced, and whichever comes first is validated the
//! same way.

mod authorize;
mod destination;
mod flow;
pub(crate) mod paste;

use std::time::Duration;

use bowline_config::{Auth, Grant, Secret};
use tokio::time::timeout;
use url::Url;

use crate::client::{ClientOrigin, OAuthClient};
use crate::ctx::Ctx;
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind};
use crate::grant::{self, Ask, Request};
use crate::listener::{self, Listener, Page, Visit};
use crate::place::{Metadata, Place};
use crate::prompt::{DeviceCode, LoginPage, LoginPrompt, PageReply};
use crate::register;
use crate::response::{self, Brought, Pending};
use crate::tokens::Tokens;

use authorize::{Address, authorize};
use paste::Pasted;

pub(crate) use flow::{begin, finish};

/// How long a person may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// How many unusable inputs are accepted before the login fails.
const TRIES: u32 = 10;

/// The parameters of a login.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Login<'a> {
    pub(crate) ctx: &'a Ctx,
    pub(crate) place: &'a Place,
    pub(crate) scopes: &'a [String],
    /// The `resource` parameter, verbatim (AF-02).
    pub(crate) resource: Option<&'a str>,
    /// The key that the tokens are to be bound to.
    pub(crate) dpop: Option<&'a dpop::Key>,
}

/// How a person logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// On a page, in a browser.
    Page,
    /// With a code on another device.
    Device,
}

/// The outcome of a login.
#[derive(Clone, Debug)]
pub(crate) struct LoggedIn {
    pub(crate) tokens: Tokens,
    /// The client that obtained the tokens.
    pub(crate) client: OAuthClient,
}

impl How {
    /// Chooses by the configuration, else by whether a browser is available.
    pub(crate) fn choose(auth: &Auth, place: &Place, prompt: &dyn LoginPrompt) -> Self {
        let offered = place.metadata.device_authorization_endpoint.is_some();
        match auth.grant {
            Grant::Device => Self::Device,
            _ if offered && !prompt.has_browser() => Self::Device,
            _ => Self::Page,
        }
    }
}

/// Logs a person in. Bounded in time; dropping the future cancels the login and closes the socket.
pub(crate) async fn login(
    login: &Login<'_>,
    prompt: &dyn LoginPrompt,
    how: How,
) -> Result<LoggedIn, AuthError> {
    match how {
        How::Page => by_page(login, prompt, PATIENCE).await,
        How::Device => by_device(login, prompt).await,
    }
}

async fn by_page(
    login: &Login<'_>,
    prompt: &dyn LoginPrompt,
    patience: Duration,
) -> Result<LoggedIn, AuthError> {
    let Login { ctx, place, scopes, .. } = *login;
    // Before a client is registered for a page that nobody may be sent to.
    destination::check(login, authorize::endpoint(place)?, Some(prompt)).await?;
    let port = register::kept_port(ctx, place).await;
    // Before the registration, so that the registered redirect is the one that is listened on.
    let (redirect, listener, unheard) = match listener::open(&ctx.auth.redirect, port).await {
        Ok((redirect, listener)) => (redirect, listener, None),
        // Another program that receives the code cannot use it: only we know the verifier (AF-01).
        Err(error) if prompt.can_paste() => (listener::unheard(&ctx.auth.redirect), None, Some(error.what)),
        Err(error) => return Err(error),
    };
    let client = register::client_for(ctx, place, &redirect, scopes).await?;
    let redirect = client.redirect.clone().unwrap_or(redirect);
    let address = authorize(login, &client, &redirect)?;
    let attempt = Attempt { login, client: &client, redirect: &redirect, address, unheard };
    let Ok(tokens) = timeout(patience, attempt.finish(prompt, listener)).await else {
        let what = format!("nobody logged in to {} within {} minutes", ctx.server, patience.as_secs() / 60);
        return Err(AuthError::new(AuthErrorKind::LoginNeeded, what));
    };
    let tokens = tokens?;
    // The tokens matter more than the record of the client.
    let _ = register::prove(ctx, &client).await;
    Ok(LoggedIn { tokens, client })
}

async fn by_device(login: &Login<'_>, prompt: &dyn LoginPrompt) -> Result<LoggedIn, AuthError> {
    let Login { ctx, place, scopes, resource, dpop } = *login;
    let redirect = listener::unheard(&ctx.auth.redirect);
    let metadata = &place.metadata;
    let mut client = register::client_for(ctx, place, &redirect, scopes).await?;
    let mut code =
        grant::device_code(&Ask { ctx, metadata, client: Some(&client), scopes, resource, dpop }).await;
    // The person has not been asked for anything yet, so another client can be used.
    if code.as_ref().is_err_and(|error| error.kind == AuthErrorKind::InvalidClient)
        && client.origin == ClientOrigin::Registered
    {
        register::forget(ctx, &client).await?;
        client = register::client_for(ctx, place, &redirect, scopes).await?;
        code =
            grant::device_code(&Ask { ctx, metadata, client: Some(&client), scopes, resource, dpop }).await;
    }
    let code = code?;
    for page in [Some(&code.url), code.complete.as_ref()].into_iter().flatten() {
        destination::check(login, page, Some(prompt)).await?;
    }
    let ask = Ask { ctx, metadata, client: Some(&client), scopes, resource, dpop };
    let shown = DeviceCode {
        server: ctx.server.clone(),
        issuer: place.metadata.issuer.clone(),
        url: code.url.clone(),
        complete: code.complete.clone(),
        code: code.typed.clone(),
        expires_in: code.expires_in,
        scopes: scopes.to_vec(),
    };
    let tokens = tokio::select! {
        tokens = grant::device_tokens(&ask, &code) => tokens?,
        () = prompt.device(shown) => return Err(gave_up(ctx)),
    };
    // The tokens matter more than the record of the client.
    let _ = register::prove(ctx, &client).await;
    Ok(LoggedIn { tokens, client })
}

/// One login on a page.
struct Attempt<'a> {
    login: &'a Login<'a>,
    client: &'a OAuthClient,
    redirect: &'a Url,
    address: Address,
    /// Why there is no listener, if one was intended.
    unheard: Option<String>,
}

/// What happens first.
enum Came {
    Browser(Visit),
    Person(PageReply),
}

impl Attempt<'_> {
    async fn finish(
        &self,
        prompt: &dyn LoginPrompt,
        listener: Option<Listener>,
    ) -> Result<Tokens, AuthError> {
        let ctx = self.login.ctx;
        let mut listener = listener;
        let page = self.page(listener.is_some());
        let mut asked = prompt.page(page.clone());
        let mut tries = 0;
        loop {
            let came = tokio::select! {
                visit = visit(&mut listener) => Came::Browser(visit),
                reply = &mut asked => Came::Person(reply),
            };
            match came {
                Came::Browser(visit) => {
                    // With the question mark, so that the query is never taken for a bare code.
                    let code = match response::read(&format!("?{}", visit.query), &self.pending()) {
                        // AF-03: the response belongs to another login or to none. Ours may still
                        // arrive.
                        Ok(Brought::NotOurs) => {
                            visit.show(Page::Unknown);
                            continue;
                        }
                        Ok(Brought::Code(code)) => Ok(code),
                        Err(error) => Err(error),
                    };
                    drop(asked);
                    let outcome = match code {
                        Ok(code) => self.spend(&code).await,
                        Err(error) => Err(error),
                    };
                    if let Some(listener) = listener {
                        listener.end(visit, shown(ctx, &outcome)).await;
                    }
                    return outcome;
                }
                Came::Person(PageReply::Pasted(text)) => {
                    let wrong = match self.take(&text).await {
                        Ok(outcome) => return outcome,
                        Err(wrong) => wrong,
                    };
                    tries += 1;
                    if tries == TRIES {
                        return Err(AuthError::new(AuthErrorKind::Untrusted, wrong));
                    }
                    // The browser's redirect may still arrive.
                    asked = prompt.page(LoginPage { wrong: Some(wrong), ..page.clone() });
                }
                Came::Person(PageReply::GaveUp) => return Err(gave_up(ctx)),
            }
        }
    }

    fn page(&self, listening: bool) -> LoginPage {
        let Login { ctx, place, scopes, .. } = *self.login;
        LoginPage {
            server: ctx.server.clone(),
            issuer: place.metadata.issuer.clone(),
            url: self.address.url.clone(),
            redirect: self.redirect.clone(),
            listening,
            unheard: self.unheard.clone(),
            wrong: None,
            scopes: scopes.to_vec(),
            expected: self.pending(),
        }
    }

    /// Handles what a person pasted. The outer error says why it was rejected; the login continues
    /// then.
    async fn take(&self, text: &str) -> Result<Result<Tokens, AuthError>, String> {
        match paste::read(text, &self.pending(), self.redirect) {
            Pasted::Wrong(why) => Err(why),
            Pasted::Over(error) => Ok(Err(error)),
            Pasted::Code { code, bare } => match self.spend(&code).await {
                // Only the person said that the code belongs to this login.
                Err(error) if bare && error.kind == AuthErrorKind::InvalidGrant => {
                    Err(format!("that code is not taken: {}", paste::whole(self.redirect)))
                }
                outcome => Ok(outcome),
            },
        }
    }

    fn pending(&self) -> Pending {
        pending(&self.login.place.metadata, &self.address.state)
    }

    async fn spend(&self, code: &Secret) -> Result<Tokens, AuthError> {
        let Login { ctx, place, scopes, resource, dpop } = *self.login;
        let ask = Ask { ctx, metadata: &place.metadata, client: Some(self.client), scopes, resource, dpop };
        exchange(&ask, code, &self.address.verifier, self.redirect).await
    }
}

/// What the response must contain (AF-04).
fn pending(metadata: &Metadata, state: &Secret) -> Pending {
    Pending {
        issuer: metadata.issuer.clone(),
        state: state.clone(),
        iss_required: metadata.authorization_response_iss_parameter_supported,
    }
}

/// Exchanges a code for tokens. A registered client that is no longer known is forgotten, so that
/// the next login registers another.
async fn exchange(
    ask: &Ask<'_>,
    code: &Secret,
    verifier: &Secret,
    redirect: &Url,
) -> Result<Tokens, AuthError> {
    let outcome = grant::tokens(ask, Request::Code { code, verifier, redirect }).await;
    let Err(error) = outcome else { return outcome };
    match ask.client {
        Some(client)
            if error.kind == AuthErrorKind::InvalidClient && client.origin == ClientOrigin::Registered =>
        {
            register::forget(ask.ctx, client).await?;
            Err(error.hint("log in again: another client will be registered"))
        }
        _ => Err(error),
    }
}

async fn visit(listener: &mut Option<Listener>) -> Visit {
    match listener {
        Some(listener) => listener.visit().await,
        None => std::future::pending().await,
    }
}

fn shown(ctx: &Ctx, outcome: &Result<Tokens, AuthError>) -> Page {
    let server = ctx.server.to_string();
    match outcome {
        Ok(_) => Page::Done { app: ctx.app.name.clone(), server },
        Err(error) => Page::Failed { server, why: error.what.clone() },
    }
}

fn gave_up(ctx: &Ctx) -> AuthError {
    AuthError::new(AuthErrorKind::Declined, format!("the login to {} was given up", ctx.server))
}

#[cfg(test)]
mod tests;
