//! [`Icon`]: where a picture of something can be found (group IC).

use super::read::{Object, elements, text};
use crate::wire::Json;

/// A picture of a server, tool, prompt or resource. Its source is untrusted (IC-02).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icon {
    /// As it came.
    pub json: Json,
    /// An `https:` or `data:` URL, or something that must be refused.
    pub src: Box<str>,
}

impl Icon {
    /// The `icons` of `json` that could be used.
    pub(super) fn all(json: &Json) -> Vec<Self> {
        let icons = elements(json, "icons", |object| {
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
        Object::of(&self.json).ok().and_then(|object| object.value("sizes")).unwrap_or_default()
    }

    /// `light` or `dark`: the background it is made for.
    pub fn theme(&self) -> Option<String> {
        text(&self.json, "theme")
    }
}
