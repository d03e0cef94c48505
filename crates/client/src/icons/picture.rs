//! Identifies pictures by their headers, without decoding them.

use super::IconError;

/// A picture format that is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PictureFormat {
    /// `image/png`
    Png,
    /// `image/jpeg`
    Jpeg,
    /// `image/webp`
    Webp,
}

/// The facts in the headers of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Picture {
    /// The format, by the bytes.
    pub format: PictureFormat,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Number of frames; one unless it is animated.
    pub frames: u32,
}

/// Identifies the bytes, if they are a picture of a size that may be decoded. `declared` is the
/// server's media type, if any; a mismatch is refused.
pub fn inspect(bytes: &[u8], declared: Option<&str>) -> Result<Picture, IconError> {
    if bytes.len() > MAX_ICON_BYTES {
        return Err(IconError::TooLarge(MAX_ICON_BYTES));
    }
    let picture = parse_png(bytes).or_else(|| parse_jpeg(bytes)).or_else(|| parse_webp(bytes));
    let Some(picture) = picture else {
        return Err(if looks_like_svg(bytes) { IconError::Svg } else { IconError::Unknown });
    };
    let Picture { format: kind, width, height, frames } = picture;
    if let Some(declared) = declared.filter(|declared| !kind.matches(declared)) {
        return Err(IconError::Mismatch(declared.chars().take(64).collect()));
    }
    if width == 0 || height == 0 || width > MAX_ICON_SIDE || height > MAX_ICON_SIDE {
        return Err(IconError::Dimensions { width, height });
    }
    if frames > MAX_ICON_FRAMES {
        return Err(IconError::Frames(frames));
    }
    Ok(picture)
}

impl PictureFormat {
    /// The media type.
    pub fn mime_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
        }
    }

    fn matches(self, declared: &str) -> bool {
        let essence = declared.split(';').next().unwrap_or_default().trim();
        let usual = essence.eq_ignore_ascii_case(self.mime_type());
        usual || (self == Self::Jpeg && essence.eq_ignore_ascii_case("image/jpg"))
    }
}

fn parse_png(bytes: &[u8]) -> Option<Picture> {
    let mut rest = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    let mut picture = None;
    // A chunk is length, name, data and checksum. The header comes first; animation, if any, before
    // the data.
    while let (Some(length), Some(name)) = (be32(rest, 0), rest.get(4..8)) {
        let data = rest.get(8..)?;
        match (name, &mut picture) {
            (b"IHDR", None) => {
                let (width, height) = (be32(data, 0)?, be32(data, 4)?);
                picture = Some(Picture { format: PictureFormat::Png, width, height, frames: 1 });
            }
            (_, None) => return None,
            (b"acTL", Some(picture)) => picture.frames = be32(data, 0)?,
            (b"IDAT", Some(_)) => return picture,
            _ => {}
        }
        rest = data.get(usize::try_from(length).ok()?.checked_add(4)?..)?;
    }
    None
}

fn parse_jpeg(bytes: &[u8]) -> Option<Picture> {
    let mut rest = bytes.strip_prefix(b"\xff\xd8")?;
    loop {
        // Any number of fill bytes, then the marker.
        let marker = rest.iter().position(|byte| *byte != 0xff).filter(|fill| *fill > 0)?;
        let segment = rest.get(marker + 1..)?;
        let frame = matches!(rest[marker], 0xc0..=0xcf) && !matches!(rest[marker], 0xc4 | 0xc8 | 0xcc);
        if frame {
            let (height, width) = (u32::from(be16(segment, 3)?), u32::from(be16(segment, 5)?));
            return Some(Picture { format: PictureFormat::Jpeg, width, height, frames: 1 });
        }
        rest = match rest[marker] {
            // The scan and the end come after the frame.
            0xda | 0xd9 => return None,
            0x01 | 0xd0..=0xd8 => segment,
            _ => segment.get(usize::from(be16(segment, 0)?.max(2))..)?,
        };
    }
}

fn parse_webp(bytes: &[u8]) -> Option<Picture> {
    if bytes.get(..4)? != b"RIFF" || bytes.get(8..12)? != b"WEBP" {
        return None;
    }
    let picture = |width, height, frames| Picture { format: PictureFormat::Webp, width, height, frames };
    let mut chunks = RiffChunks(&bytes[12..]);
    let (name, data) = chunks.next()?;
    match name {
        b"VP8 " if data.get(3..6)? == b"\x9d\x01\x2a" => {
            let side = |at| Some(u32::from(le16(data, at)? & 0x3fff));
            Some(picture(side(6)?, side(8)?, 1))
        }
        b"VP8L" if data.first() == Some(&0x2f) => {
            let bits = u32::from(le16(data, 1)?) | u32::from(le16(data, 3)?) << 16;
            Some(picture((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1, 1))
        }
        b"VP8X" => {
            let side = |at: usize| Some(u32::from(le16(data, at)?) | u32::from(*data.get(at + 2)?) << 16);
            let frames = chunks.filter(|(name, _)| *name == b"ANMF").count();
            let frames = u32::try_from(frames).unwrap_or(u32::MAX).max(1);
            Some(picture(side(4)? + 1, side(7)? + 1, frames))
        }
        _ => None,
    }
}

/// The chunks of a RIFF file: name, length, data, and padding to an even length.
struct RiffChunks<'a>(&'a [u8]);

impl<'a> Iterator for RiffChunks<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = (self.0.get(..4)?, self.0.get(8..)?);
        let length = usize::from(le16(self.0, 4)?) | usize::from(le16(self.0, 6)?) << 16;
        let data = &rest[..length.min(rest.len())];
        self.0 = rest.get(length + (length & 1)..).unwrap_or_default();
        Some((name, data))
    }
}

/// Whether the bytes look like SVG or other XML.
fn looks_like_svg(bytes: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]).to_ascii_lowercase();
    head.contains("<svg") || head.trim_start_matches('\u{feff}').trim_start().starts_with("<?xml")
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

/// Maximum size of an icon, in bytes.
pub(super) const MAX_ICON_BYTES: usize = 1024 * 1024;

/// Maximum width and height, in pixels.
const MAX_ICON_SIDE: u32 = 1024;

/// Maximum number of frames.
const MAX_ICON_FRAMES: u32 = 60;
