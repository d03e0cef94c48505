//! Decodes pictures from a server within limits: a few bytes can claim terabytes of pixels.

use super::file_type::FileType;
use super::pixels::{PictureFormat, Pixels};

/// Largest file that is drawn. Larger ones are saved.
pub(crate) const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;
/// Most pixels along a side.
const MAX_SIDE_PIXELS: u32 = 12_000;
/// Most memory for pixels, in bytes.
const MAX_DECODE_BYTES: usize = 160 * 1024 * 1024;
/// Most pixels. Four bytes each are kept, but a decoder can need up to sixteen for a moment.
const MAX_PIXELS: u64 = 24_000_000;

/// A picture file within the limits.
pub(crate) struct Picture<'a> {
    bytes: &'a [u8],
    pub(crate) width: u32,
    pub(crate) height: u32,
    format: PictureFormat,
}

impl<'a> Picture<'a> {
    /// Reads the header of a file. The error says why it cannot be drawn.
    pub(crate) fn open(bytes: &'a [u8], kind: FileType) -> Result<Self, &'static str> {
        let format = PictureFormat::from_mime(kind.mime).ok_or(NOT_A_PICTURE)?;
        let (width, height) = format.size(bytes).map_err(|_| DAMAGED)?;
        let pixels = u64::from(width) * u64::from(height);
        if width.max(height) > MAX_SIDE_PIXELS || pixels > MAX_PIXELS {
            return Err(TOO_MANY_PIXELS);
        }
        if pixels == 0 {
            return Err(DAMAGED);
        }
        Ok(Self { bytes, width, height, format })
    }

    /// Decodes the pixels, scaled down to the given size. Of an animation, it decodes the first
    /// frame.
    pub(crate) fn pixels(&self, width: u32, height: u32) -> Result<Pixels, &'static str> {
        let pixels = self.format.decode(self.bytes, MAX_DECODE_BYTES).map_err(|_| DAMAGED)?;
        Ok(pixels.fit_into(width, height))
    }

    /// Encodes the picture as PNG, scaled down to `side` pixels along its longest side.
    pub(crate) fn png(&self, side: u32) -> Result<Vec<u8>, &'static str> {
        self.pixels(side, side)?.to_png().map_err(|_| DAMAGED)
    }
}

const NOT_A_PICTURE: &str = "not a picture that can be drawn";
const DAMAGED: &str = "damaged";
const TOO_MANY_PIXELS: &str = "too many pixels to draw";

#[cfg(test)]
pub(super) mod tests {
    use std::io::Cursor;

    use image::ImageFormat;

    use super::*;

    /// Encodes a picture whose left half is red and whose right half is blue.
    pub(crate) fn halves(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let color = |x, _| if x < width / 2 { image::Rgb([255, 0, 0]) } else { image::Rgb([0, 0, 255]) };
        let mut out = Cursor::new(Vec::new());
        image::RgbImage::from_fn(width, height, color).write_to(&mut out, format).unwrap();
        out.into_inner()
    }

    fn of(bytes: &[u8]) -> Result<Picture<'_>, &'static str> {
        Picture::open(bytes, FileType::detect(bytes).expect("a known kind"))
    }

    #[test]
    fn pictures_are_measured_and_scaled() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
            let bytes = halves(40, 20, format);
            let picture = of(&bytes).unwrap();
            assert_eq!((picture.width, picture.height), (40, 20), "{format:?}");
            let small = picture.pixels(10, 10).unwrap();
            assert_eq!((small.width, small.height), (10, 5), "{format:?}");
            assert!(of(&picture.png(10).unwrap()).is_ok());
        }
    }

    /// A header that claims more pixels than there is memory costs nothing.
    #[test]
    fn image_bomb_is_rejected_by_its_header() {
        for (width, height) in [(60_000_u32, 60_000_u32), (12_000, 12_000), (4_900, 4_900)] {
            let mut bytes = halves(8, 8, ImageFormat::Png);
            bytes[16..20].copy_from_slice(&width.to_be_bytes());
            bytes[20..24].copy_from_slice(&height.to_be_bytes());
            let crc = crc(&bytes[12..29]);
            bytes[29..33].copy_from_slice(&crc.to_be_bytes());
            assert_eq!(of(&bytes).err(), Some(TOO_MANY_PIXELS));
        }
        let gif = [b"GIF89a".as_slice(), &[0xff; 4], &[0, 0, 0], &[0; 20]].concat();
        assert!(of(&gif).is_err());
        let cut = halves(40, 20, ImageFormat::Png);
        assert_eq!(of(&cut[..40]).and_then(|picture| picture.pixels(9, 9)).err(), Some(DAMAGED));
    }

    /// Computes the CRC of PNG chunks.
    fn crc(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0_u32, |sum, byte| {
            (0..8).fold(
                sum ^ u32::from(*byte),
                |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 },
            )
        })
    }
}
