//! Continues the trace of a request of the host: with a new span, and without values that the
//! server need not see (OT-02).

use bowline::{Json, TraceContext};
use bowline_proto::trace;
use bowline_proto::wire::object::Edit;

/// Returns the params of a request with its trace continued. Malformed trace values are dropped,
/// and so is `baggage`, which is meant for the services of the host.
pub(crate) fn continue_trace(params: Json) -> Json {
    let Some(meta) = params.member("_meta") else { return params };
    let given = TRACE_KEYS.map(|key| meta.member(key));
    if given.iter().all(Option::is_none) {
        return params;
    }
    let text = |value: &Option<Json>| value.as_ref().and_then(|value| value.decode::<String>().ok());
    let context = text(&given[0]).and_then(|parent| TraceContext::parse(&parent)).map(|context| {
        let context = match text(&given[1]) {
            Some(state) => context.state(&state),
            None => context,
        };
        context.child(fastrand::u64(1..))
    });
    let mut edit = TRACE_KEYS.iter().fold(Edit::new(), |edit, key| edit.remove(key));
    for (key, value) in context.iter().flat_map(TraceContext::members) {
        edit = edit.set_str(key, &value);
    }
    // A `_meta` that is not an object is refused later.
    match edit.apply(Some(&meta)) {
        Ok(meta) => Edit::new().set("_meta", &meta).apply(Some(&params)).unwrap_or(params),
        Err(_) => params,
    }
}

const TRACE_KEYS: [&str; 3] = [trace::TRACEPARENT, trace::TRACESTATE, trace::BAGGAGE];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn meta(meta: &Value) -> Value {
        let params = json!({ "name": "x", "_meta": meta });
        continue_trace(Json::encode(&params).unwrap()).member("_meta").unwrap().decode().unwrap()
    }

    /// OT-02: the trace is the same, the span is ours.
    #[test]
    fn ot_02_the_trace_goes_on() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let went = meta(
            &json!({ "traceparent": parent, "tracestate": "v=1", "baggage": "user=7", "com.example/a": 1 }),
        );
        let new = went["traceparent"].as_str().unwrap();
        assert_eq!((&new[..36], &new[52..]), (&parent[..36], "-01"));
        assert_ne!(new, parent);
        assert_eq!((&went["tracestate"], &went["com.example/a"]), (&json!("v=1"), &json!(1)));
        assert_eq!(went.get("baggage"), None);
    }

    /// OT-02: malformed values are not passed on.
    #[test]
    fn ot_02_malformed_values_are_dropped() {
        for bad in [json!("00-zz"), json!(7), json!(null)] {
            let went = meta(&json!({ "traceparent": bad, "tracestate": "v=1", "com.example/a": 1 }));
            assert_eq!(went, json!({ "com.example/a": 1 }));
        }
    }

    #[test]
    fn what_has_no_trace_stays_as_it_is() {
        let params = Json::parse(r#"{ "name" : "x", "_meta": {"b" :  1} }"#).unwrap();
        assert_eq!(continue_trace(params.clone()).as_str(), params.as_str());
        let params = Json::parse(r#"{ "name" : "x" }"#).unwrap();
        assert_eq!(continue_trace(params.clone()).as_str(), params.as_str());
    }
}
