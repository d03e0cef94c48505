//! What a host is offered in the result of its `initialize`.

use bowline::{Json, Revision};
use bowline_proto::server::handshake::{InitializeParams, ServerOffer, implementation};
use serde_json::json;

use crate::catalog::Snapshot;

/// Builds the result of `initialize`. It is the same whatever state the servers are in: a list that
/// no server has is empty, and a server that comes later fills it.
pub(super) fn build_result(params: &InitializeParams, snapshot: &Snapshot) -> Json {
    let changing = json!({ "listChanged": true });
    let capabilities = json!({
        "tools": changing,
        "prompts": changing,
        "resources": { "listChanged": true, "subscribe": true },
        "completions": {},
        "logging": {},
    });
    let offer = ServerOffer {
        revision: params.agreed_revision(Revision::NEWEST_LEGACY),
        capabilities: Json::encode(&capabilities).expect("an object is JSON"),
        server_info: implementation("bowline", env!("CARGO_PKG_VERSION")),
        instructions: snapshot.instructions().map(str::to_owned),
    };
    offer.to_result()
}
