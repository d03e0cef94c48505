//! Encodes a picture in the graphics protocol of the terminal.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::picture::Picture;
use super::protocol::ImageProtocol;
use super::sixel;

/// Encodes the picture at most `columns` columns wide, or returns why that is not possible.
///
/// The terminal never gets a server's file, but a picture that is encoded anew from the pixels. So
/// a malformed file meets our decoder, which has limits, and not one inside the terminal.
pub(crate) fn encode_picture(
    protocol: ImageProtocol,
    picture: &Picture<'_>,
    columns: usize,
) -> Result<String, &'static str> {
    let columns = u32::try_from(columns).unwrap_or(u32::MAX).clamp(1, 1000);
    match protocol {
        ImageProtocol::Kitty => Ok(kitty(&picture.png(MAX_PNG_SIDE)?, picture.width, columns)),
        ImageProtocol::Iterm2 => Ok(iterm2(&picture.png(MAX_PNG_SIDE)?)),
        ImageProtocol::Sixel => {
            Ok(sixel::encode(&picture.pixels(columns * COLUMN_PIXELS, MAX_SIXEL_HEIGHT)?))
        }
    }
}

/// Assumed width of a column in pixels, that of a small font.
const COLUMN_PIXELS: u32 = 8;
/// Greatest height of a sixel picture in pixels.
const MAX_SIXEL_HEIGHT: u32 = 800;
/// Longest side of a PNG that is sent to the terminal, in pixels.
const MAX_PNG_SIDE: u32 = 2000;

/// Encodes a PNG in chunks. `q=2` suppresses the terminal's response, which nobody would read. The
/// width is set only if the picture would not fit; the height follows from it.
fn kitty(png: &[u8], width: u32, columns: u32) -> String {
    let text = STANDARD.encode(png);
    let mut out = String::with_capacity(text.len() + text.len() / 256 + 64);
    let fit = if width > columns * COLUMN_PIXELS { format!(",c={columns}") } else { String::new() };
    let mut pieces = text.as_bytes().chunks(KITTY_CHUNK_BYTES).peekable();
    let mut control = format!("a=T,f=100,q=2{fit},");
    while let Some(piece) = pieces.next() {
        let more = u8::from(pieces.peek().is_some());
        let piece = std::str::from_utf8(piece).expect("Base64 is ASCII");
        write!(out, "\x1b_G{control}m={more};{piece}\x1b\\").expect("writing to a string");
        control.clear();
    }
    out.push('\n');
    out
}

/// Most bytes of one chunk.
const KITTY_CHUNK_BYTES: usize = 4096;

/// Encodes a file in one piece. The terminal scales it.
fn iterm2(file: &[u8]) -> String {
    let size = file.len();
    let text = STANDARD.encode(file);
    format!("\x1b]1337;File=inline=1;size={size};preserveAspectRatio=1:{text}\x07\n")
}

#[cfg(test)]
mod tests {
    use image::ImageFormat;

    use super::super::file_type::FileType;
    use super::super::picture::tests::halves;
    use super::*;

    fn draw(protocol: ImageProtocol, bytes: &[u8]) -> String {
        encode_picture(protocol, &Picture::open(bytes, FileType::detect(bytes).unwrap()).unwrap(), 80)
            .unwrap()
    }

    /// Reassembles the file from the chunks that the terminal is sent.
    fn kitty_file(sent: &str) -> Vec<u8> {
        let pieces: Vec<(&str, &str)> = sent
            .trim_end()
            .split_terminator("\x1b\\")
            .map(|part| part.strip_prefix("\x1b_G").unwrap().split_once(';').unwrap())
            .collect();
        let last = pieces.len() - 1;
        for (at, (control, piece)) in pieces.iter().enumerate() {
            assert!(control.ends_with(if at == last { "m=0" } else { "m=1" }), "{control}");
            assert!(piece.len() <= 4096 && (at == last || piece.len() % 4 == 0));
            assert_eq!(control.contains("a=T,f=100"), at == 0);
        }
        STANDARD.decode(pieces.iter().map(|(_, piece)| *piece).collect::<String>()).unwrap()
    }

    #[test]
    fn kitty_gets_png_in_pieces() {
        // Noise, so that it does not fit into one chunk.
        let noise =
            image::RgbImage::from_fn(60, 60, |_, _| image::Rgb([fastrand::u8(..), fastrand::u8(..), 0]));
        let mut png = std::io::Cursor::new(Vec::new());
        noise.write_to(&mut png, ImageFormat::Png).unwrap();
        let png = png.into_inner();
        assert!(png.len() > KITTY_CHUNK_BYTES);
        let sent = image::load_from_memory(&kitty_file(&draw(ImageProtocol::Kitty, &png))).unwrap();
        assert_eq!(sent.into_rgb8(), noise);
        let jpeg = halves(16, 8, ImageFormat::Jpeg);
        assert!(kitty_file(&draw(ImageProtocol::Kitty, &jpeg)).starts_with(b"\x89PNG"));
        assert!(draw(ImageProtocol::Kitty, &halves(2000, 4, ImageFormat::Png)).contains(",c=80,"));
    }

    fn iterm2_file(sent: &str) -> Vec<u8> {
        let (head, text) = sent.trim_end().trim_end_matches('\x07').split_once(':').unwrap();
        assert!(head.starts_with("\x1b]1337;File=inline=1;size="), "{head:?}");
        STANDARD.decode(text).unwrap()
    }

    /// Data that a server appended to the picture, where decoders differ.
    #[test]
    fn nothing_of_a_servers_file_reaches_a_terminal_but_its_pixels() {
        let smuggled = b"what only the terminal's decoder would read";
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
            let file = [halves(16, 8, format), smuggled.to_vec()].concat();
            for sent in [
                kitty_file(&draw(ImageProtocol::Kitty, &file)),
                iterm2_file(&draw(ImageProtocol::Iterm2, &file)),
            ] {
                assert!(sent.starts_with(b"\x89PNG"), "{format:?}");
                assert!(!sent.windows(smuggled.len()).any(|part| part == smuggled), "{format:?}");
                let picture = image::load_from_memory(&sent).unwrap();
                assert_eq!((picture.width(), picture.height()), (16, 8), "{format:?}");
            }
        }
    }

    #[test]
    fn sixels_fit_the_width() {
        let sent = draw(ImageProtocol::Sixel, &halves(2000, 100, ImageFormat::Png));
        assert!(sent.starts_with("\x1bP") && sent.contains("\"1;1;640;32"), "{:?}", &sent[..40]);
    }
}
