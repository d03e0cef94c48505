//! [`SimRequest`]: what a caller requests: calls of tools, lists and their later pages, other
//! reading methods, and requests about tasks.

use bowline_proto::client::retry::{RequestFacts, is_harmless_method};
use bowline_proto::wire::method;
use fastrand::Rng;

use crate::caller::RECONNECT_WAIT;

/// One request, with the truth about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimRequest {
    pub(crate) method: &'static str,
    /// Whether running it twice is the same as running it once.
    pub(crate) harmless: bool,
    /// What the client knows of that before it asks.
    known_harmless: Option<bool>,
    /// Whether it is of use only on the link that it was first sent over.
    pub(crate) pinned: bool,
    /// Whether no person may be asked to log in for it.
    pub(crate) quiet: bool,
}

impl SimRequest {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let quiet = rng.u8(..6) == 0;
        if rng.u8(..3) > 0 {
            // For some tools it is not known before they are listed.
            let harmless = rng.u8(..3) == 0;
            let known_harmless = (rng.u8(..4) > 0).then_some(harmless);
            return Self { method: method::TOOLS_CALL, harmless, known_harmless, pinned: false, quiet };
        }
        let (method, harmless) = METHODS[rng.usize(..METHODS.len())];
        let known_harmless = Some(is_harmless_method(method));
        Self { method, harmless, known_harmless, pinned: false, quiet }
    }

    /// A later page of a list. Its cursor belongs to the session of the first page.
    pub(crate) fn later_page(self) -> Self {
        Self { pinned: true, ..self }
    }

    /// Whether it is a list, which may have more pages.
    pub(crate) fn is_list(self) -> bool {
        matches!(self.method, method::TOOLS_LIST | method::RESOURCES_LIST | method::PROMPTS_LIST)
    }

    pub(crate) fn is_tool_call(self) -> bool {
        self.method == method::TOOLS_CALL
    }

    /// What the client knows of it.
    pub(crate) fn facts(self) -> RequestFacts {
        RequestFacts {
            method: self.method.into(),
            harmless: self.known_harmless,
            pinned: self.pinned,
            quiet: self.quiet,
            max_retry_after: RECONNECT_WAIT,
        }
    }
}

/// The methods beside `tools/call`, and whether repeating one is harmless.
const METHODS: &[(&str, bool)] = &[
    (method::TOOLS_LIST, true),
    (method::RESOURCES_LIST, true),
    (method::PROMPTS_LIST, true),
    (method::RESOURCES_READ, true),
    (method::PROMPTS_GET, true),
    (method::COMPLETE, true),
    (method::RESOURCES_SUBSCRIBE, true),
    (method::TASKS_GET, true),
    (method::TASKS_RESULT, true),
    (method::TASKS_CANCEL, true),
    ("vendor/transfer", false),
];
