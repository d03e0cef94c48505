//! Decides which server a request of the host is for, and what is rewritten on its way.

use std::sync::Arc;

use bowline::types::{code, method};
use bowline::{Json, RpcError};
use bowline_proto::wire::object::Edit;

use crate::catalog::{ListKind, Snapshot, SoleServer, Target};

/// What is done with a request.
#[derive(Debug, PartialEq)]
pub(super) enum Route {
    /// Answered with a merged list.
    List(ListKind),
    /// A list of the only server, which was never connected to.
    FirstList(ListKind),
    /// Forwarded to this server, with these params.
    Forward { server: Arc<str>, params: Option<Json> },
    /// A read of a resource that no server lists: servers are asked in turn, which is harmless.
    Search { uri: String },
    /// Changes of the resource are wanted.
    Subscribe(Target),
    /// Changes of the resource are no longer wanted.
    Unsubscribe { uri: String },
    /// Sets the level of log messages on every server.
    SetLevel,
    /// For the server, if there is only one.
    Unknown,
    /// Answered with this error, unless it may be of a server whose lists are not known.
    NotFound { kind: ListKind, error: RpcError },
    /// Answered with this error.
    Refuse(RpcError),
}

/// Routes a request by its method and params.
pub(super) fn route(snapshot: &Snapshot, asked: &str, params: Option<Json>) -> Route {
    if let Some(sole) = snapshot.sole() {
        return pass_on(sole, asked, params);
    }
    if let Some(kind) = ListKind::of_method(asked) {
        return list(kind, params.as_ref());
    }
    match asked {
        method::TOOLS_CALL => by_name(snapshot, ListKind::Tools, "tool", params),
        method::PROMPTS_GET => by_name(snapshot, ListKind::Prompts, "prompt", params),
        method::RESOURCES_READ => match text(params.as_ref(), "uri") {
            Some(uri) => match snapshot.resource(&uri) {
                Some(target) => forward(&target, ("uri", &uri), params),
                None => Route::Search { uri },
            },
            None => Route::Refuse(missing("uri")),
        },
        method::RESOURCES_SUBSCRIBE => match text(params.as_ref(), "uri") {
            Some(uri) => snapshot.resource(&uri).map_or_else(
                || {
                    let message = format!("no server lists the resource {uri}");
                    let error = RpcError::new(code::INVALID_PARAMS, message);
                    Route::NotFound { kind: ListKind::Resources, error }
                },
                Route::Subscribe,
            ),
            None => Route::Refuse(missing("uri")),
        },
        method::RESOURCES_UNSUBSCRIBE => match text(params.as_ref(), "uri") {
            Some(uri) => Route::Unsubscribe { uri },
            None => Route::Refuse(missing("uri")),
        },
        method::COMPLETE => complete(snapshot, params),
        method::SET_LEVEL => Route::SetLevel,
        _ => Route::Unknown,
    }
}

/// Passes a request on to the only server, as it is. A list that the server has is answered from the catalog, also
/// while the server is down. No list has a next page, so a cursor is the server's to refuse.
fn pass_on(sole: &SoleServer, asked: &str, params: Option<Json>) -> Route {
    match (ListKind::of_method(asked).filter(|_| !has_cursor(params.as_ref())), &sole.lists) {
        (Some(kind), Some(lists)) if lists.offers(kind) => Route::List(kind),
        (Some(kind), None) => Route::FirstList(kind),
        _ => Route::Forward { server: Arc::clone(&sole.name), params },
    }
}

/// A list is one page, so a cursor is none of ours.
fn list(kind: ListKind, params: Option<&Json>) -> Route {
    if has_cursor(params) {
        Route::Refuse(RpcError::new(code::INVALID_PARAMS, "the cursor is unknown: lists have one page"))
    } else {
        Route::List(kind)
    }
}

fn has_cursor(params: Option<&Json>) -> bool {
    params.and_then(|params| params.member("cursor")).is_some_and(|cursor| !cursor.is_null())
}

fn by_name(snapshot: &Snapshot, kind: ListKind, what: &str, params: Option<Json>) -> Route {
    let Some(name) = text(params.as_ref(), "name") else { return Route::Refuse(missing("name")) };
    match snapshot.named(kind, &name) {
        Some(target) => forward(target, ("name", &name), params),
        None => unknown_name(snapshot, kind, what, &name),
    }
}

fn unknown_name(snapshot: &Snapshot, kind: ListKind, what: &str, name: &str) -> Route {
    let error = |message: String| RpcError::new(code::INVALID_PARAMS, message);
    match &*snapshot.names_of(kind, name) {
        [] => Route::NotFound { kind, error: error(format!("Unknown {what}: {name}")) },
        names => {
            Route::Refuse(error(format!("Unknown {what}: {name}; it is now called {}", names.join(" or "))))
        }
    }
}

/// Forwards to the server of `target`, with its own name or URI in `member`, which has `name` now.
fn forward(target: &Target, (member, name): (&str, &str), params: Option<Json>) -> Route {
    let params = if *name == *target.name {
        params
    } else {
        Edit::new().set_str(member, &target.name).apply(params.as_ref()).ok().or(params)
    };
    Route::Forward { server: Arc::clone(&target.server), params }
}

/// Routes a completion by the prompt or template that it is for.
fn complete(snapshot: &Snapshot, params: Option<Json>) -> Route {
    let Some(reference) = params.as_ref().and_then(|params| params.member("ref")) else {
        return Route::Refuse(missing("ref"));
    };
    let (target, member) = if let Some(name) = text(Some(&reference), "name") {
        match snapshot.named(ListKind::Prompts, &name) {
            Some(target) => (target.clone(), "name"),
            None => return unknown_name(snapshot, ListKind::Prompts, "prompt", &name),
        }
    } else if let Some(uri) = text(Some(&reference), "uri") {
        let template = snapshot.named(ListKind::Templates, &uri).cloned();
        let Some(target) = template.or_else(|| snapshot.resource(&uri)) else {
            let message = format!("no server has the resource template {uri}");
            let error = RpcError::new(code::INVALID_PARAMS, message);
            return Route::NotFound { kind: ListKind::Templates, error };
        };
        (target, "uri")
    } else {
        return Route::Refuse(missing("ref.name or ref.uri"));
    };
    let own = Edit::new().set_str(member, &target.name).apply(Some(&reference));
    let params = own.and_then(|own| Edit::new().set("ref", &own).apply(params.as_ref())).ok().or(params);
    Route::Forward { server: target.server, params }
}

fn text(params: Option<&Json>, member: &str) -> Option<String> {
    params?.member(member)?.decode().ok()
}

fn missing(member: &str) -> RpcError {
    RpcError::new(code::INVALID_PARAMS, format!("params need {member}"))
}

#[cfg(test)]
mod tests;
