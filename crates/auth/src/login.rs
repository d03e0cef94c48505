//! Runs a login with a person, from the page they are sent to until the tokens arrive.
//!
//! Each login has its own `state`, verifier and socket, so that any number can run at once. The
//! browser's redirect and a person's input are raced, and whichever comes first is validated the
//! same way.

mod authorization_url;
mod destination;
pub(crate) mod paste;
mod pending;

use std::time::Duration;

use bowline_config::{AuthSettings, Grant, Secret};
use tokio::time::timeout;
use url::Url;

use crate::authorization_response::{self, CallbackOutcome, ExpectedResponse};
use crate::client::{ClientOrigin, OAuthClient};
use crate::context::AuthContext;
use crate::discovery::{Discovery, Metadata};
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind};
use crate::grant::{self, TokenGrant, TokenRequest};
use crate::listener::{self, CallbackVisit, Listener, ResultPage};
use crate::prompt::{DeviceCode, LoginPage, LoginPrompt, PageReply};
use crate::register;
use crate::tokens::Tokens;

use authorization_url::{AuthorizationUrl, build_authorization_url};
use paste::PastedInput;

pub use pending::PendingLogin;
pub(crate) use pending::{begin, finish};

/// How long a person may take.
pub(crate) const LOGIN_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How many unusable inputs are accepted before the login fails.
const MAX_PASTE_ATTEMPTS: u32 = 10;

/// The parameters of a login.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoginParams<'a> {
    pub(crate) ctx: &'a AuthContext,
    pub(crate) discovery: &'a Discovery,
    pub(crate) scopes: &'a [String],
    /// The `resource` parameter, verbatim (AF-02).
    pub(crate) resource: Option<&'a str>,
    /// The key that the tokens are to be bound to.
    pub(crate) dpop: Option<&'a dpop::Key>,
}

impl<'a> LoginParams<'a> {
    /// The token request of this login by a client.
    fn token_request(&self, client: &'a OAuthClient) -> TokenRequest<'a> {
        let Self { ctx, discovery, scopes, resource, dpop } = *self;
        TokenRequest { ctx, metadata: &discovery.metadata, client: Some(client), scopes, resource, dpop }
    }
}

/// How a person logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginMethod {
    /// On a page, in a browser.
    Page,
    /// With a code on another device.
    Device,
}

/// The outcome of a login.
#[derive(Clone, Debug)]
pub(crate) struct LoginOutcome {
    pub(crate) tokens: Tokens,
    /// The client that obtained the tokens.
    pub(crate) client: OAuthClient,
}

impl LoginMethod {
    /// Chooses by the configuration, else by whether a browser is available.
    pub(crate) fn choose(auth: &AuthSettings, discovery: &Discovery, prompt: &dyn LoginPrompt) -> Self {
        let offered = discovery.metadata.device_authorization_endpoint.is_some();
        match auth.grant {
            Grant::Device => Self::Device,
            _ if offered && !prompt.has_browser() => Self::Device,
            _ => Self::Page,
        }
    }
}

/// Logs a person in. Bounded in time; dropping the future cancels the login and closes the socket.
pub(crate) async fn login(
    login: &LoginParams<'_>,
    prompt: &dyn LoginPrompt,
    how: LoginMethod,
) -> Result<LoginOutcome, AuthError> {
    match how {
        LoginMethod::Page => log_in_by_page(login, prompt, LOGIN_TIMEOUT).await,
        LoginMethod::Device => log_in_by_device(login, prompt).await,
    }
}

async fn log_in_by_page(
    login: &LoginParams<'_>,
    prompt: &dyn LoginPrompt,
    patience: Duration,
) -> Result<LoginOutcome, AuthError> {
    let LoginParams { ctx, discovery, scopes, .. } = *login;
    // Before a client is registered for a page that nobody may be sent to.
    destination::check(login, authorization_url::authorization_endpoint(discovery)?, Some(prompt)).await?;
    let port = register::stored_port(ctx, discovery).await;
    // Before the registration, so that the registered redirect is the one that is listened on.
    let (redirect, listener, listen_error) = match listener::open(&ctx.auth.redirect, port).await {
        Ok((redirect, listener)) => (redirect, listener, None),
        // Another program that receives the code cannot use it: only we know the verifier (AF-01).
        Err(error) if prompt.can_paste() => {
            (listener::redirect_without_listener(&ctx.auth.redirect), None, Some(error.what))
        }
        Err(error) => return Err(error),
    };
    let client = register::client_for(ctx, discovery, &redirect, scopes).await?;
    let redirect = client.registered_redirect.clone().unwrap_or(redirect);
    let authorization = build_authorization_url(login, &client, &redirect)?;
    let attempt = PageLogin { login, client: &client, redirect: &redirect, authorization, listen_error };
    let Ok(tokens) = timeout(patience, attempt.finish(prompt, listener)).await else {
        let what = format!("nobody logged in to {} within {} minutes", ctx.server, patience.as_secs() / 60);
        return Err(AuthError::new(AuthErrorKind::LoginNeeded, what));
    };
    let tokens = tokens?;
    // The tokens matter more than the record of the client.
    let _ = register::confirm_client(ctx, &client).await;
    Ok(LoginOutcome { tokens, client })
}

