//! What a host is offered: in the result of its `initialize`, or of `server/discover`.

use bowline::{Json, Revision};
use bowline_proto::server::handshake::{InitializeParams, ServerOffer, implementation};
use bowline_proto::server::modern::discover::Discovery;
use bowline_proto::wire::extension;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::CacheHint;
use serde_json::json;

use crate::catalog::Snapshot;

/// Builds the result of `initialize`. It is the same whatever state the servers are in: a list that
/// no server has is empty, and a server that comes later fills it.
///
/// Tasks are the exception, since hosts treat tools otherwise because of them: they are offered to hosts
/// of 2025-11-25, unless it is known of every server that it has none.
pub(super) fn build_result(params: &InitializeParams, snapshot: &Snapshot, may_offer_tasks: bool) -> Json {
    let revision = params.agreed_revision(Revision::NEWEST_LEGACY);
    let (logging, tasks) = (Json::empty_object(), task_capability());
    let mut edit = Edit::new().set("logging", &logging);
    if may_offer_tasks && revision == Revision::V2025_11_25 {
        edit = edit.set("tasks", &tasks);
    }
    let offer = ServerOffer {
        revision,
        capabilities: edit.apply(Some(&capabilities())).expect("capabilities are an object"),
        server_info: server_info(),
        instructions: snapshot.instructions().map(str::to_owned),
    };
    offer.to_result()
}

/// Builds the result of `server/discover`, which likewise does not depend on the state of servers.
// GW-01
pub(super) fn build_discovery(snapshot: &Snapshot, may_offer_tasks: bool) -> Json {
    let discovery = Discovery {
        versions: vec![Revision::NEWEST_MODERN],
        // Without `logging`: hosts without a session share connections, on which log messages have
        // no host that they belong to.
        capabilities: if may_offer_tasks { capabilities_with_tasks() } else { capabilities() },
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

/// What hosts of 2026-07-28 are offered in front of servers that have tasks.
// TN-01
pub(super) fn capabilities_with_tasks() -> Json {
    let extensions = Json::encode(&json!({ extension::TASKS: {} })).expect("an object is JSON");
    let with_tasks = Edit::new().set("extensions", &extensions).apply(Some(&capabilities()));
    with_tasks.expect("capabilities are an object")
}

/// The tasks of 2025-11-25 that hosts are offered.
// TA-01, TA-05
fn task_capability() -> Json {
    let capability = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    Json::encode(&capability).expect("an object is JSON")
}

/// The name and version of the gateway.
pub(crate) fn server_info() -> Json {
    implementation("bowline", env!("CARGO_PKG_VERSION"))
}
