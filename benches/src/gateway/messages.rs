//! The messages that hosts send in this comparison.

use serde::Serialize;

/// A tool of the benchmark server. Both do the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Tool {
    /// It declares that it only reads, so a gateway may repeat a call of it.
    ReadOnly,
    /// It declares nothing, so it may have effects.
    Effects,
}

impl Tool {
    pub(super) const ALL: [Self; 2] = [Self::ReadOnly, Self::Effects];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_payload",
            Self::Effects => "payload",
        }
    }

    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Effects => "effects",
        }
    }
}

/// Returns a call of the tool, whose result has a text of 100 bytes.
pub(super) fn call_body(tool: &str, id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"bytes":{RESULT_BYTES}}}}}}}"#
    )
}

/// The length of the text in a result.
const RESULT_BYTES: usize = 100;
