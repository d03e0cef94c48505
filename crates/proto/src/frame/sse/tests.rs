//! Tests of the event decoder against the standard, its limit, and its use of memory.

use proptest::prelude::*;

use super::*;

type Decoded = Result<Event, EventTooLong>;

fn event(data: &str) -> Event {
    Event { data: Bytes::copy_from_slice(data.as_bytes()), ..Event::default() }
}

/// Decodes `chunks`, and checks the memory at every step.
fn decode(limit: usize, chunks: &[&[u8]]) -> (Vec<Decoded>, Option<Arc<str>>) {
    let mut decoder = Decoder::with_limit(limit);
    let mut all = Vec::new();
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        while let Some(event) = decoder.next() {
            all.push(event);
        }
        assert!(decoder.chunk.is_empty());
        let kept = decoder.carry.len() + decoder.pending.size;
        assert!(kept <= limit, "{kept} bytes kept");
    }
    (all, decoder.last_id)
}

fn events(text: &str) -> Vec<Event> {
    decode(10_000, &[text.as_bytes()]).0.into_iter().map(Result::unwrap).collect()
}

/// HT-04: every line end, comments, several lines of data.
#[test]
fn ht_04_lines_of_all_kinds() {
    assert_eq!(
        events("\u{feff}data: a\n\ndata:b\r\n\r\ndata:  c\r\r: keepalive\n\ndata: 1\n:x\ndata: 2\ndata\n\n"),
        [event("a"), event("b"), event(" c"), event("1\n2\n")]
    );
    // Unknown fields, and data without a blank line at its end.
    assert_eq!(events("foo: 1\nDATA: 2\n data: 3\n\ndata: half"), []);
    // Empty data makes an event, but not a message.
    assert_eq!(events("data\n\ndata:\n\n"), [event(""), event("")]);
    assert_eq!(events("event: ping\n\n"), []);
}

#[test]
fn names_and_retry_times() {
    let named = |name: &str, data| Event { name: Some(name.into()), ..event(data) };
    assert_eq!(
        events(
            "event: endpoint\ndata: /post\n\nevent: message\ndata: 1\n\nevent: x\nevent:\ndata: 2\n\ndata: 3\n\n"
        ),
        [named("endpoint", "/post"), event("1"), event("2"), event("3")]
    );
    // HL-08
    let waits = |text: &str| events(text).into_iter().map(|event| event.retry).collect::<Vec<_>>();
    assert_eq!(waits("retry: 500\n\n"), [Some(Duration::from_millis(500))]);
    for bad in ["", "-1", "+1", "1.5", "500ms", "\u{661}", "99999999999999999999999"] {
        assert_eq!(waits(&format!("retry: {bad}\ndata: 1\n\n")), [None], "{bad}");
    }
}

/// HL-07, HL-09: an id alone makes an event, and stays valid until the next one.
#[test]
fn hl_09_ids() {
    let with_id = |id: &str, data| Event { id: Some(id.into()), ..event(data) };
    assert_eq!(
        events("id: p-0\ndata:\n\ndata: 1\n\nid: p-1\n\nid: a\0b\ndata: 2\n\nid\ndata: 3\n\nid:\n\n"),
        [with_id("p-0", ""), with_id("p-0", "1"), with_id("p-1", ""), with_id("p-1", "2"), event("3")]
    );
    // The stream is not resumed from the id of an incomplete event.
    assert_eq!(decode(100, &[b"id: 1\n\nid: 2\ndata: x\n"]).1.as_deref(), Some("1"));
    let longest = "x".repeat(MAX_ID_LEN);
    assert_eq!(events(&format!("id: {longest}\n\n")), [with_id(&longest, "")]);
    assert_eq!(events(&format!("id: {longest}x\n\n")), []);
}

#[test]
fn an_event_over_the_limit_costs_only_itself() {
    let mut decoder = Decoder::with_limit(1000);
    decoder.push(Bytes::from(format!("id: 7\ndata: {{\"id\":1,{}", "x".repeat(1000))));
    let Some(Err(too_long)) = decoder.next() else { panic!() };
    assert!(too_long.length > 1000);
    assert!(too_long.head.starts_with(b"{\"id\":1,") && too_long.head.len() <= MAX_HEAD_LEN);
    for _ in 0..100 {
        decoder.push(Bytes::from(vec![b'y'; 10_000]));
        assert_eq!(decoder.next(), None);
        assert_eq!(decoder.carry.len(), 0);
    }
    // The rest of the event is skipped, but its id counts: resuming must not send it again.
    decoder.push(Bytes::from("\ndata: z\n"));
    assert_eq!(decoder.next(), None);
    assert!(matches!(decoder.pending.data, EventData::None), "what is skipped takes no memory");
    assert_eq!(decoder.last_id(), None, "not before the event has ended");
    decoder.push(Bytes::from("\ndata: next\n\n"));
    assert_eq!(decoder.next(), Some(Ok(Event { id: Some("7".into()), ..event("next") })));
    assert_eq!(decoder.next(), None);
    assert_eq!(decoder.last_id().map(|id| &**id), Some("7"));
    // Many short lines count together.
    let (all, _) = decode(100, &["data: 0123456789\n".repeat(20).as_bytes(), b"\ndata: ok\n\n"]);
    assert!(matches!(&all[0], Err(EventTooLong { head, .. }) if head.starts_with(b"0123456789\n0123")));
    assert_eq!(all[1..], [Ok(event("ok"))]);
}

