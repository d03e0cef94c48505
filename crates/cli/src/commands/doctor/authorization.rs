//! The checks of authorization, step by step: what the server answers without credentials, its
//! metadata, the authorization server, PKCE, DPoP, the client, and the login itself.

use std::time::{Duration, Instant, SystemTime};

use bowline::auth::{
    Account, AccountState, AuthError, AuthErrorKind, ClientOrigin, Identity, missing_scopes,
};
use bowline::config::Grant;
use bowline::{Cause, Fault};
use bowline_auth::{AuthorizationExamination, ChallengeReply, ResourceFacts, TokenBinding};
use bowline_transport::describe_url_text;
use tokio::time::timeout;

use super::check::{Blame, CheckLog, Finding};
use super::default_endpoints;
use super::subject::Subject;
use crate::exit::Exit;
use crate::print::clock;
use crate::server_auth::{HeaderAuth, header_auth};
use crate::suggested_command::with_scopes;

/// How long reading the stored login may take: a keyring may ask a person to unlock it.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a connection failed for want of a valid login.
pub(super) fn is_about_login(fault: &Fault) -> bool {
    matches!(fault.cause, Cause::LoginRequired { .. } | Cause::LoginUnavailable | Cause::StoreUnavailable)
}

/// Examines the login of a connection that failed with `fault`, or that was made.
pub(super) async fn check(
    identity: Option<&Identity>,
    fault: Option<&Fault>,
    subject: &Subject<'_>,
    log: &CheckLog,
) {
    let begun = Instant::now();
    if let Some(fault) = fault
        && let Some(finding) = header_finding(fault, subject)
    {
        log.add("login", begun, finding);
        return;
    }
    let Some(identity) = identity else {
        log.add("login", begun, Finding::ok("the server requires none"));
        return;
    };
    let account = match timeout(STORE_TIMEOUT, identity.account()).await {
        Ok(account) => account,
        Err(_) => Err(AuthError::new(AuthErrorKind::Store, "the store does not answer")),
    };
    if fault.is_none() && matches!(account, Ok(None)) {
        log.add("login", begun, Finding::ok("the server requires none"));
        return;
    }
    let read = begun.elapsed();
    let examination = identity.examine().await;
    let http = subject.server.transport.http().filter(|_| fault.is_some() && matches!(account, Ok(None)));
    let begun = Instant::now();
    let is_without_logins = match http {
        Some(http) => default_endpoints::are_missing(&examination, http).await,
        None => false,
    };
    let is_discovered = if is_without_logins {
        add_described_steps(&examination, subject, log);
        log.add("authorization_server", begun, no_login_method_finding(subject))
    } else {
        add_steps(&examination, fault.is_some(), subject, log)
    };
    let mut finding = login_finding(&account, fault, SystemTime::now(), subject);
    if !is_discovered && matches!(account, Ok(None)) {
        finding = Finding::skipped("no login can be made before that is fixed");
    }
    log.add_timed("login", read, finding);
}

/// Records what the server itself says about logins, which is well.
fn add_described_steps(examination: &AuthorizationExamination, subject: &Subject<'_>, log: &CheckLog) {
    let AuthorizationExamination { challenge, resource, .. } = examination;
    if let Ok(reply) = &challenge.outcome {
        log.add_timed("challenge", challenge.duration, challenge_finding(reply));
    }
    let found = resource_finding(resource.outcome.as_ref(), subject);
    log.add_timed("resource_metadata", resource.duration, found);
}

/// Returns the finding for a server that wants credentials, and has nothing that a login could use.
fn no_login_method_finding(subject: &Subject<'_>) -> Finding {
    let seen = "requires authentication but advertises no login method";
    let text =
        "if it takes a key or a token, send it: -H 'Authorization: Bearer …', or `headers` in its entry";
    Finding::failed(Blame::Server, Exit::Login, seen).fix(text).run(subject.edit_command())
}

