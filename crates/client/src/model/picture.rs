//! Decides which pictures a model is shown: those whose bytes match their media type.
//!
//! With a mismatch the provider refuses the request, and every later one of that conversation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::icons::{IconError, inspect};

/// Maximum width and height, in pixels.
const MAX_SIDE_PIXELS: u32 = 8_000;
/// Maximum number of bytes in which the headers are searched.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// The media type of a Base64 picture, verified by its bytes. `None` if it is not shown.
pub(super) fn media_type(data: &str, declared: &str) -> Option<&'static str> {
    let essence = declared.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let kind = match essence.as_str() {
        "image/png" => "image/png",
        "image/jpeg" | "image/jpg" => "image/jpeg",
        "image/gif" => "image/gif",
        "image/webp" => "image/webp",
        _ => return None,
    };
    let bytes = BASE64.decode(data).ok()?;
    let is_it = if kind == "image/gif" { is_gif(&bytes) } else { is_still_image(&bytes, kind) };
    is_it.then_some(kind)
}

fn is_still_image(bytes: &[u8], kind: &str) -> bool {
    match inspect(&bytes[..bytes.len().min(MAX_HEADER_BYTES)], Some(kind)) {
        Ok(_) => true,
        // Only icons are limited to a small size and few frames.
        Err(IconError::Dimensions { width, height }) => is_valid_side(width) && is_valid_side(height),
        Err(IconError::Frames(_)) => true,
        Err(_) => false,
    }
}

fn is_gif(bytes: &[u8]) -> bool {
    let size = bytes.strip_prefix(b"GIF87a").or_else(|| bytes.strip_prefix(b"GIF89a"));
    matches!(size, Some(&[w0, w1, h0, h1, _, ..])
        if is_valid_side(u16::from_le_bytes([w0, w1]).into()) && is_valid_side(u16::from_le_bytes([h0, h1]).into()))
}

fn is_valid_side(side: u32) -> bool {
    (1..=MAX_SIDE_PIXELS).contains(&side)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend([0, 0, 0, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(b"\0\0\0\0IDAT\0\0\0\0");
        bytes
    }

    #[test]
    fn a_picture_is_what_its_bytes_are() {
        let jpeg = b"\xff\xd8\xff\xc0\0\x0b\x08\x10\0\x10\0\x01\x01\x11\0".to_vec();
        let webp = b"RIFF\x12\0\0\0WEBPVP8L\x05\0\0\0\x2f\0\0\0\0\0".to_vec();
        let gif = b"GIF89a\x01\0\x01\0\0\0\0;".to_vec();
        let all = [
            ("image/png", png(1)),
            ("image/jpeg", jpeg),
            ("image/gif", gif),
            ("image/webp", webp),
            ("image/svg+xml", b"<svg/>".to_vec()),
            ("image/png", png(8_001)),
            ("image/png", Vec::new()),
        ];
        for (at, (kind, bytes)) in all.iter().enumerate() {
            let data = BASE64.encode(bytes);
            for other in ["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", ""] {
                let expected = Some(other).filter(|other| at < 4 && other == kind);
                assert_eq!(media_type(&data, other), expected, "{at} as {other}");
            }
        }
        assert_eq!(media_type(&BASE64.encode(png(7_999)), "IMAGE/PNG; q=1"), Some("image/png"));
        assert_eq!(media_type(&BASE64.encode(&all[1].1), "image/jpg"), Some("image/jpeg"));
        let data = BASE64.encode(png(1));
        for broken in [&data[1..], &format!("{data}="), &format!(" {data}"), "%%%%"] {
            assert_eq!(media_type(broken, "image/png"), None, "{broken}");
        }
    }
}
