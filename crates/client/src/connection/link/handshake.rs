//! Sends the messages of the negotiation and collects their replies.

use std::sync::Arc;
use std::time::Duration;

use bowline_proto::client::negotiation::Reply;
use bowline_proto::client::session::NegotiationMessage;
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::revision::{Era, Revision};
use bowline_proto::via::VIA_META;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::outgoing::{self, Frame, ProgressMode, RequestMeta};
use bowline_proto::wire::{Json, meta, method};
use bowline_transport::http::HttpLink;
use bowline_transport::pipe::PipeWriter;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;

use super::exchange::{self, Exchange};
use super::wire::Wire;
use super::{event_stream, headers};
use crate::connection::Connection;
use crate::connection::server::ClientDeclaration;

/// The session id from the response to `initialize`, once it is known.
pub(crate) type SessionIdSlot = Mutex<Option<HeaderValue>>;

/// One negotiation message on its way to the server.
pub(crate) struct Handshake {
    pub(crate) wire: Wire,
    pub(crate) session: Arc<SessionIdSlot>,
    pub(crate) id: u64,
    pub(crate) message: NegotiationMessage,
    pub(crate) frame: Frame,
}

impl Handshake {
    /// Sends the message. `None` means that the link's reader delivers the reply.
    pub(crate) async fn send(&self, connection: &Arc<Connection>) -> Option<Reply> {
        match &self.wire {
            Wire::Pipe(writer) => self.send_on_pipe(writer).await,
            Wire::EventStream { post, headers } => self.post_for_stream(connection, post, headers).await,
            Wire::Http { link, .. } if self.is_notification() => Some(self.post_notification(link).await),
            Wire::Http { link, .. } => Some(self.exchange(connection, link).await),
        }
    }

    fn is_notification(&self) -> bool {
        matches!(self.message, NegotiationMessage::Initialized(_))
    }

    async fn send_on_pipe(&self, writer: &PipeWriter) -> Option<Reply> {
        match writer.send(&self.frame).await {
            Ok(()) => self.is_notification().then_some(Reply::Accepted),
            Err(fault) => {
                // The reader reports a better fault, with the exit status and stderr of the process.
                tokio::time::sleep(EXIT_REPORT_DELAY).await;
                Some(Reply::Fault(fault))
            }
        }
    }

    async fn post_for_stream(
        &self,
        connection: &Arc<Connection>,
        post: &HttpLink,
        headers: &HeaderMap,
    ) -> Option<Reply> {
        let refused =
            event_stream::post(connection, &self.wire, self.id, post, self.frame.body(), headers).await;
        refused.or_else(|| self.is_notification().then_some(Reply::Accepted))
    }

    /// Posts a notification. The body of the response is ignored.
    async fn post_notification(&self, link: &HttpLink) -> Reply {
        match link.post(self.frame.body(), &self.headers()).await {
            Ok(answer) if !(200..300).contains(&answer.status) => exchange::refusal_reply(&answer, self.id),
            Ok(_) => Reply::Accepted,
            Err(fault) => unanswered_reply(link, fault),
        }
    }

    async fn exchange(&self, connection: &Arc<Connection>, link: &HttpLink) -> Reply {
        let headers = self.headers();
        let era = match self.message {
            NegotiationMessage::Discover(_) => Era::Modern,
            _ => Era::Legacy,
        };
        let (wire, id) = (&self.wire, self.id);
        let exchange = Exchange { connection, link, wire, id, era, resume_wait: None };
        let reply = match self.message {
            NegotiationMessage::Initialize(_) => {
                exchange.run_initialize(self.frame.body(), &headers, &self.session).await
            }
            _ => exchange.run(self.frame.body(), &headers).await,
        };
        match reply {
            Reply::Fault(fault) => unanswered_reply(link, fault),
            reply => reply,
        }
    }

    fn headers(&self) -> HeaderMap {
        match self.message {
            NegotiationMessage::Discover(revision) => {
                headers::modern(headers::base(revision, None), method::DISCOVER, None)
            }
            // The version is not agreed yet, and the old session must not be named (HL-03).
            NegotiationMessage::Initialize(_) => HeaderMap::new(),
            NegotiationMessage::Initialized(revision) | NegotiationMessage::Resume(revision) => {
                headers::base(revision, self.session.lock().as_ref())
            }
        }
    }
}

impl ClientDeclaration {
    pub(crate) fn handshake_frame(&self, id: u64, hello: NegotiationMessage) -> Frame {
        let (method, params, meta) = match hello {
            NegotiationMessage::Initialized(_) => return outgoing::notification(method::INITIALIZED, None),
            NegotiationMessage::Discover(revision) => (method::DISCOVER, None, self.modern_meta(revision)),
            NegotiationMessage::Resume(_) => (method::PING, None, RequestMeta::none()),
            NegotiationMessage::Initialize(revision) => {
                let params = Edit::new()
                    .set_str("protocolVersion", revision.as_str())
                    .set("capabilities", &self.capabilities)
                    .set("clientInfo", &self.client_info)
                    .apply(None)
                    .expect("made of JSON values");
                (method::INITIALIZE, Some(params), RequestMeta::new(self.via_meta().collect()))
            }
        };
        let built = outgoing::request(id, method, params.as_ref(), &meta, ProgressMode::Unwanted);
        built.expect("params are an object")
    }

    /// The `_meta` of every modern request (LC-08 to LC-10).
    pub(crate) fn modern_meta(&self, revision: Revision) -> RequestMeta {
        let version = Json::encode(revision.as_str()).expect("a string is JSON");
        let members = [
            (meta::PROTOCOL_VERSION, version),
            (meta::CLIENT_CAPABILITIES, self.modern_capabilities.clone()),
            (meta::CLIENT_INFO, self.client_info.clone()),
        ];
        RequestMeta::new(members.into_iter().chain(self.via_meta()).collect())
    }

    /// What a gateway behind the server needs to find itself, if headers and variables do not reach it.
    fn via_meta(&self) -> impl Iterator<Item = (&'static str, Json)> {
        let ids =
            (!self.via.is_empty()).then(|| Json::encode(&self.via.to_string()).expect("a string is JSON"));
        ids.map(|ids| (VIA_META, ids)).into_iter()
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
