//! Tests of form checking, parsing and defaults.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::wire::view::Elicitation;

fn form(properties: &Value, required: &Value) -> Form {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    let params = Json::encode(&json!({ "message": "m", "requestedSchema": schema })).unwrap();
    match Elicitation::decode(&params).unwrap() {
        Elicitation::Form(form) => form,
        Elicitation::Url(_) => panic!("asked for a form"),
    }
}

fn field(schema: &Value) -> Field {
    form(&json!({ "f": schema }), &json!([])).fields.remove(0)
}

fn fits(schema: &Value, value: &Value) -> bool {
    check_field(&field(schema), &Json::encode(value).unwrap()).is_ok()
}

/// Parses what a person types into the JSON that is sent.
fn typed(schema: &Value, text: &str) -> Result<Value, String> {
    parse_field(&field(schema), text).map(|json| json.decode().unwrap())
}

/// EL-07: all errors are reported, by field.
#[test]
fn el_07_what_does_not_fit_is_named() {
    let form = form(
        &json!({
            "age": { "type": "integer", "minimum": 18 },
            "name": { "type": "string", "minLength": 2 },
            "agree": { "type": "boolean" },
        }),
        &json!(["age", "name"]),
    );
    let errors = |content: Value| -> Vec<String> {
        let checked = check_form(&form, &Json::encode(&content).unwrap());
        checked.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    };
    assert_eq!(errors(json!({ "age": 18, "name": "Ada" })), [""; 0]);
    assert_eq!(errors(json!({ "age": 17, "name": "Ada" })), ["age must be at least 18"]);
    // Numbers are not sent as text.
    assert_eq!(errors(json!({ "age": "18", "name": "Ada" })), ["age must be a whole number"]);
    let all = errors(json!({ "age": 18.5, "agree": "yes", "extra\u{1b}": 1 }));
    assert_eq!(
        all,
        [
            "age must be a whole number",
            "agree must be true or false",
            "name must be filled in",
            "extra\\u{1b} was not asked for",
        ]
    );
    assert_eq!(errors(json!([])), ["the answer must be an object"]);
    assert_eq!(errors(json!({ "age": null, "name": "Ada" })), ["age must be a whole number"]);
}

#[test]
fn numbers_and_lengths() {
    let integer = json!({ "type": "integer", "minimum": -1, "maximum": 4 });
    for good in [json!(3), json!(3.0), json!(-1), json!(4)] {
        assert!(fits(&integer, &good), "{good}");
    }
    for bad in [json!(3.5), json!(-2), json!(5), json!(true)] {
        assert!(!fits(&integer, &bad), "{bad}");
    }
    assert!(fits(&json!({ "type": "number" }), &json!(3.5)));
    // Characters, not bytes.
    let text = json!({ "type": "string", "minLength": 2, "maxLength": 3 });
    for (good, text_given) in [(false, "é"), (true, "éé"), (true, "ééé"), (false, "éééé")] {
        assert_eq!(fits(&text, &json!(text_given)), good, "{text_given}");
    }
}

