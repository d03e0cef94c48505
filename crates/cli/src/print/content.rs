//! Prints content: text as text, lists of objects as tables, pictures drawn or saved, and
//! everything else described on one line.

use std::cell::Cell;
use std::io;

use bowline::config::Environment;
use bowline::types::{CallToolResult, Content, ContentAnnotations, Resource, ResourceBody, ResourceContents};

use super::media::{Blob, MediaViewer};
use super::save::Saver;
use super::structured::{self, StructuredContent};
use super::{FAINT, Printer, escape, json, units};
use crate::args::ContentArgs;

/// Prints the content of a server's response.
pub(crate) struct Viewer<'a> {
    printer: &'a Printer,
    media: MediaViewer<'a>,
    /// Command that reads a link.
    read_command: Option<String>,
    links: Cell<usize>,
}

impl<'a> Viewer<'a> {
    /// Creates a viewer that saves files under names that begin with `stem`. Their folder is
    /// created now: a wrong path must not cost a call.
    pub(crate) fn new(
        printer: &'a Printer,
        env: &'a dyn Environment,
        args: ContentArgs,
        stem: &str,
    ) -> Result<Self, String> {
        let ContentArgs { save, images } = args;
        let saver = Saver::new(save, stem);
        saver.prepare()?;
        let media = MediaViewer::new(env, images, saver);
        Ok(Self { printer, media, read_command: None, links: Cell::new(0) })
    }

    /// Sets the server for the command that reads a link. A URL is not repeated, since it may hold
    /// a key.
    pub(crate) fn for_server(mut self, server: Option<&str>) -> Self {
        self.read_command = Some(match server {
            Some(url) if url.contains("://") => "bowline read SERVER URI".to_owned(),
            Some(name) => format!("bowline read {name} URI"),
            None => "bowline read URI -- COMMAND".to_owned(),
        });
        self
    }

    /// Prints the result of a tool. Text that only repeats the structured content is left out.
    // TL-04, TL-05.
    pub(crate) fn show_result(&self, result: &CallToolResult) -> io::Result<()> {
        let structured = result.structured.as_ref().map(|json| StructuredContent::new(json, &result.content));
        for block in &result.content {
            if !structured.as_ref().is_some_and(|structured| structured.is_repeated_by(block)) {
                self.show_block(block)?;
            }
        }
        if let Some(structured) = &structured {
            self.show_structured(structured)?;
        }
        self.note_links();
        Ok(())
    }

    fn show_structured(&self, structured: &StructuredContent) -> io::Result<()> {
        match structured.render(self.printer) {
            structured::Rendering::Text(text) => self.printer.write_text(&text),
            structured::Rendering::Table(table) => self.printer.write_layout(&table),
            structured::Rendering::Json(json) => self.printer.write_text(&json::pretty(&json)),
        }
    }

    pub(crate) fn show_block(&self, content: &Content) -> io::Result<()> {
        let hints = annotation_hints(&content.annotations());
        match content {
            Content::Text(block) => {
                // In a pipe, only the text is printed.
                if self.printer.on_terminal() && !hints.is_empty() {
                    self.show_remark(&hints.join(", "))?;
                }
                self.printer.write_text(&block.text.get())
            }
            Content::Image(block) => self.media("image", &block.data.get(), Some(&block.mime_type), &hints),
            Content::Audio(block) => self.media("audio", &block.data.get(), Some(&block.mime_type), &hints),
            Content::ResourceLink(resource) => self.show_link(resource, &hints),
            Content::Resource(block) => {
                self.show_heading_with(&block.resource, &hints)?;
                self.show_contents(&block.resource)
            }
            other => {
                let value = other.json();
                let kind = value.member("type").and_then(|kind| kind.decode::<String>().ok());
                let kind = kind.map(|kind| format!(" `{kind}`")).unwrap_or_default();
                self.show_remark(&format!("content of the unknown type{kind}"))?;
                self.printer.write_text(&json::pretty(value.as_str()))
            }
        }
    }

    pub(crate) fn show_contents(&self, part: &ResourceContents) -> io::Result<()> {
        match &part.body {
            ResourceBody::Text(text) => self.printer.write_text(&text.get()),
            ResourceBody::Blob(blob) => self.media("binary", &blob.get(), part.mime_type().as_deref(), &[]),
            _ => Err(io::Error::other("the resource has a content of an unknown kind")),
        }
    }

