//! Detects file types by their first bytes. The server's media type counts only if those are
//! unknown.

/// A file type that is known by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Media type.
    pub(crate) mime: &'static str,
    /// File name extension.
    pub(crate) extension: &'static str,
}

/// Offsets and bytes that identify a type.
const MAGIC: [(usize, &[u8], Kind); 16] = [
    (0, b"\x89PNG\r\n\x1a\n", Kind::new("image/png", "png")),
    (0, b"\xff\xd8\xff", Kind::new("image/jpeg", "jpg")),
    (0, b"GIF87a", Kind::new("image/gif", "gif")),
    (0, b"GIF89a", Kind::new("image/gif", "gif")),
    (8, b"WEBP", Kind::new("image/webp", "webp")),
    (4, b"ftypavif", Kind::new("image/avif", "avif")),
    (8, b"WAVE", Kind::new("audio/wav", "wav")),
    (0, b"ID3", Kind::new("audio/mpeg", "mp3")),
    (0, b"\xff\xfb", Kind::new("audio/mpeg", "mp3")),
    (0, b"OggS", Kind::new("audio/ogg", "ogg")),
    (0, b"fLaC", Kind::new("audio/flac", "flac")),
    (4, b"ftypM4A", Kind::new("audio/mp4", "m4a")),
    (4, b"ftyp", Kind::new("video/mp4", "mp4")),
    (0, b"%PDF-", Kind::new("application/pdf", "pdf")),
    (0, b"PK\x03\x04", Kind::new("application/zip", "zip")),
    (0, b"\x1f\x8b", Kind::new("application/gzip", "gz")),
];

/// Extensions of types that have no such bytes, or further names of types.
const NAMED: [(&str, &str); 11] = [
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

impl Kind {
    const fn new(mime: &'static str, extension: &'static str) -> Self {
        Self { mime, extension }
    }

    /// Detects the type from the first bytes.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        let begins = |(at, magic, _): &(usize, &[u8], Self)| {
            let riff = matches!(magic, [b'W', b'E' | b'A', ..]);
            head.get(*at..).is_some_and(|rest| rest.starts_with(magic))
                && (!riff || head.starts_with(b"RIFF"))
        };
        MAGIC.into_iter().find(begins).map(|(_, _, kind)| kind)
    }

    /// Returns whether `mime` is another name of this type, so that a mismatch need not be shown.
    pub(crate) fn is_called(self, mime: &str) -> bool {
        let mime = essence(mime);
        mime == self.mime || by_name(&mime) == Some(self.extension)
    }
}

/// Returns the file name extension by the detected type, else by the server's media type.
pub(crate) fn extension(kind: Option<Kind>, mime: Option<&str>) -> &'static str {
    kind.map(|kind| kind.extension).or_else(|| by_name(&essence(mime?))).unwrap_or("bin")
}

fn by_name(essence: &str) -> Option<&'static str> {
    let magic = MAGIC.iter().map(|(_, _, kind)| (kind.mime, kind.extension));
    magic.chain(NAMED).find(|(mime, _)| *mime == essence).map(|(_, extension)| extension)
}

/// Returns a media type without its parameters.
fn essence(mime: &str) -> String {
    mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_decide() {
        let png = Kind::of(b"\x89PNG\r\n\x1a\n....").unwrap();
        assert_eq!(png.mime, "image/png");
        assert_eq!(Kind::of(b"RIFF....WEBPVP8 ").unwrap().mime, "image/webp");
        assert_eq!(Kind::of(b"RIFF....WAVEfmt ").unwrap().extension, "wav");
        for unknown in [&b"hello"[..], b"", b"....WAVE....", b"\x89PN"] {
            assert_eq!(Kind::of(unknown), None);
        }
        assert_eq!(extension(Some(png), Some("image/jpeg")), "png");
        assert!(png.is_called("image/PNG; q=1") && !png.is_called("image/jpeg"));
        assert!(Kind::of(b"RIFF....WAVE").unwrap().is_called("audio/x-wav"));
    }

    #[test]
    fn words_help_where_bytes_do_not() {
        assert_eq!(extension(None, Some("image/PNG; q=1")), "png");
        assert_eq!(extension(None, Some("application/x-odd")), "bin");
        assert_eq!(extension(None, None), "bin");
    }
}
