//! [`Probe`]: the modern probe `server/discover`, and what each reply to it proves.
// DE-02, DE-06 to DE-08, DE-11

use super::{EraVerdict, LinkKind, Peer, Reply, Step, refusal_fault, supported_versions};
use crate::revision::{Era, Revision};
use crate::wire::code;

/// The state of a probe that waits for the reply to `server/discover`.
#[derive(Debug)]
pub(super) struct Probe {
    revision: Revision,
    /// Whether the revision was already changed once after `-32022`. A server that rejects what it
    /// says it supports must not cause a loop (LC-12).
    corrected: bool,
}

impl Probe {
    pub(super) fn new(revision: Revision) -> Self {
        Self { revision, corrected: false }
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn handle(&mut self, link: LinkKind, reply: Reply) -> EraVerdict {
        match reply {
            Reply::Result(result) => match Peer::from_discovery(&result) {
                Some((peer, names)) => self.choose_revision(peer, &names),
                // A lax legacy server may answer any method with some result (DE-11).
                None => EraVerdict::SwitchEra(Revision::NEWEST_LEGACY),
            },
            Reply::Error { error, .. } if error.code == code::UNSUPPORTED_VERSION => {
                let names = supported_versions(&error);
                let names = || names.iter().map(String::as_str);
                match (Revision::newest_of(Era::Modern, names()), Revision::newest_of(Era::Legacy, names())) {
                    (Some(revision), _) if !self.corrected => {
                        self.corrected = true;
                        self.revision = revision;
                        EraVerdict::Stay(Step::Discover(revision))
                    }
                    (None, Some(handshake)) => EraVerdict::SwitchEra(handshake),
                    _ => EraVerdict::Stay(Step::Failed(refusal_fault(&error))),
                }
            }
            Reply::Error { error, .. } if code::is_modern(error.code) => {
                EraVerdict::Stay(Step::Failed(refusal_fault(&error)))
            }
            // Any other error in any framing, or none at all. A 5xx or a silent server must not
            // keep us from trying the era that most servers speak. Even 404 with -32601, which
            // means a modern server elsewhere, means legacy here: a modern server has
            // `server/discover` (DE-08).
            Reply::Error { .. } | Reply::Silence | Reply::Accepted => {
                EraVerdict::SwitchEra(Revision::NEWEST_LEGACY)
            }
            Reply::Fault(_) => match link {
                LinkKind::Pipe => EraVerdict::ProcessDied,
                LinkKind::Http => EraVerdict::SwitchEra(Revision::NEWEST_LEGACY),
            },
        }
    }

    fn choose_revision(&self, mut peer: Peer, names: &[String]) -> EraVerdict {
        let names = || names.iter().map(String::as_str);
        // A result without the list of versions is in the revision of its request.
        let common = if names().next().is_none() {
            Some(self.revision)
        } else {
            Revision::newest_of(Era::Modern, names())
        };
        if let Some(revision) = common {
            peer.revision = revision;
            return EraVerdict::Stay(Step::Agreed(Box::new(peer)));
        }
        match Revision::newest_of(Era::Legacy, names()) {
            Some(handshake) => EraVerdict::SwitchEra(handshake),
            None => EraVerdict::Stay(Step::Failed(crate::fault::Fault::new(
                crate::fault::Cause::NoCommonVersion { supported: names().map(str::to_owned).collect() },
            ))),
        }
    }
}
