//! Maps tool names to those that the APIs accept, which allow fewer characters than servers use.

use std::collections::HashMap;

use bowline_proto::wire::view::{SamplingBlock, SamplingRequest};

use bowline_proto::tool_names::{MAX_NAME, is_name_character};

/// The tool names of a request, in both directions. A valid name stays as it is.
#[derive(Debug, Default)]
pub(super) struct ToolNames {
    model_names: HashMap<Box<str>, Box<str>>,
    server_names: HashMap<Box<str>, Box<str>>,
    /// The last number used to make a name unique. It is shared by all names, so that thousands of
    /// names that become the same need one number each, and no search.
    number: usize,
}

impl ToolNames {
    /// The names of the offered tools and of those used in the conversation.
    pub(super) fn from_request(request: &SamplingRequest) -> Self {
        let used = request.messages.iter().flat_map(|message| &message.content);
        let used = used.filter_map(|block| match block {
            SamplingBlock::ToolUse { name, .. } => Some(&**name),
            _ => None,
        });
        let all: Vec<&str> = request.tools.iter().map(|tool| &*tool.name).chain(used).collect();
        let mut names = Self::default();
        // Valid names come first, so that none is displaced by a converted one.
        let (fitting, others): (Vec<&str>, Vec<&str>) = all.into_iter().partition(|name| is_valid_name(name));
        for name in fitting {
            names.insert(name, name.into());
        }
        for name in others {
            if !names.model_names.contains_key(name) {
                let free = names.unused_name(name);
                names.insert(name, free);
            }
        }
        names
    }

    pub(super) fn to_model<'a>(&'a self, name: &'a str) -> &'a str {
        self.model_names.get(name).map_or(name, |sent| sent)
    }

    /// The tool that a model means. A tool that was never offered keeps the model's name.
    pub(super) fn to_server<'a>(&'a self, sent: &'a str) -> &'a str {
        self.server_names.get(sent).map_or(sent, |name| name)
    }

    fn insert(&mut self, name: &str, sent: Box<str>) {
        self.server_names.insert(sent.clone(), name.into());
        self.model_names.insert(name.into(), sent);
    }

    fn unused_name(&mut self, name: &str) -> Box<str> {
        let letters = name.chars().map(|letter| if is_name_character(letter) { letter } else { '_' });
        let base: String = letters.take(MAX_NAME).collect();
        let base = if base.is_empty() { "tool".to_owned() } else { base };
        let mut candidate = base.clone();
        while self.server_names.contains_key(&*candidate) {
            self.number += 1;
            let suffix = format!("_{}", self.number);
            let kept = base.len().min(MAX_NAME - suffix.len());
            candidate = format!("{}{suffix}", &base[..kept]);
        }
        candidate.into()
    }
}

fn is_valid_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_name_character)
}

#[cfg(test)]
mod tests {
    use bowline_proto::wire::Json;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_name_is_told_apart_and_found_again() {
        let long = "x".repeat(70);
        let longer = "x".repeat(71);
        let all = ["a.b", "a_b", "a/b", "", "naïve", &long, &longer];
        let tools: Vec<_> = all.iter().map(|name| json!({ "name": name, "inputSchema": {} })).collect();
        let params = json!({ "messages": [], "maxTokens": 1, "tools": tools });
        let request = SamplingRequest::decode(&Json::encode(&params).unwrap()).unwrap();
        let names = ToolNames::from_request(&request);
        assert_eq!(names.to_model("a_b"), "a_b");
        assert_eq!(names.to_model("a.b"), "a_b_1");
        assert_eq!(names.to_model("a/b"), "a_b_2");
        assert_eq!(names.to_model(""), "tool");
        for name in all {
            assert!(is_valid_name(names.to_model(name)), "{name}");
            assert_eq!(names.to_server(names.to_model(name)), name);
        }
        assert_eq!(names.to_server("made_up"), "made_up");
    }

    /// Names that become the same do not take quadratic time.
    #[test]
    fn a_flood_of_names_that_become_the_same_is_quick() {
        let used = |at: u32| {
            let letter = char::from_u32(0x4e00 + at % 20_000).unwrap();
            let name = format!("{letter}{}", if at < 20_000 { "é" } else { "ß" });
            json!({ "type": "tool_use", "id": "x", "name": name, "input": {} })
        };
        let turn = |from: u32| {
            let content: Vec<_> = (from..from + 1000).map(used).collect();
            json!({ "role": "assistant", "content": content })
        };
        let messages: Vec<_> = (0..40).map(|turns| turn(turns * 1000)).collect();
        let params = json!({ "messages": messages, "maxTokens": 1 });
        let request = SamplingRequest::decode(&Json::encode(&params).unwrap()).unwrap();
        let names = ToolNames::from_request(&request);
        assert_eq!(names.server_names.len(), 40_000);
        assert!(names.number < 40_000, "one number for each, and no search");
    }
}
