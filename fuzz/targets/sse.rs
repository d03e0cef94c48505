//! Fuzzes the decoder of server-sent events: the events do not depend on where the stream is cut,
//! and match the algorithm of the standard.
#![no_main]

use bowline_fuzz::Stream;
use bowline_proto::frame::sse::{Decoder, Event};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

/// An event, or the beginning of one that is too long.
#[derive(Debug, PartialEq)]
enum Seen {
    Event(Event),
    TooLong(Bytes),
}

fuzz_target!(|input: &[u8]| {
    let Some(stream) = Stream::read(input) else { return };
    let whole = decode(stream.whole(), stream.limit);
    assert_eq!(decode(stream.chunks(), stream.limit), whole);
    let (events, last_id) = whole;
    for seen in &events {
        let length = match seen {
            Seen::Event(event) => event.data.len(),
            Seen::TooLong(head) => head.len(),
        };
        assert!(length <= stream.limit, "{length} bytes of data, and the limit is {}", stream.limit);
    }
    if stream.limit > stream.bytes.len() {
        let (expected, expected_id) = by_the_standard(stream.bytes);
        let events: Vec<_> = events
            .into_iter()
            .map(|seen| match seen {
                Seen::Event(event) => event,
                Seen::TooLong(_) => panic!("nothing is as long as the limit"),
            })
            // By the standard, a block without data is no event.
            .filter(|event| !event.data.is_empty())
            .map(|event| {
                (event.name.map(String::from), event.data.to_vec(), event.id.map(|id| id.to_string()))
            })
            .collect();
        assert_eq!(events, expected);
        assert_eq!(last_id, expected_id);
    }
});

fn decode(chunks: impl Iterator<Item = Bytes>, limit: usize) -> (Vec<Seen>, Option<String>) {
    let mut decoder = Decoder::with_limit(limit);
    let mut seen = Vec::new();
    for chunk in chunks {
        decoder.push(chunk);
        while let Some(next) = decoder.next() {
            seen.push(next.map_or_else(|too_long| Seen::TooLong(too_long.head), Seen::Event));
        }
    }
    (seen, decoder.last_id().map(|id| id.to_string()))
}

type Plain = (Option<String>, Vec<u8>, Option<String>);

/// Decodes a stream with the algorithm of the HTML standard, written as plainly as possible. An id
/// longer than a header can carry is dropped, as in the decoder.
fn by_the_standard(stream: &[u8]) -> (Vec<Plain>, Option<String>) {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let (mut events, mut last_id, mut id_buffer) = (Vec::new(), None, None);
    let (mut name, mut data) = (String::new(), Vec::new());
    for line in complete_lines(stream) {
        if line.is_empty() {
            if let Some(id) = id_buffer.take() {
                last_id = Some(id).filter(|id: &String| !id.is_empty());
            }
            // The last newline is removed.
            data.pop();
            if !data.is_empty() {
                let named = !matches!(&*name, "" | "message");
                events.push((named.then(|| name.clone()), data.clone(), last_id.clone()));
            }
            name.clear();
            data.clear();
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = colon.map_or((&line[..], &[][..]), |at| (&line[..at], &line[at + 1..]));
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => name = String::from_utf8_lossy(value).into_owned(),
            b"data" => {
                data.extend_from_slice(value);
                data.push(b'\n');
            }
            b"id" if !value.contains(&0) && value.len() <= 4096 => {
                id_buffer = Some(String::from_utf8_lossy(value).into_owned());
            }
            _ => {}
        }
    }
    (events, last_id)
}

/// Returns the lines that end in `\n`, `\r` or `\r\n`.
fn complete_lines(stream: &[u8]) -> Vec<Vec<u8>> {
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    let mut bytes = stream.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\n' => lines.push(std::mem::take(&mut line)),
            b'\r' => {
                bytes.next_if_eq(&b'\n');
                lines.push(std::mem::take(&mut line));
            }
            byte => line.push(byte),
        }
    }
    lines
}
