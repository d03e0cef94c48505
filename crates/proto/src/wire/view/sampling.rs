//! Views of `sampling/createMessage`: its parameters and its result.
//!
//! Unlike in a list, no invalid element is left out: a conversation without one of its turns is
//! another conversation, so one invalid part fails the request.
// Group SA

use std::fmt;

use super::read::{ListElements, Object, decode_elements, decode_strings};
use super::{Content, ListItem as _, Role, Tool, ViewError};
use crate::revision::Revision;
use crate::wire::Json;
use crate::wire::object::{Edit, quote};

/// The parameters of `sampling/createMessage`. All of it is untrusted.
// SA-03, SA-04
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SamplingRequest {
    /// The parameters as received.
    pub json: Json,
    /// The conversation so far.
    pub messages: Vec<SamplingMessage>,
    /// Maximum number of tokens, which must not be exceeded.
    pub max_tokens: u64,
    /// The preferred model.
    pub preferences: ModelPreferences,
    /// The system prompt, which may be changed or left out.
    pub system_prompt: Option<Box<str>>,
    /// The context of other conversations that the server asks to include.
    pub include_context: IncludeContext,
    /// The temperature, which may be ignored.
    pub temperature: Option<f64>,
    /// The stop sequences, which may be ignored.
    pub stop_sequences: Vec<Box<str>>,
    /// Metadata for the provider, in the provider's format.
    pub metadata: Option<Json>,
    /// Tools of this request alone, which the server need not list.
    pub tools: Vec<Tool>,
    /// How the tools are to be used. `None` means [`ToolChoice::Auto`].
    pub tool_choice: Option<ToolChoice>,
}

/// One turn of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SamplingMessage {
    /// The message as received.
    pub json: Json,
    /// The role of the speaker: [`Role::User`] or [`Role::Assistant`].
    pub role: Role,
    /// The blocks of the message. On the wire it may be a single block.
    pub content: Vec<SamplingBlock>,
}

/// One block of a turn.
// SA-06
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SamplingBlock {
    /// Text, an image, audio, or an unknown type.
    Content(Content),
    /// The model uses a tool.
    ToolUse {
        /// The block as received, including its `_meta`.
        json: Json,
        /// The id that the tool result will name.
        id: Box<str>,
        /// The name of the tool.
        name: Box<str>,
        /// The arguments of the tool.
        input: Json,
    },
    /// The result of a tool.
    #[non_exhaustive]
    ToolResult {
        /// The block as received, including its `_meta`.
        json: Json,
        /// The id of the tool use that it belongs to.
        tool_use_id: Box<str>,
        /// The content of the result.
        content: Vec<Content>,
        /// The structured result, if there is one.
        structured: Option<Json>,
        /// Whether the tool failed.
        is_error: bool,
    },
}

/// The model that a server prefers. Hints count more than priorities.
// SA-03
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Parts of model names, best first.
    pub hints: Vec<Box<str>>,
    /// Weight of a low price, from 0 to 1.
    pub cost: Option<f64>,
    /// Weight of speed, from 0 to 1.
    pub speed: Option<f64>,
    /// Weight of intelligence, from 0 to 1.
    pub intelligence: Option<f64>,
}

/// The context of other conversations that a server asks to include.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IncludeContext {
    /// None. This is the default, and the meaning of an unknown value.
    #[default]
    None,
    /// The conversation with this server.
    ThisServer,
    /// The conversations with all servers.
    AllServers,
}

/// How the model is to use the tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must use at least one tool.
    Required,
    /// The model must not use tools.
    None,
}

/// The result of `sampling/createMessage`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SamplingResult {
    /// The blocks, in order.
    pub content: Vec<SamplingBlock>,
    /// The name of the model.
    pub model: Box<str>,
    /// `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or a value of the provider.
    pub stop_reason: Option<Box<str>>,
}

/// Maximum number of messages. Longer conversations are refused.
const MAX_MESSAGES: usize = 10_000;
/// Maximum number of blocks in one turn or tool result. More are refused.
const MAX_BLOCKS: usize = 1_000;
/// Maximum number of tools. More are refused.
const MAX_TOOLS: usize = 1_000;
/// Maximum number of hints or stop sequences. More are ignored, since both are optional to follow.
const MAX_HINTS: usize = 64;

// === impl SamplingRequest ===

