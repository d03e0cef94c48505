//! Checks a tool's result against its output schema (TL-06).

use bowline_proto::revision::{Era, Revision};
use bowline_proto::wire::Json;
use bowline_proto::wire::view::{CallToolResult, Tool};

use super::{Schema, SchemaVerdict, Violation};

/// The outcome of checking a result. Anything but the first two is the server's fault and should be
/// reported; the content is usable all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputCheck {
    /// There is no schema, or the tool failed and need not follow it.
    NoSchema,
    /// It fits.
    Fits,
    /// There is a schema, but no structured content.
    Missing,
    /// The value does not fit, with the first few reasons.
    Violations(Vec<Violation>),
    /// The schema or the value cannot be checked, with the reason.
    Unusable(String),
}

/// Checks a result against the output schema of its tool.
///
/// `revision` is the negotiated one ([`Peer::revision`](crate::Peer)): before 2026-07-28 both
/// schema and value are objects; from then on they may be anything.
///
/// ```
/// # use bowline::{Json, Revision};
/// # use bowline::schema::{OutputCheck, check_output};
/// # use bowline::types::{CallToolResult, ListItem, Tool};
/// # let tool = Tool::decode(&Json::parse(r#"{"name":"t","inputSchema":{},"outputSchema":{"type":"object"}}"#)?)?;
/// # let result = CallToolResult::decode(&Json::parse(r#"{"content":[]}"#)?)?;
/// if let OutputCheck::Violations(why) = check_output(&tool, &result, Revision::V2026_07_28) {
///     eprintln!("{} violates its output schema: {}", tool.name, why[0]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check_output(tool: &Tool, result: &CallToolResult, revision: Revision) -> OutputCheck {
    let Some(schema) = tool.output_schema.as_ref().filter(|_| !result.is_error) else {
        return OutputCheck::NoSchema;
    };
    let compiled = match Schema::compile(schema) {
        Ok(compiled) => compiled,
        Err(error) => return OutputCheck::Unusable(error.to_string()),
    };
    let objects = revision.era() == Era::Legacy;
    // A missing type is harmless; another type cannot be satisfied.
    if objects && schema.member("type").is_some_and(|kind| kind.as_str() != "\"object\"") {
        return OutputCheck::Unusable(format!("the schema must be that of an object in {revision}"));
    }
    let Some(value) = &result.structured else { return OutputCheck::Missing };
    if objects && !value.is_object() {
        let what = format!("must be an object in {revision}");
        return OutputCheck::Violations(vec![Violation::new("", what)]);
    }
    match compiled.verdict(value) {
        SchemaVerdict::Fits => OutputCheck::Fits,
        SchemaVerdict::Violations(violations) => OutputCheck::Violations(violations),
        SchemaVerdict::Unchecked(why) => OutputCheck::Unusable(why.to_owned()),
    }
}

/// The first violation of a schema by a value. `None` if it fits, or cannot be checked.
pub(crate) fn first_violation(schema: &Json, value: &Json) -> Option<String> {
    match Schema::compile(schema).ok()?.verdict(value) {
        SchemaVerdict::Violations(violations) => violations.first().map(ToString::to_string),
        SchemaVerdict::Fits | SchemaVerdict::Unchecked(_) => None,
    }
}
