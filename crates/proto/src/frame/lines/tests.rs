//! Tests of the line decoder: its output, its limit, and its use of memory.

use proptest::prelude::*;

use super::*;

const READ_ROOM: usize = 16 * 1024;

fn message(text: &str) -> Line {
    Line::Message(Bytes::copy_from_slice(text.as_bytes()))
}

fn noise(text: &str) -> Line {
    Line::Noise(Bytes::copy_from_slice(text.as_bytes()))
}

/// Decodes `chunks`, including the last line, and checks the memory at every step.
fn decode(limit: usize, chunks: &[&[u8]]) -> Vec<Line> {
    let mut lines = LineDecoder::with_limit(limit);
    let mut all = Vec::new();
    for chunk in chunks {
        lines.push(Bytes::copy_from_slice(chunk));
        while let Some(line) = lines.next() {
            all.push(line);
        }
        assert!(lines.buffer.len() <= limit, "{} bytes kept", lines.buffer.len());
    }
    all.extend(lines.finish());
    all
}

/// ST-01, ST-02: each line is a message or noise.
#[test]
fn st_02_messages_noise_and_blanks() {
    let text = "\u{feff}{\"a\":1}\r\n\n  \t\r\nListening on stdio\n [1] \n\u{feff}{}\n{\"half\":";
    assert_eq!(
        decode(100, &[text.as_bytes()]),
        [
            message("{\"a\":1}"),
            noise("Listening on stdio"),
            message("[1]"),
            // A byte order mark counts only at the start.
            noise("\u{feff}{}"),
            message("{\"half\":"),
        ]
    );
    assert_eq!(decode(100, &[]), []);
    assert_eq!(decode(100, &["\u{feff}".as_bytes()]), []);
}

#[test]
fn the_limit_counts_the_line_without_its_end() {
    assert_eq!(decode(6, &[b"{\"ab\"}\n{}"]), [message("{\"ab\"}"), message("{}")]);
    assert_eq!(decode(6, &[b"{\"ab\"}"]), [message("{\"ab\"}")]);
    let long = Line::TooLong { length: 7, head: Bytes::from_static(b"{\"abc\"") };
    assert_eq!(decode(6, &[b"{\"abc\"}\n{}\n"]), [long.clone(), message("{}")]);
    assert_eq!(decode(6, &[b"{\"abc\"}"]), [long]);
}

#[test]
fn default_limit_is_64_mebibytes() {
    assert_eq!(LineDecoder::default().limit, 64 << 20);
}

/// A message over the limit is reported once, before its end, and the next one is decoded.
#[test]
fn a_line_over_the_limit_is_skipped_to_its_end() {
    let mut lines = LineDecoder::with_limit(1000);
    lines.push(Bytes::from(format!("{{\"id\":7,\"result\":\"{}", "x".repeat(1000))));
    let Some(Line::TooLong { length, head }) = lines.next() else { panic!() };
    assert_eq!((length, head.len()), (1018, MAX_HEAD_LEN));
    assert!(head.starts_with(b"{\"id\":7,"));
    for _ in 0..100 {
        assert_eq!(lines.next(), None);
        assert_eq!(lines.buffer.len(), 0);
        lines.push(Bytes::from(vec![b'{'; 10_000]));
    }
    lines.push(Bytes::from_static(b"\"}\n{\"id\":8}\n"));
    assert_eq!(lines.next(), Some(message("{\"id\":8}")));
    assert_eq!(lines.next(), None);
}

#[test]
fn noise_over_the_limit_stays_noise() {
    let long = "z".repeat(2000) + "\n{}\n";
    assert_eq!(decode(1000, &[long.as_bytes()]), [noise(&"z".repeat(MAX_HEAD_LEN)), message("{}")]);
}

#[test]
fn a_chunk_that_came_whole_is_not_copied() {
    let chunk = Bytes::from(b"{\"a\":1}\n{\"b\":2}\n".to_vec());
    let range = chunk.as_ptr_range();
    let mut lines = LineDecoder::new();
    lines.push(chunk);
    for _ in 0..2 {
        let Some(Line::Message(message)) = lines.next() else { panic!() };
        assert!(range.contains(&message.as_ptr()));
    }
}

#[test]
fn a_reader_fills_the_buffer_itself() {
    let mut lines = LineDecoder::new();
    for part in [&b"{\"a\""[..], b":1}\n{", b"}\n"] {
        assert!(lines.buffer_mut(READ_ROOM).capacity() >= READ_ROOM / 4);
        lines.buffer_mut(READ_ROOM).extend_from_slice(part);
    }
    assert_eq!(lines.next(), Some(message("{\"a\":1}")));
    assert_eq!(lines.next(), Some(message("{}")));
    assert_eq!(lines.next(), None);
}

