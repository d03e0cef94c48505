//! Splits JSON text that is already known to be valid.
//!
//! A [`Json`](super::Json) was validated once, when its message came in. Splitting it after that
//! only has to find where values end, and most bytes of a result are inside strings, which are
//! skipped by vector search. On invalid text the functions here return nonsense or nothing, but
//! they terminate and do not panic.

use std::borrow::Cow;

use memchr::memchr;

use super::vector::{self, BLOCK, WORD};

/// Iterates over the members of an object: name and value. `None` if the text is not an object.
pub(crate) fn members(text: &[u8]) -> Option<Members<'_>> {
    let mut cursor = Cursor::new(text);
    cursor.enter(b'{').then_some(Members(cursor))
}

/// Iterates over the elements of an array. `None` if the text is not an array.
pub(crate) fn elements(text: &[u8]) -> Option<Elements<'_>> {
    let mut cursor = Cursor::new(text);
    cursor.enter(b'[').then_some(Elements(cursor))
}

/// The iterator of [`members`].
#[derive(Debug)]
pub(crate) struct Members<'a>(Cursor<'a>);

/// The iterator of [`elements`].
#[derive(Debug)]
pub(crate) struct Elements<'a>(Cursor<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.0.name()?;
        Some((unquote_lossy(name)?, self.0.value()?))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.leave(b']') { None } else { self.0.value() }
    }
}

/// Decodes a JSON string; the text is borrowed unless it has escapes. `None` if it is not a string,
/// or has half a surrogate pair, which a `str` cannot hold.
pub(crate) fn unquote(quoted: &[u8]) -> Option<Cow<'_, str>> {
    read_string(quoted, None)
}

/// Decodes a JSON string with U+FFFD for half a surrogate pair: for text that is shown, not for
/// names.
pub(crate) fn unquote_lossy(quoted: &[u8]) -> Option<Cow<'_, str>> {
    read_string(quoted, Some(char::REPLACEMENT_CHARACTER))
}

fn read_string(quoted: &[u8], half: Option<char>) -> Option<Cow<'_, str>> {
    let inner = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let Some(first) = memchr(b'\\', inner) else {
        return simdutf8::basic::from_utf8(inner).ok().map(Cow::Borrowed);
    };
    // An escape is never shorter than its character. There is room for one more word, so that whole
    // words can be copied.
    let mut text = vec![0; inner.len() + WORD];
    text[..first].copy_from_slice(&inner[..first]);
    let (mut from, mut to) = (first, first);
    while from < inner.len() {
        match UNESCAPED[usize::from(*inner.get(from + 1)?)] {
            0 => {
                let (length, character) = unescape_unicode(&inner[from..], half)?;
                from += length;
                to += character.encode_utf8(&mut text[to..]).len();
            }
            byte => {
                text[to] = byte;
                (from, to) = (from + 2, to + 1);
            }
        }
        let copied = copy_to_backslash(&inner[from..], &mut text[to..]);
        (from, to) = (from + copied, to + copied);
    }
    text.truncate(to);
    String::from_utf8(text).ok().map(Cow::Owned)
}

/// Copies the bytes before the next backslash, and returns their number. Up to a word after them is
/// overwritten.
///
/// Text with escapes has one in nearly every line, and sometimes in every word. Calling `memchr`
/// and `memcpy` for each would cost more than the copy itself.
#[inline]
fn copy_to_backslash(from: &[u8], to: &mut [u8]) -> usize {
    let mut copied = 0;
    for (word, room) in from.as_chunks::<WORD>().0.iter().zip(to.as_chunks_mut::<WORD>().0) {
        *room = *word;
        if let Some(plain) = vector::find_backslash(u64::from_le_bytes(*word)) {
            return copied + plain;
        }
        copied += WORD;
    }
    for (&byte, room) in from[copied..].iter().zip(&mut to[copied..]) {
        if byte == b'\\' {
            break;
        }
        *room = byte;
        copied += 1;
    }
    copied
}

/// The character of the escape whose second byte is the index. It is 0 for `u` and for invalid
/// escapes.
const UNESCAPED: [u8; 256] = {
    let mut table = [0; 256];
    let escapes = *b"\"\"\\\\//n\nt\tr\rb\x08f\x0c";
    let mut at = 0;
    while at < escapes.len() {
        table[escapes[at] as usize] = escapes[at + 1];
        at += 2;
    }
    table
};