async fn log_in_by_device(
    login: &LoginParams<'_>,
    prompt: &dyn LoginPrompt,
) -> Result<LoginOutcome, AuthError> {
    let LoginParams { ctx, discovery, scopes, .. } = *login;
    let redirect = listener::redirect_without_listener(&ctx.auth.redirect);
    let mut client = register::client_for(ctx, discovery, &redirect, scopes).await?;
    let mut code = grant::request_device_code(&login.token_request(&client)).await;
    // The person has not been asked for anything yet, so another client can be used.
    if code.as_ref().is_err_and(|error| error.kind == AuthErrorKind::InvalidClient)
        && client.origin == ClientOrigin::Registered
    {
        register::forget_client(ctx, &client).await?;
        client = register::client_for(ctx, discovery, &redirect, scopes).await?;
        code = grant::request_device_code(&login.token_request(&client)).await;
    }
    let code = code?;
    for page in [Some(&code.verification_url), code.complete_url.as_ref()].into_iter().flatten() {
        destination::check(login, page, Some(prompt)).await?;
    }
    let ask = login.token_request(&client);
    let shown = DeviceCode {
        server: ctx.server.clone(),
        issuer: discovery.metadata.issuer.clone(),
        url: code.verification_url.clone(),
        complete_url: code.complete_url.clone(),
        code: code.user_code.clone(),
        expires_in: code.expires_in,
        scopes: scopes.to_vec(),
    };
    let tokens = tokio::select! {
        tokens = grant::poll_device_tokens(&ask, &code) => tokens?,
        () = prompt.show_device_code(shown) => return Err(gave_up_error(ctx)),
    };
    // The tokens matter more than the record of the client.
    let _ = register::confirm_client(ctx, &client).await;
    Ok(LoginOutcome { tokens, client })
}

/// One login on a page.
struct PageLogin<'a> {
    login: &'a LoginParams<'a>,
    client: &'a OAuthClient,
    redirect: &'a Url,
    authorization: AuthorizationUrl,
    /// Why there is no listener, if one was intended.
    listen_error: Option<String>,
}

/// What happens first.
enum PageEvent {
    Browser(CallbackVisit),
    Prompt(PageReply),
}

