//! Decides which methods do not reach a server of which the configuration hides something: those that no check here knows,
//! and that the server may take for one that is checked.

use bowline::RpcError;
use bowline::config::Exposure;
use bowline::types::method;

use crate::error_response::unknown_method;

/// Returns the error for a request of a host with a session whose method is not checked, if the server may serve it all
/// the same.
pub(crate) fn refuse_in_session(exposure: &Exposure, asked: &str) -> Option<RpcError> {
    // No revision with sessions has this request, so that what it subscribes to is not checked.
    let is_unchecked = asked == method::LISTEN && hides_something(exposure);
    if is_unchecked { Some(unknown_method(asked)) } else { refuse_variant(exposure, asked) }
}

/// Returns the error for a request whose method a server may take for that of a checked one.
pub(crate) fn refuse_variant(exposure: &Exposure, asked: &str) -> Option<RpcError> {
    (hides_something(exposure) && is_variant(asked)).then(|| unknown_method(asked))
}

/// Whether something of the server is not exposed.
fn hides_something(exposure: &Exposure) -> bool {
    hides_tools(exposure) || !exposure.prompts || !exposure.resources
}

/// Whether some tools of the server may not be exposed.
pub(crate) fn hides_tools(exposure: &Exposure) -> bool {
    exposure.enabled_tools.is_some() || !exposure.disabled_tools.is_empty()
}

/// Whether a method is that of a request but for case, white space and punctuation, such as `Tools/Call` or `tools/call/`.
fn is_variant(asked: &str) -> bool {
    !REQUESTS.contains(&asked) && REQUESTS.iter().any(|request| letters(request).eq(letters(asked)))
}

/// The letters and digits of a method. Those that only some languages take for the same letter are the same here.
fn letters(method: &str) -> impl Iterator<Item = char> {
    let folded = method.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    folded.filter(|letter| letter.is_alphanumeric())
}

/// The requests that hosts send, in any revision.
const REQUESTS: [&str; 22] = [
    method::INITIALIZE,
    method::DISCOVER,
    method::PING,
    method::TOOLS_LIST,
    method::TOOLS_CALL,
    method::PROMPTS_LIST,
    method::PROMPTS_GET,
    method::RESOURCES_LIST,
    method::TEMPLATES_LIST,
    method::RESOURCES_READ,
    method::RESOURCES_SUBSCRIBE,
    method::RESOURCES_UNSUBSCRIBE,
    method::COMPLETE,
    method::SET_LEVEL,
    method::LISTEN,
    method::TASKS_GET,
    method::TASKS_RESULT,
    method::TASKS_LIST,
    method::TASKS_CANCEL,
    method::TASKS_UPDATE,
    method::SKILLS_LIST,
    method::SKILLS_GET,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variants_of_requests_are_refused() {
        let mut hiding = Exposure::default();
        hiding.resources = false;
        for variant in [
            "Tools/Call",
            "TOOLS/CALL",
            "tools/call/",
            " tools/call\n",
            "tools//call",
            "tools.call",
            "tools/call\0",
            "tool\u{17f}/call",
            "Subscriptions/Listen",
            "logging/setlevel",
        ] {
            let refused = refuse_variant(&hiding, variant).map(|error| error.code);
            assert_eq!(refused, Some(bowline::types::code::METHOD_NOT_FOUND), "{variant:?}");
            assert!(refuse_variant(&Exposure::default(), variant).is_none(), "{variant:?}");
        }
        for other in REQUESTS.into_iter().chain(["com.example/do", "tools/calls", "tool/call", ""]) {
            assert!(refuse_variant(&hiding, other).is_none(), "{other:?}");
        }
    }

    #[test]
    fn a_session_cannot_listen_where_something_is_hidden() {
        let mut hiding = Exposure::default();
        hiding.prompts = false;
        assert!(refuse_in_session(&hiding, method::LISTEN).is_some());
        assert!(refuse_in_session(&Exposure::default(), method::LISTEN).is_none());
        assert!(refuse_in_session(&hiding, "Tools/Call").is_some());
        assert!(refuse_in_session(&hiding, method::TOOLS_CALL).is_none());
    }
}
