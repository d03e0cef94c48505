//! Hooks in a build without the feature `hooks`: those that are configured do not run, and the log
//! says so.

use bowline_config::Hook;

use crate::registry::Feed;

pub(crate) struct Hooks;

impl Hooks {
    pub(crate) fn start(server: &str, _feed: Feed, hooks: Vec<Hook>) -> Self {
        if !hooks.is_empty() {
            tracing::warn!(server, "hooks do not run: this program was built without the feature `hooks`");
        }
        Self
    }

    pub(crate) fn need_tool_tracking(_hooks: &[Hook]) -> bool {
        false
    }

    #[expect(clippy::unused_self, reason = "it has the signature of the function that it replaces")]
    pub(crate) fn stop(self) {}

    #[expect(clippy::unused_async, reason = "it has the signature of the function that it replaces")]
    pub(crate) async fn finished(self) {}
}
