//! Views of prompts and of the result of `prompts/get`.
// Group PM

use super::read::{Object, decode_elements, text};
use super::{Content, DroppedElement, Role, ViewError};
use crate::wire::Json;

/// A prompt of `prompts/list`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prompt {
    /// The prompt as received.
    pub json: Json,
    /// The name by which it is expanded.
    pub name: Box<str>,
}

/// An argument of a prompt. Its values are always strings.
// PM-01, PM-02
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptArgument {
    /// The argument as received.
    pub json: Json,
    /// The name.
    pub name: Box<str>,
    /// Whether a value is required.
    pub required: bool,
}

/// The result of `prompts/get`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GetPromptResult {
    /// The result as received.
    pub json: Json,
    /// The messages of the expanded prompt.
    pub messages: Vec<PromptMessage>,
    /// The result's `_meta`.
    pub meta: Option<Json>,
    /// The invalid messages, at most 100.
    pub dropped: Vec<DroppedElement>,
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptMessage {
    /// The role of the speaker.
    pub role: Role,
    /// The content of the message.
    pub content: Content,
}

described!(Prompt);
list_item!(Prompt, "prompts", name);

impl Prompt {
    fn from_object(object: &Object<'_>) -> Result<Self, ViewError> {
        Ok(Self { name: object.required("name")?, json: object.json.clone() })
    }

    /// The arguments in the server's order. Arguments without a name are left out.
    pub fn arguments(&self) -> Vec<PromptArgument> {
        let arguments = decode_elements(&self.json, "arguments", PromptArgument::read);
        arguments.map_or_else(|_| Vec::new(), |(_, found)| found.items)
    }
}

titled!(PromptArgument);

impl PromptArgument {
    fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        Ok(Self {
            name: object.required("name")?,
            required: object.flag("required").unwrap_or(false),
            json: object.json.clone(),
        })
    }
}

impl GetPromptResult {
    /// Decodes a complete result of `prompts/get`.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let (object, found) = decode_elements(json, "messages", PromptMessage::read)?;
        if !found.is_present {
            return Err(object.misfit("messages", "an array"));
        }
        Ok(Self { json: json.clone(), messages: found.items, meta: object.meta(), dropped: found.dropped })
    }

    /// The server's description of the prompt, if given. Untrusted.
    pub fn description(&self) -> Option<String> {
        text(&self.json, "description")
    }
}

impl PromptMessage {
    fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        let content = object.required_object("content")?;
        Ok(Self {
            role: Role::from_name(&object.required("role")?),
            content: Content::decode(&content).map_err(|error| error.in_member("content"))?,
        })
    }
}
