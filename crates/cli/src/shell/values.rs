//! Asks a server for the values of a prompt argument: the only request that completion sends. It
//! has to finish while the person still waits.
// CP-03.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline::{Client, Reference};

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
    query: PromptValueQuery<'_>,
) -> Vec<String> {
    // A URL may still be incomplete, so it is not contacted.
    if server.contains("://") {
        return Vec::new();
    }
    let Ok(mut server) = settings.resolve_server(Some(server), TargetArgs::default()) else {
        return Vec::new();
    };
    server.hooks.clear();
    let auth = settings.auth(&server);
    let Ok(client) = session::client_builder(server, &settings.folders(), auth).open() else {
        return Vec::new();
    };
    let asked = async {
        if client.ready().await.is_err() {
            return Vec::new();
        }
        query.fetch(&client).await
    };
    let values = tokio::time::timeout(COMPLETION_TIMEOUT, asked).await.unwrap_or_default();
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, client.close()).await;
    values
}

/// A question for the values of a prompt argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PromptValueQuery<'a> {
    pub(crate) prompt: &'a str,
    pub(crate) argument: &'a str,
    /// What has been typed of the value.
    pub(crate) value: &'a str,
    /// The other arguments.
    pub(crate) given: &'a [(&'a str, &'a str)],
}

impl PromptValueQuery<'_> {
    /// Asks a server that is connected.
    pub(crate) async fn fetch(&self, client: &Client) -> Vec<String> {
        let context: BTreeMap<String, String> =
            self.given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let reference = Reference::Prompt(self.prompt);
        let found = client.complete(&reference, self.argument, self.value, &context).await;
        found.map(|found| found.values.into_iter().map(String::from).collect()).unwrap_or_default()
    }
}
