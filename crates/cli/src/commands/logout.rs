//! Implements `bowline logout`.

use bowline::Server;
use bowline::auth::store::EncryptedStore;
use bowline::auth::{self, Account, Auth, LogoutOutcome};
use bowline_transport::describe_url_text;
use serde_json::json;

use crate::args::LogoutArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, Report};
use crate::interrupt::Interrupt;
use crate::logins::{LoginLookup, server_for_login};
use crate::print::units;
use crate::settings::Settings;

/// A login to end.
struct LogoutTarget {
    /// The server that the login is for.
    server: Server,
    /// The login. `None` if none is listed: then it is looked up under the server's own name.
    login: Option<Account>,
}

pub(super) async fn run(args: LogoutArgs, settings: &Settings) -> Outcome {
    let LogoutArgs { servers: typed, all } = args;
    let logins = settings.login_settings();
    let kept = logins.open_store().await?;
    let auth = logins.auth_with(&kept);
    let accounts = list_accounts(&kept.store).await?;
    let endings = if all {
        accounts.iter().map(|login| target_for(login, settings)).collect::<Outcome<Vec<_>>>()?
    } else {
        let each = typed.iter().map(|typed| find_targets(typed, &accounts, &auth, settings));
        each.collect::<Outcome<Vec<_>>>()?.into_iter().flatten().collect()
    };
    if all && endings.is_empty() {
        settings.printer.note("no logins are stored");
    }
    let trouble = log_out_all(&endings, &auth, settings).await?;
    let left = list_accounts(&kept.store).await?;
    match trouble {
        Some(trouble) => Err(trouble),
        None if all && !left.is_empty() => Err(remaining_logins_failure(&left)),
        None => {
            for login in left.iter().filter(|login| typed.contains(&login.server)) {
                let again = settings.command_line.format_command(["logout", &login.server]);
                settings.printer.note(&format!(
                    "another login is stored under `{}`, for {}: run `{again}` again to end it",
                    login.server,
                    describe_url_text(&login.url)
                ));
            }
            Ok(Exit::Ok)
        }
    }
}

/// Ends each login, even if another one fails, and returns the first failure.
async fn log_out_all(endings: &[LogoutTarget], auth: &Auth, settings: &Settings) -> Outcome<Option<Failure>> {
    let mut interrupt = Interrupt::listen();
    let (mut told, mut trouble) = (Vec::new(), None);
    for ending in endings {
        let outcome = tokio::select! {
            outcome = log_out(auth, ending) => outcome,
            exit = interrupt.next() => return Err(Failure::Signal(exit)),
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(failure) => {
                trouble.get_or_insert(failure);
                continue;
            }
        };
        let name = &ending.server.name;
        let (kind, text, why) = describe_outcome(&outcome, name);
        if settings.printer.is_json() {
            let url = ending.login.as_ref().map(|login| describe_url_text(&login.url));
            told.push(json!({ "server": name, "url": url, "outcome": kind, "why": why }));
        } else {
            settings.printer.write_text(&text)?;
        }
    }
    if settings.printer.is_json() {
        settings.printer.write_json(&json!({ "logged_out": told }).to_string())?;
    }
    Ok(trouble)
}

async fn log_out(auth: &Auth, ending: &LogoutTarget) -> Outcome<LogoutOutcome> {
    let LogoutTarget { server, login } = ending;
    let Some(identity) = auth.identity(server) else { return Ok(LogoutOutcome::NotLoggedIn) };
    let outcome = match login {
        Some(login) => identity.logout_account(login).await,
        None => identity.logout().await,
    };
    outcome.map_err(|error| Failure::auth(&error, server))
}

/// Returns the logins that `typed` refers to: that of the server as configured, or older ones under
/// that name.
fn find_targets(
    typed: &str,
    accounts: &[Account],
    auth: &Auth,
    settings: &Settings,
) -> Outcome<Vec<LogoutTarget>> {
    let LoginLookup { server, logins } = LoginLookup::find(typed, accounts, auth, settings);
    match &*logins {
        [] => Ok(vec![LogoutTarget { server: server?, login: None }]),
        [_, _, ..] if typed.contains("://") => Err(Failure::usage_hint(
            format!(
                "{} are stored for {typed}, each with its own query",
                units::count(logins.len(), "login")
            ),
            "type the whole URL of the one to end",
        )),
        logins => logins.iter().map(|login| target_for(login, settings)).collect(),
    }
}

fn target_for(login: &Account, settings: &Settings) -> Outcome<LogoutTarget> {
    Ok(LogoutTarget { server: server_for_login(login, settings)?, login: Some(login.clone()) })
}

async fn list_accounts(safe: &EncryptedStore) -> Outcome<Vec<Account>> {
    auth::accounts(safe).await.map_err(|error| Failure::login_store(&error))
}

/// Builds the failure for `--all` when some logins are still stored.
fn remaining_logins_failure(left: &[Account]) -> Failure {
    let names: Vec<&str> = left.iter().map(|login| &*login.server).collect();
    let count = units::count(left.len(), "login");
    Report::new(Exit::Login, format!("{count} still stored: {}", names.join(", "))).into()
}

fn describe_outcome<'a>(outcome: &'a LogoutOutcome, name: &str) -> (&'static str, String, Option<&'a str>) {
    match outcome {
        LogoutOutcome::NotLoggedIn => ("nothing", format!("{name}: there was no login"), None),
        LogoutOutcome::Revoked => ("revoked", format!("{name}: logged out; the token was revoked"), None),
        LogoutOutcome::RevocationUnsupported => (
            "forgotten",
            format!(
                "{name}: logged out locally. The server cannot revoke tokens; this one stays valid until it expires"
            ),
            None,
        ),
        LogoutOutcome::RevocationFailed(why) => (
            "untold",
            format!("{name}: logged out locally. The token could not be revoked: {why}"),
            Some(why),
        ),
        _ => ("forgotten", format!("{name}: logged out locally"), None),
    }
}
