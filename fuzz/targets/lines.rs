//! Fuzzes the line decoder: the lines do not depend on where the stream is cut, and none is longer
//! than the limit.
#![no_main]

use bowline_fuzz::Stream;
use bowline_proto::frame::lines::{Line, LineDecoder};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some(stream) = Stream::read(input) else { return };
    let whole = decode(stream.whole(), stream.limit);
    assert_eq!(decode(stream.chunks(), stream.limit), whole);
    assert_eq!(decode_in_place(stream), whole);
    for line in &whole {
        let (Line::Message(text) | Line::Noise(text) | Line::TooLong { head: text, .. }) = line;
        assert!(text.len() <= stream.limit, "{} bytes, and the limit is {}", text.len(), stream.limit);
    }
    if stream.limit > stream.bytes.len() {
        assert_eq!(whole, plainly(stream.bytes));
    }
});

fn decode(chunks: impl Iterator<Item = Bytes>, limit: usize) -> Vec<Line> {
    let mut lines = LineDecoder::with_limit(limit);
    let mut seen = Vec::new();
    for chunk in chunks {
        lines.push(chunk);
        seen.extend(std::iter::from_fn(|| lines.next()));
    }
    seen.extend(lines.finish());
    seen.into_iter().map(without_length).collect()
}

/// Decodes like a reader that appends to the decoder's own buffer.
fn decode_in_place(stream: Stream<'_>) -> Vec<Line> {
    let mut lines = LineDecoder::with_limit(stream.limit);
    let mut seen = Vec::new();
    for chunk in stream.chunks() {
        lines.buffer_mut(chunk.len()).extend_from_slice(&chunk);
        seen.extend(std::iter::from_fn(|| lines.next()));
    }
    seen.extend(lines.finish());
    seen.into_iter().map(without_length).collect()
}

/// Removes the length of an oversized line: how much of it had arrived when it was given up depends
/// on the chunks.
fn without_length(line: Line) -> Line {
    match line {
        Line::TooLong { head, .. } => Line::TooLong { length: 0, head },
        line => line,
    }
}

fn plainly(stream: &[u8]) -> Vec<Line> {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let lines = stream.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    lines
        .map(|line| match line[0] {
            b'{' | b'[' => Line::Message(Bytes::copy_from_slice(line)),
            _ => Line::Noise(Bytes::copy_from_slice(line)),
        })
        .collect()
}
