//! The output schemas of tools, for callers that decode a result.

use bowline_proto::wire::Json;
use bowline_proto::wire::view::Tool;

use super::Lists;
use crate::schema;

impl Lists {
    /// Records the output schemas of a new tool list.
    pub(super) fn record_output_schemas(&self, tools: &[Tool]) {
        // A copy, since a slice would keep the whole list in memory.
        let schema = |tool: &Tool| Some((tool.name.clone(), tool.output_schema.as_ref()?.detached()));
        *self.output_schemas.lock() = tools.iter().filter_map(schema).collect();
    }

    /// How a value violates the output schema of a tool. `None` if it fits, or if there is no schema
    /// that it can be checked against.
    pub(crate) fn output_violation(&self, tool: &str, value: &Json) -> Option<String> {
        let schema = self.output_schemas.lock().get(tool).cloned()?;
        schema::first_violation(&schema, value)
    }
}
