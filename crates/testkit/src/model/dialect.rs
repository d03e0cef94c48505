//! The interfaces of model endpoints, and how a request of each is read.

use std::collections::HashMap;

use serde_json::Value;

use super::ToolOutcome;

/// An interface of a model endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Anthropic Messages.
    Messages,
    /// OpenAI chat completions.
    Chat,
    /// OpenAI responses.
    Responses,
}

/// What the script needs of a request, whatever its interface.
#[derive(Debug, Default)]
pub(super) struct ModelRequest {
    pub(super) stream: bool,
    pub(super) tools: Vec<OfferedTool>,
    /// The results of tools in the conversation so far, by the id of the call.
    pub(super) results: HashMap<String, ToolOutcome>,
}

/// A tool that the host offers to the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OfferedTool {
    pub(super) name: String,
    /// The group of tools that it belongs to, in an interface that has groups.
    pub(super) namespace: Option<String>,
}

impl Dialect {
    pub(super) fn of_path(path: &str) -> Option<Self> {
        match path.rsplit('/').next() {
            Some("messages") => Some(Self::Messages),
            Some("completions") => Some(Self::Chat),
            Some("responses") => Some(Self::Responses),
            _ => None,
        }
    }

    pub(super) fn read_request(self, body: &Value) -> ModelRequest {
        let tools = items(&body["tools"]).flat_map(|tool| self.read_tool(tool));
        let results = match self {
            Self::Messages => items(&body["messages"])
                .flat_map(|message| items(&message["content"]))
                .filter(|block| block["type"] == "tool_result")
                .filter_map(|block| {
                    let text = text_of(&block["content"]);
                    let outcome = match block["is_error"].as_bool() {
                        Some(true) => ToolOutcome::Error(text),
                        _ => ToolOutcome::Result(text),
                    };
                    Some((block["tool_use_id"].as_str()?.to_owned(), outcome))
                })
                .collect(),
            Self::Chat => read_outputs(&body["messages"], ("role", "tool"), "tool_call_id", "content"),
            Self::Responses => {
                read_outputs(&body["input"], ("type", "function_call_output"), "call_id", "output")
            }
        };
        ModelRequest { stream: body["stream"] == true, tools: tools.collect(), results }
    }

    /// Reads a tool, or the tools of a group.
    fn read_tool(self, tool: &Value) -> Vec<OfferedTool> {
        let name = if self == Self::Chat { &tool["function"]["name"] } else { &tool["name"] };
        let Some(name) = name.as_str() else { return Vec::new() };
        if tool["type"] != "namespace" {
            return vec![OfferedTool { name: name.to_owned(), namespace: None }];
        }
        let names = items(&tool["tools"]).filter_map(|tool| tool["name"].as_str());
        let member = |member: &str| OfferedTool { name: member.to_owned(), namespace: Some(name.to_owned()) };
        names.map(member).collect()
    }
}

impl ModelRequest {
    /// Returns the offered tool of this name, or one whose name ends in it behind a separator.
    pub(super) fn find_tool(&self, tool: &str) -> Option<&OfferedTool> {
        let is_prefixed =
            |name: &str| name.strip_suffix(tool).is_some_and(|prefix| prefix.ends_with(['_', '.', '-', '/']));
        let exact = self.tools.iter().find(|offered| offered.name == tool);
        exact.or_else(|| self.tools.iter().find(|offered| is_prefixed(&offered.name)))
    }
}

/// Reads the results of tools in an interface that does not mark errors.
fn read_outputs(list: &Value, kind: (&str, &str), id: &str, text: &str) -> HashMap<String, ToolOutcome> {
    let outputs = items(list).filter(|item| item[kind.0] == kind.1);
    let entry =
        |item: &Value| Some((item[id].as_str()?.to_owned(), ToolOutcome::Result(text_of(&item[text]))));
    outputs.filter_map(entry).collect()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns the text of a content, which is a text or a list of blocks.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        _ => items(content).filter_map(|block| block["text"].as_str()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_found_by_the_id_of_their_call() {
        let block =
            json!({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}]});
        let failed = json!({"type": "tool_result", "tool_use_id": "b", "content": "y", "is_error": true});
        let body = json!({"messages": [{"role": "user", "content": [block, failed]}]});
        let results = Dialect::Messages.read_request(&body).results;
        assert_eq!(results["a"], ToolOutcome::Result("x".into()));
        assert_eq!(results["b"], ToolOutcome::Error("y".into()));

        let body = json!({"messages": [{"role": "tool", "tool_call_id": "a", "content": "x"}]});
        assert_eq!(Dialect::Chat.read_request(&body).results["a"], ToolOutcome::Result("x".into()));

        let body = json!({"input": [{"type": "function_call_output", "call_id": "a", "output": "x"}]});
        assert_eq!(Dialect::Responses.read_request(&body).results["a"], ToolOutcome::Result("x".into()));
    }

    #[test]
    fn a_tool_is_found_behind_the_prefix_of_its_host() {
        let find = |tools: Value, tool: &str| {
            let request = Dialect::Responses.read_request(&json!({ "tools": tools }));
            request.find_tool(tool).map(|found| (found.namespace.clone(), found.name.clone()))
        };
        let prefixed = json!([{"name": "Bash"}, {"name": "mcp__knots__echo"}]);
        assert_eq!(find(prefixed, "echo"), Some((None, "mcp__knots__echo".into())));
        assert_eq!(
            find(json!([{"name": "knots_echo"}, {"name": "echo"}]), "echo"),
            Some((None, "echo".into()))
        );
        let group = json!([{"type": "namespace", "name": "knots", "tools": [{"name": "echo"}]}]);
        assert_eq!(find(group, "echo"), Some((Some("knots".into()), "echo".into())));
        assert_eq!(find(json!([{"name": "reecho"}]), "echo"), None);
    }
}
