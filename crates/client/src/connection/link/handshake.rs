//! Sends the messages of the negotiation and collects their replies.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::session::NegotiationMessage;
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::revision::{Era, Revision};
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::outgoing::{self, Frame, ProgressMode, RequestMeta};
use bowline_proto::wire::{Json, meta, method};
use bowline_transport::http::HttpLink;
use http::{HeaderMap, HeaderValue};

use crate::connection::link::exchange::{self, Exchange};
use super::{event_stream, headers};
use crate::connection::{Shared, Wire};
use crate::sync::lock;

/// The session id from the response to `initialize`, once it is known.
type SessionIdSlot = Mutex<Option<HeaderValue>>;

impl Shared {
    /// Sends a negotiation message. `None` means that the link's reader delivers the reply.
    pub(crate) async fn send_handshake(
        self: &Arc<Self>,
        wire: &Wire,
        session: &SessionIdSlot,
        id: u64,
        hello: NegotiationMessage,
        frame: &Frame,
    ) -> Option<Reply> {
        let notified = matches!(hello, NegotiationMessage::Initialized(_));
        match wire {
            Wire::Pipe(writer) => match writer.send(frame).await {
                Ok(()) => notified.then_some(Reply::Accepted),
                Err(fault) => {
                    // The reader reports a better fault, with the exit status and stderr of the
                    // process.
                    tokio::time::sleep(EXIT_REPORT_DELAY).await;
                    Some(Reply::Fault(fault))
                }
            },
            Wire::EventStream { post, headers } => {
                let refused = event_stream::post(self, wire, id, post, frame.body(), headers).await;
                refused.or_else(|| notified.then_some(Reply::Accepted))
            }
            // The body of the response to a notification is ignored.
            Wire::Http { link, .. } if notified => {
                let answer = link.post(frame.body(), &handshake_headers(hello, session)).await;
                Some(match answer {
                    Ok(answer) if !(200..300).contains(&answer.status) => {
                        exchange::refusal_reply(&answer, id)
                    }
                    Ok(_) => Reply::Accepted,
                    Err(fault) => unanswered_reply(link, fault),
                })
            }
            Wire::Http { link, .. } => {
                let headers = handshake_headers(hello, session);
                let era =
                    if matches!(hello, NegotiationMessage::Discover(_)) { Era::Modern } else { Era::Legacy };
                let exchange = Exchange { shared: self, link, wire, id, era };
                let reply = match hello {
                    NegotiationMessage::Initialize(_) => {
                        exchange.run_initialize(frame.body(), &headers, session).await
                    }
                    _ => exchange.run(frame.body(), &headers).await,
                };
                Some(match reply {
                    Reply::Fault(fault) => unanswered_reply(link, fault),
                    reply => reply,
                })
            }
        }
    }

    pub(crate) fn handshake_frame(&self, id: u64, hello: NegotiationMessage) -> Frame {
        let built = match hello {
            NegotiationMessage::Initialized(_) => return outgoing::notification(method::INITIALIZED, None),
            NegotiationMessage::Discover(revision) => outgoing::request(
                id,
                method::DISCOVER,
                None,
                &self.modern_meta(revision),
                ProgressMode::Unwanted,
            ),
            NegotiationMessage::Resume(_) => {
                outgoing::request(id, method::PING, None, &RequestMeta::none(), ProgressMode::Unwanted)
            }
            NegotiationMessage::Initialize(revision) => {
                let params = Edit::new()
                    .set_str("protocolVersion", revision.as_str())
                    .set("capabilities", &self.declaration.capabilities)
                    .set("clientInfo", &self.declaration.client_info)
                    .apply(None)
                    .expect("made of JSON values");
                outgoing::request(
                    id,
                    method::INITIALIZE,
                    Some(&params),
                    &RequestMeta::none(),
                    ProgressMode::Unwanted,
                )
            }
        };
        built.expect("params are an object")
    }

    /// The `_meta` of every modern request (LC-08 to LC-10).
    pub(crate) fn modern_meta(&self, revision: Revision) -> RequestMeta {
        let version = Json::encode(revision.as_str()).expect("a string is JSON");
        RequestMeta::new(vec![
            (meta::PROTOCOL_VERSION, version),
            (meta::CLIENT_CAPABILITIES, self.declaration.modern_capabilities.clone()),
            (meta::CLIENT_INFO, self.declaration.client_info.clone()),
        ])
    }
}

/// The reply for a failed exchange. After a cut connection, a retry must use a new one: the server
/// may be about to close the idle ones.
fn unanswered_reply(link: &HttpLink, fault: Fault) -> Reply {
    if fault.cause == Cause::Cut {
        link.forget_connections();
    }
    Reply::Fault(fault)
}

/// Time in which the reader reports the exit of a process whose pipe no longer accepts data.
const EXIT_REPORT_DELAY: Duration = Duration::from_secs(1);

fn handshake_headers(hello: NegotiationMessage, session: &SessionIdSlot) -> HeaderMap {
    match hello {
        NegotiationMessage::Discover(revision) => {
            headers::modern(headers::base(revision, None), method::DISCOVER, None)
        }
        // The version is not agreed yet, and the old session must not be named (HL-03).
        NegotiationMessage::Initialize(_) => HeaderMap::new(),
        NegotiationMessage::Initialized(revision) | NegotiationMessage::Resume(revision) => {
            headers::base(revision, lock(session).as_ref())
        }
    }
}
