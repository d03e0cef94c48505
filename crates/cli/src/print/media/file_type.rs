//! Detects file types by their first bytes. The server's media type counts only if those are
//! unknown.

/// A file type that is known by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileType {
    /// Media type.
    pub(crate) mime: &'static str,
    /// File name extension.
    pub(crate) extension: &'static str,
}

/// Offsets and bytes that identify a type.
const MAGIC: [(usize, &[u8], FileType); 16] = [
    (0, b"\x89PNG\r\n\x1a\n", FileType::new("image/png", "png")),
    (0, b"\xff\xd8\xff", FileType::new("image/jpeg", "jpg")),
    (0, b"GIF87a", FileType::new("image/gif", "gif")),
    (0, b"GIF89a", FileType::new("image/gif", "gif")),
    (8, b"WEBP", FileType::new("image/webp", "webp")),
    (4, b"ftypavif", FileType::new("image/avif", "avif")),
    (8, b"WAVE", FileType::new("audio/wav", "wav")),
    (0, b"ID3", FileType::new("audio/mpeg", "mp3")),
    (0, b"\xff\xfb", FileType::new("audio/mpeg", "mp3")),
    (0, b"OggS", FileType::new("audio/ogg", "ogg")),
    (0, b"fLaC", FileType::new("audio/flac", "flac")),
    (4, b"ftypM4A", FileType::new("audio/mp4", "m4a")),
    (4, b"ftyp", FileType::new("video/mp4", "mp4")),
    (0, b"%PDF-", FileType::new("application/pdf", "pdf")),
    (0, b"PK\x03\x04", FileType::new("application/zip", "zip")),
    (0, b"\x1f\x8b", FileType::new("application/gzip", "gz")),
];

/// Extensions of types that have no such bytes, or further names of types.
const EXTENSIONS_BY_MIME: [(&str, &str); 11] = [
    ("image/svg+xml", "svg"),
    ("image/bmp", "bmp"),
    ("image/tiff", "tiff"),
    ("audio/x-wav", "wav"),
    ("audio/wave", "wav"),
    ("audio/mp3", "mp3"),
    ("audio/aac", "aac"),
    ("application/json", "json"),
    ("text/plain", "txt"),
    ("text/html", "html"),
    ("text/csv", "csv"),
];

impl FileType {
    const fn new(mime: &'static str, extension: &'static str) -> Self {
        Self { mime, extension }
    }

    /// Detects the type from the first bytes.
    pub(crate) fn detect(head: &[u8]) -> Option<Self> {
        let begins = |(at, magic, _): &(usize, &[u8], Self)| {
            let riff = matches!(magic, [b'W', b'E' | b'A', ..]);
            head.get(*at..).is_some_and(|rest| rest.starts_with(magic))
                && (!riff || head.starts_with(b"RIFF"))
        };
        MAGIC.into_iter().find(begins).map(|(_, _, kind)| kind)
    }

    /// Returns whether `mime` is another name of this type, so that a mismatch need not be shown.
    pub(crate) fn matches_mime(self, mime: &str) -> bool {
        let mime = essence(mime);
        mime == self.mime || extension_for_mime(&mime) == Some(self.extension)
    }
}

/// Returns the file name extension by the detected type, else by the server's media type.
pub(crate) fn file_extension(kind: Option<FileType>, mime: Option<&str>) -> &'static str {
    kind.map(|kind| kind.extension).or_else(|| extension_for_mime(&essence(mime?))).unwrap_or("bin")
}

fn extension_for_mime(essence: &str) -> Option<&'static str> {
    let magic = MAGIC.iter().map(|(_, _, kind)| (kind.mime, kind.extension));
    magic.chain(EXTENSIONS_BY_MIME).find(|(mime, _)| *mime == essence).map(|(_, extension)| extension)
}

/// Returns a media type without its parameters.
fn essence(mime: &str) -> String {
    mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_decide_the_type() {
        let png = FileType::detect(b"\x89PNG\r\n\x1a\n....").unwrap();
        assert_eq!(png.mime, "image/png");
        assert_eq!(FileType::detect(b"RIFF....WEBPVP8 ").unwrap().mime, "image/webp");
        assert_eq!(FileType::detect(b"RIFF....WAVEfmt ").unwrap().extension, "wav");
        for unknown in [&b"hello"[..], b"", b"....WAVE....", b"\x89PN"] {
            assert_eq!(FileType::detect(unknown), None);
        }
        assert_eq!(file_extension(Some(png), Some("image/jpeg")), "png");
        assert!(png.matches_mime("image/PNG; q=1") && !png.matches_mime("image/jpeg"));
        assert!(FileType::detect(b"RIFF....WAVE").unwrap().matches_mime("audio/x-wav"));
    }

    #[test]
    fn media_type_decides_where_bytes_do_not() {
        assert_eq!(file_extension(None, Some("image/PNG; q=1")), "png");
        assert_eq!(file_extension(None, Some("application/x-odd")), "bin");
        assert_eq!(file_extension(None, None), "bin");
    }
}
