//! What a host is offered: in the result of its `initialize`, or of `server/discover`.

use bowline::{Json, Revision};
use bowline_proto::server::handshake::{InitializeParams, ServerOffer, implementation};
use bowline_proto::server::modern::discover::Discovery;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::CacheHint;
use serde_json::json;

use crate::catalog::Snapshot;

/// Builds the result of `initialize`. It is the same whatever state the servers are in: a list that
/// no server has is empty, and a server that comes later fills it.
pub(super) fn build_result(params: &InitializeParams, snapshot: &Snapshot) -> Json {
    let logging = Json::empty_object();
    let with_logging = Edit::new().set("logging", &logging).apply(Some(&capabilities()));
    let offer = ServerOffer {
        revision: params.agreed_revision(Revision::NEWEST_LEGACY),
        capabilities: with_logging.expect("capabilities are an object"),
        server_info: server_info(),
        instructions: snapshot.instructions().map(str::to_owned),
    };
    offer.to_result()
}

/// Builds the result of `server/discover`, which likewise does not depend on the state of servers.
// GW-01
pub(super) fn build_discovery(snapshot: &Snapshot) -> Json {
    let discovery = Discovery {
        versions: vec![Revision::NEWEST_MODERN],
        // Without `logging`: hosts without a session share connections, on which log messages have
        // no host that they belong to.
        capabilities: capabilities(),
        server_info: server_info(),
        instructions: snapshot.instructions().map(str::to_owned),
        cache: CacheHint::default(),
    };
    discovery.to_result()
}

/// What hosts of both eras are offered.
pub(super) fn capabilities() -> Json {
    let changing = json!({ "listChanged": true });
    let capabilities = json!({
        "tools": changing,
        "prompts": changing,
        "resources": { "listChanged": true, "subscribe": true },
        "completions": {},
    });
    Json::encode(&capabilities).expect("an object is JSON")
}

/// The name and version of the gateway.
pub(crate) fn server_info() -> Json {
    implementation("bowline", env!("CARGO_PKG_VERSION"))
}