impl SamplingRequest {
    /// Decodes the parameters.
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        let (object, found) = decode_elements(params, "messages", SamplingMessage::read)?;
        if !found.is_present {
            return Err(object.misfit("messages", "an array"));
        }
        let messages = require_all(found, MAX_MESSAGES, "fewer messages")?;
        let tools = require_all(decode_elements(params, "tools", Tool::read)?.1, MAX_TOOLS, "fewer tools")?;
        Ok(Self {
            messages,
            max_tokens: object.count("maxTokens").ok_or_else(|| object.misfit("maxTokens", "an integer"))?,
            preferences: ModelPreferences::from_object(&object),
            system_prompt: object.string("systemPrompt").map(Into::into),
            include_context: match object.string("includeContext").as_deref() {
                Some("thisServer") => IncludeContext::ThisServer,
                Some("allServers") => IncludeContext::AllServers,
                _ => IncludeContext::None,
            },
            temperature: object.value("temperature"),
            stop_sequences: decode_strings(params, "stopSequences")
                .map_or_else(|_| Vec::new(), |(_, found)| found.items.into_iter().take(MAX_HINTS).collect()),
            metadata: object.object("metadata"),
            tools,
            tool_choice: ToolChoice::from_object(&object)?,
            json: params.clone(),
        })
    }

    /// Whether it offers tools, or the conversation used some. Only a host that declared
    /// `sampling.tools` may receive such a request.
    // SA-04
    pub fn uses_tools(&self) -> bool {
        // An empty list counts too: it must not be sent to a host that does not know the member.
        let offered = ["tools", "toolChoice"]
            .iter()
            .any(|name| self.json.member(name).is_some_and(|member| !member.is_null()));
        let mut blocks = self.messages.iter().flat_map(|message| &message.content);
        offered || blocks.any(|block| !matches!(block, SamplingBlock::Content(_)))
    }

    /// Checks that a turn with tool results contains nothing else, and answers every tool use of
    /// the turn before it.
    // SA-05
    pub fn check_turns(&self) -> Result<(), TurnError> {
        let mut open: Vec<&str> = Vec::new();
        for (index, message) in self.messages.iter().enumerate() {
            let refuse = |what| Err(TurnError { index, what });
            let results = message.tool_result_ids().count();
            if results > 0 && results < message.content.len() {
                return refuse("results of tools stand together with something else");
            }
            if results > 0 && message.role != Role::User {
                return refuse("only the user can give results of tools");
            }
            if !open.is_empty() && results == 0 {
                return refuse("the turn before used tools, and this one does not give their results");
            }
            for id in message.tool_result_ids() {
                let Some(at) = open.iter().position(|used| *used == id) else {
                    return refuse("a result belongs to no use of a tool in the turn before");
                };
                open.swap_remove(at);
            }
            if !open.is_empty() {
                return refuse("a use of a tool has no result");
            }
            for id in message.tool_use_ids() {
                if message.role != Role::Assistant {
                    return refuse("only the assistant can use tools");
                }
                if open.contains(&id) {
                    return refuse("two uses of tools have the same id");
                }
                open.push(id);
            }
        }
        if open.is_empty() {
            return Ok(());
        }
        Err(TurnError { index: self.messages.len() - 1, what: "a use of a tool has no result" })
    }
}

/// A turn that does not follow from the one before it.
// SA-05
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnError {
    /// The index of the message.
    pub index: usize,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for TurnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "messages[{index}]: {what}", index = self.index, what = self.what)
    }
}

impl std::error::Error for TurnError {}

/// Returns all elements, or the error of the first invalid one.
fn require_all<T>(found: ListElements<T>, most: usize, expected: &'static str) -> Result<Vec<T>, ViewError> {
    match found.dropped.into_iter().next() {
        Some(dropped) => Err(dropped.reason),
        None if found.items.len() > most => Err(ViewError::new(expected, None)),
        None => Ok(found.items),
    }
}

// === impl SamplingMessage ===

impl SamplingMessage {
    fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        let role = Role::from_name(&object.required("role")?);
        if let Role::Other(_) = role {
            return Err(object.misfit("role", "`user` or `assistant`"));
        }
        Ok(Self { role, content: SamplingBlock::decode_all(object)?, json: object.json.clone() })
    }

    fn tool_use_ids(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|block| match block {
            SamplingBlock::ToolUse { id, .. } => Some(&**id),
            _ => None,
        })
    }

    fn tool_result_ids(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|block| match block {
            SamplingBlock::ToolResult { tool_use_id, .. } => Some(&**tool_use_id),
            _ => None,
        })
    }
}

// === impl SamplingBlock ===

impl SamplingBlock {
    /// Creates a block of text.
    pub fn text(text: &str) -> Self {
        let json = Json::parse(format!(r#"{{"type":"text","text":{}}}"#, quote(text)));
        let json = json.expect("written around a quoted text");
        Self::Content(Content::decode(&json).expect("a whole text block"))
    }

    /// Creates a block with a tool use.
    pub fn tool_use(id: &str, name: &str, input: &Json) -> Self {
        let json = Edit::new()
            .set_str("type", "tool_use")
            .set_str("id", id)
            .set_str("name", name)
            .set("input", input)
            .apply(None)
            .expect("an object from nothing");
        Self::ToolUse { json, id: id.into(), name: name.into(), input: input.clone() }
    }

    /// Decodes one block.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        Self::read(&Object::parse(json)?)
    }

    /// Decodes the `content` of a message: one block or many.
    fn decode_all(message: &Object<'_>) -> Result<Vec<Self>, ViewError> {
        if let Some(block) = message.object("content") {
            return Ok(vec![Self::decode(&block).map_err(|error| error.in_member("content"))?]);
        }
        let (object, found) = decode_elements(&message.json, "content", Self::read)?;
        if !found.is_present {
            return Err(object.misfit("content", "a block or an array of them"));
        }
        require_all(found, MAX_BLOCKS, "fewer blocks")
    }

    fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        Ok(match object.string("type").as_deref() {
            Some("tool_use") => Self::ToolUse {
                id: object.required("id")?,
                name: object.required("name")?,
                input: object.required_object("input")?,
                json: object.json.clone(),
            },
            Some("tool_result") => Self::ToolResult {
                tool_use_id: object.required("toolUseId")?,
                content: require_all(
                    decode_elements(&object.json, "content", Content::read)?.1,
                    MAX_BLOCKS,
                    "fewer blocks",
                )?,
                structured: object.any_json("structuredContent"),
                is_error: object.flag("isError").unwrap_or(false),
                json: object.json.clone(),
            },
            _ => Self::Content(Content::read(object)?),
        })
    }

