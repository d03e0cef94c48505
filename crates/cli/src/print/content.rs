//! Owns how content blocks read: text as text, everything else said in a line.

use std::io;

use bowline::view::{Body, Content, Resource, ResourceContents};
use bowline::wire::Json;

use super::save::{Saver, decoded};
use super::{FAINT, Printer, escape, json, units};

/// Prints one block.
pub(crate) fn block(printer: &Printer, saver: &Saver, content: &Content) -> io::Result<()> {
    match content {
        Content::Text(block) => printer.text(&block.text.get()),
        Content::Image(block) => media(printer, saver, "image", &block.data.get(), Some(&block.mime_type)),
        Content::Audio(block) => media(printer, saver, "audio", &block.data.get(), Some(&block.mime_type)),
        Content::ResourceLink(resource) => link(printer, resource),
        Content::Resource(block) => {
            heading(printer, &block.resource)?;
            contents(printer, saver, &block.resource)
        }
        Content::Unknown(value) => printer.text(&json::pretty(value.as_str())),
    }
}

/// Prints one part of a resource.
pub(crate) fn contents(printer: &Printer, saver: &Saver, part: &ResourceContents) -> io::Result<()> {
    match &part.body {
        Body::Text(text) => printer.text(&text.get()),
        Body::Blob(blob) => media(printer, saver, "binary", &blob.get(), part.mime_type().as_deref()),
    }
}

/// Says whose contents follow.
pub(crate) fn heading(printer: &Printer, part: &ResourceContents) -> io::Result<()> {
    let mime = part.mime_type().map(|mime| format!(" {mime}")).unwrap_or_default();
    aside(printer, &format!("resource {}{mime}", part.uri))
}

/// Whether text blocks say the same as the structured content, as servers are asked to do: then the
/// structured one is enough.
pub(crate) fn repeats(content: &Content, structured: &Json) -> bool {
    let Content::Text(block) = content else { return false };
    let text = block.text.get();
    match (serde_json::from_str::<serde_json::Value>(&text), structured.decode::<serde_json::Value>()) {
        (Ok(text), Ok(structured)) => text == structured,
        _ => false,
    }
}

fn link(printer: &Printer, resource: &Resource) -> io::Result<()> {
    let mime = resource.mime_type().map(|mime| format!(" {mime}")).unwrap_or_default();
    let name = if resource.name == resource.uri { String::new() } else { format!(" ({})", resource.name) };
    aside(printer, &format!("link {}{name}{mime}", resource.uri))
}

fn media(printer: &Printer, saver: &Saver, kind: &str, data: &str, mime: Option<&str>) -> io::Result<()> {
    let shown = mime.map(|mime| format!(" {mime}")).unwrap_or_default();
    let Some(bytes) = decoded(data) else {
        return aside(printer, &format!("{kind}{shown}, not valid Base64"));
    };
    let size = units::bytes(bytes.len());
    match saver.save(&bytes, mime)? {
        Some(path) => aside(printer, &format!("{kind}{shown}, {size}, saved to {}", path.display())),
        None => aside(printer, &format!("{kind}{shown}, {size}")),
    }
}

/// Our own words among the content.
fn aside(printer: &Printer, text: &str) -> io::Result<()> {
    let line = printer.paint(FAINT, &format!("[{}]", escape::line(text)));
    printer.layout(&format!("{line}\n"))
}