/// A buffer with room for a quarter of the request does not grow.
#[test]
fn buffer_with_enough_room_is_left_alone() {
    for (capacity, expected) in [(READ_ROOM / 4, READ_ROOM / 4), (READ_ROOM / 4 - 1, READ_ROOM)] {
        let mut lines = LineDecoder::new();
        lines.buffer = BytesMut::with_capacity(capacity);
        assert_eq!(lines.buffer_mut(READ_ROOM).capacity(), expected);
    }
}

/// A hundred megabytes in small chunks: each byte is searched once, or this would take minutes.
#[test]
fn a_huge_line_in_small_chunks_is_linear() {
    let chunk = [b'['; 4096];
    let chunks = 100 * 1024 * 1024 / chunk.len();
    let mut lines = LineDecoder::with_limit(usize::MAX);
    for _ in 0..chunks {
        lines.buffer_mut(READ_ROOM).extend_from_slice(&chunk);
        assert_eq!(lines.next(), None);
        assert_eq!(lines.searched, lines.buffer.len());
    }
    lines.push(Bytes::from_static(b"\n"));
    let Some(Line::Message(line)) = lines.next() else { panic!() };
    assert_eq!(line.len(), chunks * chunk.len());
}

#[test]
fn small_lines_do_not_hold_the_memory_of_large_ones() {
    let mut lines = LineDecoder::new();
    lines.buffer_mut(READ_ROOM).extend_from_slice(format!("[{}]\n{{\"a", " ".repeat(10_000_000)).as_bytes());
    let large = lines.next();
    assert!(matches!(&large, Some(Line::Message(line)) if line.len() > 10_000_000));
    drop(large);
    assert!(lines.buffer.capacity() <= MAX_RETAINED_LEN, "the rest moved to memory of its own");
    lines.buffer_mut(READ_ROOM).extend_from_slice(b"\":1}\n");
    assert_eq!(lines.next(), Some(message("{\"a\":1}")));
    assert!(lines.buffer_mut(READ_ROOM).capacity() <= 2 * MAX_RETAINED_LEN);
}

/// Counts how often the buffer grows while a line of a megabyte is read in pieces of at most 64
/// KiB, as from a pipe.
fn growths_in_a_megabyte(lines: &mut LineDecoder) -> usize {
    let line = format!("[{}]\n", " ".repeat(1_000_000));
    let (mut rest, mut growths) = (line.as_bytes(), 0);
    while !rest.is_empty() {
        assert_eq!(lines.next(), None);
        let before = lines.buffer.capacity();
        let buffer = lines.buffer_mut(READ_ROOM);
        growths += usize::from(buffer.capacity() > before);
        let spare = buffer.capacity() - buffer.len();
        assert!(spare > 0, "there is no room to read into");
        let (piece, after) = rest.split_at(spare.min(64 * 1024).min(rest.len()));
        buffer.extend_from_slice(piece);
        rest = after;
    }
    assert!(matches!(lines.next(), Some(Line::Message(line)) if line.len() == 1_000_002));
    growths
}

/// The first large line doubles the buffer repeatedly. The next one gets its room as soon as it is
/// known to be large.
#[test]
fn room_for_a_large_line_is_made_once() {
    let mut lines = LineDecoder::new();
    assert_eq!(growths_in_a_megabyte(&mut lines), 7);
    for _ in 0..3 {
        // To 16 KiB, 32 KiB, 64 KiB, and then at once.
        assert_eq!(growths_in_a_megabyte(&mut lines), 4);
    }
    lines.push(Bytes::from_static(b"{}\n"));
    assert_eq!(lines.next(), Some(message("{}")));
    assert!(
        lines.buffer_mut(READ_ROOM).capacity() <= 2 * MAX_RETAINED_LEN,
        "a small line needs no large buffer"
    );
}

/// A line of at most [`MAX_RETAINED_LEN`] bytes reserves no room for the next one.
#[test]
fn only_a_large_line_announces_another() {
    for (length, expected) in
        [(MAX_RETAINED_LEN, 0), (MAX_RETAINED_LEN + 1, MAX_RETAINED_LEN + 2 + MAX_RETAINED_LEN)]
    {
        let mut lines = LineDecoder::new();
        lines.push(Bytes::from(format!("{}\n", "[".repeat(length))));
        assert!(matches!(lines.next(), Some(Line::Message(line)) if line.len() == length));
        assert_eq!(lines.expected_len, expected);
    }
}

