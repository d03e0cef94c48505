//! Tests of the validator against serde_json, which checks a `RawValue` in the same way: it allows
//! any depth and half a surrogate pair.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::value::RawValue;

use super::*;

fn expected(text: &[u8]) -> Option<&[u8]> {
    serde_json::from_slice::<&RawValue>(text).ok().map(|raw| raw.get().as_bytes())
}

fn check(text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    assert_eq!(single_value(text), expected(text), "{}", String::from_utf8_lossy(text));
}

/// Generates strings in quotes, long enough for several blocks, of hard cases: escapes of all
/// kinds, runs of backslashes, and text that is not ASCII.
fn any_string() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[ -!#-\\[\\]-~]{0,70}",
        2 => "(\\\\[nrtbf/\"]){0,6}",
        2 => "(\\\\\\\\){1,40}",
        1 => "(\\\\u[0-9a-fA-F]{4}){1,3}",
        1 => "[äß漢😀]{1,40}",
    ];
    proptest::collection::vec(part, 0..8).prop_map(|parts| format!("\"{}\"", parts.concat()))
}

fn any_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        3 => any_string(),
        1 => "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?",
        1 => prop_oneof![Just("true".to_owned()), Just("false".to_owned()), Just("null".to_owned())],
    ];
    let blank = "[ \\n\\r\\t]{0,2}";
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let list = proptest::collection::vec((inner.clone(), blank), 0..4);
        let members = proptest::collection::vec((any_string(), blank, inner), 0..4);
        prop_oneof![
            list.prop_map(|all| {
                let all: Vec<String> = all.into_iter().map(|(value, blank)| blank + &value).collect();
                format!("[{}]", all.join(","))
            }),
            members.prop_map(|all| {
                let all: Vec<String> =
                    all.into_iter().map(|(name, blank, value)| format!("{name}{blank}:{value}")).collect();
                format!("{{{}}}", all.join(" ,"))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn accepts_what_serde_json_accepts(text in any_text()) {
        prop_assert_eq!(single_value(text.as_bytes()), Some(text.as_bytes()));
        check(text);
    }

    /// Changing a byte that has a meaning in JSON nearly always makes a defect or another valid
    /// text.
    #[test]
    fn agrees_with_serde_json_on_damaged_text(
        text in any_text(),
        changes in proptest::collection::vec((any::<Index>(), 0..3u8, any_byte()), 1..4),
    ) {
        let mut text = text.into_bytes();
        for (at, change, byte) in changes {
            let at = at.index(text.len().max(1));
            match change {
                0 => text.insert(at, byte),
                1 if at < text.len() => text[at] = byte,
                _ => drop(text.drain(at..text.len().min(at + 1))),
            }
            check(&text);
        }
    }

    #[test]
    fn agrees_with_serde_json_on_arbitrary_bytes(text in proptest::collection::vec(any_byte(), 0..80)) {
        check(text);
    }

    /// Every byte at every distance from the start of a string, and with every neighbor that matters.
    #[test]
    fn agrees_with_serde_json_on_any_byte_in_a_long_string(
        length in 0..4 * BLOCK,
        at in any::<Index>(),
        bytes in proptest::collection::vec(any_byte(), 1..4),
    ) {
        let mut text = vec![b'x'; length + 2];
        text[0] = b'"';
        text[length + 1] = b'"';
        let at = 1 + at.index(length + 1);
        text.splice(at..at, bytes);
        check(text);
    }
}

fn any_byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        3 => proptest::sample::select(&b"\"\\{}[]:,0-9.eEtfnu/bBr +\n\t\x00\x1f\x7f\x80\xc3\xa4\xe2\xed\xf0\xff"[..]),
        1 => any::<u8>(),
    ]
}

#[test]
fn agrees_with_serde_json_on_every_short_text() {
    let alphabet = b"\"\\{}[]:,01-.eun \x01\xc3";
    let mut texts = vec![Vec::new()];
    for length in 0..4 {
        let longest: Vec<Vec<u8>> = texts.iter().filter(|text| text.len() == length).cloned().collect();
        for text in longest {
            texts.extend(alphabet.iter().map(|&byte| [&text[..], &[byte]].concat()));
        }
    }
    texts.iter().for_each(check);
}

#[test]
fn nesting_is_bounded_by_the_text_alone() {
    for depth in [1, 63, 64, 65, 127, 128, 129, 10_000] {
        let (open, close) = ("[{\"a\":".repeat(depth), "}]".repeat(depth));
        check(format!("{open}0{close}"));
        check(format!("{open}{close}"));
        check(format!("{open}0{}", "]}".repeat(depth)));
        check(format!("{open}0{}", &close[1..]));
    }
    assert!(single_value(("[".repeat(1_000_000) + &"]".repeat(1_000_000)).as_bytes()).is_some());
    assert!(single_value(("[".repeat(1_000_000) + &"]".repeat(999_999)).as_bytes()).is_none());
}

#[test]
fn half_a_surrogate_pair_is_valid() {
    check(br#""\ud800""#);
    assert!(single_value(br#""\ud800""#).is_some());
}

/// A string may end after an escaped backslash at any position in a block.
#[test]
fn escaped_backslashes_at_block_edges() {
    for before in 0..2 * BLOCK + 20 {
        for backslashes in 0..6 {
            for after in [0, 1, BLOCK + 6] {
                let text =
                    format!("\"{}{}\"{}\"", "x".repeat(before), "\\".repeat(backslashes), "y".repeat(after));
                check(&text);
                check(&text[..text.len() - after - 1]);
            }
        }
    }
}
