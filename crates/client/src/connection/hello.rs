//! The messages of the negotiation, as they go out.

use std::sync::Mutex;

use bowline_proto::revision::Revision;
use bowline_proto::session::Hello;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::outgoing::{self, Frame, Meta, Progress};
use bowline_proto::wire::{Json, meta, method};
use http::{HeaderMap, HeaderValue};

use super::link::lock;
use super::{Shared, headers};

impl Shared {
    pub(super) fn hello(&self, id: u64, hello: Hello) -> Frame {
        let built = match hello {
            Hello::Initialized(_) => return outgoing::notification(method::INITIALIZED, None),
            Hello::Discover(revision) => {
                outgoing::request(id, method::DISCOVER, None, &self.modern_meta(revision), Progress::Unwanted)
            }
            Hello::Resume(_) => outgoing::request(id, method::PING, None, &Meta::none(), Progress::Unwanted),
            Hello::Initialize(revision) => {
                let params = Edit::new()
                    .set_str("protocolVersion", revision.as_str())
                    .set("capabilities", &self.identity.capabilities)
                    .set("clientInfo", &self.identity.client_info)
                    .apply(None)
                    .expect("made of JSON values");
                outgoing::request(id, method::INITIALIZE, Some(&params), &Meta::none(), Progress::Unwanted)
            }
        };
        built.expect("params are an object")
    }

    /// LC-08 to LC-10: what every modern request carries.
    pub(super) fn modern_meta(&self, revision: Revision) -> Meta {
        let version = Json::of(revision.as_str()).expect("a string is JSON");
        Meta::of(vec![
            (meta::PROTOCOL_VERSION, version),
            (meta::CLIENT_CAPABILITIES, self.identity.capabilities.clone()),
            (meta::CLIENT_INFO, self.identity.client_info.clone()),
        ])
    }
}

pub(super) fn hello_headers(hello: Hello, session: &Mutex<Option<HeaderValue>>) -> HeaderMap {
    match hello {
        Hello::Discover(revision) => headers::modern(headers::base(revision, None), method::DISCOVER, None),
        // LC: the version is not agreed yet, and the old session must not be named (HL-03).
        Hello::Initialize(_) => HeaderMap::new(),
        Hello::Initialized(revision) | Hello::Resume(revision) => {
            headers::base(revision, lock(session).as_ref())
        }
    }
}
