//! Views of resources, resource templates and the result of `resources/read`.
// Group RS

use super::read::{JsonString, Object, decode_elements, text};
use super::{CacheHint, ContentAnnotations, DroppedElement, ViewError};
use crate::wire::Json;

/// A resource of `resources/list`, or a link to one in a result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resource {
    /// The resource as received.
    pub json: Json,
    /// The exact URI by which it is read.
    pub uri: Box<str>,
    /// The name, or the URI if the server gives none.
    pub name: Box<str>,
}

/// A template for the URIs of resources.
// RS-05
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// The template as received.
    pub json: Json,
    /// An RFC 6570 template, not checked.
    pub uri_template: Box<str>,
    /// The name, or the template if the server gives none.
    pub name: Box<str>,
}

/// The result of `resources/read`. Empty contents do not mean that the resource was not found.
// RS-01, RS-02
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadResourceResult {
    /// The result as received.
    pub json: Json,
    /// The contents: one part, or several, as for a directory.
    pub contents: Vec<ResourceContents>,
    /// How long the result may be cached.
    pub cache: CacheHint,
    /// The result's `_meta`.
    pub meta: Option<Json>,
    /// The invalid parts, at most 100.
    pub dropped: Vec<DroppedElement>,
}

/// One part of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceContents {
    /// The part as received.
    pub json: Json,
    /// The URI of the part, which may be below the one that was read.
    pub uri: Box<str>,
    /// The content of the part.
    pub body: ResourceBody,
}

/// The content of a part of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceBody {
    /// Text.
    Text(JsonString),
    /// Bytes in Base64, not decoded and not checked.
    Blob(JsonString),
}

described!(Resource);
list_item!(Resource, "resources", uri);

impl Resource {
    fn from_object(object: &Object<'_>) -> Result<Self, ViewError> {
        let uri = object.required("uri")?;
        let name = object.string("name").map_or_else(|| uri.clone(), Into::into);
        Ok(Self { json: object.json.clone(), uri, name })
    }

    /// The media type, if known.
    pub fn mime_type(&self) -> Option<String> {
        text(&self.json, "mimeType")
    }

    /// The size in bytes, if known. It is a hint.
    // RS-06
    pub fn size(&self) -> Option<u64> {
        Object::parse(&self.json).ok()?.count("size")
    }

    /// Hints on how to use the resource.
    pub fn annotations(&self) -> ContentAnnotations {
        ContentAnnotations::from_json(&self.json)
    }
}

described!(ResourceTemplate);
list_item!(ResourceTemplate, "resourceTemplates", uri_template);

impl ResourceTemplate {
    fn from_object(object: &Object<'_>) -> Result<Self, ViewError> {
        let uri_template = object.required("uriTemplate")?;
        let name = object.string("name").map_or_else(|| uri_template.clone(), Into::into);
        Ok(Self { json: object.json.clone(), uri_template, name })
    }

    /// The media type, if all that match have the same.
    pub fn mime_type(&self) -> Option<String> {
        text(&self.json, "mimeType")
    }

    /// Hints on how to use the matching resources.
    pub fn annotations(&self) -> ContentAnnotations {
        ContentAnnotations::from_json(&self.json)
    }
}

impl ReadResourceResult {
    /// Decodes a complete result of `resources/read`.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let (object, found) = decode_elements(json, "contents", ResourceContents::read)?;
        if !found.is_present {
            return Err(object.misfit("contents", "an array"));
        }
        Ok(Self {
            json: json.clone(),
            contents: found.items,
            cache: CacheHint::from_object(&object),
            meta: object.meta(),
            dropped: found.dropped,
        })
    }
}

impl ResourceContents {
    /// Decodes one part.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        Self::read(&Object::parse(json)?)
    }

    fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        let body = match (object.quoted("text"), object.quoted("blob")) {
            (Some(text), _) => ResourceBody::Text(text),
            (None, Some(blob)) => ResourceBody::Blob(blob),
            (None, None) => return Err(object.misfit("text", "a string, or one as `blob`")),
        };
        Ok(Self { uri: object.required("uri")?, body, json: object.json.clone() })
    }

    /// The media type, if known.
    pub fn mime_type(&self) -> Option<String> {
        text(&self.json, "mimeType")
    }

    /// Its `_meta`.
    pub fn meta(&self) -> Option<Json> {
        super::read::meta(&self.json)
    }
}
