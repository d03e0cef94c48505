//! The scripted server: what it speaks, and how it misbehaves.

use std::time::Duration;

use bowline_proto::era::Reply;
use bowline_proto::fault::{Cause, Exit, Fault, Misbehaviour};
use bowline_proto::session::Hello;
use bowline_proto::wire::{Json, RpcError};
use fastrand::Rng;

/// What a server is like for the length of one life.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Modern,
    Legacy,
    /// Knows no `server/discover` and exits on it.
    LegacyThatExits,
    /// Never answers what it does not know.
    LegacyThatIsSilent,
    /// Speaks both.
    Dual,
    /// Answers nothing at all.
    Dead,
}

impl Kind {
    pub(crate) fn roll(rng: &mut Rng) -> Self {
        match rng.u8(..20) {
            0..5 => Self::Modern,
            5..11 => Self::Legacy,
            11..13 => Self::LegacyThatExits,
            13..15 => Self::LegacyThatIsSilent,
            15..19 => Self::Dual,
            _ => Self::Dead,
        }
    }

    /// What this server does with a message of the negotiation. `None`: nothing, ever.
    pub(crate) fn reply(self, hello: Hello) -> Option<Reply> {
        match (self, hello) {
            (Self::Dead, _) => None,
            (_, Hello::Initialized(_)) => Some(Reply::Accepted),
            (Self::Modern | Self::Dual, Hello::Discover(_)) => {
                let versions = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#;
                Some(Reply::Result(json(versions)))
            }
            (Self::Legacy, Hello::Discover(_)) => Some(error(-32601)),
            (Self::LegacyThatExits, Hello::Discover(_)) => {
                Some(Reply::Fault(Fault::new(Cause::Exited(Exit::Code(1)))))
            }
            (Self::LegacyThatIsSilent, Hello::Discover(_)) => None,
            (Self::Modern, Hello::Initialize(_)) => Some(error(-32022)),
            (_, Hello::Initialize(revision)) => Some(Reply::Result(json(&format!(
                r#"{{"protocolVersion":"{revision}","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}}}}"#
            )))),
        }
    }
}

/// What went wrong this time.
pub(crate) fn any_fault(rng: &mut Rng) -> Fault {
    let cause = match rng.u8(..9) {
        0 => Cause::Refused,
        1 => Cause::Cut,
        2 => Cause::Dns,
        3 => Cause::Status { code: 503, retry_after: Some(Duration::from_secs(rng.u64(..5))) },
        4 => Cause::Status { code: 502, retry_after: None },
        5 => Cause::Exited(Exit::Code(i32::from(rng.u8(..)))),
        6 => Cause::Exited(Exit::Signal(9)),
        7 => Cause::Protocol(Misbehaviour::NoAnswer),
        _ => Cause::Unreachable,
    };
    Fault::new(cause)
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn error(code: i64) -> Reply {
    Reply::Error { status: None, error: RpcError { code, message: String::new(), data: None } }
}
