//! The authorization endpoint: it issues a code at once, or shows a form for a person to decide.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::ask::{Ask, Outcome};
use super::vault::{Code, Family};
use super::{Core, authenticate, jwt};
use crate::SECRET;
use crate::sync::lock;

/// How long a code is valid.
const CODE_LIFETIME: Duration = Duration::from_secs(60);
/// The request header with which a [`Browser`](super::Browser) sends its person's decision.
pub(super) const DECISION: &str = "x-testkit-decision";

pub(super) fn authorize(core: &Core, ask: &Ask) -> Outcome {
    let script = core.script();
    let client = ask.field("client_id").and_then(|id| authenticate::known(core, &lock(&core.vault), id));
    let Some(client) = client else { return wrong("Unknown client") };
    let redirect = match ask.field("redirect_uri") {
        Some(uri) => uri.to_owned(),
        None if client.redirects.len() == 1 => client.redirects[0].clone(),
        None => return wrong("No redirect URI"),
    };
    if !client.may_return_to(&redirect, script.exact_redirects) {
        return wrong("This redirect URI is not registered");
    }
    // From here on errors go to the client's redirect URI.
    let refuse =
        |code: &str, why: &str| back(core, ask, &redirect, json!({"error": code, "error_description": why}));
    if ask.field("response_type") != Some("code") {
        return refuse("unsupported_response_type", "only code");
    }
    if script.pkce && ask.field("code_challenge").is_none() {
        return refuse("invalid_request", "PKCE is needed");
    }
    if ask.field("code_challenge").is_some() && ask.field("code_challenge_method") != Some("S256") {
        return refuse("invalid_request", "only S256");
    }
    note(core, ask);
    let scope = ask.field("scope").unwrap_or(&script.default_scope);
    if script.strict_scopes
        && let Some(unknown) =
            scope.split(' ').find(|scope| !script.scopes.iter().any(|known| known == scope))
    {
        return refuse("invalid_scope", &format!("{unknown} is unknown"));
    }
    let decision = ask.header(DECISION).or(ask.field("decision").filter(|_| ask.method == "POST"));
    match decision {
        Some("deny") => return refuse("access_denied", "the person said no"),
        None if script.interactive => {
            return Outcome::Page(200, form(ask, &client.id, scope, &script.account));
        }
        _ => {}
    }
    let account = ask.field("account").filter(|_| ask.method == "POST").unwrap_or(&script.account);
    let given = format!("{SECRET}code-{}", jwt::random());
    let mut vault = lock(&core.vault);
    let family = vault.open_family(Family {
        client: Some(client.id),
        account: account.into(),
        scope: scope.into(),
        resources: ask.field("resource").map(words).unwrap_or_default(),
        nonce: ask.field("nonce").map(str::to_owned),
        revoked: false,
    });
    let until = core.now() + CODE_LIFETIME;
    let challenge = ask.field("code_challenge").map(str::to_owned);
    vault
        .codes
        .insert(given.clone(), Code { family, redirect: redirect.clone(), challenge, until, spent: false });
    drop(vault);
    core.log.count(|counts| counts.authorizations += 1);
    back(core, ask, &redirect, json!({"code": given}))
}

/// Redirects to the client, with the parameters of every response (RFC 9207: of errors as well).
pub(super) fn back(core: &Core, ask: &Ask, redirect: &str, mut members: Value) -> Outcome {
    if let Some(state) = ask.field("state") {
        members["state"] = json!(state);
    }
    if core.script().iss {
        members["iss"] = json!(core.issuer_at(&ask.origin));
    }
    Outcome::Redirect(redirect.into(), members)
}

/// Returns a page with a form that has these hidden fields and two buttons.
pub(super) fn page(action: &str, title: &str, text: &str, fields: &[(&str, &str)], account: &str) -> String {
    let mut hidden = String::new();
    for (name, value) in fields {
        let _ = write!(hidden, r#"<input type="hidden" name="{}" value="{}">"#, escape(name), escape(value));
    }
    format!(
        r#"<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><h1>{title}</h1><p>{}</p>
<form method="post" action="{}">{hidden}
<p><label>Account <input name="account" value="{}"></label></p>
<button id="approve" name="decision" value="approve">Allow</button>
<button id="deny" name="decision" value="deny">Deny</button></form></html>"#,
        escape(text),
        escape(action),
        escape(account),
    )
}

pub(super) fn words(list: &str) -> Vec<String> {
    list.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn form(ask: &Ask, client: &str, scope: &str, account: &str) -> String {
    let fields: Vec<(&str, &str)> =
        ask.form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let text = format!("{client} asks for: {scope}");
    page(&ask.path, "Sign in", &text, &fields, account)
}

/// Returns an error page, for errors that must not go to an unverified redirect URI.
fn wrong(what: &str) -> Outcome {
    Outcome::Page(400, format!("<!doctype html><title>Error</title><h1>{what}</h1>"))
}

/// Records parameters that a client must send although the server tolerates their absence.
fn note(core: &Core, ask: &Ask) {
    for (field, id) in [("state", "AF-03"), ("resource", "AF-02"), ("code_challenge", "AF-01")] {
        if ask.field(field).is_none() {
            core.log.violation(format!("{id}: an authorization request without {field}"));
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
