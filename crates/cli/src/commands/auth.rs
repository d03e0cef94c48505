//! Implements `bowline auth`: lists logins, and dispatches to export, import and the client
//! document.

mod transfer;

use std::time::SystemTime;

use bowline::{Server, auth};
use bowline_transport::describe_url;
use serde_json::{Value, json};
use url::Url;

use crate::args::{AuthArgs, AuthVerb, DocumentArgs};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::print::accounts::{self, ServerIdentity};
use crate::server_auth::header_auth;
use crate::settings::Settings;

pub(super) async fn run(args: AuthArgs, settings: &Settings) -> Outcome {
    let AuthArgs { verb } = args;
    match verb {
        None => list_logins(settings).await,
        Some(AuthVerb::Export(args)) => transfer::export(args, settings).await,
        Some(AuthVerb::Import(args)) => transfer::import(args, settings).await,
        Some(AuthVerb::Document(args)) => print_client_document(args, settings),
    }
}

async fn list_logins(settings: &Settings) -> Outcome {
    let printer = &settings.printer;
    let kept = settings.login_settings().open_store().await?;
    let logins = auth::accounts(&kept.store).await.map_err(|error| Failure::login_store(&error))?;
    let headers = header_identities(settings);
    let all: Vec<ServerIdentity> =
        logins.into_iter().map(|login| ServerIdentity::Login(Box::new(login))).chain(headers).collect();
    if printer.is_json() {
        let logins: Vec<Value> = all.iter().map(ServerIdentity::to_json).collect();
        printer.write_json(&json!({ "logins": logins, "kept": accounts::store_json(&kept) }).to_string())?;
        return Ok(Exit::Ok);
    }
    printer.write_layout(&accounts::render(&all, SystemTime::now(), printer))?;
    if all.is_empty() {
        printer.note("no logins are stored; `bowline login SERVER` creates one");
    }
    printer.note(&format!("logins are stored {}", accounts::describe_store(&kept)));
    kept.notes.iter().for_each(|note| printer.note(note));
    Ok(Exit::Ok)
}

/// Returns the configured servers that authenticate by headers. Unreadable files contribute none.
fn header_identities(settings: &Settings) -> Vec<ServerIdentity> {
    let Ok(layers) = settings.layers() else { return Vec::new() };
    let of = |server: &Server| {
        let http = server.transport.http()?;
        let (server, url) = (server.name.clone(), describe_url(&http.url));
        Some(ServerIdentity::Headers { server, url, how: header_auth(http)? })
    };
    let names = layers.server_names();
    let servers = names.iter().filter_map(|name| match layers.find_server(name) {
        bowline_settings::ServerLookup::Server(server, _) => of(server),
        _ => None,
    });
    servers.collect()
}

fn print_client_document(args: DocumentArgs, settings: &Settings) -> Outcome {
    let DocumentArgs { url } = args;
    let url = Url::parse(&url).map_err(|error| Failure::usage(format!("the URL cannot be used: {error}")))?;
    let document = auth::client_metadata_document(&settings.login_settings().app, &url)
        .map_err(|error| Failure::login_store(&error))?;
    settings.printer.write_text(&crate::print::json::pretty(&document.to_string()))?;
    Ok(Exit::Ok)
}
