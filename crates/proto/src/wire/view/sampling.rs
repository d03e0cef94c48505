//! What a server may ask of a model, and how the answer is written (group SA).
//!
//! Unlike in a list, nothing is left out here: a conversation without one of its turns is another
//! conversation, so one part that cannot be read fails the request.

use super::read::{Elements, Object, elements, strings};
use super::{Content, Item as _, Role, Tool, ViewError};
use crate::revision::Revision;
use crate::wire::Json;
use crate::wire::object::{Edit, quote};

/// The parameters of `sampling/createMessage`. Everything in it is the server's words.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingRequest {
    /// As it came.
    pub json: Json,
    /// The conversation so far.
    pub messages: Vec<SamplingMessage>,
    /// Never to be exceeded (SA-03).
    pub max_tokens: u64,
    /// Which model it would like.
    pub preferences: ModelPreferences,
    /// May be changed or left out.
    pub system_prompt: Option<Box<str>>,
    /// What of other conversations it would like to have along.
    pub include_context: IncludeContext,
    /// May be ignored.
    pub temperature: Option<f64>,
    /// May be ignored.
    pub stop_sequences: Vec<Box<str>>,
    /// For the provider, in a form that both know.
    pub metadata: Option<Json>,
    /// Tools of this request alone; the server need not offer them (SA-04).
    pub tools: Vec<Tool>,
    /// How they are to be used. `None`: not said, which means [`ToolChoice::Auto`].
    pub tool_choice: Option<ToolChoice>,
}

/// One turn of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingMessage {
    /// As it came.
    pub json: Json,
    /// Who speaks: [`Role::User`] or [`Role::Assistant`].
    pub role: Role,
    /// What is said. One block or many on the wire; a list here.
    pub content: Vec<SamplingBlock>,
}

/// One block of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SamplingBlock {
    /// Text, a picture, sound, or something unknown.
    Content(Content),
    /// The model wants a tool to be run.
    ToolUse {
        /// As it came, its `_meta` included (SA-06).
        json: Json,
        /// What its result will name.
        id: Box<str>,
        /// Which tool.
        name: Box<str>,
        /// With what.
        input: Json,
    },
    /// What a tool gave.
    ToolResult {
        /// As it came, its `_meta` included (SA-06).
        json: Json,
        /// Which use it belongs to.
        tool_use_id: Box<str>,
        /// What came out.
        content: Vec<Content>,
        /// The structured result, if there is one.
        structured: Option<Json>,
        /// The tool failed.
        is_error: bool,
    },
}

/// Which model a server would like. Hints come before priorities (SA-03).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelPreferences {
    /// Parts of model names, best first.
    pub hints: Vec<Box<str>>,
    /// How much a low price matters, from 0 to 1.
    pub cost: Option<f64>,
    /// How much speed matters, from 0 to 1.
    pub speed: Option<f64>,
    /// How much ability matters, from 0 to 1.
    pub intelligence: Option<f64>,
}

/// What of other conversations a server would like to have along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeContext {
    /// Nothing. Also the default, and what an unknown word means.
    #[default]
    None,
    /// What was said with this server.
    ThisServer,
    /// What was said with all servers.
    AllServers,
}

/// How the model is to use the tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// At least one.
    Required,
    /// Not at all.
    None,
}

/// What the model said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingResult {
    /// The blocks, in order.
    pub content: Vec<SamplingBlock>,
    /// Which model it was.
    pub model: Box<str>,
    /// `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or a word of the provider's.
    pub stop_reason: Option<Box<str>>,
}

/// Longer conversations are refused.
const MOST_MESSAGES: usize = 10_000;
/// More blocks in one turn, or in one tool's result, are refused.
const MOST_BLOCKS: usize = 1_000;
/// More tools are refused.
const MOST_TOOLS: usize = 1_000;
/// More hints or stop sequences are ignored: both are wishes.
const MOST_WISHES: usize = 64;

// === impl SamplingRequest ===

