//! Which methods a modern host may call, and the errors for those that it may not.

use super::{Refusal, STATUS_NOT_FOUND};
use crate::revision::Revision;
use crate::wire::view::Capabilities;
use crate::wire::{Json, RpcError, code, extension, method};

/// What a method is in revision 2026-07-28.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    /// A request or notification of the core protocol that hosts send.
    Core,
    /// A request of the tasks extension.
    Tasks,
    /// A method of a legacy revision that this one has removed.
    Removed,
    /// Anything else: methods of other extensions, those that only servers use, and typing errors.
    Unknown,
}

impl MethodKind {
    /// The kind of a method that a host sends.
    // GW-05, LC-14
    pub fn of(method: &str) -> Self {
        match method {
            method::DISCOVER
            | method::TOOLS_LIST
            | method::TOOLS_CALL
            | method::PROMPTS_LIST
            | method::PROMPTS_GET
            | method::RESOURCES_LIST
            | method::TEMPLATES_LIST
            | method::RESOURCES_READ
            | method::COMPLETE
            | method::LISTEN
            | method::CANCELLED => Self::Core,
            method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL => Self::Tasks,
            method::INITIALIZE
            | method::INITIALIZED
            | method::PING
            | method::SET_LEVEL
            | method::RESOURCES_SUBSCRIBE
            | method::RESOURCES_UNSUBSCRIBE
            | method::ROOTS_CHANGED
            | method::TASKS_RESULT
            | method::TASKS_LIST => Self::Removed,
            _ => Self::Unknown,
        }
    }
}

/// Whether a server with these capabilities offers a core method or one of tasks. Other methods
/// have no capability that is known here, and count as not offered.
// GW-05
pub fn is_offered(method: &str, capabilities: &Capabilities) -> bool {
    match method {
        method::DISCOVER | method::LISTEN | method::CANCELLED => true,
        method::TOOLS_LIST | method::TOOLS_CALL => capabilities.tools.is_some(),
        method::PROMPTS_LIST | method::PROMPTS_GET => capabilities.prompts.is_some(),
        method::RESOURCES_LIST | method::TEMPLATES_LIST | method::RESOURCES_READ => {
            capabilities.resources.is_some()
        }
        method::COMPLETE => capabilities.completions,
        method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL => {
            capabilities.extension(extension::TASKS).is_some()
        }
        _ => false,
    }
}

/// Whether results of a method say how long they may be cached.
// CA-01
pub fn is_cacheable(method: &str) -> bool {
    matches!(
        method,
        method::DISCOVER
            | method::TOOLS_LIST
            | method::PROMPTS_LIST
            | method::RESOURCES_LIST
            | method::TEMPLATES_LIST
            | method::RESOURCES_READ
    )
}

/// Whether a result of a method may be `input_required`.
// MR-01
pub fn may_require_input(method: &str) -> bool {
    matches!(method, method::TOOLS_CALL | method::PROMPTS_GET | method::RESOURCES_READ)
}

/// The refusal of a method that is unknown, removed or not offered: status 404 and -32601.
// GW-05
pub fn method_not_found() -> Refusal {
    Refusal {
        status: STATUS_NOT_FOUND,
        error: RpcError::new(code::METHOD_NOT_FOUND, "there is no such method here"),
    }
}

/// The refusal of `initialize` where no legacy revision is served. It names the revisions that
/// are, which a legacy host has no other way to learn.
// GW-05, LC-06
pub fn refuse_initialize(params: Option<&Json>, supported: &[Revision]) -> Refusal {
    let requested = params.and_then(|params| params.member("protocolVersion"));
    let requested = requested.and_then(|requested| requested.decode::<String>().ok());
    Refusal::unsupported_version(&requested.unwrap_or_default(), supported)
}

#[cfg(test)]
mod tests {
    use super::*;

    // GW-05
    #[test]
    fn methods_of_the_schema_are_core() {
        for core in [
            "server/discover",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "subscriptions/listen",
            "prompts/list",
            "prompts/get",
            "tools/list",
            "tools/call",
            "completion/complete",
            "notifications/cancelled",
        ] {
            assert_eq!(MethodKind::of(core), MethodKind::Core, "{core}");
        }
        for tasks in ["tasks/get", "tasks/update", "tasks/cancel"] {
            assert_eq!(MethodKind::of(tasks), MethodKind::Tasks, "{tasks}");
        }
    }

    // GW-05, LC-14
    #[test]
    fn legacy_methods_are_removed_and_the_rest_is_unknown() {
        for removed in [
            "initialize",
            "notifications/initialized",
            "ping",
            "logging/setLevel",
            "resources/subscribe",
            "resources/unsubscribe",
            "notifications/roots/list_changed",
            "tasks/list",
            "tasks/result",
        ] {
            assert_eq!(MethodKind::of(removed), MethodKind::Removed, "{removed}");
        }
        for unknown in ["", "Tools/list", "roots/list", "elicitation/create", "com.example/x", "skills/list"]
        {
            assert_eq!(MethodKind::of(unknown), MethodKind::Unknown, "{unknown}");
        }
        let refusal = method_not_found();
        assert_eq!((refusal.status, refusal.error.code), (404, -32601));
    }

    // GW-05: a method without its capability is refused like an unknown one.
    #[test]
    fn methods_are_offered_with_their_capability() {
        let capabilities = |text: &str| Capabilities::decode(&Json::try_from(text).unwrap()).unwrap();
        let all = capabilities(
            r#"{"tools":{},"prompts":{},"resources":{},"completions":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
        );
        let none = capabilities("{}");
        for (method, is_always_offered) in [
            ("server/discover", true),
            ("subscriptions/listen", true),
            ("tools/list", false),
            ("tools/call", false),
            ("prompts/list", false),
            ("prompts/get", false),
            ("resources/list", false),
            ("resources/templates/list", false),
            ("resources/read", false),
            ("completion/complete", false),
            ("tasks/get", false),
            ("tasks/update", false),
            ("tasks/cancel", false),
        ] {
            assert!(is_offered(method, &all), "{method}");
            assert_eq!(is_offered(method, &none), is_always_offered, "{method}");
        }
        assert!(!is_offered("ping", &all));
        assert!(!is_offered("com.example/x", &all));
    }

    #[test]
    fn initialize_is_answered_with_the_revisions() {
        // GW-05
        let params = Json::try_from(r#"{"protocolVersion":"2025-06-18"}"#).unwrap();
        let refusal = refuse_initialize(Some(&params), &[Revision::V2026_07_28]);
        assert_eq!((refusal.status, refusal.error.code), (400, -32022));
        assert!(refusal.error.message.contains("2026-07-28"), "{}", refusal.error.message);
        assert_eq!(
            refusal.error.data.unwrap().as_str(),
            r#"{"supported":["2026-07-28"],"requested":"2025-06-18"}"#
        );
        let bare = refuse_initialize(None, &[]).error.data.unwrap();
        assert_eq!(bare.as_str(), r#"{"supported":[],"requested":""}"#);
    }

    #[test]
    fn input_is_required_of_three_methods_only() {
        // MR-01
        for method in ["tools/call", "prompts/get", "resources/read"] {
            assert!(may_require_input(method), "{method}");
        }
        for method in ["tools/list", "server/discover", "completion/complete", "tasks/get"] {
            assert!(!may_require_input(method), "{method}");
        }
    }
}
