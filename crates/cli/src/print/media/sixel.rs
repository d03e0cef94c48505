//! Encodes sixels: a picture as stripes of six rows, in at most 256 colors.
//!
//! Colors are reduced to five bits per channel. Boxes of them are split in two at the median of
//! their longest side, the most populous first, until there are enough; each gets the mean color of
//! its pixels.
//!
//! The kept crate for this, icy_sixel 0.7, brings a color quantizer and some twenty packages. This
//! encoder is small enough to be read.

use std::fmt::Write as _;

use super::pixels::Pixels;

/// Encodes the picture. Transparent pixels are not drawn.
pub(crate) fn encode(picture: &Pixels) -> String {
    let palette = Palette::from_image(picture);
    let (width, height) = (picture.width, picture.height);
    // `1` as second number leaves pixels without color unchanged.
    let mut out = format!("\x1bP0;1;0q\"1;1;{width};{height}");
    for (number, color) in palette.colors.iter().enumerate() {
        let [r, g, b] = color.map(|part| u32::from(part) * 100 / 255);
        write!(out, "#{number};2;{r};{g};{b}").expect("writing to a string");
    }
    for top in (0..height).step_by(6) {
        // Collects the colors of each column of six pixels, so that each pixel is looked up once.
        let column = |x: u32| -> [Option<usize>; 6] {
            std::array::from_fn(|dy| {
                let y = top + u32::try_from(dy).unwrap_or(0);
                (y < height).then(|| palette.index(picture.get(x, y))).flatten()
            })
        };
        let columns: Vec<[Option<usize>; 6]> = (0..width).map(column).collect();
        let mut used = [false; MAX_COLORS];
        columns.iter().flatten().flatten().for_each(|number| used[*number] = true);
        for number in (0..MAX_COLORS).filter(|number| used[*number]) {
            let bits = |column: &[Option<usize>; 6]| {
                (0..6).filter(|dy| column[*dy] == Some(number)).fold(0_u8, |bits, dy| bits | 1 << dy)
            };
            let row: Vec<u8> = columns.iter().map(bits).collect();
            write!(out, "#{number}").expect("writing to a string");
            push_stripe(&mut out, &row);
            // Returns to the start of the stripe for the next color.
            out.push('$');
        }
        out.push('-');
    }
    out.push_str("\x1b\\\n");
    out
}

/// Appends one stripe, with runs of equal columns encoded by their length.
fn push_stripe(out: &mut String, row: &[u8]) {
    for run in row.chunk_by(|a, b| a == b) {
        let sixel = char::from(b'?' + run[0]);
        match run.len() {
            count @ 0..4 => out.extend(std::iter::repeat_n(sixel, count)),
            count => write!(out, "!{count}{sixel}").expect("writing to a string"),
        }
    }
}

/// The palette of a picture, and the index of each color in it.
struct Palette {
    colors: Vec<[u8; 3]>,
    /// Palette index for each color of fifteen bits.
    index: Vec<u8>,
}

/// A color of the picture, and how many pixels have it.
#[derive(Clone, Copy)]
struct ColorCount {
    color: [u8; 3],
    count: u64,
}

const MAX_COLORS: usize = 256;

impl Palette {
    fn from_image(picture: &Pixels) -> Self {
        let mut counts = vec![0_u64; 1 << 15];
        for pixel in picture.iter().filter(|pixel| !is_transparent(*pixel)) {
            counts[color_slot(pixel)] += 1;
        }
        let entries: Vec<ColorCount> = (0_u16..)
            .zip(counts)
            .filter(|(_, count)| *count > 0)
            .map(|(slot, count)| ColorCount { color: slot_color(slot), count })
            .collect();
        let mut index = vec![0; 1 << 15];
        let mut colors = Vec::new();
        for (number, cell) in (0_u8..=u8::MAX).zip(split_boxes(entries)) {
            for entry in &cell {
                index[color_slot([entry.color[0], entry.color[1], entry.color[2], 0xff])] = number;
            }
            colors.push(mean_color(&cell));
        }
        Self { colors, index }
    }

    fn index(&self, pixel: [u8; 4]) -> Option<usize> {
        (!is_transparent(pixel)).then(|| usize::from(self.index[color_slot(pixel)]))
    }
}

fn is_transparent(pixel: [u8; 4]) -> bool {
    pixel[3] < 128
}

/// Returns the fifteen-bit index of a color, five bits per channel.
fn color_slot(pixel: [u8; 4]) -> usize {
    pixel[..3].iter().fold(0, |slot, part| slot << 5 | usize::from(part >> 3))
}

/// Returns the color in the middle of an index.
fn slot_color(slot: u16) -> [u8; 3] {
    [10, 5, 0].map(|shift| u8::try_from((slot >> shift & 31) << 3 | 4).unwrap_or(u8::MAX))
}