impl SamplingRequest {
    /// Decodes the parameters.
    pub fn decode(params: &Json) -> Result<Self, ViewError> {
        let (object, found) = elements(params, "messages", SamplingMessage::read)?;
        if !found.given {
            return Err(object.misfit("messages", "an array"));
        }
        let messages = whole(found, MOST_MESSAGES, "fewer messages")?;
        let tools = whole(elements(params, "tools", Tool::read)?.1, MOST_TOOLS, "fewer tools")?;
        Ok(Self {
            messages,
            max_tokens: object.count("maxTokens").ok_or_else(|| object.misfit("maxTokens", "a number"))?,
            preferences: ModelPreferences::of(&object),
            system_prompt: object.string("systemPrompt").map(Into::into),
            include_context: match object.string("includeContext").as_deref() {
                Some("thisServer") => IncludeContext::ThisServer,
                Some("allServers") => IncludeContext::AllServers,
                _ => IncludeContext::None,
            },
            temperature: object.value("temperature"),
            stop_sequences: strings(params, "stopSequences").map_or_else(
                |_| Vec::new(),
                |(_, found)| found.items.into_iter().take(MOST_WISHES).collect(),
            ),
            metadata: object.object("metadata"),
            tools,
            tool_choice: ToolChoice::of(&object)?,
            json: params.clone(),
        })
    }

    /// Whether it has to do with tools, be it that it offers some or that the conversation used some.
    /// Only for a host that declared `sampling.tools` (SA-04).
    pub fn uses_tools(&self) -> bool {
        // An empty list is an offer too: a host that does not know the member would not have been sent it.
        let offered = ["tools", "toolChoice"]
            .iter()
            .any(|name| self.json.member(name).is_some_and(|member| !member.is_null()));
        let mut blocks = self.messages.iter().flat_map(|message| &message.content);
        offered || blocks.any(|block| !matches!(block, SamplingBlock::Content(_)))
    }

    /// SA-05: a turn with results of tools holds nothing else, and answers every use of the turn before it.
    pub fn check_turns(&self) -> Result<(), TurnError> {
        let mut open: Vec<&str> = Vec::new();
        for (index, message) in self.messages.iter().enumerate() {
            let refuse = |what| Err(TurnError { index, what });
            let results = message.results().count();
            if results > 0 && results < message.content.len() {
                return refuse("results of tools stand together with something else");
            }
            if results > 0 && message.role != Role::User {
                return refuse("only the user can give results of tools");
            }
            if !open.is_empty() && results == 0 {
                return refuse("the turn before used tools, and this one does not give their results");
            }
            for id in message.results() {
                let Some(at) = open.iter().position(|used| *used == id) else {
                    return refuse("a result belongs to no use of a tool in the turn before");
                };
                open.swap_remove(at);
            }
            if !open.is_empty() {
                return refuse("a use of a tool has no result");
            }
            for id in message.uses() {
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

/// A turn that does not follow from the one before it (SA-05).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("messages[{index}]: {what}")]
pub struct TurnError {
    /// Which message.
    pub index: usize,
    /// What is wrong.
    pub what: &'static str,
}

/// All elements, or the first reason why not.
fn whole<T>(found: Elements<T>, most: usize, expected: &'static str) -> Result<Vec<T>, ViewError> {
    match found.dropped.into_iter().next() {
        Some(dropped) => Err(dropped.reason),
        None if found.items.len() > most => Err(ViewError::new(expected, None)),
        None => Ok(found.items),
    }
}

// === impl SamplingMessage ===

impl SamplingMessage {
    fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        let role = Role::of(&object.required("role")?);
        if let Role::Other(_) = role {
            return Err(object.misfit("role", "`user` or `assistant`"));
        }
        Ok(Self { role, content: SamplingBlock::all(object)?, json: object.json.clone() })
    }

    fn uses(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|block| match block {
            SamplingBlock::ToolUse { id, .. } => Some(&**id),
            _ => None,
        })
    }

    fn results(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|block| match block {
            SamplingBlock::ToolResult { tool_use_id, .. } => Some(&**tool_use_id),
            _ => None,
        })
    }
}

// === impl SamplingBlock ===

impl SamplingBlock {
    /// A block of text.
    pub fn text(text: &str) -> Self {
        let json = Json::parse(format!(r#"{{"type":"text","text":{}}}"#, quote(text)));
        let json = json.expect("written around a quoted text");
        Self::Content(Content::decode(&json).expect("a whole text block"))
    }

    /// A block that asks for a tool to be run.
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
        Self::read(&Object::of(json)?)
    }

    /// The `content` of a message: one block or many.
    fn all(message: &Object<'_>) -> Result<Vec<Self>, ViewError> {
        if let Some(block) = message.object("content") {
            return Ok(vec![Self::decode(&block).map_err(|error| error.under("content"))?]);
        }
        let (object, found) = elements(&message.json, "content", Self::read)?;
        if !found.given {
            return Err(object.misfit("content", "a block or an array of them"));
        }
        whole(found, MOST_BLOCKS, "fewer blocks")
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
                content: whole(
                    elements(&object.json, "content", Content::read)?.1,
                    MOST_BLOCKS,
                    "fewer blocks",
                )?,
                structured: object.any("structuredContent"),
                is_error: object.flag("isError").unwrap_or(false),
                json: object.json.clone(),
            },
            _ => Self::Content(Content::read(object)?),
        })
    }

    /// The block as it came.
    pub fn json(&self) -> &Json {
        match self {
            Self::Content(content) => content.json(),
            Self::ToolUse { json, .. } | Self::ToolResult { json, .. } => json,
        }
    }

    /// Its text, if that is what it is.
    pub fn as_text(&self) -> Option<std::borrow::Cow<'_, str>> {
        match self {
            Self::Content(Content::Text(block)) => Some(block.text.get()),
            _ => None,
        }
    }
}

