//! [`Peer`]: what is agreed with a server, whichever era it is of.

use crate::fault::{Cause, Fault, Misbehaviour};
use crate::revision::{Era, Revision};
use crate::wire::Json;
use crate::wire::view::{
    Capabilities, DiscoverResult, Implementation, InitializeResult, ResultType, result_type, server_info,
};

/// A server, as it described itself when the connection was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// What is spoken from now on.
    pub revision: Revision,
    /// What the server offers. Nothing else may be asked of it (LC-05).
    pub capabilities: Capabilities,
    /// Who it says it is: for display and logs only (LC-10).
    pub server: Option<Implementation>,
    /// For a model, untrusted (LC-07).
    pub instructions: Option<String>,
}

impl Peer {
    /// The era of what is spoken.
    pub fn era(&self) -> Era {
        self.revision.era()
    }

    /// From the answer to `initialize`.
    pub(super) fn from_handshake(result: &Json) -> Result<Self, Fault> {
        let view = InitializeResult::decode(result).map_err(|error| {
            Fault::protocol(Misbehaviour::BadResult).note(error.to_string()).body(result.as_bytes())
        })?;
        let revision =
            Revision::parse(&view.protocol_version).filter(|revision| revision.era() == Era::Legacy);
        let Some(revision) = revision else {
            let supported = vec![view.protocol_version.chars().take(64).collect()];
            return Err(Fault::new(Cause::Versions { supported }));
        };
        let instructions = view.instructions();
        Ok(Self { revision, capabilities: view.capabilities, server: view.server, instructions })
    }

    /// From the answer to `server/discover`, with the versions it names. `None`: no modern server says
    /// such a thing.
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
        // `resultType` alone is a modern trait too; such a server names no versions, so it speaks ours.
        let typed = result.member("resultType").is_some() && result_type(result) == ResultType::Complete;
        typed.then(|| {
            let capabilities =
                result.member("capabilities").and_then(|json| Capabilities::decode(&json).ok());
            (peer(capabilities.unwrap_or_default(), server_info(result), None), Vec::new())
        })
    }
}
