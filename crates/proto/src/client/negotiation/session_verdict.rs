//! [`Reply::session_verdict`]: what a reply says about the session it came on.

use super::Reply;
use crate::client::loss::{self, BodyHead, Exchange, Verdict};
use crate::fault::Cause;

impl Reply {
    /// Judges whether this reply to `method` means that the session is lost. `session` says whether
    /// the request named one, `credentials` whether it carried any.
    pub fn session_verdict(&self, method: &str, session: bool, credentials: bool) -> Verdict {
        self.exchange(method, session, credentials).map_or(Verdict::Answer, |exchange| loss::judge(&exchange))
    }

    /// Judges whether this reply of a legacy server without session ids to `method` means that the server wants its
    /// handshake again.
    pub fn handshake_verdict(&self, method: &str, credentials: bool) -> Verdict {
        let exchange = self.exchange(method, false, credentials);
        exchange.map_or(Verdict::Answer, |exchange| loss::judge_without_session(&exchange))
    }

    /// The exchange to judge. `None` for a result or a broken connection, which say nothing about
    /// the session.
    fn exchange<'a>(&'a self, method: &'a str, session: bool, credentials: bool) -> Option<Exchange<'a>> {
        let exchange = Exchange {
            method,
            session,
            credentials,
            status: 200,
            challenge: &[],
            body: BodyHead::default(),
            error: None,
            own_id: true,
        };
        match self {
            Self::Error { status, error, stray } => {
                let status = status.unwrap_or(200);
                Some(Exchange { status, error: Some(error), own_id: !stray, ..exchange })
            }
            Self::Fault(fault) => {
                let bytes = fault.evidence.body.as_deref().unwrap_or_default().as_bytes();
                let body = BodyHead { bytes, is_cut: fault.evidence.body_is_cut };
                match &fault.cause {
                    Cause::Status { code, .. } => Some(Exchange { status: *code, body, ..exchange }),
                    Cause::LoginRequired { code, challenge } => {
                        Some(Exchange { status: *code, challenge, body, ..exchange })
                    }
                    // Some servers report the loss in a body that is not a message.
                    Cause::Protocol(_) if !bytes.is_empty() => Some(Exchange { body, ..exchange }),
                    _ => None,
                }
            }
            Self::Result(_) | Self::Accepted | Self::Silence => None,
        }
    }
}