#[test]
fn default_limit_is_64_mebibytes() {
    assert_eq!(Decoder::default().limit, 64 << 20);
}

/// The lines of an event count together, without their ends.
#[test]
fn limit_counts_the_lines_of_an_event() {
    let too_long = |length, head| Err(EventTooLong { length, head: Bytes::from_static(head) });
    assert_eq!(decode(20, &[b"data: 0123456789abcd\n\n"]).0, [Ok(event("0123456789abcd"))]);
    assert_eq!(decode(20, &[b"data: 0123456789abcde\n\n"]).0, [too_long(21, b"0123456789abcd")]);
    let named = Event { name: Some("x".into()), ..event("01234") };
    assert_eq!(decode(20, &[b"event: x\n", b"data: 0", b"1234\n\n"]).0, [Ok(named.clone())]);
    assert_eq!(
        decode(20, &[b"event: x\n", b"data: 0", b"12345\n\n"]).0,
        [Ok(Event { data: Bytes::from_static(b"012345"), ..named })]
    );
    assert_eq!(decode(20, &[b"event: x\n", b"data: 0", b"1234567\n\n"]).0, [too_long(22, b"012345")]);
    assert_eq!(decode(20, &[b"data: 012\n", b"data: 456789\n\n"]).0, [too_long(21, b"012")]);
}

/// A line of at most [`LARGE_LINE_LEN`] bytes reserves no room for the next one, and gets no more
/// room than it needs.
#[test]
fn only_a_large_line_announces_another() {
    for (length, expected) in [(LARGE_LINE_LEN, 0), (LARGE_LINE_LEN + 1, LARGE_LINE_LEN + 1)] {
        let mut decoder = Decoder::new();
        decoder.push(Bytes::from(vec![b'x'; length - 1]));
        assert_eq!(decoder.next(), None);
        decoder.push(Bytes::from_static(b"x\n"));
        assert_eq!(decoder.next(), None);
        assert_eq!(decoder.expected_len, expected);
    }
    for (first, second, large) in
        [(0, LARGE_LINE_LEN, false), (1, LARGE_LINE_LEN - 1, false), (1, LARGE_LINE_LEN, true)]
    {
        let mut decoder = Decoder::new();
        decoder.expected_len = 10 * LARGE_LINE_LEN;
        decoder.push(Bytes::from(vec![b'x'; first]));
        assert_eq!(decoder.next(), None);
        decoder.push(Bytes::from(vec![b'x'; second]));
        assert_eq!(decoder.next(), None);
        assert_eq!(decoder.carry.capacity() >= 10 * LARGE_LINE_LEN, large, "{first} and {second}");
    }
}

/// Two lines of data are joined in memory of exactly their size.
#[test]
fn joined_lines_take_their_own_room() {
    let mut data = EventData::None;
    data.push(Bytes::from_static(b"ab"));
    data.push(Bytes::from_static(b"cde"));
    let EventData::Many(all) = data else { panic!("not joined: {data:?}") };
    assert_eq!((&all[..], all.capacity()), (&b"ab\ncde"[..], 6));
}

#[test]
fn endless_comments_cost_nothing() {
    let mut decoder = Decoder::with_limit(100);
    decoder.push(Bytes::from_static(b": "));
    for _ in 0..1000 {
        assert_eq!(decoder.next(), None);
        decoder.push(Bytes::from(vec![b'.'; 1000]));
    }
    decoder.push(Bytes::from("\n:\n".repeat(1000) + "data: 1\n\n"));
    assert_eq!(decoder.next(), Some(Ok(event("1"))));
}

#[test]
fn data_on_one_line_is_a_slice_of_its_chunk() {
    let chunk = Bytes::from_static(b"event: message\nid: 1\ndata: {\"a\":1}\n\ndata: {}\r\n\r\n");
    let range = chunk.as_ptr_range();
    let mut decoder = Decoder::new();
    decoder.push(chunk);
    for expected in ["{\"a\":1}", "{}"] {
        let event = decoder.next().unwrap().unwrap();
        assert_eq!(event.data, expected);
        assert!(range.contains(&event.data.as_ptr()));
    }
}

/// A hundred megabytes in small chunks: each byte is searched once, or this would take minutes.
#[test]
fn a_huge_event_in_small_chunks_is_linear() {
    let chunk = Bytes::from(vec![b'x'; 4096]);
    let chunks = 100 * 1024 * 1024 / chunk.len();
    let mut decoder = Decoder::with_limit(usize::MAX);
    decoder.push(Bytes::from_static(b"data: "));
    for _ in 0..chunks {
        assert_eq!(decoder.next(), None);
        decoder.push(chunk.clone());
    }
    assert_eq!(decoder.next(), None);
    decoder.push(Bytes::from_static(b"\n\n"));
    assert_eq!(decoder.next().unwrap().unwrap().data.len(), chunks * chunk.len());
}