/// Records the steps before a login. Returns whether a login could be made.
fn add_steps(
    examination: &AuthorizationExamination,
    is_needed: bool,
    subject: &Subject<'_>,
    log: &CheckLog,
) -> bool {
    let AuthorizationExamination { challenge, resource, issuer, pkce, dpop, client, .. } = examination;
    // What works now works although a step would fail.
    let weigh = |finding: Finding| if is_needed { finding } else { finding.without_effect() };
    let mut passed = true;
    let mut add = |name, duration, finding| passed &= log.add_timed(name, duration, weigh(finding));
    if let Ok(reply) = &challenge.outcome {
        add("challenge", challenge.duration, challenge_finding(reply));
    }
    add("resource_metadata", resource.duration, resource_finding(resource.outcome.as_ref(), subject));
    if let Some(issuer) = issuer {
        let found = issuer.outcome.as_ref().map(|discovery| discovery.metadata.issuer.as_str());
        add("authorization_server", issuer.duration, issuer_finding(found, subject));
    }
    if let Some(pkce) = pkce {
        let finding = match &pkce.outcome {
            Ok(()) => Finding::ok("codes are protected (S256)"),
            Err(error) => error_finding(error, Blame::AuthorizationServer, subject),
        };
        add("pkce", pkce.duration, finding);
    }
    if let Some(dpop) = dpop {
        add("dpop", dpop.duration, dpop_finding(dpop.outcome.as_ref(), is_needed, subject));
    }
    if let Some(client) = client {
        add("client", client.duration, client_finding(client.outcome.as_ref(), subject));
    }
    passed
}

fn challenge_finding(reply: &ChallengeReply) -> Finding {
    match reply {
        ChallengeReply::Refused { names_metadata, scopes } => {
            let named = if *names_metadata { "names its metadata" } else { "names no metadata" };
            let scopes =
                if scopes.is_empty() { String::new() } else { format!(", scopes {}", scopes.join(" ")) };
            Finding::ok(format!("without a login the server answers 401 and {named}{scopes}"))
        }
        ChallengeReply::Accepted => Finding::ok("the server accepts requests without a login"),
        _ => Finding::ok("the server does not answer 401 to a request without a login"),
    }
}

fn resource_finding(found: Result<&Option<ResourceFacts>, &AuthError>, subject: &Subject<'_>) -> Finding {
    match found {
        Ok(Some(facts)) => {
            let issuers: Vec<String> =
                facts.authorization_servers.iter().map(|issuer| describe_url_text(issuer)).collect();
            let resource = describe_url_text(&facts.resource);
            Finding::ok(format!("for {resource}, tokens of {}", issuers.join(", ")))
        }
        Ok(None) => Finding::ok("the server publishes none, as in 2025-03-26"),
        Err(error) => error_finding(error, Blame::Server, subject),
    }
}

fn issuer_finding(found: Result<&str, &AuthError>, subject: &Subject<'_>) -> Finding {
    match found {
        Ok(issuer) => Finding::ok(describe_url_text(issuer)),
        Err(error) => error_finding(error, Blame::AuthorizationServer, subject),
    }
}

/// Returns the finding for how tokens are bound. `is_needed` says that the connection failed for want of a login.
fn dpop_finding(found: Result<&TokenBinding, &AuthError>, is_needed: bool, subject: &Subject<'_>) -> Finding {
    let unannounced =
        "the server asks for tokens bound to a key (DPoP), which its authorization server does not announce";
    match found {
        Ok(TokenBinding::Key) => Finding::ok("tokens are bound to a key of this machine"),
        Ok(TokenBinding::Unannounced) if is_needed => {
            Finding::warning(Blame::AuthorizationServer, unannounced).fix(
                "if the server refuses other tokens, who runs the authorization server has to offer DPoP",
            )
        }
        Ok(_) => Finding::ok(unannounced),
        Err(error) => error_finding(error, Blame::AuthorizationServer, subject),
    }
}

fn client_finding(found: Result<&ClientOrigin, &AuthError>, subject: &Subject<'_>) -> Finding {
    match found {
        Ok(ClientOrigin::Configured) => Finding::ok("the one of the configuration"),
        Ok(ClientOrigin::Document) => Finding::ok("named by its metadata document"),
        Ok(ClientOrigin::Registered) => Finding::ok("can be registered there"),
        Ok(_) => Finding::ok("known, but not where from"),
        Err(error) => error_finding(error, Blame::AuthorizationServer, subject),
    }
}

