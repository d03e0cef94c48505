//! Decides whether a tool may be called without asking a person (TL-03, TL-08).

use bowline_proto::wire::view::Tool;

/// Whether the host believes a server's tool annotations. The person who configures the server
/// decides that; the server cannot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trust {
    /// The annotations are ignored.
    #[default]
    Untrusted,
    /// The annotations are believed.
    Trusted,
}

/// The approval that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approval {
    /// A person's consent.
    Ask,
    /// A person's consent with a warning, since the call may be destructive.
    AskWithWarning,
    /// None: the tool is read-only according to a trusted server.
    NotRequired,
}

/// The approval that a call of this tool needs, by its annotations and the trust in its server.
///
/// A missing annotation counts as the worse case: the tool may write and be destructive.
// TL-03
pub fn approval(tool: &Tool, trust: Trust) -> Approval {
    match trust {
        Trust::Trusted if tool.is_read_only() => Approval::NotRequired,
        Trust::Trusted if !tool.is_destructive() => Approval::Ask,
        Trust::Trusted | Trust::Untrusted => Approval::AskWithWarning,
    }
}

#[cfg(test)]
mod tests {
    use bowline_proto::wire::Json;
    use bowline_proto::wire::view::ListItem as _;
    use serde_json::{Value, json};

    use super::*;

    fn tool(annotations: Value) -> Tool {
        let tool = json!({ "name": "t", "inputSchema": {}, "annotations": annotations });
        Tool::decode(&Json::encode(&tool).unwrap()).unwrap()
    }

    /// TL-03: an untrusted server cannot skip the approval, and the defaults are those of the
    /// specification.
    #[test]
    fn tl_03_hints_are_worth_what_the_server_is() {
        let read_only = tool(json!({ "readOnlyHint": true, "destructiveHint": false }));
        let silent = tool(json!({}));
        let gentle = tool(json!({ "destructiveHint": false }));
        for tool in [&read_only, &silent, &gentle] {
            assert_eq!(approval(tool, Trust::default()), Approval::AskWithWarning);
        }
        assert_eq!(approval(&read_only, Trust::Trusted), Approval::NotRequired);
        assert_eq!(approval(&silent, Trust::Trusted), Approval::AskWithWarning);
        assert_eq!(approval(&gentle, Trust::Trusted), Approval::Ask);
        assert!(!silent.is_read_only() && silent.is_destructive());
        assert!(!silent.is_idempotent() && silent.is_open_world());
    }
}