/// The algorithm of the HTML standard, one line at a time over the whole text.
fn reference(bytes: &[u8]) -> Vec<Event> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut lines = Vec::new();
    let mut line = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\r' | b'\n' => {
                if bytes[at] == b'\r' && bytes.get(at + 1) == Some(&b'\n') {
                    at += 1;
                }
                lines.push(std::mem::take(&mut line));
            }
            byte => line.push(byte),
        }
        at += 1;
    }
    let mut events = Vec::new();
    let (mut data, mut name, mut id, mut new_id, mut retry) = (Vec::new(), String::new(), None, None, None);
    for line in lines {
        if line.is_empty() {
            let has_id = new_id.as_ref().is_some_and(|id: &String| !id.is_empty());
            id = new_id.take().or(id);
            if !data.is_empty() || has_id || retry.is_some() {
                data.pop();
                events.push(Event {
                    name: Some(name.as_str()).filter(|name| !["", "message"].contains(name)).map(Into::into),
                    data: std::mem::take(&mut data).into(),
                    id: id.as_deref().filter(|id| !id.is_empty()).map(Into::into),
                    retry,
                });
            }
            (data, name, retry) = (Vec::new(), String::new(), None);
            continue;
        }
        let mut halves = line.splitn(2, |byte| *byte == b':');
        let field = halves.next().unwrap();
        let value = halves.next().unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = String::from_utf8_lossy(value).into_owned();
        match field {
            b"data" => {
                data.extend_from_slice(value);
                data.push(b'\n');
            }
            b"event" => name = text,
            b"id" if !value.contains(&0) => new_id = Some(text),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                retry = text.parse().ok().map(Duration::from_millis).or(retry);
            }
            _ => {}
        }
    }
    events
}

/// Generates streams of likely pieces and some arbitrary bytes.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "data",
            "data:",
            "data: ",
            "id: ",
            "id",
            "event: ",
            "event:message",
            "retry: ",
            "42",
            ":",
            " ",
            "\0",
            "{\"a\":1}",
            "\u{feff}",
            "世",
            "x",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::sample::select(vec!["\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\r\r"])
            .prop_map(|text| text.as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..3),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn split<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    let mut rest = bytes;
    for cut in cuts {
        let (chunk, after) = rest.split_at(*cut.min(&rest.len()));
        chunks.push(chunk);
        rest = after;
    }
    chunks.push(rest);
    chunks
}

/// Clears the length of events that were given up, which is all that chunk boundaries may change.
fn without_length((mut all, id): (Vec<Decoded>, Option<Arc<str>>)) -> (Vec<Decoded>, Option<Arc<str>>) {
    for too_long in all.iter_mut().filter_map(|one| one.as_mut().err()) {
        too_long.length = 0;
    }
    (all, id)
}

proptest! {
    /// HT-04: the events are those of the standard, wherever the chunks end.
    #[test]
    fn ht_04_any_split_gives_the_events_of_the_standard(
        bytes in bytes(),
        cuts in proptest::collection::vec(0usize..12, 0..40),
    ) {
        let expected: Vec<_> = reference(&bytes).into_iter().map(Ok).collect();
        prop_assert_eq!(&decode(100_000, &split(&bytes, &cuts)).0, &expected);
        prop_assert_eq!(&decode(100_000, &bytes.chunks(1).collect::<Vec<_>>()).0, &expected);
    }

    /// Which events are given up does not depend on where the chunks end, and memory stays bounded.
    #[test]
    fn any_split_gives_up_the_same_events(
        bytes in bytes(),
        cuts in proptest::collection::vec(0usize..12, 0..40),
        limit in 8usize..40,
    ) {
        let whole = without_length(decode(limit, &[&bytes]));
        prop_assert_eq!(without_length(decode(limit, &split(&bytes, &cuts))), whole.clone());
        prop_assert_eq!(without_length(decode(limit, &bytes.chunks(1).collect::<Vec<_>>())), whole);
    }
}

/// Counts how often the memory of a line grows while an event of a megabyte comes in chunks of 64
/// KiB.
fn growths_in_a_megabyte(decoder: &mut Decoder) -> usize {
    let text = format!("data: {}\n\n", "x".repeat(1_000_000));
    let (mut growths, mut events) = (0, 0);
    for chunk in text.as_bytes().chunks(64 * 1024) {
        let before = decoder.carry.capacity();
        decoder.push(Bytes::copy_from_slice(chunk));
        events += std::iter::from_fn(|| decoder.next())
            .filter(|event| event.as_ref().unwrap().data.len() == 1_000_000)
            .count();
        growths += usize::from(decoder.carry.capacity() > before);
    }
    assert_eq!(events, 1);
    growths
}

/// The first large event doubles the memory repeatedly. The next one gets its room as soon as it is
/// known to be large.
#[test]
fn room_for_a_large_event_is_made_once() {
    let mut decoder = Decoder::new();
    assert_eq!(growths_in_a_megabyte(&mut decoder), 5);
    for _ in 0..3 {
        assert_eq!(growths_in_a_megabyte(&mut decoder), 2);
    }
}
