//! Decides which methods may be repeated.

use crate::wire::method;

/// Whether repeating a request of this method is harmless, whatever its params. Whether a call of a tool is,
/// the tool says.
pub fn is_harmless_method(method: &str) -> bool {
    matches!(
        method,
        method::PING
            | method::DISCOVER
            | method::TOOLS_LIST
            | method::RESOURCES_LIST
            | method::TEMPLATES_LIST
            | method::RESOURCES_READ
            | method::PROMPTS_LIST
            | method::PROMPTS_GET
            | method::COMPLETE
            | method::SKILLS_LIST
            | method::SKILLS_GET
            // Repeating one of these has no further effect.
            | method::SET_LEVEL
            | method::RESOURCES_SUBSCRIBE
            | method::RESOURCES_UNSUBSCRIBE
            | method::TASKS_GET
            | method::TASKS_RESULT
            | method::TASKS_LIST
            | method::TASKS_UPDATE
            | method::TASKS_CANCEL
    )
}
