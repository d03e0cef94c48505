//! The output schemas of tools in a build without the feature `schema`: nothing is checked.

use bowline_proto::wire::Json;
use bowline_proto::wire::view::Tool;

use super::Lists;

#[expect(clippy::unused_self, reason = "the signatures are those of the functions that they replace")]
impl Lists {
    pub(super) fn record_output_schemas(&self, _tools: &[Tool]) {}

    pub(crate) fn output_violation(&self, _tool: &str, _value: &Json) -> Option<String> {
        None
    }
}
