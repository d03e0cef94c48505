//! The digest of the params of a request, which a retry must not change.

use super::{DIGEST_LEN, Mac};
use crate::wire::Json;
use crate::wire::scan::{Cursor, elements, unquote};

/// Members of params that a retry changes.
const RETRY_MEMBERS: [&str; 3] = ["_meta", "inputResponses", "requestState"];

/// Depth below which JSON is compared as it was written. It bounds the stack, and the work, since
/// each level reads its text again.
const MAX_CANONICAL_DEPTH: usize = 32;

/// The digest of one part of a binding. The name of the part separates it from the others.
pub(super) fn digest_of(mac: &impl Mac, part: &[u8], value: &[u8]) -> [u8; DIGEST_LEN] {
    let tag = mac.tag(&[b"bowline request state binding ", part, b"\0", value]);
    *tag.first_chunk().expect("a tag is longer than a digest")
}

/// The params that a retry repeats, in a form that does not depend on the order of members or the
/// spelling of strings: a host may serialize them anew. Numbers keep their spelling.
pub(super) fn canonical_params(params: Option<&Json>) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(params) = params else { return b"{}".to_vec() };
    let mut members = sorted_members(params.as_bytes());
    match &mut members {
        Some(members) => {
            members.retain(|(name, _)| !RETRY_MEMBERS.iter().any(|skipped| name == skipped.as_bytes()));
            put_members(&mut out, members, 0);
        }
        None => put_canonical(&mut out, params.as_bytes(), 0),
    }
    out
}

/// The members of an object: decoded name and text of the value, in the order of the names. Members
/// with equal names keep their order. `None` if it is no object.
fn sorted_members(text: &[u8]) -> Option<Vec<(Vec<u8>, &[u8])>> {
    let mut cursor = Cursor::new(text);
    if !cursor.enter(b'{') {
        return None;
    }
    let mut members = Vec::new();
    while let Some(name) = cursor.name() {
        // A name with half a surrogate pair has no text, and is taken as it was written.
        let name = unquote(name).map_or_else(|| name.to_vec(), |name| name.into_owned().into_bytes());
        members.push((name, cursor.value()?));
    }
    members.sort_by(|(left, _), (right, _)| left.cmp(right));
    Some(members)
}

fn put_members(out: &mut Vec<u8>, members: &[(Vec<u8>, &[u8])], depth: usize) {
    out.push(b'{');
    for (name, value) in members {
        put_bytes(out, name);
        put_canonical(out, value, depth + 1);
    }
    out.push(b'}');
}

fn put_canonical(out: &mut Vec<u8>, value: &[u8], depth: usize) {
    if depth >= MAX_CANONICAL_DEPTH {
        out.push(b'r');
        return put_bytes(out, value);
    }
    match value.first() {
        Some(b'{') => {
            if let Some(members) = sorted_members(value) {
                return put_members(out, &members, depth);
            }
        }
        Some(b'[') => {
            if let Some(list) = elements(value) {
                out.push(b'[');
                list.for_each(|element| put_canonical(out, element, depth + 1));
                return out.push(b']');
            }
        }
        Some(b'"') => {
            if let Some(text) = unquote(value) {
                out.push(b's');
                return put_bytes(out, text.as_bytes());
            }
        }
        _ => {}
    }
    out.push(b'r');
    put_bytes(out, value);
}

/// Writes bytes with their length, so that no two sequences of values have the same text.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(params: &str) -> Vec<u8> {
        canonical_params(Some(&Json::try_from(params).unwrap()))
    }

    #[test]
    fn spelling_and_retry_members_do_not_count() {
        // GW-07, MR-03
        let first = canonical(r#"{"name":"t","arguments":{"a":"x","b":[1, {"c":null}]},"_meta":{"n":1}}"#);
        for retry in [
            r#"{"name":"t","arguments":{"a":"x","b":[1,{"c":null}]}}"#,
            r#"{ "arguments" : { "b":[1,{"c":null}], "\u0061":"\u0078" }, "name":"t", "_meta":{"n":2} }"#,
            r#"{"name":"t","arguments":{"a":"x","b":[1,{"c":null}]},"inputResponses":{},"requestState":"s"}"#,
        ] {
            assert_eq!(canonical(retry), first, "{retry}");
        }
        assert_eq!(canonical("{}"), canonical(r#"{"_meta":{}}"#));
    }

    #[test]
    fn every_other_difference_counts() {
        let texts = [
            "{}",
            "[]",
            r#"{"a":1}"#,
            r#"{"a":1.0}"#,
            r#"{"a":"1"}"#,
            r#"{"a":2}"#,
            r#"{"b":1}"#,
            r#"{"a":[1]}"#,
            r#"{"a":[[1]]}"#,
            r#"{"a":[1,1]}"#,
            r#"{"a":[11]}"#,
            r#"{"a":{}}"#,
            r#"{"a":[]}"#,
            r#"{"a":null}"#,
            r#"{"a":"null"}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":"\ud801"}"#,
            r#"{"\ud800":1}"#,
            r#"{"\ud801":1}"#,
            // Which of two counts depends on the reader.
            r#"{"a":1,"a":2}"#,
            r#"{"a":2,"a":1}"#,
            r#"{"a":{"_meta":1}}"#,
            r#"{"a":{"_meta":2}}"#,
        ];
        for (at, left) in texts.iter().enumerate() {
            for right in &texts[at + 1..] {
                assert_ne!(canonical(left), canonical(right), "{left} {right}");
            }
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |inner: &str| "[".repeat(5000) + inner + &"]".repeat(5000);
        let (left, right) = (nested("1"), nested("2"));
        assert_ne!(canonical(&format!(r#"{{"a":{left}}}"#)), canonical(&format!(r#"{{"a":{right}}}"#)));
    }

    proptest! {
        /// Two objects have the same form exactly if they are equal.
        #[test]
        fn form_is_the_same_for_equal_objects(
            left in proptest::collection::btree_map("[ab]{1,2}", "[xy\"\\\\]{0,2}", 0..4),
            right in proptest::collection::btree_map("[ab]{1,2}", "[xy\"\\\\]{0,2}", 0..4),
        ) {
            let forward = |map: &std::collections::BTreeMap<String, String>| serde_json::to_string(map).unwrap();
            let backward = left.iter().rev().map(|(name, value)| {
                format!("{}: {}", serde_json::to_string(name).unwrap(), serde_json::to_string(value).unwrap())
            });
            let backward = format!("{{{}}}", backward.collect::<Vec<_>>().join(" , "));
            prop_assert_eq!(canonical(&forward(&left)), canonical(&backward));
            prop_assert_eq!(canonical(&forward(&left)) == canonical(&forward(&right)), left == right);
        }
    }
}
