//! Resources, their templates and their contents (group RS).

use super::read::{Object, Quoted, elements, text};
use super::{Annotations, CacheHint, Dropped, Item, ViewError};
use crate::wire::Json;

/// A resource, as an entry in a list or a link in a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// As it came.
    pub json: Json,
    /// What it is read by, exactly.
    pub uri: Box<str>,
    /// Its name, or the URI where a server gives none.
    pub name: Box<str>,
}

/// A pattern of resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceTemplate {
    /// As it came.
    pub json: Json,
    /// An RFC 6570 template, not checked (RS-05).
    pub uri_template: Box<str>,
    /// Its name, or the template where a server gives none.
    pub name: Box<str>,
}

/// What reading a resource gave. No contents is not the same as not found (RS-02).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadResourceResult {
    /// As it came.
    pub json: Json,
    /// One part, or several, as for a directory (RS-01).
    pub contents: Vec<ResourceContents>,
    /// How long it may be kept.
    pub cache: CacheHint,
    /// The result's `_meta`.
    pub meta: Option<Json>,
    /// Parts that could not be used: the first hundred.
    pub dropped: Vec<Dropped>,
}

/// One part of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceContents {
    /// As it came.
    pub json: Json,
    /// Which resource this is; it may lie below the one that was read.
    pub uri: Box<str>,
    /// What it holds.
    pub body: Body,
}

/// What a part of a resource holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Text.
    Text(Quoted),
    /// Bytes in Base64, not decoded and not checked.
    Blob(Quoted),
}

described!(Resource);

impl Item for Resource {
    const LIST: &'static str = "resources";

    fn json(&self) -> &Json {
        &self.json
    }

    fn key(&self) -> &str {
        &self.uri
    }

    fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        let uri = object.required("uri")?;
        let name = object.string("name").map_or_else(|| uri.clone(), Into::into);
        Ok(Self { json: object.json.clone(), uri, name })
    }
}

impl Resource {
    /// The media type, if known.
    pub fn mime_type(&self) -> Option<String> {
        text(&self.json, "mimeType")
    }

    /// Its size in bytes, if known. A hint (RS-06).
    pub fn size(&self) -> Option<u64> {
        Object::of(&self.json).ok()?.count("size")
    }

    /// Hints on how to use it.
    pub fn annotations(&self) -> Annotations {
        Annotations::of(&self.json)
    }
}

described!(ResourceTemplate);

impl Item for ResourceTemplate {
    const LIST: &'static str = "resourceTemplates";

    fn json(&self) -> &Json {
        &self.json
    }

    fn key(&self) -> &str {
        &self.uri_template
    }

    fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        let uri_template = object.required("uriTemplate")?;
        let name = object.string("name").map_or_else(|| uri_template.clone(), Into::into);
        Ok(Self { json: object.json.clone(), uri_template, name })
    }
}

impl ResourceTemplate {
    /// The media type, if all that match have the same.
    pub fn mime_type(&self) -> Option<String> {
        text(&self.json, "mimeType")
    }

    /// Hints on how to use what matches.
    pub fn annotations(&self) -> Annotations {
        Annotations::of(&self.json)
    }
}

impl ReadResourceResult {
    /// Decodes a complete result of `resources/read`.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let (object, found) = elements(json, "contents", ResourceContents::read)?;
        if !found.given {
            return Err(object.misfit("contents", "an array"));
        }
        Ok(Self {
            json: json.clone(),
            contents: found.items,
            cache: CacheHint::of(&object),
            meta: object.meta(),
            dropped: found.dropped,
        })
    }
}

impl ResourceContents {
    /// Decodes one part.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        Self::read(&Object::of(json)?)
    }

    fn read(object: &Object<'_>) -> Result<Self, ViewError> {
        let body = match (object.quoted("text"), object.quoted("blob")) {
            (Some(text), _) => Body::Text(text),
            (None, Some(blob)) => Body::Blob(blob),
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