/// Returns the finding for a step that failed. `server` is to blame for what it answers.
fn error_finding(error: &AuthError, server: Blame, subject: &Subject<'_>) -> Finding {
    let (blame, exit) = match error.kind {
        AuthErrorKind::Setup | AuthErrorKind::PlainHttp => (Blame::You, Exit::Usage),
        AuthErrorKind::Command | AuthErrorKind::Declined | AuthErrorKind::LoginNeeded => {
            (Blame::You, Exit::Login)
        }
        AuthErrorKind::Store => (Blame::Machine, Exit::Usage),
        AuthErrorKind::Unavailable => (server, Exit::Connection),
        _ => (server, Exit::Login),
    };
    let finding = Finding::failed(blame, exit, error.what.clone());
    match (&error.hint, error.kind) {
        (Some(hint), _) => finding.fix(hint.clone()).run(subject.edit_command()),
        (None, AuthErrorKind::Unavailable) => finding.fix("try again later").run(subject.doctor_command(&[])),
        (None, AuthErrorKind::Store) => finding
            .fix("see where logins are stored; nothing there was changed")
            .run(subject.command_line.format_command(["auth"])),
        (None, _) if blame == server => finding.fix("this is not safe to go on with: ask who runs it"),
        (None, _) => finding.fix("correct `auth` in its entry").run(subject.edit_command()),
    }
}

/// Returns the finding for a server that has no logins, because its entry has credentials.
fn header_finding(fault: &Fault, subject: &Subject<'_>) -> Option<Finding> {
    if !matches!(fault.cause, Cause::LoginRequired { .. }) {
        return None;
    }
    let http = subject.server.transport.http()?;
    let (seen, text) = match (header_auth(http), &http.auth.grant) {
        (Some(HeaderAuth::Fixed), _) => (
            "the server refuses the Authorization header that it is sent",
            "has the token expired, and is it meant for this server? Replace it",
        ),
        (Some(HeaderAuth::Command), _) => (
            "the server refuses the headers that the `headers_command` of its entry printed",
            "run that command directly, and see whether what it prints is valid",
        ),
        (None, Grant::Off) => (
            "the server requires a login, and its entry sets `auth = false`",
            "remove that to log in, or set a token under `headers`",
        ),
        _ => return None,
    };
    Some(Finding::failed(Blame::You, Exit::Login, seen).fix(text).run(subject.edit_command()))
}

fn login_finding(
    account: &Result<Option<Account>, AuthError>,
    fault: Option<&Fault>,
    now: SystemTime,
    subject: &Subject<'_>,
) -> Finding {
    let login = subject.login_command();
    let account = match account {
        Ok(account) => account.as_ref(),
        Err(error) => return error_finding(error, Blame::Machine, subject),
    };
    let Some(fault) = fault else { return accepted_finding(account, now, login) };
    let note = fault.evidence.note.as_deref();
    match &fault.cause {
        Cause::LoginRequired { code: 403, challenge } => {
            let scopes = missing_scopes(challenge).unwrap_or_default();
            let seen = if scopes.is_empty() {
                "the server denies access to this login".to_owned()
            } else {
                format!("the login lacks what the server asks for: {}", scopes.join(" "))
            };
            Finding::failed(Blame::You, Exit::Login, seen)
                .fix("log in with the scopes that are missing")
                .run(login.map(|login| with_scopes(&login, &scopes)))
        }
        Cause::LoginRequired { .. } if is_machine_grant(subject) => {
            let seen = format!("no token: {}", note.unwrap_or("the server refuses the one that was issued"));
            Finding::failed(Blame::You, Exit::Login, seen)
                .fix("correct `auth` in its entry: no person logs in to this server")
                .run(subject.edit_command())
        }
        Cause::LoginRequired { .. } => refused_finding(account, login, subject),
        Cause::StoreUnavailable => {
            let seen =
                format!("the store of logins cannot be used: {}", note.unwrap_or("no reason was given"));
            Finding::failed(Blame::Machine, Exit::Usage, seen)
                .fix("see where logins are stored; nothing there was changed")
                .run(subject.command_line.format_command(["auth"]))
        }
        _ => {
            let seen = format!("the login could not be refreshed: {}", note.unwrap_or("no reason was given"));
            Finding::failed(Blame::AuthorizationServer, Exit::Connection, seen)
                .fix("try again later; the stored login is unchanged")
                .run(subject.doctor_command(&[]))
        }
    }
}

fn is_machine_grant(subject: &Subject<'_>) -> bool {
    let grant = subject.server.transport.http().map(|http| &http.auth.grant);
    matches!(grant, Some(Grant::ClientCredentials | Grant::Enterprise(_) | Grant::Workload(_)))
}

