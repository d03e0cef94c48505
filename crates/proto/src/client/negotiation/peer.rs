//! [`Peer`]: the result of a negotiation with a server of either era.

use crate::fault::{Cause, Fault, Misbehavior};
use crate::revision::{Era, Revision};
use crate::wire::Json;
use crate::wire::view::{
    Capabilities, DiscoverResult, Implementation, InitializeResult, ResultType, result_type, server_info,
};

/// A server, as it described itself during the negotiation.
// LC-05, LC-07, LC-10
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// The agreed revision.
    pub revision: Revision,
    /// The features that the server offers. No others may be used.
    pub capabilities: Capabilities,
    /// The name and version that the server claims, for display and logs only.
    pub server: Option<Implementation>,
    /// Instructions for a model. Untrusted.
    pub instructions: Option<String>,
}

impl Peer {
    /// Creates a server of which nothing else is known.
    pub fn new(revision: Revision, capabilities: Capabilities) -> Self {
        Self { revision, capabilities, server: None, instructions: None }
    }

    /// The era of the agreed revision.
    pub fn era(&self) -> Era {
        self.revision.era()
    }

    /// Reads the result of `initialize`.
    pub(super) fn from_handshake(result: &Json) -> Result<Self, Fault> {
        let view = InitializeResult::decode(result).map_err(|error| {
            Fault::protocol(Misbehavior::BadResult).with_note(error.to_string()).with_body(result.as_bytes())
        })?;
        let revision =
            Revision::parse(&view.protocol_version).filter(|revision| revision.era() == Era::Legacy);
        let Some(revision) = revision else {
            let supported = vec![view.protocol_version.chars().take(64).collect()];
            return Err(Fault::new(Cause::NoCommonVersion { supported }));
        };
        let instructions = view.instructions();
        Ok(Self { revision, capabilities: view.capabilities, server: view.server, instructions })
    }

    /// Reads the result of `server/discover`, and the versions that it names. `None` if no modern
    /// server would send such a result.
    pub(super) fn from_discovery(result: &Json) -> Option<(Self, Vec<String>)> {
        let peer = |capabilities, server, instructions| Self {
            revision: Revision::NEWEST_MODERN,
            capabilities,
            server,
            instructions,
        };
        if let Ok(view) = DiscoverResult::decode(result) {
            let names =
                view.supported_versions.iter().take(32).map(|name| name.chars().take(64).collect()).collect();
            let instructions = view.instructions();
            return Some((peer(view.capabilities, view.server, instructions), names));
        }
        // `resultType` alone shows a modern server too. It names no versions, so it speaks ours.
        let typed = result.member("resultType").is_some() && result_type(result) == ResultType::Complete;
        typed.then(|| {
            let capabilities =
                result.member("capabilities").and_then(|json| Capabilities::decode(&json).ok());
            (peer(capabilities.unwrap_or_default(), server_info(result), None), Vec::new())
        })
    }
}
