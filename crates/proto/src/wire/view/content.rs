//! [`Content`]: the content blocks of tool results and prompts.
// TL-04

use super::read::{JsonString, Object};
use super::{ListItem as _, Resource, ResourceContents, ViewError};
use crate::wire::Json;

/// One block of content.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(TextContent),
    /// An image.
    Image(MediaContent),
    /// Audio.
    Audio(MediaContent),
    // TL-11
    /// A link to a resource of the same server, which need not be listed.
    ResourceLink(Resource),
    /// A resource with its contents.
    Resource(EmbeddedResource),
    /// A block of an unknown type.
    Unknown(Json),
}

/// A text block.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextContent {
    /// The block as received.
    pub json: Json,
    /// The text.
    pub text: JsonString,
}

/// An image or audio block.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MediaContent {
    /// The block as received.
    pub json: Json,
    /// The bytes in Base64, not decoded and not checked.
    pub data: JsonString,
    /// The media type.
    pub mime_type: Box<str>,
}

/// A block with an embedded resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmbeddedResource {
    /// The block as received.
    pub json: Json,
    /// The resource.
    pub resource: ResourceContents,
}

/// Hints on how to use a block or resource.
// RS-06
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ContentAnnotations {
    /// The intended audience. Empty: anyone.
    pub audience: Vec<Role>,
    /// The importance, from 0 (unimportant) to 1 (required).
    pub priority: Option<f64>,
    /// Time of the last change in ISO 8601, not checked.
    pub last_modified: Option<Box<str>>,
}

/// The role of a speaker or an audience.
///
/// Complete: [`Role::Other`] holds every role that a later revision may add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// An unknown role.
    Other(Box<str>),
}

impl Content {
    /// Decodes a block. `type` is required, and the members that the type requires.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        Self::read(&Object::parse(json)?)
    }

    pub(super) fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        let json = &object.json;
        let kind = object.string("type").ok_or_else(|| object.misfit("type", "a string"))?;
        Ok(match &*kind {
            "text" => {
                let text = object.quoted("text").ok_or_else(|| object.misfit("text", "a string"))?;
                Self::Text(TextContent { json: json.clone(), text })
            }
            "image" => Self::Image(MediaContent::from_object(object)?),
            "audio" => Self::Audio(MediaContent::from_object(object)?),
            "resource_link" => Self::ResourceLink(Resource::read(object)?),
            "resource" => {
                let resource = object.required_object("resource")?;
                let resource =
                    ResourceContents::decode(&resource).map_err(|error| error.in_member("resource"))?;
                Self::Resource(EmbeddedResource { json: json.clone(), resource })
            }
            _ => Self::Unknown(json.clone()),
        })
    }

    /// The block as received.
    pub fn json(&self) -> &Json {
        match self {
            Self::Text(block) => &block.json,
            Self::Image(block) | Self::Audio(block) => &block.json,
            Self::ResourceLink(block) => &block.json,
            Self::Resource(block) => &block.json,
            Self::Unknown(json) => json,
        }
    }

    /// Hints on how to use the block.
    pub fn annotations(&self) -> ContentAnnotations {
        ContentAnnotations::from_json(self.json())
    }

    /// Its `_meta`.
    pub fn meta(&self) -> Option<Json> {
        super::read::meta(self.json())
    }
}

impl MediaContent {
    fn from_object(object: &Object<'_>) -> Result<Self, ViewError> {
        Ok(Self {
            data: object.quoted("data").ok_or_else(|| object.misfit("data", "a string"))?,
            mime_type: object.required("mimeType")?,
            json: object.json.clone(),
        })
    }
}

impl ContentAnnotations {
    /// Reads the `annotations` of `json`, and leaves out invalid ones.
    pub(super) fn from_json(json: &Json) -> Self {
        let Some(hints) = Object::parse(json).ok().and_then(|object| object.object("annotations")) else {
            return Self::default();
        };
        let Ok(hints) = Object::parse(&hints) else { return Self::default() };
        Self {
            audience: hints
                .value::<Vec<String>>("audience")
                .unwrap_or_default()
                .into_iter()
                .map(|role| Role::from_name(&role))
                .collect(),
            priority: hints.value("priority"),
            last_modified: hints.string("lastModified").map(Into::into),
        }
    }
}

impl Role {
    pub(super) fn from_name(text: &str) -> Self {
        match text {
            "user" => Self::User,
            "assistant" => Self::Assistant,
            other => Self::Other(other.into()),
        }
    }

    /// The name of the role on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Other(name) => name,
        }
    }
}