impl PageLogin<'_> {
    async fn finish(
        &self,
        prompt: &dyn LoginPrompt,
        listener: Option<Listener>,
    ) -> Result<Tokens, AuthError> {
        let ctx = self.login.ctx;
        let mut listener = listener;
        let page = self.page(listener.is_some());
        let mut asked = prompt.show_page(page.clone());
        let mut tries = 0;
        loop {
            let came = tokio::select! {
                visit = next_visit(&mut listener) => PageEvent::Browser(visit),
                reply = &mut asked => PageEvent::Prompt(reply),
            };
            match came {
                PageEvent::Browser(visit) => {
                    // With the question mark, so that the query is never taken for a bare code.
                    let code = match authorization_response::parse(
                        &format!("?{}", visit.query),
                        &self.expected_response(),
                    ) {
                        // AF-03: the response belongs to another login or to none. Ours may still
                        // arrive.
                        Ok(CallbackOutcome::NotThisLogin) => {
                            visit.show(ResultPage::UnknownLogin);
                            continue;
                        }
                        Ok(CallbackOutcome::Code(code)) => Ok(code),
                        Err(error) => Err(error),
                    };
                    drop(asked);
                    let outcome = match code {
                        Ok(code) => self.exchange_code(&code).await,
                        Err(error) => Err(error),
                    };
                    if let Some(listener) = listener {
                        listener.close_with_page(visit, result_page(ctx, &outcome)).await;
                    }
                    return outcome;
                }
                PageEvent::Prompt(PageReply::Pasted(text)) => {
                    let wrong = match self.handle_pasted(&text).await {
                        Ok(outcome) => return outcome,
                        Err(wrong) => wrong,
                    };
                    tries += 1;
                    if tries == MAX_PASTE_ATTEMPTS {
                        return Err(AuthError::new(AuthErrorKind::Untrusted, wrong));
                    }
                    // The browser's redirect may still arrive.
                    asked = prompt.show_page(LoginPage { rejection: Some(wrong), ..page.clone() });
                }
                PageEvent::Prompt(PageReply::GaveUp) => return Err(gave_up_error(ctx)),
            }
        }
    }

    fn page(&self, listening: bool) -> LoginPage {
        let LoginParams { ctx, discovery, scopes, .. } = *self.login;
        LoginPage {
            server: ctx.server.clone(),
            issuer: discovery.metadata.issuer.clone(),
            url: self.authorization.url.clone(),
            redirect: self.redirect.clone(),
            listening,
            listen_error: self.listen_error.clone(),
            rejection: None,
            scopes: scopes.to_vec(),
            expected_response: self.expected_response(),
        }
    }

    /// Handles what a person pasted. The outer error says why it was rejected; the login continues
    /// then.
    async fn handle_pasted(&self, text: &str) -> Result<Result<Tokens, AuthError>, String> {
        match paste::parse(text, &self.expected_response(), self.redirect) {
            PastedInput::Rejected(why) => Err(why),
            PastedInput::Failed(error) => Ok(Err(error)),
            PastedInput::Code { code, bare } => match self.exchange_code(&code).await {
                // Only the person said that the code belongs to this login.
                Err(error) if bare && error.kind == AuthErrorKind::InvalidGrant => {
                    Err(format!("the code was rejected: {}", paste::whole_address_hint(self.redirect)))
                }
                outcome => Ok(outcome),
            },
        }
    }

    fn expected_response(&self) -> ExpectedResponse {
        expected_response(&self.login.discovery.metadata, &self.authorization.state)
    }

    async fn exchange_code(&self, code: &Secret) -> Result<Tokens, AuthError> {
        let LoginParams { ctx, discovery, scopes, resource, dpop } = *self.login;
        let ask = TokenRequest {
            ctx,
            metadata: &discovery.metadata,
            client: Some(self.client),
            scopes,
            resource,
            dpop,
        };
        exchange_code(&ask, code, &self.authorization.verifier, self.redirect).await
    }
}

/// What the response must contain (AF-04).
fn expected_response(metadata: &Metadata, state: &Secret) -> ExpectedResponse {
    ExpectedResponse {
        issuer: metadata.issuer.clone(),
        state: state.clone(),
        iss_required: metadata.authorization_response_iss_parameter_supported,
    }
}

/// Exchanges a code for tokens. A registered client that is no longer known is forgotten, so that
/// the next login registers another.
async fn exchange_code(
    ask: &TokenRequest<'_>,
    code: &Secret,
    verifier: &Secret,
    redirect: &Url,
) -> Result<Tokens, AuthError> {
    let outcome = grant::request_tokens(ask, TokenGrant::Code { code, verifier, redirect }).await;
    let Err(error) = outcome else { return outcome };
    match ask.client {
        Some(client)
            if error.kind == AuthErrorKind::InvalidClient && client.origin == ClientOrigin::Registered =>
        {
            register::forget_client(ask.ctx, client).await?;
            Err(error.hint("log in again: a new client will be registered"))
        }
        _ => Err(error),
    }
}

async fn next_visit(listener: &mut Option<Listener>) -> CallbackVisit {
    match listener {
        Some(listener) => listener.next_visit().await,
        None => std::future::pending().await,
    }
}

fn result_page(ctx: &AuthContext, outcome: &Result<Tokens, AuthError>) -> ResultPage {
    let server = ctx.server.to_string();
    match outcome {
        Ok(_) => ResultPage::LoggedIn { app: ctx.app.name.clone(), server },
        Err(error) => ResultPage::Failed { server, why: error.what.clone() },
    }
}

fn gave_up_error(ctx: &AuthContext) -> AuthError {
    AuthError::new(AuthErrorKind::Declined, format!("the login to {} was canceled", ctx.server))
}

#[cfg(test)]
mod tests;