    /// Saves the blocks if `--save` is given, for machine output, which carries the content
    /// unchanged.
    pub(crate) fn save_blocks<'b>(&self, blocks: impl IntoIterator<Item = &'b Content>) -> io::Result<()> {
        for block in blocks {
            match block {
                Content::Image(block) => {
                    self.save("image", &block.data.get(), Some(&block.mime_type))?;
                }
                Content::Audio(block) => {
                    self.save("audio", &block.data.get(), Some(&block.mime_type))?;
                }
                Content::Resource(block) => self.save_contents([&block.resource])?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Saves the parts of a resource if `--save` is given.
    pub(crate) fn save_contents<'b>(
        &self,
        parts: impl IntoIterator<Item = &'b ResourceContents>,
    ) -> io::Result<()> {
        for part in parts {
            if let ResourceBody::Blob(blob) = &part.body {
                self.save("binary", &blob.get(), part.mime_type().as_deref())?;
            }
        }
        Ok(())
    }

    fn save(&self, noun: &str, base64: &str, mime: Option<&str>) -> io::Result<()> {
        self.media.save(self.printer, Blob { noun, base64, mime })
    }

    /// Prints the URI of the contents that follow.
    pub(crate) fn show_heading(&self, part: &ResourceContents) -> io::Result<()> {
        self.show_heading_with(part, &[])
    }

    /// Notes how to read the links that were printed.
    pub(crate) fn note_links(&self) {
        if let (1.., Some(how)) = (self.links.take(), &self.read_command) {
            self.printer.note(&format!("to read a link: {how}"));
        }
    }

    fn show_heading_with(&self, part: &ResourceContents, hints: &[String]) -> io::Result<()> {
        let mime = part.mime_type().map(|mime| format!(" {mime}")).unwrap_or_default();
        self.show_remark(&with_hints(format!("resource {}{mime}", part.uri), hints))
    }

    fn show_link(&self, resource: &Resource, hints: &[String]) -> io::Result<()> {
        self.links.set(self.links.get() + 1);
        let name =
            if resource.name == resource.uri { String::new() } else { format!(" ({})", resource.name) };
        let mime = resource.mime_type().map(|mime| format!(" {mime}")).unwrap_or_default();
        let size = resource.size().and_then(|size| usize::try_from(size).ok());
        let size = size.map(|size| format!(", {}", units::bytes(size))).unwrap_or_default();
        self.show_remark(&with_hints(format!("link {}{name}{mime}{size}", resource.uri), hints))
    }

    fn media(&self, noun: &str, base64: &str, mime: Option<&str>, hints: &[String]) -> io::Result<()> {
        let shown = self.media.show(self.printer, Blob { noun, base64, mime })?;
        if let Some(drawing) = &shown.drawing {
            self.printer.write_drawing(drawing)?;
        }
        self.show_remark(&with_hints(shown.caption, hints))
    }

    /// Prints a remark of our own among the content.
    fn show_remark(&self, text: &str) -> io::Result<()> {
        let line = self.printer.paint(FAINT, &format!("[{}]", escape::line(text)));
        self.printer.write_line(&line)
    }
}

fn with_hints(mut line: String, hints: &[String]) -> String {
    for hint in hints {
        line.push_str(", ");
        line.push_str(hint);
    }
    line
}

/// Lists the server's annotations of a block. An audience of both roles says nothing.
// RS-06.
fn annotation_hints(annotations: &ContentAnnotations) -> Vec<String> {
    let mut hints = Vec::new();
    if let [only] = annotations.audience.as_slice() {
        hints.push(format!("for the {}", only.as_str()));
    }
    if let Some(priority) = annotations.priority.filter(|priority| (0.0..=1.0).contains(priority)) {
        hints.push(format!("priority {priority:.2}").trim_end_matches('0').trim_end_matches('.').to_owned());
    }
    hints
}

#[cfg(test)]
mod tests {
    use bowline::types::Role;
    use bowline_testkit::with;

    use super::*;

    #[test]
    fn hints_that_say_something() {
        let of = |audience: &[Role], priority| {
            let hints = with!(ContentAnnotations::default(), audience: audience.to_vec(), priority: priority);
            annotation_hints(&hints).join(", ")
        };
        assert_eq!(of(&[Role::Assistant], Some(0.5)), "for the assistant, priority 0.5");
        assert_eq!(of(&[Role::User, Role::Assistant], None), "");
        assert_eq!(of(&[], Some(1.0)), "priority 1");
        assert_eq!(of(&[], Some(f64::NAN)), "");
        assert_eq!(of(&[], Some(7.0)), "");
    }
}
