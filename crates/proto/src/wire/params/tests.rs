use std::fmt;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::*;
use crate::wire::{Id, Message, ParseResult, parse, parse_from_host};

fn from_host(text: impl AsRef<[u8]>) -> ParseResult {
    let mut found = Vec::new();
    parse_from_host(&Bytes::copy_from_slice(text.as_ref()), |message| found.push(message));
    found.remove(0)
}

fn request(method: &str, params: &str) -> ParseResult {
    from_host(format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#))
}

/// The code and the message of the response to a request with these params, or nothing.
fn refusal(method: &str, params: &str) -> Option<(i64, String)> {
    let malformed = request(method, params).err()?;
    assert_eq!(malformed.id, Some(Id::Int(7)), "{params}");
    let error = malformed.defect.to_error();
    Some((error.code, error.message))
}

#[test]
fn params_that_can_be_read_in_two_ways_are_refused() {
    const NAME: &str = "invalid params: the member name stands twice in params";
    const OTHER: &str = "invalid params: a member stands twice in params";
    for (params, message) in [
        (r#"{"name":"hidden","name":"do"}"#, NAME),
        (r#"{"name":"do","name":"do"}"#, NAME),
        (r#"{"name":"do","arguments":{},"n\u0061me":"hidden"}"#, NAME),
        (r#"{"\u006eame":"do","\u006Eame":"hidden"}"#, NAME),
        (r#" { "name" : "do" , "name" : null } "#, NAME),
        (r#"{"uri":"a:b","uri":"a:c"}"#, "invalid params: the member uri stands twice in params"),
        (r#"{"_meta":{},"_meta":{}}"#, "invalid params: the member _meta stands twice in params"),
        (r#"{"ref":{},"x":[{"a":1}],"ref":{}}"#, "invalid params: the member ref stands twice in params"),
        (r#"{"<script>":1,"<script>":2}"#, OTHER),
        (r#"{"":1,"":2}"#, OTHER),
        (r#"{"\ud800":1,"\ud801":2}"#, OTHER),
        (
            r#"{"name":"do","Name":"hidden"}"#,
            "invalid params: a member of params differs from name only in case",
        ),
        (r#"{"NAME":"hidden"}"#, "invalid params: a member of params differs from name only in case"),
        (r#"{"\u004eame":"hidden"}"#, "invalid params: a member of params differs from name only in case"),
        (r#"{"taskid":"1"}"#, "invalid params: a member of params differs from taskId only in case"),
        (r#"{"taſkId":"1"}"#, "invalid params: a member of params differs from taskId only in case"),
        (r#"{"tas\u212aId":"1"}"#, "invalid params: a member of params differs from taskId only in case"),
        (r#"{"Arguments":{}}"#, "invalid params: a member of params differs from arguments only in case"),
        (r#"{"_Meta":{}}"#, "invalid params: a member of params differs from _meta only in case"),
        (
            r#"{"_meta":{"progressToken":1,"ProgressToken":2}}"#,
            "invalid params: a member of params._meta differs from progressToken only in case",
        ),
        (
            r#"{"_meta":{"progressToken":1,"progressToken":2}}"#,
            "invalid params: the member progressToken stands twice in params._meta",
        ),
        (r#"{"_meta":{"x/y":1,"x/y":2}}"#, "invalid params: a member stands twice in params._meta"),
        (
            r#"{"ref":{"type":"ref/prompt","name":"a","name":"b"}}"#,
            "invalid params: the member name stands twice in params.ref",
        ),
        (r#"{"ref":{"URI":"a"}}"#, "invalid params: a member of params.ref differs from uri only in case"),
    ] {
        for method in ["tools/call", "completion/complete"] {
            assert_eq!(refusal(method, params), Some((-32602, message.to_owned())), "{params}");
        }
    }
}

#[test]
fn everything_else_is_passed_on_as_it_was_written() {
    for params in [
        "null",
        "{}",
        "[]",
        r#"["name","name"]"#,
        r#"{"name":"do","arguments":{"a":1,"a":2,"Name":1,"name":1,"_meta":{"b":1,"b":2}}}"#,
        r#"{ "name" : "d\u006f", "x" : 1, "X" : 2 }"#,
        r#"{"_meta":{"name":1,"Name":2,"x":{"a":1,"a":2}},"name":"a"}"#,
        r#"{"_meta":7,"ref":[{"a":1,"a":2}]}"#,
        r#"{"names":1,"name":2,"name2":3,"ｎame":4}"#,
        r#"{"ref":{"name":"a","ref":{"a":1,"a":2}},"name":"b"}"#,
    ] {
        match request("tools/call", params) {
            Ok(Message::Request { params: read, .. }) => {
                let read = read.map_or("null".to_owned(), |read| read.to_string());
                assert_eq!(read, params);
            }
            other => panic!("{params}: {other:?}"),
        }
    }
}

/// Nothing reads the params of such methods but their `_meta`.
#[test]
fn members_of_unknown_methods_may_have_any_case() {
    assert_eq!(refusal("vendor/do", r#"{"Name":"a","URI":"b","ref":{"Name":"c"}}"#), None);
    for params in [r#"{"name":"a","name":"b"}"#, r#"{"_META":{}}"#, r#"{"_meta":{"progresstoken":1}}"#] {
        assert_eq!(refusal("vendor/do", params).map(|(code, _)| code), Some(-32602), "{params}");
        // It does not matter where the method stands.
        let reversed = format!(r#"{{"params":{params},"method":"vendor/do","id":7,"jsonrpc":"2.0"}}"#);
        assert!(from_host(reversed).is_err(), "{params}");
    }
}

#[test]
fn notifications_and_elements_of_batches_are_checked_and_responses_are_not() {
    let params = r#""params":{"name":"a","name":"b"}"#;
    let notification = format!(r#"{{"jsonrpc":"2.0","method":"notifications/x",{params}}}"#);
    let malformed = from_host(&notification).unwrap_err();
    assert_eq!(malformed.id, None);
    assert_eq!(malformed.defect, Defect::RepeatedParam { object: "params", member: Some("name") });
    assert_eq!(from_host(format!("[{notification}]")).unwrap_err(), malformed);
    assert!(from_host(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{}},{params}}}"#)).is_ok());
    // What a server sends decides nothing for another one.
    parse(&notification.into(), |message| assert!(message.is_ok()));
}

#[test]
fn too_many_members_are_refused() {
    let params = |count: usize| {
        let members: Vec<String> = (0..count).map(|number| format!("\"{number}\":0")).collect();
        format!("{{{}}}", members.join(","))
    };
    assert_eq!(refusal("x", &params(MAX_MEMBERS)), None);
    let message = "invalid params: there are too many members in params";
    assert_eq!(refusal("x", &params(MAX_MEMBERS + 1)), Some((-32602, message.to_owned())));
    let message = "invalid params: there are too many members in params._meta";
    let meta = format!(r#"{{"_meta":{}}}"#, params(MAX_MEMBERS + 1));
    assert_eq!(refusal("x", &meta), Some((-32602, message.to_owned())));
}

/// The names of the members of an object and of its `_meta` and `ref`, by another parser.
#[derive(Default)]
struct Names {
    own: Vec<String>,
    inner: Vec<Vec<String>>,
}

struct NamesOf<'n> {
    names: &'n mut Names,
    is_inner: bool,
}

impl<'de> DeserializeSeed<'de> for NamesOf<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NamesOf<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut own = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if !self.is_inner && matches!(&*name, "_meta" | "ref") {
                map.next_value_seed(NamesOf { names: &mut *self.names, is_inner: true })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            own.push(name);
        }
        if self.is_inner {
            self.names.inner.push(own);
        } else {
            self.names.own = own;
        }
        Ok(())
    }
}

fn any_name() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(
        &["name", "n\\u0061me", "_meta", "\\u005fmeta", "ref", "a", "\\u0061", "b", "A", "ä", "\\u00e4"][..],
    )
}

fn any_object(value: BoxedStrategy<String>) -> impl Strategy<Value = String> {
    proptest::collection::vec((any_name(), value), 0..5).prop_map(|members| {
        let members: Vec<String> =
            members.iter().map(|(name, value)| format!("\"{name}\" :{value}")).collect();
        format!("{{ {} }}", members.join(", "))
    })
}

fn any_params() -> impl Strategy<Value = String> {
    any_object(any_object(Just("[{}, 1]".to_owned()).boxed()).boxed())
}

proptest! {
    /// Params are refused if and only if another parser finds two members of one name.
    #[test]
    fn repeated_members_are_those_that_another_parser_finds(params in any_params()) {
        let mut names = Names::default();
        let mut parser = serde_json::Deserializer::from_str(&params);
        NamesOf { names: &mut names, is_inner: false }.deserialize(&mut parser).unwrap();
        let has_twice = |names: &Vec<String>| (1..names.len()).any(|at| names[..at].contains(&names[at]));
        let is_ambiguous = has_twice(&names.own) || names.inner.iter().any(has_twice);
        prop_assert_eq!(request("vendor/do", &params).is_err(), is_ambiguous, "{}", params);
    }

    /// The check changes nothing else: not what is valid JSON, and not what is read.
    #[test]
    fn the_check_reads_what_the_parser_reads(
        params in any_params(),
        changes in proptest::collection::vec((any::<Index>(), 0..3u8, any::<u8>()), 0..3),
    ) {
        let mut text = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"x","params":{params}}}"#).into_bytes();
        for (at, change, byte) in changes {
            let at = at.index(text.len());
            match change {
                0 => text.insert(at, byte),
                1 => text[at] = byte,
                _ => drop(text.remove(at)),
            }
        }
        let mut plain = Vec::new();
        parse(&Bytes::copy_from_slice(&text), |message| plain.push(message));
        match from_host(&text) {
            Err(malformed) if matches!(
                malformed.defect,
                Defect::RepeatedParam { .. } | Defect::MiscasedParam { .. } | Defect::InvalidId
            ) => {
                let is_log_record = |other: &ParseResult| {
                    other.as_ref().is_err_and(|other| other.defect == Defect::LogRecord)
                };
                prop_assert!(plain[0].is_ok() || is_log_record(&plain[0]));
            }
            other => prop_assert_eq!(&other, &plain[0]),
        }
    }
}