/// A line that has become large gets the room that the last large one took.
#[test]
fn room_of_the_last_large_line_is_made_for_a_large_one() {
    for (length, large) in [(MAX_RETAINED_LEN - 1, false), (MAX_RETAINED_LEN, true)] {
        let mut lines = LineDecoder::new();
        lines.expected_len = 10 * MAX_RETAINED_LEN;
        lines.buffer = BytesMut::with_capacity(length);
        lines.buffer.resize(length, b'[');
        assert_eq!(lines.buffer_mut(READ_ROOM).capacity() >= 10 * MAX_RETAINED_LEN, large, "{length}");
    }
}

/// Memory is released after more than four times [`MAX_RETAINED_LEN`] bytes, if at most
/// [`MAX_RETAINED_LEN`] bytes have to be moved for it.
#[test]
fn memory_is_given_back_where_little_has_to_be_moved() {
    for (line, rest, peak) in [
        (4 * MAX_RETAINED_LEN - 1, 0, 4 * MAX_RETAINED_LEN),
        (4 * MAX_RETAINED_LEN, 0, 0),
        (4 * MAX_RETAINED_LEN, MAX_RETAINED_LEN, MAX_RETAINED_LEN),
        (4 * MAX_RETAINED_LEN, MAX_RETAINED_LEN + 1, 5 * MAX_RETAINED_LEN + 2),
    ] {
        let mut lines = LineDecoder::new();
        lines.push(Bytes::from(format!("{}\n{}", "[".repeat(line), "{".repeat(rest))));
        assert!(lines.next().is_some());
        assert_eq!((lines.peak, lines.buffer.len()), (peak, rest));
    }
}

/// Reads a line of a megabyte in pieces, as from a pipe.
fn read_a_megabyte(lines: &mut LineDecoder) -> Bytes {
    let line = format!("[{}]\n", " ".repeat(1_000_000));
    for piece in line.as_bytes().chunks(60_000) {
        assert_eq!(lines.next(), None);
        let buffer = lines.buffer_mut(READ_ROOM);
        buffer.reserve(piece.len());
        buffer.extend_from_slice(piece);
    }
    let Some(Line::Message(message)) = lines.next() else { panic!() };
    assert_eq!(message.len(), 1_000_002);
    message
}

#[test]
fn a_large_line_gets_the_memory_of_the_one_before_it() {
    let mut lines = LineDecoder::new();
    // The buffer of the first line may be smaller than the room that is then expected.
    drop(read_a_megabyte(&mut lines));
    let first = read_a_megabyte(&mut lines);
    let place = first.as_ptr();
    let second = read_a_megabyte(&mut lines);
    assert_ne!(second.as_ptr(), place, "the first is still held");
    assert!(first.ends_with(b" ]") && second.ends_with(b" ]"));
    drop(first);
    let place = second.as_ptr();
    drop(second);
    assert!(lines.has_spare());
    assert_eq!(read_a_megabyte(&mut lines).as_ptr(), place);
    lines.release_spare();
    assert!(!lines.has_spare());
}

/// Generates bytes that make the interesting cases likely.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => Just(b'\n'),
        2 => Just(b'\r'),
        4 => Just(b'{'),
        2 => Just(b'['),
        2 => Just(b' '),
        1 => Just(0xef),
        4 => any::<u8>(),
    ];
    let mark = prop_oneof![Just(&b""[..]), Just(&b"\xef\xbb\xbf"[..]), Just(&b"\xef\xbb"[..])];
    (mark, proptest::collection::vec(byte, 0..200)).prop_map(|(mark, rest)| [mark, &rest].concat())
}

/// Clears the length of lines that were given up, which is all that chunk boundaries may change.
fn without_length(lines: Vec<Line>) -> Vec<Line> {
    lines
        .into_iter()
        .map(|line| match line {
            Line::TooLong { head, .. } => Line::TooLong { length: 0, head },
            line => line,
        })
        .collect()
}

proptest! {
    /// ST-01: chunk boundaries do not matter. Arbitrary bytes cause no panic, and memory stays
    /// bounded.
    #[test]
    fn any_split_gives_the_same_lines(
        bytes in bytes(),
        cuts in proptest::collection::vec(1usize..40, 0..40),
        limit in 8usize..60,
    ) {
        let mut chunks = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts {
            let (chunk, after) = rest.split_at(cut.min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        chunks.push(rest);
        let whole = without_length(decode(limit, &[&bytes]));
        prop_assert_eq!(without_length(decode(limit, &chunks)), whole.clone());
        let single: Vec<_> = bytes.chunks(1).collect();
        prop_assert_eq!(without_length(decode(limit, &single)), whole);
    }
}
