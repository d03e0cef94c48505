//! The pixels of a picture: decoded from a file, scaled down, encoded as PNG.
//!
//! Each format has its own small decoder. The crate that joins them also brings color management,
//! which takes longer to compile than all four decoders, and which a terminal does not use.

use std::io::Cursor;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// A format of picture files that can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PictureFormat {
    Gif,
    Jpeg,
    Png,
    WebP,
}

/// Pixels in rows from top to bottom, each of four bytes: red, green, blue and opacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pixels {
    pub(crate) width: u32,
    pub(crate) height: u32,
    rgba: Vec<u8>,
}

/// The file is damaged, or uses a variant that the decoder does not know.
#[derive(Debug)]
pub(crate) struct Damaged;

impl PictureFormat {
    /// Returns the format of a media type.
    pub(crate) fn from_mime(mime: &str) -> Option<Self> {
        match mime {
            "image/gif" => Some(Self::Gif),
            "image/jpeg" => Some(Self::Jpeg),
            "image/png" => Some(Self::Png),
            "image/webp" => Some(Self::WebP),
            _ => None,
        }
    }

    /// Reads width and height from the header of a file, before any memory for pixels is taken.
    pub(crate) fn size(self, file: &[u8]) -> Result<(u32, u32), Damaged> {
        match self {
            Self::Gif => {
                let decoder = gif::Decoder::new(file).or_damaged()?;
                Ok((decoder.width().into(), decoder.height().into()))
            }
            Self::Jpeg => {
                let mut decoder = jpeg_decoder(file);
                decoder.decode_headers().or_damaged()?;
                let (width, height) = decoder.dimensions().ok_or(Damaged)?;
                Ok((u32::try_from(width).or_damaged()?, u32::try_from(height).or_damaged()?))
            }
            Self::Png => {
                let mut decoder = png::Decoder::new(Cursor::new(file));
                Ok(decoder.read_header_info().or_damaged()?.size())
            }
            Self::WebP => Ok(image_webp::WebPDecoder::new(Cursor::new(file)).or_damaged()?.dimensions()),
        }
    }

    /// Decodes a file, of an animation its first frame, with at most `max_bytes` of memory.
    ///
    /// The caller has compared [`size`](Self::size) with its limits.
    pub(crate) fn decode(self, file: &[u8], max_bytes: usize) -> Result<Pixels, Damaged> {
        let (width, height) = self.size(file)?;
        let rgba = match self {
            Self::Gif => decode_gif(file, max_bytes)?,
            Self::Jpeg => opaque(&jpeg_decoder(file).decode().or_damaged()?),
            Self::Png => decode_png(file, max_bytes)?,
            Self::WebP => decode_webp(file, max_bytes)?,
        };
        let expected = u64::from(width) * u64::from(height) * 4;
        if u64::try_from(rgba.len()).or_damaged()? != expected {
            return Err(Damaged);
        }
        Ok(Pixels { width, height, rgba })
    }
}

fn jpeg_decoder(file: &[u8]) -> JpegDecoder<ZCursor<&[u8]>> {
    // The sizes are compared with limits of our own.
    let side = usize::from(u16::MAX);
    let options = DecoderOptions::default().set_max_width(side).set_max_height(side);
    JpegDecoder::new_with_options(ZCursor::new(file), options.jpeg_set_out_colorspace(ColorSpace::RGB))
}

/// Decodes the first frame onto a transparent screen: a frame may cover only a part of it.
fn decode_gif(file: &[u8], max_bytes: usize) -> Result<Vec<u8>, Damaged> {
    let mut options = gif::DecodeOptions::new();
    options.set_color_output(gif::ColorOutput::RGBA);
    let limit = u64::try_from(max_bytes).ok().and_then(std::num::NonZeroU64::new).ok_or(Damaged)?;
    options.set_memory_limit(gif::MemoryLimit::Bytes(limit));
    let mut decoder = options.read_info(file).or_damaged()?;
    let (width, height) = (usize::from(decoder.width()), usize::from(decoder.height()));
    let frame = decoder.read_next_frame().or_damaged()?.ok_or(Damaged)?;
    let mut screen = vec![0; width * height * 4];
    let (left, top) = (usize::from(frame.left).min(width), usize::from(frame.top));
    let visible = usize::from(frame.width).min(width - left) * 4;
    let frame_row = (usize::from(frame.width) * 4).max(1);
    let screen_rows = screen.chunks_exact_mut((width * 4).max(1)).skip(top);
    for (screen_row, row) in screen_rows.zip(frame.buffer.chunks_exact(frame_row)) {
        screen_row[left * 4..left * 4 + visible].copy_from_slice(&row[..visible]);
    }
    Ok(screen)
}

