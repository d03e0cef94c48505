//! A session that is kept open on the server, to be resumed later or by another program.
//!
//! Servers with state per session, such as tasks of 2025-11-25, lose it when the session is ended.

use std::fmt;
use std::sync::Arc;

use bowline_proto::client::negotiation::Peer;
use bowline_proto::revision::{Era, Revision};
use bowline_proto::wire::Json;
use bowline_proto::wire::view::Capabilities;
use http::HeaderValue;
use serde::{Deserialize, Serialize};

/// What is needed to resume a session. Whoever has it can use the session: treat it like a
/// password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSession {
    id: String,
    revision: String,
    capabilities: serde_json::Value,
}

impl SavedSession {
    pub(crate) fn from_peer(peer: &Peer, id: &HeaderValue) -> Option<Self> {
        Some(Self {
            id: id.to_str().ok()?.to_owned(),
            revision: peer.revision.as_str().to_owned(),
            capabilities: peer.capabilities.json.decode().ok()?,
        })
    }

    /// The negotiated peer and the session id. `None` if the contents are invalid.
    pub(crate) fn into_parts(self) -> Option<(Arc<Peer>, HeaderValue)> {
        let revision = Revision::parse(&self.revision).filter(|revision| revision.era() == Era::Legacy)?;
        let mut id = HeaderValue::from_str(&self.id).ok()?;
        id.set_sensitive(true);
        let capabilities = Capabilities::decode(&Json::encode(&self.capabilities).ok()?).ok()?;
        Some((Arc::new(Peer::new(revision, capabilities)), id))
    }
}

impl fmt::Debug for SavedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedSession").field("revision", &self.revision).finish_non_exhaustive()
    }
}
