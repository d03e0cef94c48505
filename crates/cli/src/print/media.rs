//! Shows pictures, sounds and other binary content: drawn if the terminal can, else saved.

pub(crate) mod base64;
mod draw_picture;
mod file_type;
mod picture;
mod pixels;
mod protocol;
mod sixel;
mod sixel_query;

use std::io;
use std::sync::OnceLock;

use bowline::config::Environment;
use serde_json::json;

use self::file_type::FileType;
use self::picture::Picture;
use self::protocol::ImageProtocol;
use super::save::{SavedFile, Saver};
use super::{Printer, units};
use crate::args::Images;

/// Shows binary content.
pub(crate) struct MediaViewer<'a> {
    env: &'a dyn Environment,
    images: Images,
    saver: Saver,
    /// Graphics protocol of the terminal, once detected.
    protocol: OnceLock<Option<ImageProtocol>>,
}

/// Base64 data, and the server's description of it.
#[derive(Clone, Copy)]
pub(crate) struct Blob<'a> {
    /// What it is called if its bytes do not tell.
    pub(crate) noun: &'a str,
    pub(crate) base64: &'a str,
    pub(crate) mime: Option<&'a str>,
}

/// What is printed about binary content.
pub(crate) struct MediaDisplay {
    /// Terminal sequence that draws it.
    pub(crate) drawing: Option<String>,
    /// One line: what it is, its size, and where it was saved.
    pub(crate) caption: String,
}

impl<'a> MediaViewer<'a> {
    pub(crate) fn new(env: &'a dyn Environment, wanted: Images, saver: Saver) -> Self {
        Self { env, images: wanted, saver, protocol: OnceLock::new() }
    }

    /// Draws or saves the content. It fails only if a file cannot be written.
    pub(crate) fn show(&self, printer: &Printer, blob: Blob<'_>) -> io::Result<MediaDisplay> {
        let kind = FileType::detect(&base64::decode_head(blob.base64));
        let what = describe_blob(blob, kind);
        let invalid = || Ok(MediaDisplay { drawing: None, caption: format!("{what}, not valid Base64") });
        let picture = kind.filter(|kind| kind.mime.starts_with("image/"));
        let drawn = match picture.zip(self.protocol(printer).filter(|_| picture.is_some())) {
            // Checked before all bytes are in memory.
            Some(_) if base64::estimate_size(blob.base64.len()) > picture::MAX_FILE_BYTES => {
                Some(Err("too large to draw"))
            }
            Some((kind, protocol)) => match base64::decode(blob.base64) {
                Some(bytes) => {
                    Some(draw(protocol, &bytes, kind, printer.width).map(|drawn| (bytes.len(), drawn)))
                }
                None => return invalid(),
            },
            None => None,
        };
        let (size, drawing, remark) = match drawn {
            Some(Ok((size, (drawing, pixels)))) => (Some(size), Some(drawing), Some(pixels)),
            Some(Err(why)) => (None, None, Some(why.to_owned())),
            None => (None, None, None),
        };
        let mut saved = None;
        if drawing.is_none() || self.saver.has_explicit_folder() {
            saved = self.saver.save(blob.base64, file_type::file_extension(kind, blob.mime))?;
            if saved.is_none() {
                return invalid();
            }
        }
        let size = size.or(saved.as_ref().map(|saved| saved.size)).map(units::bytes);
        let saved = saved.map(|saved| format!("saved to {}", saved.path.display()));
        let facts: Vec<String> = [Some(what), size, remark, saved].into_iter().flatten().collect();
        Ok(MediaDisplay { drawing, caption: facts.join(", ") })
    }

    /// Saves the content if a folder was named, and notes the path on stderr.
    pub(crate) fn save(&self, printer: &Printer, blob: Blob<'_>) -> io::Result<()> {
        if !self.saver.has_explicit_folder() {
            return Ok(());
        }
        let kind = FileType::detect(&base64::decode_head(blob.base64));
        let what = describe_blob(blob, kind);
        let saved = self.saver.save(blob.base64, file_type::file_extension(kind, blob.mime))?;
        let Some(SavedFile { path, size }) = saved else {
            let text = format!("{what}, not valid Base64: not saved");
            printer.write_event(&text, "not_saved", &json!({ "what": what, "why": "not valid Base64" }));
            return Ok(());
        };
        let path = path.display().to_string();
        let text = format!("{what}, {}, saved to {path}", units::bytes(size));
        printer.write_event(&text, "saved", &json!({ "what": what, "path": path, "bytes": size }));
        Ok(())
    }

    fn protocol(&self, printer: &Printer) -> Option<ImageProtocol> {
        *self.protocol.get_or_init(|| {
            protocol::choose_protocol(self.images, printer.can_draw(), self.env, sixel_query::knows_sixel)
        })
    }
}

/// Returns the drawing and its size in pixels, or why there is none.
fn draw(
    protocol: ImageProtocol,
    bytes: &[u8],
    kind: FileType,
    columns: usize,
) -> Result<(String, String), &'static str> {
    let picture = Picture::open(bytes, kind)?;
    let drawing = draw_picture::encode_picture(protocol, &picture, columns)?;
    Ok((drawing, format!("{}x{}", picture.width, picture.height)))
}

/// Describes the content, such as `image image/png`, and the server's type if it differs.
fn describe_blob(blob: Blob<'_>, kind: Option<FileType>) -> String {
    let noun = blob.noun;
    match (kind, blob.mime.filter(|mime| !mime.is_empty())) {
        (Some(kind), Some(mime)) if !kind.matches_mime(mime) => {
            format!("{noun} {} (said to be {mime})", kind.mime)
        }
        (_, Some(mime)) => format!("{noun} {mime}"),
        (Some(kind), None) => format!("{noun} {}", kind.mime),
        (None, None) => noun.to_owned(),
    }
}
