//! Owns the one question that a shell's completion asks a server: what the value of a prompt's argument could be
//! (CP-03). It has as long as a person waits without wondering.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline::{Client, Reference};

use super::Candidate;
use crate::args::TargetArgs;
use crate::session;
use crate::settings::Settings;

/// From the key press to the answer, with the server's start in it.
const PATIENCE: Duration = Duration::from_millis(1500);
/// For the server to be left in good order; after that it is left all the same.
const LEAVING: Duration = Duration::from_millis(300);

/// What the server suggests. A server that is not trusted, not configured or not quick suggests nothing.
pub(super) async fn suggested(
    settings: &Settings,
    server: &str,
    prompt: &str,
    argument: &str,
    value: &str,
    given: &[(&str, &str)],
) -> Vec<Candidate> {
    // A URL is somebody's finger on the keyboard: it may not be finished.
    if server.contains("://") {
        return Vec::new();
    }
    let Ok(mut server) = settings.server(Some(server), TargetArgs::default()) else { return Vec::new() };
    server.hooks.clear();
    let context: BTreeMap<String, String> =
        given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let auth = settings.auth(&server);
    let Ok(client) = session::builder(server, &settings.folders(), auth).open() else {
        return Vec::new();
    };
    let asked = ask(&client, prompt, argument, value, &context);
    let values = tokio::time::timeout(PATIENCE, asked).await.unwrap_or_default();
    let _ = tokio::time::timeout(LEAVING, client.close()).await;
    let whole = |value: Box<str>| Candidate { value: format!("{argument}={value}"), about: String::new() };
    values.into_iter().map(whole).collect()
}

async fn ask(
    client: &Client,
    prompt: &str,
    argument: &str,
    value: &str,
    context: &BTreeMap<String, String>,
) -> Vec<Box<str>> {
    if client.ready().await.is_err() {
        return Vec::new();
    }
    let found = client.complete(&Reference::Prompt(prompt), argument, value, context).await;
    found.map(|found| found.values).unwrap_or_default()
}
