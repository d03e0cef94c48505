//! [`Handshake`]: the legacy handshake of `initialize`, its result and `notifications/initialized`.
// LC-01 to LC-06

use super::{EraVerdict, LinkKind, Peer, Reply, Step, refusal_fault, supported_versions};
use crate::fault::{Cause, Fault, Misbehavior};
use crate::revision::{Era, Revision};
use crate::wire::code;

/// The states of the handshake, named for what they wait for.
#[derive(Debug)]
pub(super) enum Handshake {
    ExpectResult {
        offer: Revision,
        /// Whether the offer was already changed once to a version that a refusal named.
        corrected: bool,
        /// Whether the message was already repeated. Over HTTP a message that was cut off is sent
        /// once more: each is harmless, and a server that closes idle connections soon after a
        /// reply could not be connected to otherwise.
        repeated: bool,
    },
    ExpectAccepted {
        peer: Box<Peer>,
        repeated: bool,
    },
    /// Nothing more is expected.
    Done,
}

impl Handshake {
    pub(super) fn new(offer: Revision) -> Self {
        Self::ExpectResult { offer, corrected: false, repeated: false }
    }

    pub(super) fn offer(&self) -> Revision {
        match self {
            Self::ExpectResult { offer, .. } => *offer,
            Self::ExpectAccepted { .. } | Self::Done => Revision::NEWEST_LEGACY,
        }
    }

    /// Whether the result of `initialize` is awaited.
    pub(super) fn expects_result(&self) -> bool {
        matches!(self, Self::ExpectResult { .. })
    }

    pub(super) fn handle(&mut self, link: LinkKind, reply: Reply) -> EraVerdict {
        let is_cut_off = link == LinkKind::Http && is_cut_off(&reply);
        match std::mem::replace(self, Self::Done) {
            Self::ExpectResult { offer, corrected, repeated: false } if is_cut_off => {
                *self = Self::ExpectResult { offer, corrected, repeated: true };
                EraVerdict::Stay(Step::Initialize(offer))
            }
            Self::ExpectResult { corrected, .. } => self.handle_result(corrected, reply),
            Self::ExpectAccepted { peer, repeated: false } if is_cut_off => {
                let revision = peer.revision;
                *self = Self::ExpectAccepted { peer, repeated: true };
                EraVerdict::Stay(Step::Confirm(revision))
            }
            // A notification has no response. Whether a server that refuses it is serious shows
            // with the first request, so only the loss of the link counts.
            Self::ExpectAccepted { peer, .. } => EraVerdict::Stay(match reply {
                Reply::Fault(fault) if !matches!(fault.cause, Cause::Status { .. } | Cause::Protocol(_)) => {
                    Step::Failed(fault)
                }
                _ => Step::Agreed(peer),
            }),
            Self::Done => EraVerdict::Stay(Step::Failed(Fault::new(Cause::Closed))),
        }
    }

    fn handle_result(&mut self, corrected: bool, reply: Reply) -> EraVerdict {
        match reply {
            Reply::Result(result) => match Peer::from_handshake(&result) {
                Ok(peer) => {
                    let revision = peer.revision;
                    *self = Self::ExpectAccepted { peer: Box::new(peer), repeated: false };
                    EraVerdict::Stay(Step::Confirm(revision))
                }
                // LC-02: a version we cannot speak ends the connection.
                Err(fault) => EraVerdict::Stay(Step::Failed(fault)),
            },
            Reply::Error { error, .. } => {
                let names = supported_versions(&error);
                let names = || names.iter().map(String::as_str);
                if let Some(offer) = Revision::newest_of(Era::Legacy, names()).filter(|_| !corrected) {
                    *self = Self::ExpectResult { offer, corrected: true, repeated: false };
                    return EraVerdict::Stay(Step::Initialize(offer));
                }
                if code::is_modern(error.code) || Revision::newest_of(Era::Modern, names()).is_some() {
                    return EraVerdict::SwitchEra(Revision::NEWEST_MODERN);
                }
                // A server that was legacy before and does not know `initialize` any more (DE-09).
                if error.code == code::METHOD_NOT_FOUND {
                    return EraVerdict::SwitchEra(Revision::NEWEST_MODERN);
                }
                EraVerdict::Stay(Step::Failed(refusal_fault(&error)))
            }
            Reply::Fault(fault) => EraVerdict::Stay(Step::Failed(fault)),
            Reply::Silence => {
                EraVerdict::Stay(Step::Failed(Fault::new(Cause::Timeout(crate::fault::Limit::Connect))))
            }
            Reply::Accepted => EraVerdict::Stay(Step::Failed(Fault::protocol(Misbehavior::NoAnswer))),
        }
    }
}

/// Whether the connection ended before there was a reply.
fn is_cut_off(reply: &Reply) -> bool {
    matches!(reply, Reply::Fault(Fault { cause: Cause::Cut, .. }))
}
