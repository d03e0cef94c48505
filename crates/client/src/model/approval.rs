//! Owns whether a tool may be called without asking a person (TL-03, TL-08).

use bowline_proto::wire::view::Tool;

/// Whether the host believes what a server says of its tools. That is a decision of the person who
/// configured it, and nothing the server can say changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Its annotations are claims, and count for nothing.
    #[default]
    Untrusted,
    /// Its annotations are believed.
    Trusted,
}

/// What a call of a tool needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// A person's consent.
    Ask,
    /// A person's consent, and a warning: it may destroy something.
    AskTwice,
    /// Nothing: it changes nothing, and whoever says so is trusted.
    Free,
}

/// What a call of this tool needs, by its annotations and by what they are worth (TL-03).
///
/// What is not said counts as the worse: a tool may write, and may destroy.
pub fn approval(tool: &Tool, trust: Trust) -> Approval {
    match trust {
        Trust::Trusted if tool.is_read_only() => Approval::Free,
        Trust::Trusted if !tool.is_destructive() => Approval::Ask,
        Trust::Trusted | Trust::Untrusted => Approval::AskTwice,
    }
}

#[cfg(test)]
mod tests {
    use bowline_proto::wire::Json;
    use bowline_proto::wire::view::Item as _;
    use serde_json::{Value, json};

    use super::*;

    fn tool(annotations: Value) -> Tool {
        let tool = json!({ "name": "t", "inputSchema": {}, "annotations": annotations });
        Tool::decode(&Json::of(&tool).unwrap()).unwrap()
    }

    /// TL-03: claims of an untrusted server skip nothing, and the defaults are the spec's.
    #[test]
    fn tl_03_hints_are_worth_what_the_server_is() {
        let read_only = tool(json!({ "readOnlyHint": true, "destructiveHint": false }));
        let silent = tool(json!({}));
        let gentle = tool(json!({ "destructiveHint": false }));
        for tool in [&read_only, &silent, &gentle] {
            assert_eq!(approval(tool, Trust::default()), Approval::AskTwice);
        }
        assert_eq!(approval(&read_only, Trust::Trusted), Approval::Free);
        assert_eq!(approval(&silent, Trust::Trusted), Approval::AskTwice);
        assert_eq!(approval(&gentle, Trust::Trusted), Approval::Ask);
        assert!(!silent.is_read_only() && silent.is_destructive());
        assert!(!silent.is_idempotent() && silent.is_open_world());
    }
}