/// EL-07: conditions beyond the protocol's subset are checked too.
#[test]
fn el_07_exclusive_bounds_steps_and_repeats() {
    let said = |schema: &Value, value: Value| check_field(&field(schema), &Json::encode(&value).unwrap());
    let between = json!({ "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1 });
    assert_eq!(said(&between, json!(0.5)), Ok(()));
    assert_eq!(said(&between, json!(0)), Err("must be more than 0".into()));
    assert_eq!(said(&between, json!(1.0)), Err("must be less than 1".into()));
    let cents = json!({ "type": "number", "multipleOf": 0.01 });
    for good in [json!(0), json!(19.99), json!(-0.07), json!(3)] {
        assert_eq!(said(&cents, good), Ok(()));
    }
    assert_eq!(said(&cents, json!(19.995)), Err("must be a multiple of 0.01".into()));
    let dozens = json!({ "type": "integer", "multipleOf": 12 });
    assert!(fits(&dozens, &json!(12_000_000_000_000_i64)) && !fits(&dozens, &json!(12_000_000_000_001_i64)));
    let items = json!({ "type": "string", "enum": ["x", "y"] });
    let set = json!({ "type": "array", "items": items, "uniqueItems": true });
    assert!(fits(&set, &json!(["x", "y"])));
    assert_eq!(said(&set, json!(["x", "y", "x"])), Err("must not have a choice twice".into()));
    let list = json!({ "type": "array", "items": items, "uniqueItems": false });
    assert!(fits(&list, &json!(["x", "x"])));
}

/// EL-04: the formats of the protocol are checked, and unknown ones are ignored.
#[test]
fn el_04_formats() {
    let cases: [(&str, &[&str], &[&str]); 5] = [
        (
            "email",
            &["a@b", "ada.l+x@sub.example.org", "ü@bücher.example"],
            &["", "a", "@b", "a@", "a@b@c", "a b@c", ".a@b", "a..b@c", "a@-b", "a@b..c", "a@b\n"],
        ),
        (
            "uri",
            &["https://example.org/a?b#c", "mailto:a@b", "urn:isbn:1", "http://[::1]:80/"],
            &[
                "",
                "example.org",
                "/a",
                "https://a b/",
                " https://a/",
                "https://",
                "https://é.example",
                "a:\\b",
            ],
        ),
        (
            "date",
            &["2026-07-28", "2024-02-29", "0000-01-01"],
            &["", "2026-7-28", "20260728", "2025-02-29", "2026-07-28T00:00:00", "2026-13-01", "-026-07-28"],
        ),
        (
            "date-time",
            &[
                "2026-07-28T09:30:00Z",
                "2026-07-28t09:30:00z",
                "2026-07-28T09:30:00.123+02:00",
                "2026-07-28T09:30:00-23:59",
            ],
            &[
                "",
                "2026-07-28",
                "2026-07-28T09:30:00",
                "2026-07-28T09:30Z",
                "20260728T093000Z",
                "2026-07-28T25:30:00Z",
                "2026-07-28T09:30:00.Z",
                "2026-07-28T09:30:00+02",
                "2026-07-28T09:30:00+02:00[Europe/Oslo]",
                "2026-07-28T09:30:0éZ",
            ],
        ),
        ("phone", &["whatever"], &[]),
    ];
    for (format, good, bad) in cases {
        let schema = json!({ "type": "string", "format": format });
        for (texts, fitting) in [(good, true), (bad, false)] {
            for text in texts {
                assert_eq!(fits(&schema, &json!(text)), fitting, "{format}: {text:?}");
            }
        }
    }
}

/// EL-04: a pattern is checked if it can be compiled, and within bounds.
#[test]
fn el_04_patterns_are_tolerated() {
    let pattern = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    assert!(fits(&pattern("^[a-z]+$"), &json!("abc")));
    assert!(!fits(&pattern("^[a-z]+$"), &json!("abc1")));
    assert!(fits(&pattern("b"), &json!("abc")), "a pattern may match anywhere");
    for ignored in ["(?=a)b", "(", &"a".repeat(2_000), "(?:\\w{500}){500}"] {
        assert!(fits(&pattern(ignored), &json!("x")), "{ignored:.20}");
    }
    // A backtracking matcher would not end.
    assert!(!fits(&pattern("^(a+)+$"), &json!("a".repeat(50_000) + "!")));
}

const SHAPES: [&str; 3] = [
    r#"{"type":"string","enum":["r","g","1"],"enumNames":["Red, dark","Green","One"]}"#,
    r#"{"type":"string","oneOf":[{"const":"r","title":"Red, dark"},{"const":"g","title":"Green"},{"const":"1"}]}"#,
    r#"{"type":"string","enum":["r","g","1"]}"#,
];

/// EL-05: every shape of a choice yields a value and never a title.
#[test]
fn el_05_choices_give_values() {
    for shape in SHAPES {
        let one: Value = serde_json::from_str(shape).unwrap();
        assert!(fits(&one, &json!("g")) && !fits(&one, &json!("Green")) && !fits(&one, &json!(1)));
        // By value, ignoring case, and by number only if no option has that name.
        let found: Vec<_> = ["g", " G ", "2", "1"].map(|text| typed(&one, text).unwrap()).into();
        assert_eq!(found, ["g", "g", "g", "1"]);
        assert!(typed(&one, "x").is_err() && typed(&one, "0").is_err() && typed(&one, "4").is_err());
    }
    for shape in &SHAPES[..2] {
        let one: Value = serde_json::from_str(shape).unwrap();
        assert_eq!(typed(&one, "green"), Ok(json!("g")));
        assert_eq!(typed(&one, "Red, dark"), Ok(json!("r")));
    }
    for many in [
        json!({ "type": "array", "minItems": 1, "maxItems": 2, "items": { "type": "string", "enum": ["r", "g", "b"] } }),
        json!({ "type": "array", "minItems": 1, "maxItems": 2, "items": { "anyOf": [
            { "const": "r", "title": "Red" }, { "const": "g", "title": "Green, light" }, { "const": "b" } ] } }),
    ] {
        assert!(fits(&many, &json!(["r", "b"])));
        for bad in [json!([]), json!(["r", "g", "b"]), json!(["Red"]), json!("r"), json!([1])] {
            assert!(!fits(&many, &bad), "{bad}");
        }
        assert_eq!(typed(&many, "r, B,r"), Ok(json!(["r", "b"])));
        assert_eq!(typed(&many, ""), Err("must have at least 1 choice".into()));
        assert_eq!(typed(&many, "r,g,b"), Err("must have at most 2 choices".into()));
    }
    let titled =
        json!({ "type": "array", "items": { "anyOf": [{ "const": "g", "title": "Green, light" }] } });
    assert_eq!(typed(&titled, "Green, light"), Ok(json!(["g"])));
    assert_eq!(typed(&titled, ""), Ok(json!([])));
}

/// Two options that differ only in case need an exact match.
#[test]
fn alike_choices_are_not_guessed() {
    let one = json!({ "type": "string", "enum": ["Get", "get"] });
    assert_eq!(typed(&one, "get"), Ok(json!("get")));
    assert!(typed(&one, "GET").is_err());
}

#[test]
fn what_is_typed() {
    let number = json!({ "type": "number" });
    let integer = json!({ "type": "integer" });
    for (schema, text, value) in [
        (&number, " 2.5 ", json!(2.5)),
        (&number, "7", json!(7)),
        (&number, "1e3", json!(1000.0)),
        (&integer, "3.0", json!(3)),
        (&integer, "+4", json!(4)),
        (&integer, "-9007199254740993", json!(-9_007_199_254_740_993_i64)),
        (&json!({ "type": "boolean" }), "Yes", json!(true)),
        (&json!({ "type": "boolean" }), "off", json!(false)),
        (&json!({ "type": "string" }), "  as it is ", json!("  as it is ")),
        (&json!({ "type": "string", "format": "date" }), " 2026-07-28 ", json!("2026-07-28")),
        (
            &json!({ "type": "string", "format": "uri" }),
            "https://bücher.example/ä",
            json!("https://xn--bcher-kva.example/%C3%A4"),
        ),
    ] {
        assert_eq!(typed(schema, text), Ok(value), "{text}");
    }
    for (schema, text) in [
        (&number, "inf"),
        (&number, "NaN"),
        (&number, "1e999"),
        (&number, ""),
        (&integer, "3.5"),
        (&integer, "1e300"),
        (&json!({ "type": "boolean" }), "maybe"),
        (&json!({ "type": "string", "format": "uri" }), "bücher"),
    ] {
        assert!(typed(schema, text).is_err(), "{text}");
    }
}

/// EL-06: a missing field is sent with its default, unless the server's own schema refuses that.
#[test]
fn el_06_untouched_defaults_are_sent() {
    let form = form(
        &json!({
            "city": { "type": "string", "default": "Oslo" },
            "days": { "type": "integer", "default": 3 },
            "rate": { "type": "number", "default": 0.5 },
            "rain": { "type": "boolean", "default": false },
            "kind": { "type": "string", "enum": ["a", "b"], "default": "b" },
            "tags": { "type": "array", "items": { "type": "string", "enum": ["x", "y"] }, "default": ["y"] },
            "mail": { "type": "string", "format": "email", "default": "nobody" },
            "none": { "type": "string" },
        }),
        &json!([]),
    );
    let all: Value = fill_defaults(&form, &Json::parse(r#"{"city": "Rome"}"#).unwrap()).decode().unwrap();
    let expected =
        json!({ "city": "Rome", "days": 3, "rate": 0.5, "rain": false, "kind": "b", "tags": ["y"] });
    assert_eq!(all, expected);
    assert!(check_form(&form, &fill_defaults(&form, &Json::empty_object())).is_ok());
    assert_eq!(fill_defaults(&form, &Json::parse("[1]").unwrap()).as_str(), "[1]");
}

fn any_schema() -> impl Strategy<Value = Value> {
    let bounds = (any::<Option<u8>>(), any::<Option<u8>>());
    prop_oneof![
        (bounds.clone(), proptest::option::of("email|uri|date|date-time|odd"), proptest::option::of("\\PC{0,12}"))
            .prop_map(|((least, most), format, pattern)| {
                json!({ "type": "string", "minLength": least, "maxLength": most, "format": format, "pattern": pattern })
            }),
        (bounds.clone(), any::<bool>()).prop_map(|((least, most), whole)| {
            json!({ "type": if whole { "integer" } else { "number" }, "minimum": least, "maximum": most })
        }),
        Just(json!({ "type": "boolean" })),
        proptest::collection::vec("[a-c1-3, ]{0,3}", 0..4)
            .prop_map(|options| json!({ "type": "string", "enum": options })),
        (proptest::collection::vec("[a-c1-3, ]{0,3}", 0..4), bounds).prop_map(|(options, (least, most))| {
            json!({ "type": "array", "items": { "enum": options }, "minItems": least, "maxItems": most })
        }),
    ]
}

proptest! {
    /// A value that `parse_field` accepts passes `check_form`, for any schema and any input.
    #[test]
    fn what_is_parsed_fits(schema in any_schema(), text in "[a-c1-3., -]{0,6}|\\PC{0,20}") {
        let form = form(&json!({ "f": schema }), &json!(["f"]));
        if let Ok(value) = parse_field(&form.fields[0], &text) {
            let content = Json::encode(&json!({ "f": value })).unwrap();
            prop_assert_eq!(check_form(&form, &content), Ok(()));
        }
    }

    /// Typed integers are parsed exactly.
    #[test]
    fn whole_numbers_are_exact(number in any::<i64>()) {
        let typed = number.to_string();
        let value = parse_field(&field(&json!({ "type": "integer" })), &typed).unwrap();
        prop_assert_eq!(value.as_str(), typed);
    }

    /// An option that is named by its value is chosen, whatever the others are called.
    #[test]
    fn a_value_names_itself(options in proptest::collection::vec("[a-cA-C1-3]{1,2}", 1..6), at in any::<prop::sample::Index>()) {
        let schema = json!({ "type": "string", "enum": options });
        let wanted = at.get(&options);
        prop_assert_eq!(typed(&schema, wanted), Ok(json!(wanted)));
    }

    /// Filling in defaults changes no given field, and is idempotent.
    #[test]
    fn completing_changes_nothing(name in "[ab]", value in any::<i32>()) {
        let form = form(&json!({ "a": { "type": "integer", "default": 1 }, "b": { "type": "integer", "default": 2 } }), &json!([]));
        let content = Json::encode(&json!({ (name.clone()): value })).unwrap();
        let once = fill_defaults(&form, &content);
        prop_assert_eq!(once.member(&name), content.member(&name));
        prop_assert_eq!(fill_defaults(&form, &once), once);
    }
}
