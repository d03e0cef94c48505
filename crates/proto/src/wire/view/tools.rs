//! Views of tools and of the result of `tools/call`.
// Group TL

use super::read::{Object, decode_elements};
use super::{Content, DroppedElement, ViewError};
use crate::wire::Json;

/// A tool of `tools/list`: slices of the list's buffer, plus its name and hints.
// JS-05, TL-02
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tool {
    /// The tool as received.
    pub json: Json,
    /// The name by which it is called. It is case-sensitive.
    pub name: Box<str>,
    /// The schema of its arguments, byte for byte as received.
    pub input_schema: Json,
    /// The schema of its structured result, if it has one.
    pub output_schema: Option<Json>,
    /// The server's claims about its behavior.
    pub annotations: ToolAnnotations,
}

/// Hints about a tool. They are claims of the server: no protection may depend on them unless the
/// server is trusted.
// TL-03
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// A title; [`Tool::display_name`] says when it is used.
    pub title: Option<Box<str>>,
    /// Whether it changes nothing.
    pub read_only: Option<bool>,
    /// Whether it may destroy something.
    pub destructive: Option<bool>,
    /// Whether a second call with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// Whether it interacts with things outside the server.
    pub open_world: Option<bool>,
}

/// Whether a tool of 2025-11-25 may be called as a task.
// TA-01
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskSupport {
    /// It must not be called as a task. This is the default.
    #[default]
    Forbidden,
    /// It may be called as a task.
    Optional,
    /// It must be called as a task.
    Required,
}

/// The result of `tools/call`.
// TL-05, TL-07
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallToolResult {
    /// The result as received.
    pub json: Json,
    /// The blocks for the model, including those of unknown types.
    pub content: Vec<Content>,
    /// The structured result, if there is one. It may be `null`.
    pub structured: Option<Json>,
    /// Whether the tool failed. The content says how, so that the model can correct itself.
    pub is_error: bool,
    /// The result's `_meta`.
    pub meta: Option<Json>,
    /// The invalid blocks, at most 100.
    pub dropped: Vec<DroppedElement>,
}

// === impl Tool ===

described!(Tool);
list_item!(Tool, "tools", name);

impl Tool {
    fn from_object(object: &Object<'_>) -> Result<Self, ViewError> {
        Ok(Self {
            name: object.required("name")?,
            // JS-02: required to be an object, never null.
            input_schema: object.required_object("inputSchema")?,
            output_schema: object.object("outputSchema"),
            annotations: object.object("annotations").map_or_else(ToolAnnotations::default, |json| {
                Object::parse(&json)
                    .map_or_else(|_| ToolAnnotations::default(), |hints| ToolAnnotations::from_object(&hints))
            }),
            json: object.json.clone(),
        })
    }

    /// The name to show: `title`, else the title of the annotations, else the name.
    // TL-02
    pub fn display_name(&self) -> String {
        let titles = [self.title(), self.annotations.title.as_deref().map(Into::into)];
        let title = titles.into_iter().flatten().find(|title| !title.trim().is_empty());
        title.unwrap_or_else(|| self.name.to_string())
    }

    /// Whether it claims to change nothing. Default: no.
    pub fn is_read_only(&self) -> bool {
        self.annotations.read_only.unwrap_or(false)
    }

    /// Whether it may destroy something. Default: yes, unless it only reads.
    pub fn is_destructive(&self) -> bool {
        !self.is_read_only() && self.annotations.destructive.unwrap_or(true)
    }

    /// Whether it claims that calling it again is harmless. Default: no, unless it only reads.
    pub fn is_idempotent(&self) -> bool {
        self.is_read_only() || self.annotations.idempotent.unwrap_or(false)
    }

    /// Whether it interacts with things outside the server. Default: yes.
    pub fn is_open_world(&self) -> bool {
        self.annotations.open_world.unwrap_or(true)
    }

    /// Whether it may be called as a task of 2025-11-25.
    pub fn task_support(&self) -> TaskSupport {
        let execution = Object::parse(&self.json).ok().and_then(|object| object.object("execution"));
        let support = execution.and_then(|json| super::read::text(&json, "taskSupport"));
        match support.as_deref() {
            Some("optional") => TaskSupport::Optional,
            Some("required") => TaskSupport::Required,
            _ => TaskSupport::Forbidden,
        }
    }
}

impl ToolAnnotations {
    fn from_object(object: &Object<'_>) -> Self {
        Self {
            title: object.string("title").map(Into::into),
            read_only: object.flag("readOnlyHint"),
            destructive: object.flag("destructiveHint"),
            idempotent: object.flag("idempotentHint"),
            open_world: object.flag("openWorldHint"),
        }
    }
}

// === impl CallToolResult ===

impl CallToolResult {
    /// Decodes a complete result of `tools/call`. Missing content counts as empty.
    pub fn decode(json: &Json) -> Result<Self, ViewError> {
        let (object, found) = decode_elements(json, "content", Content::read)?;
        Ok(Self {
            json: json.clone(),
            content: found.items,
            structured: object.any_json("structuredContent"),
            is_error: object.flag("isError").unwrap_or(false),
            meta: object.meta(),
            dropped: found.dropped,
        })
    }

    /// All text blocks, joined by newlines.
    pub fn text(&self) -> String {
        let mut texts = self.content.iter().filter_map(|block| match block {
            Content::Text(block) => Some(block.text.get()),
            _ => None,
        });
        let first = texts.next().unwrap_or_default().into_owned();
        texts.fold(first, |all, text| all + "\n" + &text)
    }
}
