//! Fuzzes forms of a server: typed input is accepted only if the form's own rules accept it, and so
//! is what is sent.
//!
//! An input is the parameters of an elicitation, then the input to its fields in turn.
#![no_main]

use bowline_fuzz::parts;
use bowline_proto::form::{check_field, check_form, fill_defaults, parse_field};
use bowline_proto::wire::Json;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::Elicitation;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut parts = parts(input);
    let text = Bytes::copy_from_slice(parts.next().unwrap_or_default());
    let Ok(Elicitation::Form(form)) =
        Json::parse(text).map_err(drop).and_then(|it| Elicitation::decode(&it).map_err(drop))
    else {
        return;
    };
    let typed: Vec<_> = parts.map(String::from_utf8_lossy).collect();
    let filled: Vec<_> = form
        .fields
        .iter()
        .zip(&typed)
        .filter_map(|(field, typed)| Some((field, parse_field(field, typed).ok()?)))
        .collect();
    let mut edit = Edit::new();
    for (field, value) in &filled {
        check_field(field, value).expect("what was taken from a person fits its field");
        edit = edit.set(&field.name, value);
    }
    let content = edit.apply(None).expect("an object can be made");
    let completed = fill_defaults(&form, &content);
    if check_form(&form, &content).is_ok() {
        check_form(&form, &completed).expect("defaults break nothing");
    }
    let _ = form.defaults();
});
