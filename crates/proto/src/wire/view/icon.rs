//! [`Icon`]: a reference to an icon of a server, tool, prompt or resource.
// Group IC

use super::read::{Object, decode_elements, text};
use crate::wire::Json;

/// An icon of a server, tool, prompt or resource. Its source is untrusted.
// IC-02
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Icon {
    /// The icon as received.
    pub json: Json,
    /// The source: an `https:` or `data:` URL, or something that must be refused.
    pub src: Box<str>,
}

impl Icon {
    /// Decodes the `icons` of `json`, and leaves out invalid ones.
    pub(super) fn all(json: &Json) -> Vec<Self> {
        let icons = decode_elements(json, "icons", |object| {
            Ok(Self { json: object.json.clone(), src: object.required("src")? })
        });
        icons.map_or_else(|_| Vec::new(), |(_, found)| found.items)
    }

    /// The media type, if given.
    pub fn mime_type(&self) -> Option<String> {
        text(&self.json, "mimeType")
    }

    /// Sizes such as `48x48` or `any`.
    pub fn sizes(&self) -> Vec<String> {
        Object::parse(&self.json).ok().and_then(|object| object.value("sizes")).unwrap_or_default()
    }

    /// The background it is made for: `light` or `dark`.
    pub fn theme(&self) -> Option<String> {
        text(&self.json, "theme")
    }
}
