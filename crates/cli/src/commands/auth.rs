//! Implements `bowline auth`: lists logins, and dispatches to export, import and the client
//! document.

mod transfer;

use std::time::SystemTime;

use bowline::auth;
use bowline::config::{Server, Transport};
use serde_json::{Value, json};
use url::Url;

use crate::args::{AuthArgs, AuthVerb, DocumentArgs};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::logins::{self, own_headers};
use crate::print::accounts::{self, Identity};
use crate::settings::Settings;

pub(super) async fn run(args: AuthArgs, settings: &Settings) -> Outcome {
    let AuthArgs { verb } = args;
    match verb {
        None => list(settings).await,
        Some(AuthVerb::Export(args)) => transfer::export(args, settings).await,
        Some(AuthVerb::Import(args)) => transfer::import(args, settings).await,
        Some(AuthVerb::Document(args)) => document(args, settings),
    }
}

async fn list(settings: &Settings) -> Outcome {
    let printer = &settings.printer;
    let kept = settings.logins().open().await?;
    let logins = auth::accounts(&kept.store).await.map_err(|error| Failure::kept(&error))?;
    let headers = by_headers(settings);
    let all: Vec<Identity> =
        logins.into_iter().map(|login| Identity::Login(Box::new(login))).chain(headers).collect();
    if printer.is_json() {
        let logins: Vec<Value> = all.iter().map(Identity::to_json).collect();
        printer.json(&json!({ "logins": logins, "kept": accounts::place_json(&kept) }).to_string())?;
        return Ok(Exit::Ok);
    }
    printer.layout(&accounts::render(&all, SystemTime::now(), printer))?;
    if all.is_empty() {
        printer.note("no logins are kept; `bowline login SERVER` makes one");
    }
    printer.note(&format!("logins are kept {}", accounts::place(&kept)));
    kept.notes.iter().for_each(|note| printer.note(note));
    Ok(Exit::Ok)
}

/// Returns the configured servers that authenticate by headers. Unreadable files contribute none.
fn by_headers(settings: &Settings) -> Vec<Identity> {
    let Ok(layers) = settings.layers() else { return Vec::new() };
    let of = |server: &Server| match &server.transport {
        Transport::Http(http) | Transport::Sse(http) => Some(Identity::Headers {
            server: server.name.clone(),
            url: logins::shown(http),
            how: own_headers(http)?,
        }),
        Transport::Stdio(_) => None,
    };
    let names = layers.names();
    let servers = names.iter().filter_map(|name| match layers.find(name) {
        crate::settings::files::Found::Server(server, _) => of(server),
        _ => None,
    });
    servers.collect()
}

fn document(args: DocumentArgs, settings: &Settings) -> Outcome {
    let DocumentArgs { url } = args;
    let url = Url::parse(&url).map_err(|error| Failure::usage(format!("the URL cannot be used: {error}")))?;
    let document = auth::client_metadata_document(settings.logins().app(), &url)
        .map_err(|error| Failure::kept(&error))?;
    settings.printer.text(&crate::print::json::pretty(&document.to_string()))?;
    Ok(Exit::Ok)
}
