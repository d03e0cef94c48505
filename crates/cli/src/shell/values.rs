//! Asks a server for the values of a prompt argument: the only request that completion sends. It
//! has to finish while the person still waits.
// CP-03.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline::{Client, Reference};

use super::Candidate;
use crate::args::TargetArgs;
use crate::session;
use crate::settings::Settings;

/// Time from the key press to the answer, including the start of the server.
const COMPLETION_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long closing the connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);

/// Returns the server's suggestions. A server that is untrusted, unknown or slow suggests nothing.
pub(super) async fn suggest_values(
    settings: &Settings,
    server: &str,
    prompt: &str,
    argument: &str,
    value: &str,
    given: &[(&str, &str)],
) -> Vec<Candidate> {
    // A URL may still be incomplete, so it is not contacted.
    if server.contains("://") {
        return Vec::new();
    }
    let Ok(mut server) = settings.resolve_server(Some(server), TargetArgs::default()) else {
        return Vec::new();
    };
    server.hooks.clear();
    let context: BTreeMap<String, String> =
        given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let auth = settings.auth(&server);
    let Ok(client) = session::client_builder(server, &settings.folders(), auth).open() else {
        return Vec::new();
    };
    let asked = fetch_values(&client, prompt, argument, value, &context);
    let values = tokio::time::timeout(COMPLETION_TIMEOUT, asked).await.unwrap_or_default();
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, client.close()).await;
    let whole = |value: Box<str>| Candidate { value: format!("{argument}={value}"), about: String::new() };
    values.into_iter().map(whole).collect()
}

async fn fetch_values(
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
