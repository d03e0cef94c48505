//! [`HttpControl`]: changes the settings of a listener while hosts are served.

use std::sync::{Arc, Weak};

use super::settings::HttpSettings;
use super::site::Site;

/// Changes the settings of an [`HttpListener`](crate::HttpListener) while hosts are served. It may
/// outlive the listener.
#[derive(Clone, Debug)]
pub struct HttpControl(Weak<Site>);

impl HttpControl {
    pub(crate) fn new(site: &Arc<Site>) -> Self {
        Self(Arc::downgrade(site))
    }

    /// Takes over the tokens, the views, the resource server, the allowed names and web pages, and the limits
    /// of hosts and messages. All other settings stay those of the start.
    ///
    /// Requests that arrive from now on are decided by the new settings. Sessions of views that are gone
    /// end; those of views that stay go on.
    pub fn reload(&self, settings: HttpSettings) {
        if let Some(site) = self.0.upgrade() {
            site.reload(settings);
        }
    }
}
