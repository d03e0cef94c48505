//! Splitting JSON that is already known to be valid.
//!
//! A [`Json`](super::Json) was parsed once, when its message came in. To take it apart after that, nothing
//! has to be checked again: it is enough to find where values end, and most bytes of a result are inside
//! strings, which are skipped by vector search. On text that is not valid the functions here give
//! nonsense or nothing, but they end and do not panic.

use std::borrow::Cow;

use memchr::memchr2;

/// The members of an object: name and value. `None` if the text is no object.
pub(crate) fn members(text: &[u8]) -> Option<Members<'_>> {
    Cursor::new(text).enter(b'{').map(Members)
}

/// The elements of an array. `None` if the text is no array.
pub(crate) fn elements(text: &[u8]) -> Option<Elements<'_>> {
    Cursor::new(text).enter(b'[').map(Elements)
}

/// See [`members`].
#[derive(Debug)]
pub(crate) struct Members<'a>(Cursor<'a>);

/// See [`elements`].
#[derive(Debug)]
pub(crate) struct Elements<'a>(Cursor<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.0.next_value().filter(|name| name.first() == Some(&b'"'))?;
        self.0.skip(b':')?;
        Some((unquote(name)?, self.0.next_value()?))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_value()
    }
}

/// The text of a JSON string: borrowed, unless it has escapes.
fn unquote(quoted: &[u8]) -> Option<Cow<'_, str>> {
    let inner = quoted.get(1..quoted.len().checked_sub(1)?)?;
    if inner.contains(&b'\\') {
        return serde_json::from_slice(quoted).ok().map(Cow::Owned);
    }
    std::str::from_utf8(inner).ok().map(Cow::Borrowed)
}

#[derive(Debug)]
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Steps into a container that is opened by `open`.
    fn enter(mut self, open: u8) -> Option<Self> {
        self.skip(open)?;
        Some(self)
    }

    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.at)?;
            if !byte.is_ascii_whitespace() {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// The next value in the container, after its comma. `None` at the container's end.
    fn next_value(&mut self) -> Option<&'a [u8]> {
        if self.peek()? == b',' {
            self.at += 1;
        }
        let first = self.peek()?;
        let start = self.at;
        self.at = match first {
            b'}' | b']' => return None,
            b'"' => string_end(self.text, start)?,
            b'{' | b'[' => container_end(self.text, start)?,
            _ => {
                let rest = &self.text[start..];
                let end = rest
                    .iter()
                    .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'));
                start + end.unwrap_or(rest.len())
            }
        };
        Some(&self.text[start..self.at])
    }
}

/// Where the string that begins at `start` ends.
fn string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    // Most strings are names and words: a search that has to be set up would cost more than the look.
    let near = (at + SHORT).min(text.len());
    while at < near {
        match text[at] {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

const SHORT: usize = 16;

/// Where the object or array that begins at `start` ends.
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
        /// Whatever the parser reads, the splitter finds too, however it is laid out.
        #[test]
        fn finds_what_the_parser_finds(value in any_json()) {
            for text in texts(&value) {
                let read = |raw: &[u8]| serde_json::from_slice::<Value>(raw).unwrap();
                // What the parser makes of the same text: it does not give back every float it wrote.
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

        /// Damaged text gives something or nothing, and ends.
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
