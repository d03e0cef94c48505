//! Converts a tool's result for a model (TL-07, RS-06).

use bowline_proto::wire::view::{CallToolResult, Content, MediaContent, ResourceBody, Role};
use serde_json::{Value, json};

use super::options::{Audience, ModelApi, ModelOptions};
use super::{ModelContext, picture, text};
use crate::report::CallReport;

/// A tool's result, for a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelResult {
    /// The content in the provider's format: the `content` of a `tool` message or the `output` of a
    /// function call (OpenAI), the `content` of a `tool_result` (Anthropic), the `response` of a
    /// `functionResponse` (Gemini).
    pub content: Value,
    /// All text of the result.
    pub text: String,
    /// Whether the tool failed. The text says how, so that the model can correct itself.
    // TL-07
    pub is_error: bool,
    /// Content that was left out.
    pub omissions: Vec<ContentOmission>,
    /// What happened to the call, if `call_model` made it. `None` for a result that was only
    /// converted, and for an error: that has its own report.
    pub report: Option<CallReport>,
}

impl ModelResult {
    /// Creates a result without omissions and without a report, for a host that answers a call
    /// itself. Its fields can be set.
    pub fn new(content: impl Into<Value>, text: impl Into<String>, is_error: bool) -> Self {
        Self { content: content.into(), text: text.into(), is_error, omissions: Vec::new(), report: None }
    }
}

/// A block of content that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContentOmission {
    /// Index of the block.
    pub index: usize,
    /// The reason.
    pub reason: &'static str,
}

impl ModelContext {
    /// Converts a tool's result for the model: content for the person only is left out, unsupported
    /// content is described in words, and all of it is bounded.
    pub fn tool_result(&self, result: &CallToolResult) -> ModelResult {
        tool_result(result, &self.options)
    }
}

fn tool_result(result: &CallToolResult, options: &ModelOptions) -> ModelResult {
    // Providers accept only text for a failure.
    let pictures = options.api == ModelApi::Anthropic && !result.is_error;
    let mut out = ResultCollector {
        options,
        texts: Vec::new(),
        blocks: Vec::new(),
        chars_left: options.max_result,
        pictures_left: if pictures { options.max_pictures } else { 0 },
        media_bytes_left: options.max_media_total,
    };
    let mut left_out = Vec::new();
    for (index, block) in result.content.iter().enumerate() {
        let taken = if is_for_person(block, options) { Err(USER_ONLY_REASON) } else { out.push_block(block) };
        if let Err(reason) = taken {
            left_out.push(ContentOmission { index, reason });
        }
    }
    if out.blocks.is_empty() {
        // Servers should repeat structured content as text, but many do not.
        if let Some(structured) = &result.structured {
            let _ = out.push_text(structured.as_str());
        } else if result.is_error {
            let _ = out.push_text("The tool failed, and did not say how.");
        }
    }
    let text = out.texts.join("\n");
    let content = match options.api {
        ModelApi::OpenAi | ModelApi::OpenAiResponses => text.clone().into(),
        ModelApi::Anthropic => Value::Array(out.blocks),
        ModelApi::Gemini if result.is_error => json!({ "error": text }),
        ModelApi::Gemini => json!({ "output": text }),
    };
    ModelResult { omissions: left_out, ..ModelResult::new(content, text, result.is_error) }
}

const USER_ONLY_REASON: &str = "it is for the person alone";
const TOO_LARGE_REASON: &str = "the result is too large";

/// Whether the audience hint restricts the content to the person (RS-06).
fn is_for_person(block: &Content, options: &ModelOptions) -> bool {
    let audience = block.annotations().audience;
    options.audience == Audience::Assistant && !audience.is_empty() && !audience.contains(&Role::Assistant)
}

struct ResultCollector<'a> {
    options: &'a ModelOptions,
    texts: Vec<String>,
    blocks: Vec<Value>,
    /// Remaining characters.
    chars_left: usize,
    /// Remaining pictures, and their remaining bytes.
    pictures_left: usize,
    media_bytes_left: usize,
}

impl ResultCollector<'_> {
    fn push_block(&mut self, block: &Content) -> Result<(), &'static str> {
        match block {
            Content::Text(block) => self.push_text(&block.text.get()),
            Content::Image(media) => self.push_image(media),
            Content::Audio(media) => {
                self.push_text(&format!("[sound, {}, not shown]", text::sanitize_line(&media.mime_type)))
            }
            Content::ResourceLink(link) => self.push_text(&format!(
                "[link to the resource {}, <{}>]",
                text::sanitize_line(&link.name),
                text::sanitize_line(&link.uri)
            )),
            Content::Resource(embedded) => {
                let resource = &embedded.resource;
                match &resource.body {
                    ResourceBody::Text(body) => self.push_text(&format!(
                        "[resource <{}>]\n{}",
                        text::sanitize_line(&resource.uri),
                        body.get()
                    )),
                    _ => self
                        .push_text(&format!("[resource <{}>, not text]", text::sanitize_line(&resource.uri))),
                }
            }
            other => {
                let json = other.json();
                let kind = json.member("type").map_or_else(String::new, |kind| kind.as_str().to_owned());
                self.push_text(&format!("[content of an unknown type {}]", text::sanitize_line(&kind)))
            }
        }
    }

    fn push_text(&mut self, said: &str) -> Result<(), &'static str> {
        if self.chars_left == 0 {
            return Err(TOO_LARGE_REASON);
        }
        let said = text::sanitize(said, self.chars_left);
        // Providers refuse an empty block, and with it the conversation.
        if text::is_blank(&said) {
            return Ok(());
        }
        self.chars_left = self.chars_left.saturating_sub(said.chars().count());
        self.blocks.push(json!({ "type": "text", "text": said }));
        self.texts.push(said);
        Ok(())
    }

    /// Adds a picture for the provider that accepts them, or a description in its place.
    fn push_image(&mut self, media: &MediaContent) -> Result<(), &'static str> {
        let data = media.data.get();
        let room = self.pictures_left > 0 && data.len() <= self.options.max_media.min(self.media_bytes_left);
        let kind = if room { picture::media_type(&data, &media.mime_type) } else { None };
        let Some(kind) = kind else {
            return self
                .push_text(&format!("[picture, {}, not shown]", text::sanitize_line(&media.mime_type)));
        };
        self.pictures_left -= 1;
        self.media_bytes_left -= data.len();
        let source = json!({ "type": "base64", "media_type": kind, "data": data });
        self.blocks.push(json!({ "type": "image", "source": source }));
        Ok(())
    }
}
