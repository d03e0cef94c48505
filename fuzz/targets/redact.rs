//! Fuzzes redaction: JSON stays JSON, and no text in it contains a secret afterwards.
//!
//! An input is two secrets and the message.
#![no_main]

use bowline_fuzz::parts;
use bowline_transport::{REDACTED, Redactor};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    let parts: Vec<&[u8]> = parts(input).collect();
    let [first, second, message] = parts[..] else { return };
    let (Ok(first), Ok(second)) = (str::from_utf8(first), str::from_utf8(second)) else { return };
    let secrets = [first, second];
    let redactor = Redactor::new(secrets);
    // The replacement text may itself form a secret that looks like it.
    let is_plain = |secret: &&str| !secret.contains(|c: char| REDACTED.contains(c));
    let secrets: Vec<&str> =
        secrets.into_iter().filter(|secret| secret.len() >= 8).filter(is_plain).collect();

    let shown = redactor.redact_json(Bytes::copy_from_slice(message));
    if let Ok(before) = serde_json::from_slice::<Value>(message) {
        let after: Value = serde_json::from_slice(&shown).expect("JSON stays JSON");
        assert_eq!(shape(&before), shape(&after), "its shape stays");
        for secret in &secrets {
            assert!(!holds(&after, secret), "{secret:?} is still in {after}");
        }
    }
    if let Ok(text) = str::from_utf8(message) {
        let shown = redactor.redact_text(text);
        for secret in &secrets {
            assert!(!shown.contains(secret), "{secret:?} is still in {shown:?}");
        }
        if !redactor.is_empty() && secrets.is_empty() {
            return;
        }
        if redactor.is_empty() {
            assert_eq!(shown, text);
        }
    }
});

/// Returns the value without its texts. Members may merge if their names held secrets.
fn shape(value: &Value) -> Value {
    match value {
        Value::String(_) => Value::String(String::new()),
        Value::Array(items) => Value::Array(items.iter().map(shape).collect()),
        Value::Object(_) => Value::Object(serde_json::Map::new()),
        other => other.clone(),
    }
}

fn holds(value: &Value, secret: &str) -> bool {
    match value {
        Value::String(text) => text.contains(secret),
        Value::Array(items) => items.iter().any(|item| holds(item, secret)),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.contains(secret) || holds(value, secret))
        }
        _ => false,
    }
}