fn split_boxes(entries: Vec<ColorCount>) -> Vec<Vec<ColorCount>> {
    let mut all = vec![entries];
    while all.len() < MAX_COLORS {
        let weight = |cell: &Vec<ColorCount>| cell.iter().map(|entry| entry.count).sum::<u64>();
        let Some(at) = (0..all.len()).filter(|at| all[*at].len() > 1).max_by_key(|at| weight(&all[*at]))
        else {
            break;
        };
        let mut cell = all.swap_remove(at);
        let span = |part: usize| {
            let parts = || cell.iter().map(|entry| entry.color[part]);
            parts().max().unwrap_or(0) - parts().min().unwrap_or(0)
        };
        let longest = (0..3).max_by_key(|part| span(*part)).unwrap_or(0);
        cell.sort_unstable_by_key(|entry| entry.color[longest]);
        // As many pixels on both sides, with at least one color each.
        let half = weight(&cell) / 2;
        let mut seen = 0;
        let cut = cell.iter().position(|entry| {
            seen += entry.count;
            seen > half
        });
        let other = cell.split_off(cut.unwrap_or(0).clamp(1, cell.len() - 1));
        all.extend([cell, other]);
    }
    all.retain(|cell| !cell.is_empty());
    all
}

fn mean_color(cell: &[ColorCount]) -> [u8; 3] {
    let all: u64 = cell.iter().map(|entry| entry.count).sum::<u64>().max(1);
    [0, 1, 2].map(|part| {
        let sum: u64 = cell.iter().map(|entry| u64::from(entry.color[part]) * entry.count).sum();
        u8::try_from(sum / all).unwrap_or(u8::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes what a terminal draws: the color index of each pixel.
    fn drawn(sent: &str, width: usize, height: usize) -> Vec<Vec<Option<usize>>> {
        let mut pixels = vec![vec![None; width]; height];
        let body = sent.split_once("\"1;1;").unwrap().1.strip_suffix("\x1b\\\n").unwrap();
        let body = &body[body.find('#').unwrap()..];
        let (mut x, mut top, mut color, mut times) = (0, 0, 0, 1);
        let mut chars = body.chars().peekable();
        let number = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut digits = String::new();
            while let Some(c) = chars.next_if(|c| c.is_ascii_digit() || *c == ';') {
                digits.push(c);
            }
            digits
        };
        while let Some(c) = chars.next() {
            match c {
                '#' => {
                    let digits = number(&mut chars);
                    if !digits.contains(';') {
                        color = digits.parse().unwrap();
                    }
                }
                '!' => times = number(&mut chars).parse().unwrap(),
                '$' => x = 0,
                '-' => (x, top) = (0, top + 6),
                sixel => {
                    for _ in 0..std::mem::replace(&mut times, 1) {
                        for dy in (0..6).filter(|dy| (sixel as u8 - b'?') >> dy & 1 == 1) {
                            pixels[top + dy][x] = Some(color);
                        }
                        x += 1;
                    }
                }
            }
        }
        pixels
    }

    #[test]
    fn every_pixel_has_its_color() {
        let picture = Pixels::from_fn(9, 8, |x, y| match (x, y) {
            (8, _) => [0, 0, 0, 0],
            (0..4, _) => [255, 0, 0, 255],
            (_, 7) => [0, 255, 0, 255],
            _ => [0, 0, 255, 255],
        });
        let palette = Palette::from_image(&picture);
        assert_eq!(palette.colors.len(), 3);
        let pixels = drawn(&encode(&picture), 9, 8);
        for (x, y) in (0..8).flat_map(|y| (0..9).map(move |x| (x, y))) {
            let pixel = picture.get(x, y);
            let seen = pixels[usize::try_from(y).unwrap()][usize::try_from(x).unwrap()];
            assert_eq!(seen, palette.index(pixel), "{x} {y}");
            let Some(seen) = seen else { continue };
            let close = palette.colors[seen].iter().zip(pixel).all(|(a, b)| a.abs_diff(b) <= 8);
            assert!(close, "{:?} {pixel:?}", palette.colors[seen]);
        }
    }

    #[test]
    fn many_colors_become_few_that_are_near() {
        let byte = |n: u32| u8::try_from(n * 4).unwrap();
        let picture = Pixels::from_fn(64, 64, |x, y| [byte(x), byte(y), byte(x.midpoint(y)), 255]);
        let palette = Palette::from_image(&picture);
        assert!(palette.colors.len() <= MAX_COLORS && palette.colors.len() > 200);
        for pixel in picture.iter() {
            let color = palette.colors[palette.index(pixel).unwrap()];
            assert!(color.iter().zip(pixel).all(|(a, b)| a.abs_diff(b) < 48), "{color:?} {pixel:?}");
        }
    }
}
