//! The authorization endpoint: it issues a code at once, or shows a form for a person to decide.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::request::{AuthRequest, EndpointResponse};
use super::vault::{AuthorizationCode, TokenFamily};
use super::{AuthCore, authenticate, jwt};
use crate::SECRET_PREFIX;

/// How long a code is valid.
const CODE_LIFETIME: Duration = Duration::from_secs(60);
/// The request header with which a [`Browser`](super::Browser) sends its person's decision.
pub(super) const DECISION_HEADER: &str = "x-testkit-decision";

pub(super) fn handle_authorization(core: &AuthCore, request: &AuthRequest) -> EndpointResponse {
    let script = core.script();
    let client =
        request.field("client_id").and_then(|id| authenticate::find_client(core, &core.vault.lock(), id));
    let Some(client) = client else { return error_page("Unknown client") };
    let redirect = match request.field("redirect_uri") {
        Some(uri) => uri.to_owned(),
        None if client.redirects.len() == 1 => client.redirects[0].clone(),
        None => return error_page("No redirect URI"),
    };
    if !client.allows_redirect(&redirect, script.exact_redirects) {
        return error_page("This redirect URI is not registered");
    }
    // From here on errors go to the client's redirect URI.
    let refuse = |code: &str, why: &str| {
        redirect_back(core, request, &redirect, json!({"error": code, "error_description": why}))
    };
    if request.field("response_type") != Some("code") {
        return refuse("unsupported_response_type", "only code");
    }
    if request.field("code_challenge").is_none() {
        return refuse("invalid_request", "PKCE is needed");
    }
    if request.field("code_challenge_method") != Some("S256") {
        return refuse("invalid_request", "only S256");
    }
    record_missing_parameters(core, request);
    let scope = request.field("scope").unwrap_or_default();
    if script.strict_scopes
        && let Some(unknown) =
            scope.split(' ').find(|scope| !script.scopes.iter().any(|known| known == scope))
    {
        return refuse("invalid_scope", &format!("{unknown} is unknown"));
    }
    let decision =
        request.header(DECISION_HEADER).or(request.field("decision").filter(|_| request.method == "POST"));
    match decision {
        Some("deny") => return refuse("access_denied", "the person said no"),
        None if script.interactive => {
            return EndpointResponse::Html(200, consent_page(request, &client.id, scope, &script.account));
        }
        _ => {}
    }
    let account = request.field("account").filter(|_| request.method == "POST").unwrap_or(&script.account);
    let given = format!("{SECRET_PREFIX}code-{}", jwt::random_text());
    let mut vault = core.vault.lock();
    let family = vault.add_family(TokenFamily {
        client: Some(client.id),
        account: account.into(),
        scope: scope.into(),
        resources: request.field("resource").map(split_words).unwrap_or_default(),
        nonce: request.field("nonce").map(str::to_owned),
        revoked: false,
    });
    let until = core.now() + CODE_LIFETIME;
    let challenge = request.field("code_challenge").map(str::to_owned);
    vault.codes.insert(
        given.clone(),
        AuthorizationCode {
            family,
            redirect_uri: redirect.clone(),
            challenge,
            expires_at: until,
            spent: false,
        },
    );
    drop(vault);
    core.request_log.update_counts(|counts| counts.authorizations += 1);
    redirect_back(core, request, &redirect, json!({"code": given}))
}

/// Redirects to the client, with the parameters of every response (RFC 9207: of errors as well).
pub(super) fn redirect_back(
    core: &AuthCore,
    request: &AuthRequest,
    redirect: &str,
    mut members: Value,
) -> EndpointResponse {
    if let Some(state) = request.field("state") {
        members["state"] = json!(state);
    }
    if core.script().iss {
        members["iss"] = json!(core.issuer_at(&request.origin));
    }
    EndpointResponse::Redirect(redirect.into(), members)
}

/// Returns a page with a form that has these hidden fields and two buttons.
pub(super) fn form_page(
    action: &str,
    title: &str,
    text: &str,
    fields: &[(&str, &str)],
    account: &str,
) -> String {
    let mut hidden = String::new();
    for (name, value) in fields {
        let _ = write!(
            hidden,
            r#"<input type="hidden" name="{}" value="{}">"#,
            escape_html(name),
            escape_html(value)
        );
    }
    format!(
        r#"<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><h1>{title}</h1><p>{}</p>
<form method="post" action="{}">{hidden}
<p><label>Account <input name="account" value="{}"></label></p>
<button id="approve" name="decision" value="approve">Allow</button>
<button id="deny" name="decision" value="deny">Deny</button></form></html>"#,
        escape_html(text),
        escape_html(action),
        escape_html(account),
    )
}

pub(super) fn split_words(list: &str) -> Vec<String> {
    list.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn consent_page(request: &AuthRequest, client: &str, scope: &str, account: &str) -> String {
    let fields: Vec<(&str, &str)> =
        request.form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let text = format!("{client} asks for: {scope}");
    form_page(&request.path, "Sign in", &text, &fields, account)
}

/// Returns an error page, for errors that must not go to an unverified redirect URI.
fn error_page(what: &str) -> EndpointResponse {
    EndpointResponse::Html(400, format!("<!doctype html><title>Error</title><h1>{what}</h1>"))
}

/// Records parameters that a client must send although the server tolerates their absence.
fn record_missing_parameters(core: &AuthCore, request: &AuthRequest) {
    for (field, id) in [("state", "AF-03"), ("resource", "AF-02")] {
        if request.field(field).is_none() {
            core.request_log.record_violation(format!("{id}: an authorization request without {field}"));
        }
    }
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