fn decode_png(file: &[u8], max_bytes: usize) -> Result<Vec<u8>, Damaged> {
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(file), png::Limits { bytes: max_bytes });
    let eight_bits = png::Transformations::EXPAND | png::Transformations::STRIP_16;
    decoder.set_transformations(eight_bits | png::Transformations::ALPHA);
    let mut reader = decoder.read_info().or_damaged()?;
    let mut buffer = vec![0; reader.output_buffer_size().ok_or(Damaged)?];
    let info = reader.next_frame(&mut buffer).or_damaged()?;
    buffer.truncate(info.buffer_size());
    match info.color_type {
        png::ColorType::Rgba => Ok(buffer),
        png::ColorType::GrayscaleAlpha => {
            Ok(buffer.as_chunks().0.iter().flat_map(|[gray, alpha]| [*gray, *gray, *gray, *alpha]).collect())
        }
        _ => Err(Damaged),
    }
}

fn decode_webp(file: &[u8], max_bytes: usize) -> Result<Vec<u8>, Damaged> {
    let mut decoder = image_webp::WebPDecoder::new(Cursor::new(file)).or_damaged()?;
    decoder.set_memory_limit(max_bytes);
    let mut buffer = vec![0; decoder.output_buffer_size().ok_or(Damaged)?];
    decoder.read_image(&mut buffer).or_damaged()?;
    Ok(if decoder.has_alpha() { buffer } else { opaque(&buffer) })
}

/// Adds full opacity to pixels of three bytes.
fn opaque(rgb: &[u8]) -> Vec<u8> {
    rgb.as_chunks().0.iter().flat_map(|[red, green, blue]| [*red, *green, *blue, u8::MAX]).collect()
}

impl Pixels {
    /// Builds pixels from a function of column and row.
    pub(crate) fn from_fn(width: u32, height: u32, color: impl Fn(u32, u32) -> [u8; 4]) -> Self {
        let rows = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        Self { width, height, rgba: rows.flat_map(|(x, y)| color(x, y)).collect() }
    }

    /// Returns the pixel of a column and a row.
    pub(crate) fn get(&self, x: u32, y: u32) -> [u8; 4] {
        let index = u64::from(y) * u64::from(self.width) + u64::from(x);
        self.rgba.as_chunks().0[usize::try_from(index).unwrap_or(usize::MAX)]
    }

    /// Returns all pixels, row by row.
    pub(crate) fn iter(&self) -> impl Iterator<Item = [u8; 4]> {
        self.rgba.as_chunks().0.iter().copied()
    }

    /// Scales down to fit into `width` and `height` and keeps the proportions. Each new pixel is the
    /// mean of those that it covers.
    pub(crate) fn fit_into(self, width: u32, height: u32) -> Self {
        if self.width <= width && self.height <= height {
            return self;
        }
        let ratio =
            f64::min(f64::from(width) / f64::from(self.width), f64::from(height) / f64::from(self.height));
        let scaled = |side: u32| round_to_u32(f64::from(side) * ratio).max(1);
        let (new_width, new_height) = (scaled(self.width), scaled(self.height));
        Self::from_fn(new_width, new_height, |x, y| {
            let covered = |at: u32, old: u32, new: u32| {
                let edge = |at: u32| u64::from(at) * u64::from(old) / u64::from(new);
                let (from, to) = (edge(at), edge(at + 1));
                let narrow = |edge: u64| u32::try_from(edge).unwrap_or(old);
                narrow(from)..narrow(to.max(from + 1))
            };
            let rows = covered(y, self.height, new_height);
            let columns = covered(x, self.width, new_width);
            let count = u64::try_from(rows.len() * columns.len()).unwrap_or(u64::MAX);
            let mut sums = [0_u64; 4];
            for (row, column) in rows.flat_map(|row| columns.clone().map(move |column| (row, column))) {
                sums.iter_mut().zip(self.get(column, row)).for_each(|(sum, part)| *sum += u64::from(part));
            }
            sums.map(|sum| u8::try_from(sum / count).unwrap_or(u8::MAX))
        })
    }

    pub(crate) fn to_png(&self) -> Result<Vec<u8>, Damaged> {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, self.width, self.height);
        encoder.set_color(png::ColorType::Rgba);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().or_damaged()?;
        writer.write_image_data(&self.rgba).or_damaged()?;
        writer.finish().or_damaged()?;
        Ok(out)
    }
}

/// Rounds a length in pixels to a whole number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn round_to_u32(length: f64) -> u32 {
    length.round() as u32
}

/// Drops the details of a decoder's error: for a person, the file is damaged.
trait OrDamaged<T> {
    fn or_damaged(self) -> Result<T, Damaged>;
}

impl<T, E> OrDamaged<T> for Result<T, E> {
    fn or_damaged(self) -> Result<T, Damaged> {
        self.map_err(|_| Damaged)
    }
}