/// The server accepted the connection.
fn accepted_finding(account: Option<&Account>, now: SystemTime, login: Option<String>) -> Finding {
    let Some(account) = account else { return Finding::ok("the server requires none") };
    let who = account.who.as_ref().map(|who| format!(" as {who}")).unwrap_or_default();
    match &account.state {
        AccountState::Ok => {
            let left = account.expires_at.and_then(|end| end.duration_since(now).ok());
            let left = left.map(|left| format!("; the token ends in {}", clock::format_span(left)));
            let refreshed = if account.refreshable { ", and is refreshed" } else { "" };
            Finding::ok(format!("logged in{who}{}{refreshed}", left.unwrap_or_default()))
        }
        AccountState::Expired => {
            Finding::ok(format!("logged in{who}; the token is refreshed when it is needed"))
        }
        AccountState::RefreshFailing(why) => {
            Finding::warning(Blame::AuthorizationServer, format!("the token cannot be refreshed: {why}"))
                .fix("it is tried again; if that stays, log in again")
                .run(login)
        }
        AccountState::NeedsLogin(why) => {
            Finding::warning(Blame::You, format!("a new login is needed: {why}")).fix("log in").run(login)
        }
        _ => Finding::ok(format!("logged in{who}")),
    }
}

/// The server refused the connection with 401.
fn refused_finding(account: Option<&Account>, login: Option<String>, subject: &Subject<'_>) -> Finding {
    let by = |blame, seen: String| Finding::failed(blame, Exit::Login, seen);
    match account.map(|account| &account.state) {
        None => by(Blame::You, "you are not logged in".to_owned()).fix("log in").run(login),
        Some(AccountState::NeedsLogin(why)) => {
            by(Blame::You, format!("a new login is needed: {why}")).fix("log in").run(login)
        }
        Some(AccountState::RefreshFailing(why)) => {
            by(Blame::AuthorizationServer, format!("the token cannot be refreshed: {why}"))
                .fix("try again later; the stored login is unchanged")
                .run(subject.doctor_command(&[]))
        }
        Some(_) if account.is_some_and(|account| !account.refreshable) => {
            let seen =
                "the server refuses the token, and the authorization server gave none to refresh it with";
            by(Blame::You, seen.to_owned())
                .fix("log in again; if that does not help, ask who runs the server")
                .run(login)
        }
        Some(_) => by(Blame::Server, "the server refuses the token that was issued for it".to_owned())
            .fix("log in again; if that does not help, ask who runs the server")
            .run(login),
    }
}

#[cfg(test)]
mod tests {
    use bowline::Server;
    use bowline_config::TransportSettings as _;

    use super::*;
    use crate::commands::doctor::subject::tests::with_subject;

    fn docs() -> Server {
        Server::http("docs", "https://docs.example/mcp").build().unwrap()
    }

    #[test]
    fn kind_of_an_error_decides_whose_fault_it_is() {
        with_subject(&docs(), |subject| {
            let of = |kind| {
                let error = AuthError::new(kind, "what");
                let finding = error_finding(&error, Blame::AuthorizationServer, subject);
                (finding.blame.unwrap(), finding.exit)
            };
            assert_eq!(of(AuthErrorKind::Setup), (Blame::You, Exit::Usage));
            assert_eq!(of(AuthErrorKind::PlainHttp), (Blame::You, Exit::Usage));
            assert_eq!(of(AuthErrorKind::Store), (Blame::Machine, Exit::Usage));
            assert_eq!(of(AuthErrorKind::Unavailable), (Blame::AuthorizationServer, Exit::Connection));
            assert_eq!(of(AuthErrorKind::Untrusted), (Blame::AuthorizationServer, Exit::Login));
        });
    }

    #[test]
    fn missing_scopes_are_in_the_command() {
        with_subject(&docs(), |subject| {
            let challenge = vec![r#"Bearer error="insufficient_scope", scope="docs:write""#.to_owned()];
            let fault = Fault::new(Cause::LoginRequired { code: 403, challenge });
            let finding = login_finding(&Ok(None), Some(&fault), SystemTime::now(), subject);
            let command = finding.remedy.unwrap().command;
            assert_eq!(command.as_deref(), Some("bowline login docs --scope docs:write"));
        });
    }

    #[test]
    fn credentials_of_the_entry_are_no_login() {
        let refused = Fault::new(Cause::LoginRequired { code: 401, challenge: vec![] });
        let fixed = docs().with_header("authorization", "Bearer x").unwrap();
        let finding = with_subject(&fixed, |subject| header_finding(&refused, subject)).unwrap();
        assert_eq!(finding.remedy.unwrap().command.as_deref(), Some("bowline edit"));
        assert_eq!(with_subject(&docs(), |subject| header_finding(&refused, subject)), None);
    }
}