/// Decodes the `\u` escape at the start of `rest`, or the two that make a pair. Returns its length
/// and its character, which is `half` for half a pair.
#[cold]
fn unescape_unicode(rest: &[u8], half: Option<char>) -> Option<(usize, char)> {
    if rest.get(1) != Some(&b'u') {
        return None;
    }
    let unit = |at: usize| {
        let digits = str::from_utf8(rest.get(at..at + 4)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let first = unit(2)?;
    let second = if rest.get(6..8) == Some(b"\\u") { unit(8) } else { None };
    let (length, code) = match (first, second) {
        (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
            (12, 0x1_0000 + ((first - 0xd800) << 10) + (low - 0xdc00))
        }
        _ => (6, first),
    };
    Some((length, char::from_u32(code).or(half)?))
}

/// A position in valid JSON, to split nested containers in one pass.
///
/// After [`enter`](Self::enter), call [`name`](Self::name) and [`value`](Self::value) in turn for
/// an object, until there is no name; for an array, `value` until [`leave`](Self::leave) returns
/// `true`.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, offset: 0 }
    }

    /// The position in bytes.
    pub(crate) fn position(&self) -> usize {
        self.offset
    }

    /// The text between two positions.
    pub(crate) fn slice(&self, from: usize, to: usize) -> &'a [u8] {
        self.text.get(from..to).unwrap_or_default()
    }

    /// Skips white space and returns the byte after it, without passing it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.offset)?;
            if !byte.is_ascii_whitespace() {
                return Some(byte);
            }
            self.offset += 1;
        }
    }

    /// Enters a container, if one begins here.
    pub(crate) fn enter(&mut self, open: u8) -> bool {
        self.skip(open)
    }

    /// Leaves the container if it ends here, else passes the comma before the next element. Returns
    /// whether it left. Damaged text ends every container.
    pub(crate) fn leave(&mut self, close: u8) -> bool {
        match self.peek() {
            Some(b',') => {
                self.offset += 1;
                false
            }
            Some(byte) if byte != close => false,
            _ => {
                self.offset += 1;
                true
            }
        }
    }

    /// Returns the name of the next member in its quotes, and passes the colon. `None` at the end
    /// of the object, which is passed.
    pub(crate) fn name(&mut self) -> Option<&'a [u8]> {
        if self.leave(b'}') {
            return None;
        }
        let name = self.value().filter(|name| name.first() == Some(&b'"'))?;
        self.skip(b':').then_some(name)
    }

    /// Returns the next value of any type.
    pub(crate) fn value(&mut self) -> Option<&'a [u8]> {
        let first = self.peek()?;
        let start = self.offset;
        self.offset = match first {
            b'"' => string_end(self.text, start)?,
            b'{' | b'[' => container_end(self.text, start)?,
            b'}' | b']' | b',' | b':' => return None,
            _ => {
                let rest = &self.text[start..];
                let end = rest
                    .iter()
                    .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'));
                start + end.unwrap_or(rest.len())
            }
        };
        Some(&self.text[start..self.offset])
    }

    fn skip(&mut self, byte: u8) -> bool {
        let here = self.peek() == Some(byte);
        self.offset += usize::from(here);
        here
    }
}

