//! `bowline logout`

use bowline::auth::{self, Account, Auth, LoggedOut};
use bowline::config::{self, Server, Transport};
use serde_json::json;

use crate::args::{LogoutArgs, TargetArgs};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::settings::Settings;

pub(super) async fn run(args: LogoutArgs, settings: &Settings) -> Outcome {
    let LogoutArgs { servers: typed, all } = args;
    let logins = settings.logins();
    let kept = logins.open().await?;
    let auth = logins.with(&kept);
    let accounts = auth::accounts(&kept.safe).await.map_err(|error| Failure::kept(&error))?;
    let servers = if all {
        let each = accounts.iter().map(|account| of(account, settings));
        each.collect::<Outcome<Vec<Server>>>()?
    } else {
        let each = typed.iter().map(|typed| named(typed, &accounts, settings));
        each.collect::<Outcome<Vec<Server>>>()?
    };
    if all && servers.is_empty() {
        settings.printer.note("no logins are kept");
    }
    let mut interrupt = Interrupt::listen();
    let mut told = Vec::new();
    for server in &servers {
        let outcome = tokio::select! {
            outcome = leave(&auth, server) => outcome?,
            exit = interrupt.next() => return Err(Failure::Signal(exit)),
        };
        let (kind, text, why) = words(&outcome, &server.name);
        if settings.printer.is_json() {
            told.push(json!({ "server": server.name, "outcome": kind, "why": why }));
        } else {
            settings.printer.text(&text)?;
        }
    }
    if settings.printer.is_json() {
        settings.printer.json(&json!({ "logged_out": told }).to_string())?;
    }
    Ok(Exit::Ok)
}

async fn leave(auth: &Auth, server: &Server) -> Outcome<LoggedOut> {
    let Some(identity) = auth.identity(server) else { return Ok(LoggedOut::Nothing) };
    identity.logout().await.map_err(|error| Failure::auth(&error, server))
}

/// The server that was typed: a configured one, or one that was when the login was made.
fn named(typed: &str, accounts: &[Account], settings: &Settings) -> Outcome<Server> {
    let configured = settings.server(Some(typed), TargetArgs::default());
    match (configured, accounts.iter().find(|account| account.server == typed)) {
        (Err(_), Some(account)) => of(account, settings),
        (configured, _) => configured,
    }
}

/// The server of a login. If its entry is gone, what is known of the login is enough to end it.
fn of(account: &Account, settings: &Settings) -> Outcome<Server> {
    let same = |server: &Server| match &server.transport {
        Transport::Http(http) | Transport::Sse(http) => {
            crate::logins::shown(http) == account.url && http.auth.account == account.label
        }
        Transport::Stdio(_) => false,
    };
    if let Ok(server) = settings.server(Some(&account.server), TargetArgs::default())
        && same(&server)
    {
        return Ok(server);
    }
    let label = config::Auth { account: account.label.clone(), ..config::Auth::default() };
    let server = Server::http(&account.server, &account.url).and_then(|server| server.with_auth(label));
    server.map_err(|why| Failure::usage(format!("the login of `{}` names no server: {why}", account.server)))
}

fn words<'a>(outcome: &'a LoggedOut, name: &str) -> (&'static str, String, Option<&'a str>) {
    match outcome {
        LoggedOut::Nothing => ("nothing", format!("{name}: there was no login"), None),
        LoggedOut::Revoked => ("revoked", format!("{name}: logged out, there and here"), None),
        LoggedOut::Forgotten => (
            "forgotten",
            format!(
                "{name}: forgotten here; who gave the login out has no way to end it, so it ends by itself"
            ),
            None,
        ),
        LoggedOut::Untold(why) => (
            "untold",
            format!("{name}: forgotten here; who gave the login out could not be told: {why}"),
            Some(why),
        ),
    }
}
