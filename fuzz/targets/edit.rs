//! Fuzzes edits of an object's members: the result equals that of serde_json after the same edits,
//! and a request built from it parses back.
//!
//! An input is the object, then names and values in turn; a value that is not JSON stands for
//! removal.
#![no_main]

use bowline_fuzz::parts;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::outgoing::{self, ProgressMode, RequestMeta};
use bowline_proto::wire::{Json, Message, parse_one};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

fuzz_target!(|input: &[u8]| {
    let mut parts = parts(input);
    let Some(object) = parts.next().and_then(json) else { return };
    let texts: Vec<&[u8]> = parts.take(16).collect();
    let edits: Vec<(String, Option<Json>)> = texts
        .chunks_exact(2)
        .map(|edit| (String::from_utf8_lossy(edit[0]).into_owned(), json(edit[1])))
        .collect();

    let mut edit = Edit::new();
    for (name, value) in &edits {
        edit = match value {
            Some(value) => edit.set(name, value),
            None => edit.remove(name),
        };
    }
    let Ok(edited) = edit.apply(Some(&object)) else {
        assert!(!object.is_object(), "every object can be edited");
        return;
    };
    serde_json::from_slice::<IgnoredAny>(edited.as_bytes()).expect("an edited object is JSON");
    // Names that are not valid text, and numbers beyond serde_json's, are left as they are and
    // cannot be compared.
    if let Ok(mut expected) = object.decode::<Map<String, Value>>()
        && let Ok(found) = edited.decode::<Map<String, Value>>()
    {
        for (name, value) in &edits {
            match value {
                Some(value) => expected.insert(name.clone(), value.decode().expect("it decoded before")),
                None => expected.remove(name),
            };
        }
        assert_eq!(found, expected);
    }

    for progress in [ProgressMode::Wanted, ProgressMode::Unwanted] {
        let meta = RequestMeta::new(vec![("io.bowline/test", Json::empty_object())]);
        let Ok(request) = outgoing::request(7, "tools/call", Some(&edited), &meta, progress) else {
            let brought =
                edited.member("_meta").expect("only its `_meta` can keep an object from being sent");
            assert!(!brought.is_object(), "{brought:?}");
            continue;
        };
        let body = request.body();
        assert!(!body.contains(&b'\n'), "a request is one line");
        match parse_one(&body) {
            Ok(Message::Request { params: Some(_), .. }) => {}
            other => panic!("a request reads back as one: {other:?}"),
        }
    }
});

/// Parses a value. Values whose numbers serde_json cannot hold are skipped, since nothing could be
/// compared with them.
fn json(text: &[u8]) -> Option<Json> {
    serde_json::from_slice::<Value>(text).ok()?;
    Json::parse(Bytes::copy_from_slice(text)).ok()
}