/// The end of the string that begins at `start`.
fn string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    let mut next_block = at + BLOCK;
    loop {
        if at >= next_block {
            at = skip_blocks(text, at);
            next_block = at + BLOCK;
        }
        if let Some(word) = vector::word_at(text, at) {
            let Some(plain) = vector::find_quote_or_backslash(word) else {
                at += WORD;
                continue;
            };
            at += plain;
        }
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Passes whole blocks of a string from `at` on, which is not inside an escape. Returns the
/// position after them, which is not inside one either.
fn skip_blocks(text: &[u8], mut at: usize) -> usize {
    let is_backslash = |at: usize| text.get(at - 1) == Some(&b'\\');
    // This backslash is itself escaped. A block would take it for the start of an escape.
    if is_backslash(at) {
        return at;
    }
    while let Some((block, before)) = vector::block_at(text, at)
        && vector::is_inside_string(block, before)
    {
        at += BLOCK;
    }
    // A block may end inside an escape.
    at - usize::from(is_backslash(at))
}

/// The end of the object or array that begins at `start`.
fn container_end(text: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = start;
    loop {
        match text.get(at)? {
            b'"' => {
                at = string_end(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Value::from),
            "[\\PC\"\\\\{}\\[\\],:]{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::hash_map("[a-z\"\\\\\\PC]{0,20}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn texts(value: &Value) -> [String; 2] {
        [value.to_string(), serde_json::to_string_pretty(value).unwrap()]
    }

    proptest! {
        /// The splitter finds what the parser finds, in any layout.
        #[test]
        fn finds_what_the_parser_finds(value in any_json()) {
            for text in texts(&value) {
                let read = |raw: &[u8]| serde_json::from_slice::<Value>(raw).unwrap();
                // Compare with the parser's reading of this text: not every float survives a round
                // trip.
                match &read(text.as_bytes()) {
                    Value::Array(all) => {
                        let found: Vec<_> = elements(text.as_bytes()).unwrap().map(read).collect();
                        prop_assert_eq!(&found, all);
                    }
                    Value::Object(all) => {
                        let found: serde_json::Map<_, _> = members(text.as_bytes())
                            .unwrap()
                            .map(|(name, raw)| (name.into_owned(), read(raw)))
                            .collect();
                        prop_assert_eq!(&found, all);
                    }
                    _ => prop_assert!(members(text.as_bytes()).is_none() && elements(text.as_bytes()).is_none()),
                }
            }
        }

        /// Damaged text causes no panic and no endless loop.
        #[test]
        fn damage_is_survived(value in any_json(), cut in 0usize..200, flip in 0usize..200, to: u8) {
            let mut text = value.to_string().into_bytes();
            text.truncate(cut);
            if let Some(byte) = text.get_mut(flip) {
                *byte = to;
            }
            let _ = members(&text).map(Iterator::count);
            let _ = elements(&text).map(Iterator::count);
        }
    }

    proptest! {
        /// Strings are read as the parser reads them, whichever way they are written.
        #[test]
        fn unquotes_as_the_parser_does(text in "[\\PC\\n\\t\"\\\\/\u{1}\u{1f600}]{0,60}", escaped: bool) {
            let mut quoted = serde_json::to_string(&text).unwrap();
            if escaped {
                let units = text.encode_utf16().fold(String::new(), |all, unit| all + &format!("\\u{unit:04x}"));
                quoted = format!("\"{units}\"");
            }
            prop_assert_eq!(&*unquote(quoted.as_bytes()).unwrap(), &*text);
        }

        #[test]
        fn broken_strings_are_survived(text in "\"[\\\\u0-9a-fD8\\PC\"]{0,20}\"?") {
            let _ = unquote(text.as_bytes());
        }
    }

    /// Long strings are passed in blocks; an escape or the end may be anywhere in one.
    #[test]
    fn long_strings_are_split_and_unquoted_as_the_parser_does() {
        for before in 0..2 * BLOCK + 20 {
            for escapes in
                ["", "\\n", "\\\\", "\\\"", "\\\\\\\\", "\\\\\\\"", "\\u00e4\\\\", "\\ud83d\\ude00"]
            {
                for after in [0, 1, BLOCK - 1, BLOCK, BLOCK + 6] {
                    let text = format!("\"{}{escapes}{}\"", "x".repeat(before), "ä]".repeat(after));
                    let list = format!("[{text},\"]\",{text}]");
                    let found: Vec<_> = elements(list.as_bytes()).unwrap().collect();
                    assert_eq!(found, [text.as_bytes(), b"\"]\"", text.as_bytes()], "{text}");
                    let read: String = serde_json::from_str(&text).unwrap();
                    assert_eq!(unquote(text.as_bytes()).unwrap(), read);
                }
            }
        }
    }

    #[test]
    fn half_a_pair_is_replaced() {
        let (name, text) = (unquote, |quoted| unquote_lossy(quoted).unwrap());
        assert_eq!(text(br#""a\ud800b""#), "a\u{fffd}b");
        assert_eq!(text(br#""\udc00\ud83d\ude00""#), "\u{fffd}\u{1f600}");
        assert_eq!(text(br#""\ud800\ud83d\ude00""#), "\u{fffd}\u{1f600}");
        assert_eq!(name(br#""a\ud800b""#), None);
        assert_eq!(name(b"7"), None);
    }

    /// A name with half a surrogate pair does not end the iteration.
    #[test]
    fn a_name_with_half_a_pair_is_no_end() {
        let found: Vec<_> = members(br#"{"a":1,"\ud800":2,"b":3}"#).unwrap().map(|(name, _)| name).collect();
        assert_eq!(found, ["a", "\u{fffd}", "b"]);
    }

    #[test]
    fn layout_does_not_matter() {
        let text = b" { \"a\" : [ 1 , { \"]\" : \"}\\\"\" } ] ,\n\"b\\u0063\":-1.5e3 , \"d\" : null } ";
        let found: Vec<_> =
            members(text).unwrap().map(|(name, raw)| (name.into_owned(), raw.to_vec())).collect();
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], ("a".to_owned(), b"[ 1 , { \"]\" : \"}\\\"\" } ]".to_vec()));
        assert_eq!(found[1], ("bc".to_owned(), b"-1.5e3".to_vec()));
        assert_eq!(found[2], ("d".to_owned(), b"null".to_vec()));
        assert_eq!(elements(b"[]").unwrap().count(), 0);
        assert_eq!(members(b" {} ").unwrap().count(), 0);
    }
}
