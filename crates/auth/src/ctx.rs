//! Owns what everything here needs to know of one server.

use std::sync::Arc;

use bowline_config::Auth;
use bowline_store::Safe;
use url::Url;

use crate::net::Net;

/// One server, seen from here. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ctx {
    /// Its configured name.
    pub server: Arc<str>,
    /// Its endpoint.
    pub url: Url,
    /// What the configuration says.
    pub auth: Arc<Auth>,
    /// Who we say we are.
    pub app: Arc<App>,
    /// What we remember.
    pub safe: Safe,
    /// How others are asked.
    pub net: Net,
}

/// Who we say we are when we register.
#[derive(Clone, Debug)]
pub struct App {
    /// `client_name`.
    pub name: String,
    /// `client_uri`.
    pub uri: Option<Url>,
    /// The URL of our Client ID Metadata Document, where the server's entry gives none.
    pub document: Option<Url>,
}

impl Default for App {
    fn default() -> Self {
        Self { name: "bowline".to_owned(), uri: None, document: None }
    }
}
