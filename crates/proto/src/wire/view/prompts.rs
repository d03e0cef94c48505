//! Prompts and what expanding one gives (group PM).

use super::read::{Object, elements, text};
use super::{Content, Dropped, Item, Role, ViewError};
use crate::wire::Json;

/// A prompt, as an entry in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// As it came.
    pub json: Json,
    /// What it is expanded by.
    pub name: Box<str>,
}

/// An argument of a prompt. Its values are always strings (PM-01).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptArgument {
    /// As it came.
    pub json: Json,
    /// Its name.
    pub name: Box<str>,
    /// Whether it must be given (PM-02).
    pub required: bool,
}

/// What expanding a prompt gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetPromptResult {
    /// As it came.
    pub json: Json,
    /// The conversation so far.
    pub messages: Vec<PromptMessage>,
    /// The result's `_meta`.
    pub meta: Option<Json>,
    /// Messages that could not be used: the first hundred.
    pub dropped: Vec<Dropped>,
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Content,
}

described!(Prompt);

impl Item for Prompt {
    const LIST: &'static str = "prompts";

    fn json(&self) -> &Json {
        &self.json
    }

    fn key(&self) -> &str {
        &self.name
    }

    fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        Ok(Self { name: object.required("name")?, json: object.json.clone() })
    }
}

impl Prompt {
    /// Its arguments in their order. One without a name is left out.
    pub fn arguments(&self) -> Vec<PromptArgument> {
        let arguments = elements(&self.json, "arguments", PromptArgument::read);
        arguments.map_or_else(|_| Vec::new(), |(_, found)| found.items)
    }
}

impl PromptArgument {
    fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        Ok(Self {
            name: object.required("name")?,
            required: object.flag("required").unwrap_or(false),
            json: object.json.clone(),
        })
    }

    /// The title for people, if given.
    pub fn title(&self) -> Option<String> {
        text(&self.json, "title")
    }

    /// What it is for, in the server's words.
    pub fn description(&self) -> Option<String> {
        text(&self.json, "description")
    }
}

impl GetPromptResult {
    /// Decodes a complete result of `prompts/get`.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let (object, found) = elements(json, "messages", PromptMessage::read)?;
        if !found.given {
            return Err(object.misfit("messages", "an array"));
        }
        Ok(Self { json: json.clone(), messages: found.items, meta: object.meta(), dropped: found.dropped })
    }

    /// What the prompt is for, if said.
    pub fn description(&self) -> Option<String> {
        text(&self.json, "description")
    }
}

impl PromptMessage {
    fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        let content = object.required_object("content")?;
        Ok(Self {
            role: Role::of(&object.required("role")?),
            content: Content::decode(&content).map_err(|error| error.under("content"))?,
        })
    }
}
