//! Implements `bowline logout`.

use bowline::auth::store::EncryptedStore;
use bowline::auth::{self, Account, Auth, LogoutOutcome};
use bowline::config::Server;
use serde_json::json;

use crate::again;
use crate::args::LogoutArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, Report};
use crate::interrupt::Interrupt;
use crate::logins::{Meant, server_of};
use crate::print::units;
use crate::settings::Settings;

/// A login to end.
struct Ending {
    /// The server that the login is for.
    server: Server,
    /// The login. `None` if none is listed: then it is looked up under the server's own name.
    login: Option<Account>,
}

pub(super) async fn run(args: LogoutArgs, settings: &Settings) -> Outcome {
    let LogoutArgs { servers: typed, all } = args;
    let logins = settings.logins();
    let kept = logins.open().await?;
    let auth = logins.with(&kept);
    let accounts = listed(&kept.store).await?;
    let endings = if all {
        accounts.iter().map(|login| of(login, settings)).collect::<Outcome<Vec<_>>>()?
    } else {
        let each = typed.iter().map(|typed| meant(typed, &accounts, &auth, settings));
        each.collect::<Outcome<Vec<_>>>()?.into_iter().flatten().collect()
    };
    if all && endings.is_empty() {
        settings.printer.note("no logins are kept");
    }
    let trouble = end(&endings, &auth, settings).await?;
    let left = listed(&kept.store).await?;
    match trouble {
        Some(trouble) => Err(trouble),
        None if all && !left.is_empty() => Err(remaining(&left)),
        None => {
            for login in left.iter().filter(|login| typed.contains(&login.server)) {
                let again = again::command(["logout", &login.server]);
                settings.printer.note(&format!(
                    "another login is kept under `{}`, for {}: `{again}` once more ends it",
                    login.server, login.url
                ));
            }
            Ok(Exit::Ok)
        }
    }
}

/// Ends each login, even if another one fails, and returns the first failure.
async fn end(endings: &[Ending], auth: &Auth, settings: &Settings) -> Outcome<Option<Failure>> {
    let mut interrupt = Interrupt::listen();
    let (mut told, mut trouble) = (Vec::new(), None);
    for ending in endings {
        let outcome = tokio::select! {
            outcome = leave(auth, ending) => outcome,
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
        let (kind, text, why) = words(&outcome, name);
        if settings.printer.is_json() {
            let url = ending.login.as_ref().map(|login| &login.url);
            told.push(json!({ "server": name, "url": url, "outcome": kind, "why": why }));
        } else {
            settings.printer.text(&text)?;
        }
    }
    if settings.printer.is_json() {
        settings.printer.json(&json!({ "logged_out": told }).to_string())?;
    }
    Ok(trouble)
}

async fn leave(auth: &Auth, ending: &Ending) -> Outcome<LogoutOutcome> {
    let Ending { server, login } = ending;
    let Some(identity) = auth.identity(server) else { return Ok(LogoutOutcome::NotLoggedIn) };
    let outcome = match login {
        Some(login) => identity.logout_account(login).await,
        None => identity.logout().await,
    };
    outcome.map_err(|error| Failure::auth(&error, server))
}

/// Returns the logins that `typed` refers to: that of the server as configured, or older ones under
/// that name.
fn meant(typed: &str, kept: &[Account], auth: &Auth, settings: &Settings) -> Outcome<Vec<Ending>> {
    let Meant { server, logins } = Meant::by(typed, kept, auth, settings);
    match &*logins {
        [] => Ok(vec![Ending { server: server?, login: None }]),
        [_, _, ..] if typed.contains("://") => Err(Failure::usage_hint(
            format!(
                "{} are kept for {typed}, each with a query of its own",
                units::count(logins.len(), "login")
            ),
            "type the whole URL of the one to end",
        )),
        logins => logins.iter().map(|login| of(login, settings)).collect(),
    }
}

fn of(login: &Account, settings: &Settings) -> Outcome<Ending> {
    Ok(Ending { server: server_of(login, settings)?, login: Some(login.clone()) })
}

async fn listed(safe: &EncryptedStore) -> Outcome<Vec<Account>> {
    auth::accounts(safe).await.map_err(|error| Failure::kept(&error))
}

/// Builds the failure for `--all` when some logins are still stored.
fn remaining(left: &[Account]) -> Failure {
    let names: Vec<&str> = left.iter().map(|login| &*login.server).collect();
    let count = units::count(left.len(), "login");
    Report::new(Exit::Login, format!("{count} still kept: {}", names.join(", "))).into()
}

fn words<'a>(outcome: &'a LogoutOutcome, name: &str) -> (&'static str, String, Option<&'a str>) {
    match outcome {
        LogoutOutcome::NotLoggedIn => ("nothing", format!("{name}: there was no login"), None),
        LogoutOutcome::Revoked => ("revoked", format!("{name}: logged out, there and here"), None),
        LogoutOutcome::RevocationUnsupported => (
            "forgotten",
            format!(
                "{name}: forgotten here; who gave the login out has no way to end it, so it ends by itself"
            ),
            None,
        ),
        LogoutOutcome::RevocationFailed(why) => (
            "untold",
            format!("{name}: forgotten here; who gave the login out could not be told: {why}"),
            Some(why),
        ),
    }
}
