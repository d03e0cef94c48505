//! What a [`Reply`] says about the session it came on.

use super::Reply;
use crate::fault::Cause;
use crate::loss::{self, Exchange, Verdict};

impl Reply {
    /// Whether this answer to `method` means that the session is gone. `session`: the request named one;
    /// `credentials`: it carried some.
    pub fn sign(&self, method: &str, session: bool, credentials: bool) -> Verdict {
        let exchange = Exchange {
            method,
            session,
            credentials,
            status: 200,
            challenge: &[],
            body: &[],
            error: None,
            own_id: true,
        };
        match self {
            Self::Error { status, error, stray } => loss::judge(&Exchange {
                status: status.unwrap_or(200),
                error: Some(error),
                own_id: !stray,
                ..exchange
            }),
            Self::Fault(fault) => {
                let body = fault.evidence.body.as_deref().unwrap_or_default().as_bytes();
                match &fault.cause {
                    Cause::Status { code, .. } => loss::judge(&Exchange { status: *code, body, ..exchange }),
                    Cause::LoginRequired { code, challenge } => {
                        loss::judge(&Exchange { status: *code, challenge, body, ..exchange })
                    }
                    // Some servers say it in a body that is no message.
                    Cause::Protocol(_) if !body.is_empty() => loss::judge(&Exchange { body, ..exchange }),
                    _ => Verdict::Answer,
                }
            }
            Self::Result(_) | Self::Accepted | Self::Silence => Verdict::Answer,
        }
    }
}
