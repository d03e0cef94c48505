//! Fuzzes JSON-RPC envelopes: an accepted message is JSON and agrees with serde_json, and what
//! serde_json can read is not called malformed.
#![no_main]

use bowline_proto::wire::{self, Defect, Message, ParseResult};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    let frame = Bytes::copy_from_slice(input);
    let one = wire::parse_one(&frame);
    let by_serde: Option<Value> = serde_json::from_slice(input).ok();
    match &by_serde {
        Some(value) => compare(value, &one),
        None => {
            if one.is_ok() {
                // serde_json limits numbers and depth more than JSON itself does.
                serde_json::from_slice::<IgnoredAny>(input).expect("a message is JSON");
            }
        }
    }
    let mut count = 0;
    wire::parse(&frame, |parsed| {
        count += 1;
        if let Ok(Message::Result { id, result }) = parsed {
            let written = wire::outgoing::response(&id, Ok(&result)).body();
            let Ok(Message::Result { id: id_again, result: again }) = wire::parse_one(&written) else {
                panic!("what is passed on is a result");
            };
            assert_eq!(id_again, id);
            // White space may differ: a line contains no newline.
            assert_eq!(again.decode::<Value>().ok(), result.decode::<Value>().ok());
        }
    });
    assert!((1..=1_001).contains(&count), "{count} messages");
    let _ = wire::find_error(&frame);
});

fn compare(value: &Value, one: &ParseResult) {
    match one {
        Ok(Message::Result { result, .. }) => {
            assert_eq!(result.decode::<Value>().ok().as_ref(), value.get("result"));
        }
        Ok(Message::Error { error, .. }) => {
            let error_value = &value["error"];
            if let Some(code) = error_value["code"].as_i64() {
                assert_eq!(error.code, code);
            }
            if let Some(message) = error_value["message"].as_str() {
                assert_eq!(error.message, message);
            }
        }
        Ok(Message::Request { method, .. } | Message::Notification { method, .. }) => {
            assert_eq!(value.get("method").and_then(Value::as_str), Some(&**method));
        }
        Err(malformed) => {
            let broken = malformed.defect == Defect::NotJson;
            assert!(!(broken && value.is_object()), "serde_json reads it: {value}");
        }
    }
}
