//! Decides where a person may be sent to log in: not to a less public address than the server's,
//! and not to a host that is unrelated to the authorization server, unless the person agrees.
//!
//! A server chooses its authorization server, and that one chooses the page. Without this check, a
//! hostile one could show the page of somebody the person trusts, and receive the resulting code.

use bowline_config::is_loopback;
use tokio::time::timeout;
use url::{Host, Url};

use super::{LOGIN_TIMEOUT, LoginParams};
use crate::error::{AuthError, AuthErrorKind, sanitize, sanitize_url};
use crate::prompt::{ForeignHostChoice, ForeignLoginHost, LoginPrompt};

/// Checks a page before a person is sent there. `prompt` asks the person about an unrelated host.
pub(super) async fn check(
    login: &LoginParams<'_>,
    page: &Url,
    prompt: Option<&dyn LoginPrompt>,
) -> Result<(), AuthError> {
    let ctx = login.ctx;
    ctx.http_client.check_page(page).await?;
    let issuer = &login.discovery.metadata.issuer;
    // A user who configures the issuer trusts its pages.
    if ctx.auth.issuer.is_some() || Url::parse(issuer).is_ok_and(|issuer| is_same_site(&issuer, page)) {
        return Ok(());
    }
    let page_host = sanitize(page.host_str().unwrap_or_default());
    let question = ForeignLoginHost::new(ctx.server.clone(), issuer.clone(), host_of(issuer), page_host);
    let (page_host, server) = (question.page_host.clone(), &ctx.server);
    let reply = match prompt {
        Some(prompt) => timeout(LOGIN_TIMEOUT, prompt.confirm_foreign_host(question))
            .await
            .unwrap_or(ForeignHostChoice::NotAsked),
        None => ForeignHostChoice::NotAsked,
    };
    let shown = sanitize_url(issuer);
    match reply {
        ForeignHostChoice::Allowed => Ok(()),
        ForeignHostChoice::Refused => {
            let what = format!("the login to {server} was canceled: its page is at {page_host}");
            Err(AuthError::new(AuthErrorKind::Declined, what))
        }
        ForeignHostChoice::NotAsked => {
            let what = format!("{shown} has its login page at {page_host}, which is on another site");
            let hint = if shown == *issuer {
                format!("if that is right, set `issuer = \"{issuer}\"` in the server's `auth`")
            } else {
                "if that is right, set `issuer` in the server's `auth` to this authorization server"
                    .to_owned()
            };
            Err(AuthError::new(AuthErrorKind::Setup, what).hint(hint))
        }
    }
}

fn host_of(issuer: &str) -> String {
    let url = Url::parse(issuer).ok();
    sanitize(url.as_ref().and_then(Url::host_str).unwrap_or(issuer))
}

/// Whether the hosts are equal, one is a subdomain of the other, or both are this machine. The
/// owner of a domain owns its subdomains; whether two sibling domains have the same owner is only
/// known from a public suffix list.
fn is_same_site(one: &Url, other: &Url) -> bool {
    if is_loopback(one) && is_loopback(other) {
        return true;
    }
    match (one.host(), other.host()) {
        (Some(Host::Domain(one)), Some(Host::Domain(other))) => {
            let (one, other) = (one.trim_end_matches('.'), other.trim_end_matches('.'));
            one == other || is_below(one, other) || is_below(other, one)
        }
        (one, other) => one == other,
    }
}

/// A single-label name is never a parent: nobody owns a top-level domain.
fn is_below(name: &str, above: &str) -> bool {
    above.contains('.') && name.strip_suffix(above).is_some_and(|label| label.ends_with('.'))
}

#[cfg(test)]
mod tests;
