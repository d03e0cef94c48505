//! Content blocks, as tool results and prompts carry them (TL-04).

use super::read::{Object, Quoted};
use super::{Item as _, Resource, ResourceContents, ViewError};
use crate::wire::Json;

/// One block of content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text.
    Text(TextContent),
    /// A picture.
    Image(MediaContent),
    /// Sound.
    Audio(MediaContent),
    /// A resource to be read from the same server. It need not be listed (TL-11).
    ResourceLink(Resource),
    /// A resource with its contents.
    Resource(EmbeddedResource),
    /// A type that is not known here, to be passed on or shown as it is.
    Unknown(Json),
}

/// A text block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextContent {
    /// As it came.
    pub json: Json,
    /// The text.
    pub text: Quoted,
}

/// An image or audio block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaContent {
    /// As it came.
    pub json: Json,
    /// The bytes in Base64, not decoded and not checked.
    pub data: Quoted,
    /// The media type.
    pub mime_type: Box<str>,
}

/// A resource inside a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedResource {
    /// As it came.
    pub json: Json,
    /// The resource.
    pub resource: ResourceContents,
}

/// Hints on how to use a block or resource (RS-06).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations {
    /// Whom it is for. Empty: anyone.
    pub audience: Vec<Role>,
    /// From 0, unimportant, to 1, required.
    pub priority: Option<f64>,
    /// When it was last changed, ISO 8601, not checked.
    pub last_modified: Option<Box<str>>,
}

/// Who speaks, or who is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A role of no known revision.
    Other(Box<str>),
}

impl Content {
    /// Decodes a block. It needs a `type`, and what that type needs.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        Self::read(&Object::of(json)?)
    }

    pub(super) fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        let json = &object.json;
        let kind = object.string("type").ok_or_else(|| object.misfit("type", "a string"))?;
        Ok(match &*kind {
            "text" => {
                let text = object.quoted("text").ok_or_else(|| object.misfit("text", "a string"))?;
                Self::Text(TextContent { json: json.clone(), text })
            }
            "image" => Self::Image(MediaContent::of(object)?),
            "audio" => Self::Audio(MediaContent::of(object)?),
            "resource_link" => Self::ResourceLink(Resource::read(object)?),
            "resource" => {
                let resource = object.required_object("resource")?;
                let resource =
                    ResourceContents::decode(&resource).map_err(|error| error.under("resource"))?;
                Self::Resource(EmbeddedResource { json: json.clone(), resource })
            }
            _ => Self::Unknown(json.clone()),
        })
    }

    /// The block as it came.
    pub fn json(&self) -> &Json {
        match self {
            Self::Text(block) => &block.json,
            Self::Image(block) | Self::Audio(block) => &block.json,
            Self::ResourceLink(block) => &block.json,
            Self::Resource(block) => &block.json,
            Self::Unknown(json) => json,
        }
    }

    /// Hints on how to use it.
    pub fn annotations(&self) -> Annotations {
        Annotations::of(self.json())
    }

    /// Its `_meta`.
    pub fn meta(&self) -> Option<Json> {
        super::read::meta(self.json())
    }
}

impl MediaContent {
    fn of(object: &Object<'_>) -> Result<Self, ViewError> {
        Ok(Self {
            data: object.quoted("data").ok_or_else(|| object.misfit("data", "a string"))?,
            mime_type: object.required("mimeType")?,
            json: object.json.clone(),
        })
    }
}

impl Annotations {
    /// The `annotations` of `json`; what does not fit is left out.
    pub(super) fn of(json: &Json) -> Self {
        let Some(hints) = Object::of(json).ok().and_then(|object| object.object("annotations")) else {
            return Self::default();
        };
        let Ok(hints) = Object::of(&hints) else { return Self::default() };
        Self {
            audience: hints
                .value::<Vec<String>>("audience")
                .unwrap_or_default()
                .into_iter()
                .map(|role| Role::of(&role))
                .collect(),
            priority: hints.value("priority"),
            last_modified: hints.string("lastModified").map(Into::into),
        }
    }
}

impl Role {
    pub(super) fn of(text: &str) -> Self {
        match text {
            "user" => Self::User,
            "assistant" => Self::Assistant,
            other => Self::Other(other.into()),
        }
    }

    /// The role's name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Other(name) => name,
        }
    }
}