// === impl ModelPreferences, ToolChoice ===

impl ModelPreferences {
    fn of(object: &Object<'_>) -> Self {
        let Some(json) = object.object("modelPreferences") else { return Self::default() };
        let hint = |hint: &Object<'_>| hint.required("name");
        let Ok((object, found)) = elements(&json, "hints", hint) else { return Self::default() };
        let priority = |name| object.value::<f64>(name).filter(|priority| (0.0..=1.0).contains(priority));
        Self {
            hints: found.items.into_iter().take(MOST_WISHES).collect(),
            cost: priority("costPriority"),
            speed: priority("speedPriority"),
            intelligence: priority("intelligencePriority"),
        }
    }

    /// The model of `available` that the hints ask for: the first hint that is part of a name decides (SA-03).
    pub fn choose<'m, M: AsRef<str>>(&self, available: &'m [M]) -> Option<&'m str> {
        let named = |hint: &str| {
            let hint = hint.to_ascii_lowercase();
            available.iter().map(AsRef::as_ref).find(|model| model.to_ascii_lowercase().contains(&hint))
        };
        self.hints.iter().filter(|hint| !hint.is_empty()).find_map(|hint| named(hint))
    }
}

impl ToolChoice {
    fn of(object: &Object<'_>) -> Result<Option<Self>, ViewError> {
        let Some(json) = object.json("toolChoice") else { return Ok(None) };
        let choice = Object::of(&json).map_err(|error| error.under("toolChoice"))?;
        Ok(Some(match choice.string("mode").as_deref() {
            None if choice.given("mode").is_none() => Self::Auto,
            Some("auto") => Self::Auto,
            Some("required") => Self::Required,
            Some("none") => Self::None,
            _ => {
                let error = choice.misfit("mode", "`auto`, `required` or `none`");
                return Err(error.under("toolChoice"));
            }
        }))
    }
}

// === impl SamplingResult ===

impl SamplingResult {
    /// An answer of one text.
    pub fn text(model: &str, text: &str) -> Self {
        Self {
            content: vec![SamplingBlock::text(text)],
            model: model.into(),
            stop_reason: Some("endTurn".into()),
        }
    }

    /// Writes a `CreateMessageResult`. Before 2025-11-25 an answer is one block without tools: texts are
    /// joined by newlines, and anything else cannot be said, which gives `None` (SA-06).
    pub fn to_json(&self, revision: Revision) -> Option<Json> {
        let content = match &*self.content {
            [block @ SamplingBlock::Content(_)] => block.json().clone(),
            blocks if revision >= Revision::V2025_11_25 => match blocks {
                [block] => block.json().clone(),
                blocks => Json::of(&blocks.iter().map(SamplingBlock::json).collect::<Vec<_>>()).ok()?,
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
