//! What both APIs share: converting content to text, and assembling the result.

use std::borrow::Cow;

use bowline_proto::wire::Json;
use bowline_proto::wire::view::{Content, ResourceBody, SamplingBlock, SamplingResult};
use serde_json::Value;

use super::tools::SamplingTools;

/// Content that the API cannot express. The text is for people.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnsupportedContent(pub(super) String);

/// The answer of a model and its cost.
#[derive(Debug)]
pub(super) struct ModelReply {
    pub(super) result: SamplingResult,
    /// Tokens of the conversation and the answer, if the endpoint counts them.
    pub(super) tokens: Option<u64>,
    /// Tokens of the answer alone.
    pub(super) output_tokens: Option<u64>,
}

/// A response that is not an answer. The text is for people.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnreadableReply(pub(super) &'static str);

/// The text of a block that is text or can be expressed as text.
pub(super) fn as_text(content: &Content) -> Option<Cow<'_, str>> {
    match content {
        Content::Text(block) => Some(block.text.get()),
        Content::ResourceLink(link) => Some(Cow::Owned(format!("{}: {}", link.name, link.uri))),
        Content::Resource(embedded) => match &embedded.resource.body {
            ResourceBody::Text(text) => Some(text.get()),
            _ => None,
        },
        _ => None,
    }
}

/// Describes a block that cannot be expressed.
pub(super) fn describe(content: &Content) -> String {
    match content {
        Content::Text(_) => "text".to_owned(),
        Content::Image(image) => format!("a picture of type {}", shorten(&image.mime_type)),
        Content::Audio(audio) => format!("sound of type {}", shorten(&audio.mime_type)),
        Content::ResourceLink(_) => "a link to a resource".to_owned(),
        Content::Resource(_) => "a resource of bytes".to_owned(),
        _ => "content of an unknown type".to_owned(),
    }
}

/// The structured result of a tool as text, if there is no other content.
pub(super) fn structured_text(content: &[Content], structured: Option<&Json>) -> Option<String> {
    structured.filter(|_| content.is_empty()).map(ToString::to_string)
}

/// Parses JSON into a tree. Fails if it is nested too deeply.
pub(super) fn to_value(json: &Json, what: &str) -> Result<Value, UnsupportedContent> {
    json.decode().map_err(|_| UnsupportedContent(format!("{what} is nested too deep")))
}

/// Maximum number of blocks up to and including a tool call.
const MAX_BLOCKS: usize = 128;

/// Converts a tool call for the server. `taken` holds the blocks before it: results are matched by
/// id, and some endpoints give no ids or the same to all.
pub(super) fn tool_use(
    id: Option<&str>,
    name: &str,
    input: &Json,
    tools: &SamplingTools,
    taken: &[SamplingBlock],
) -> Result<SamplingBlock, UnreadableReply> {
    if taken.len() >= MAX_BLOCKS {
        return Err(UnreadableReply("the model called too many tools"));
    }
    let is_taken = |id: &str| {
        taken.iter().any(|block| matches!(block, SamplingBlock::ToolUse { id: other, .. } if **other == *id))
    };
    let given = id.filter(|id| !id.is_empty() && !is_taken(id)).map(str::to_owned);
    let id = given.unwrap_or_else(|| {
        let mut numbered = (1..).map(|count| format!("call_{count}"));
        numbered.find(|id| !is_taken(id)).expect("there are more numbers than calls")
    });
    let (name, input) = tools.resolve_call(name, input);
    Ok(SamplingBlock::tool_use(&id, name, &input))
}

/// Assembles the result. An empty answer becomes an empty text, since the protocol requires a
/// block.
pub(super) fn build_result(
    mut content: Vec<SamplingBlock>,
    model: Option<&str>,
    stop_reason: Option<String>,
    asked: &str,
) -> SamplingResult {
    if content.is_empty() {
        content.push(SamplingBlock::text(""));
    }
    let uses = content.iter().any(|block| matches!(block, SamplingBlock::ToolUse { .. }));
    // Some endpoints report another reason although the model waits for tools.
    let stop_reason = if uses { Some("toolUse".to_owned()) } else { stop_reason };
    let model = model.filter(|model| !model.is_empty()).map_or_else(|| asked.to_owned(), shorten);
    let mut result = SamplingResult::new(model, content);
    result.stop_reason = stop_reason.map(|reason| shorten(&reason).into());
    result
}

/// Shortens foreign text for display.
pub(super) fn shorten(word: &str) -> String {
    let letters = word.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    letters.take(MAX_WORD_CHARS).collect()
}

const MAX_WORD_CHARS: usize = 128;

#[cfg(test)]
mod tests {
    use bowline_config::SamplingApi;
    use bowline_proto::wire::view::SamplingRequest;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reply_has_at_most_128_blocks_with_tool_calls() {
        let params = Json::encode(&json!({ "messages": [], "maxTokens": 1 })).unwrap();
        let request = SamplingRequest::decode(&params).unwrap();
        let Ok(tools) = SamplingTools::from_request(&request, SamplingApi::OpenAi) else {
            panic!("no tools")
        };
        let mut blocks = Vec::new();
        let refused = loop {
            match tool_use(None, "t", &Json::empty_object(), &tools, &blocks) {
                Ok(block) => blocks.push(block),
                Err(refused) => break refused,
            }
        };
        assert_eq!(blocks.len(), 128);
        assert_eq!(refused.0, "the model called too many tools");
    }
}