    /// The block as received.
    pub fn json(&self) -> &Json {
        match self {
            Self::Content(content) => content.json(),
            Self::ToolUse { json, .. } | Self::ToolResult { json, .. } => json,
        }
    }

    /// The text of the block, if it is a text block.
    pub fn as_text(&self) -> Option<std::borrow::Cow<'_, str>> {
        match self {
            Self::Content(Content::Text(block)) => Some(block.text.get()),
            _ => None,
        }
    }
}

// === impl ModelPreferences, ToolChoice ===

impl ModelPreferences {
    fn from_object(object: &Object<'_>) -> Self {
        let Some(json) = object.object("modelPreferences") else { return Self::default() };
        let hint = |hint: &Object<'_>| hint.required("name");
        let Ok((object, found)) = decode_elements(&json, "hints", hint) else { return Self::default() };
        let priority = |name| object.value::<f64>(name).filter(|priority| (0.0..=1.0).contains(priority));
        Self {
            hints: found.items.into_iter().take(MAX_HINTS).collect(),
            cost: priority("costPriority"),
            speed: priority("speedPriority"),
            intelligence: priority("intelligencePriority"),
        }
    }

    /// Chooses a model of `available`: the first hint that is part of a name decides.
    // SA-03
    pub fn choose<'m, M: AsRef<str>>(&self, available: &'m [M]) -> Option<&'m str> {
        let named = |hint: &str| {
            let hint = hint.to_ascii_lowercase();
            available.iter().map(AsRef::as_ref).find(|model| model.to_ascii_lowercase().contains(&hint))
        };
        self.hints.iter().filter(|hint| !hint.is_empty()).find_map(|hint| named(hint))
    }
}

impl ToolChoice {
    fn from_object(object: &Object<'_>) -> Result<Option<Self>, ViewError> {
        let Some(json) = object.json("toolChoice") else { return Ok(None) };
        let choice = Object::parse(&json).map_err(|error| error.in_member("toolChoice"))?;
        Ok(Some(match choice.string("mode").as_deref() {
            None if choice.non_null("mode").is_none() => Self::Auto,
            Some("auto") => Self::Auto,
            Some("required") => Self::Required,
            Some("none") => Self::None,
            _ => {
                let error = choice.misfit("mode", "`auto`, `required` or `none`");
                return Err(error.in_member("toolChoice"));
            }
        }))
    }
}

// === impl SamplingResult ===

impl SamplingResult {
    /// Creates a result without a reason why the model stopped.
    pub fn new(model: impl Into<Box<str>>, content: Vec<SamplingBlock>) -> Self {
        Self { content, model: model.into(), stop_reason: None }
    }

    /// Creates a result with one text block, after which the model stopped by itself.
    pub fn text(model: &str, text: &str) -> Self {
        Self { stop_reason: Some("endTurn".into()), ..Self::new(model, vec![SamplingBlock::text(text)]) }
    }

    /// Writes a `CreateMessageResult`. Before 2025-11-25 a result is one block without tools: texts
    /// are joined by newlines, and anything else gives `None`.
    // SA-06
    pub fn to_json(&self, revision: Revision) -> Option<Json> {
        let content = match &*self.content {
            [block @ SamplingBlock::Content(_)] => block.json().clone(),
            blocks if revision >= Revision::V2025_11_25 => match blocks {
                [block] => block.json().clone(),
                blocks => Json::encode(&blocks.iter().map(SamplingBlock::json).collect::<Vec<_>>()).ok()?,
            },
            blocks => {
                let texts = blocks.iter().map(SamplingBlock::as_text).collect::<Option<Vec<_>>>()?;
                SamplingBlock::text(&texts.join("\n")).json().clone()
            }
        };
        let mut edit =
            Edit::new().set_str("role", "assistant").set("content", &content).set_str("model", &self.model);
        if let Some(reason) = &self.stop_reason {
            edit = edit.set_str("stopReason", reason);
        }
        edit.apply(None).ok()
    }
}

#[cfg(test)]
mod tests;
