//! Owns what all modules need to know about one server.

use std::sync::Arc;

use bowline_config::AuthSettings;
use bowline_store::EncryptedStore;
use url::Url;

use crate::http_client::AuthHttpClient;

/// One server with its configuration, store and HTTP client. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AuthContext {
    /// The server's configured name.
    pub server: Arc<str>,
    /// The server's endpoint.
    pub url: Url,
    /// The server's `auth` configuration.
    pub auth: Arc<AuthSettings>,
    /// The application that clients are registered as.
    pub app: Arc<App>,
    /// Holds logins, registered clients and DPoP keys.
    pub store: EncryptedStore,
    /// Sends requests to the server and to authorization servers.
    pub http_client: AuthHttpClient,
}

/// How the application describes itself when a client is registered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct App {
    /// `client_name`.
    pub name: String,
    /// `client_uri`.
    pub uri: Option<Url>,
    /// The URL of the Client ID Metadata Document, for servers whose configuration names none.
    pub metadata_url: Option<Url>,
}

impl App {
    /// Creates an application with this name, which people see on the pages of authorization
    /// servers.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), uri: None, metadata_url: None }
    }

    /// Sets the web page of the application.
    #[must_use]
    pub fn uri(mut self, uri: Url) -> Self {
        self.uri = Some(uri);
        self
    }

    /// Sets the URL of the Client ID Metadata Document, for servers whose configuration names none.
    #[must_use]
    pub fn metadata_url(mut self, url: Url) -> Self {
        self.metadata_url = Some(url);
        self
    }
}

impl Default for App {
    fn default() -> Self {
        Self::new("bowline")
    }
}
