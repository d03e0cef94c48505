//! What a host is offered: in the result of its `initialize`, or of `server/discover`.

use bowline::{Json, Revision};
use bowline_proto::server::handshake::{InitializeParams, ServerOffer, implementation};
use bowline_proto::server::modern::discover::{Discovery, capabilities_for_modern_host};
use bowline_proto::wire::extension;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::CacheHint;
use serde_json::json;

use crate::catalog::{ServerLists, Snapshot, TaskOffer};
use crate::handshake::with_list_changed;

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
        capabilities: offered_capabilities(snapshot, may_offer_tasks),
        server_info: offered_server_info(snapshot),
        instructions: snapshot.instructions().map(str::to_owned),
        cache: CacheHint::default(),
    };
    discovery.to_result()
}

/// What hosts of 2026-07-28 are offered.
pub(super) fn offered_capabilities(snapshot: &Snapshot, may_offer_tasks: bool) -> Json {
    let sole = snapshot.sole().and_then(|sole| sole.lists.as_deref());
    let declared = sole.and_then(|lists| Some((lists, lists.capabilities.as_ref()?)));
    match declared {
        Some((lists, declared)) => sole_capabilities(lists, declared),
        // Without `logging`: hosts without a session share connections, on which log messages have
        // no host that they belong to.
        None if may_offer_tasks => with_tasks(&capabilities()),
        None => capabilities(),
    }
}

/// What the only server declares, in the words of 2026-07-28, with lists that can change.
fn sole_capabilities(lists: &ServerLists, declared: &Json) -> Json {
    let declared = if lists.is_stateless { declared.clone() } else { capabilities_for_modern_host(declared) };
    let declared = with_list_changed(declared);
    if lists.tasks == Some(TaskOffer::Experiment) { with_tasks(&declared) } else { declared }
}

/// The name and version that hosts of 2026-07-28 are told: those of the only server, if nothing of it is changed.
pub(super) fn offered_server_info(snapshot: &Snapshot) -> Json {
    let sole = snapshot.sole().and_then(|sole| sole.lists.as_ref()?.server_info.clone());
    sole.unwrap_or_else(server_info)
}

/// What hosts of both eras are offered.
fn capabilities() -> Json {
    let changing = json!({ "listChanged": true });
    let capabilities = json!({
        "tools": changing,
        "prompts": changing,
        "resources": { "listChanged": true, "subscribe": true },
        "completions": {},
    });
    Json::encode(&capabilities).expect("an object is JSON")
}

/// Adds the tasks extension to capabilities, for hosts of 2026-07-28 in front of servers that have tasks.
// TN-01
fn with_tasks(capabilities: &Json) -> Json {
    let before = capabilities.member("extensions").filter(Json::is_object);
    let extensions = Edit::new().set(extension::TASKS, &Json::empty_object()).apply(before.as_ref());
    let extensions = extensions.expect("checked to be an object");
    let with_tasks = Edit::new().set("extensions", &extensions).apply(Some(capabilities));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Catalog, Naming};

    fn offered(lists: serde_json::Value) -> String {
        let catalog = Catalog::with_lists(&[("a", lists)], Naming::Unchanged);
        offered_capabilities(&catalog.snapshot(), true).as_str().to_owned()
    }

    // GW-01, TN-01, TN-10
    #[test]
    fn the_only_server_is_offered_as_it_declares_itself() {
        let none = json!({"tools": [], "prompts": [], "resources": [], "templates": []});
        let lists = |more: serde_json::Value| {
            let mut lists = none.clone();
            lists.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            lists
        };
        let declared = json!({"tools": {}, "tasks": {}, "x": 1.0});
        let legacy = lists(json!({"capabilities": declared, "tasks": "experiment"}));
        assert_eq!(
            offered(legacy),
            r#"{"tools":{"listChanged":true},"x":1.0,"extensions":{"io.modelcontextprotocol/tasks":{}}}"#
        );
        let modern =
            lists(json!({"capabilities": {"logging": {}}, "is_stateless": true, "tasks": "nothing"}));
        assert_eq!(offered(modern), r#"{"logging":{}}"#);
        // What was saved by an earlier version does not say it.
        assert!(offered(none).contains("completions"));
    }
}
