//! Fuzzes URI templates of a server with a model's values: the result is bounded and ASCII, and a
//! value stays in its place.
//!
//! An input is the template, then the values of its variables in order. A value with `,` is a list,
//! one with `=` a map.
#![no_main]

use std::collections::BTreeMap;

use bowline::templates::{Template, Value};
use bowline_fuzz::parts;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut parts = parts(input).map(String::from_utf8_lossy);
    let Some(text) = parts.next() else { return };
    let Ok(template) = Template::parse(&text) else { return };
    let names: Vec<String> = template.variables().map(str::to_owned).collect();
    let values: BTreeMap<String, Value> = names.iter().cloned().zip(parts.map(|part| value(&part))).collect();
    let Ok(uri) = template.expand(&values) else { return };
    assert!(uri.len() <= 64 * 1024, "{} bytes", uri.len());
    assert!(uri.is_ascii(), "a URI is ASCII: {uri}");
    assert!(!uri.bytes().any(|byte| byte <= b' ' || byte == 0x7f), "no space or control: {uri:?}");

    // Not for operators that insert a value verbatim, nor for a template that contains the value
    // itself.
    if !text.contains("{+") && !text.contains("{#") && !text.contains(HOSTILE) {
        let hostile: BTreeMap<String, Value> =
            names.into_iter().map(|name| (name, Value::from(HOSTILE))).collect();
        if let Ok(uri) = template.expand(&hostile) {
            assert!(!uri.contains(HOSTILE), "a value leaves its place: {uri}");
        }
    }
});

/// Would lead to another path, query and fragment if it were inserted verbatim.
const HOSTILE: &str = "/../?x#y";

fn value(text: &str) -> Value {
    if text.contains('=') {
        let pairs = text.split(',').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Value::Map(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    } else if text.contains(',') {
        Value::List(text.split(',').map(str::to_owned).collect())
    } else {
        Value::Text(text.to_owned())
    }
}
