//! Answers list requests from the catalog, and says which servers could not be asked.

use std::time::Duration;

use bowline::Json;
use bowline_proto::wire::object::Edit;
use serde_json::{Map, json};

use super::upstream::HostTasks;
use crate::catalog::{Catalog, ListKind};

/// The result of a list request. It waits at most `wait` for servers whose list of this kind was never fetched.
pub(super) async fn list(catalog: &Catalog, kind: ListKind, wait: Duration, tasks: HostTasks) -> Json {
    catalog.wait_until_listed(&[kind], wait).await;
    let snapshot = catalog.snapshot();
    let result = match (kind, tasks) {
        (ListKind::Tools, HostTasks::Experiment) => snapshot.tools_with_tasks(),
        _ => snapshot.result(kind),
    };
    let mut stale = Map::new();
    for (server, why) in catalog.stale_servers() {
        stale.insert(server, why.into_string().into());
    }
    if stale.is_empty() {
        return result;
    }
    let meta = Json::encode(&json!({ STALE_SERVERS: stale })).expect("an object is JSON");
    Edit::new().set("_meta", &meta).apply(Some(&result)).unwrap_or(result)
}

/// The member of `_meta` that says which servers could not be asked, and why. What the lists have of
/// them is what they offered when they were last connected. If only some lists of a server could not
/// be fetched, the reason names them.
pub const STALE_SERVERS: &str = "bowline/stale-servers";
