//! What a modern host can be asked on behalf of a server.

use super::questions::{InputError, Requirements};
use crate::server::modern::declares;
use crate::wire::Json;
use crate::wire::object::Edit;
use crate::wire::view::InputRequest;

/// The capabilities of a host that a server may be told of, because their questions can be passed on:
/// forms and pages, sampling, and roots. The text depends only on what is declared, so that it has
/// few values, whatever hosts write.
// GW-15
pub fn forwarded_capabilities(capabilities: &Json) -> Json {
    let empty = Json::empty_object();
    let object = |members: &[(&'static str, bool)]| {
        let declared = members.iter().filter(|(_, is_declared)| *is_declared);
        let edit = declared.fold(Edit::new(), |edit, (name, _)| edit.set(name, &empty));
        edit.apply(None).expect("a new object is one")
    };
    let has = |path: &[&str]| declares(capabilities, path);
    let (form, url) = (Requirements::declares_form(capabilities), has(&["elicitation", "url"]));
    let elicitation = object(&[("form", form), ("url", url)]);
    let sampling =
        object(&[("context", has(&["sampling", "context"])), ("tools", has(&["sampling", "tools"]))]);
    let members = [
        ("elicitation", &elicitation, form || url),
        ("roots", &empty, has(&["roots"])),
        ("sampling", &sampling, has(&["sampling"])),
    ];
    let declared = members.into_iter().filter(|(_, _, is_declared)| *is_declared);
    let edit = declared.fold(Edit::new(), |edit, (name, value, _)| edit.set(name, value));
    edit.apply(None).expect("a new object is one")
}

/// Checks that a host with these capabilities can be asked a question.
// GW-04
pub fn check_question(question: &InputRequest, capabilities: &Json) -> Result<(), InputError> {
    let required =
        Requirements::of(question).ok_or_else(|| InputError::UnknownQuestion(question.method.clone()))?;
    let missing = required.without_declared(capabilities);
    if missing == Requirements::default() {
        Ok(())
    } else {
        Err(InputError::MissingCapability(missing.to_json()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::try_from(text).unwrap()
    }

    // GW-15
    #[test]
    fn only_what_can_be_passed_on_is_forwarded() {
        for (declared, forwarded) in [
            ("{}", "{}"),
            (r#"{"tasks":{},"extensions":{"a/b":{}},"experimental":{}}"#, "{}"),
            (r#"{"elicitation":{}}"#, r#"{"elicitation":{"form":{}}}"#),
            (r#"{"elicitation":true}"#, r#"{"elicitation":{"form":{}}}"#),
            (r#"{"elicitation":false,"roots":null}"#, "{}"),
            (r#"{"elicitation":{"url":{}}}"#, r#"{"elicitation":{"url":{}}}"#),
            (r#"{"elicitation":{"url":{"x":1},"form":{}}}"#, r#"{"elicitation":{"form":{},"url":{}}}"#),
            (
                r#"{"sampling":{"tools":{},"x":1},"roots":{"listChanged":true}}"#,
                r#"{"roots":{},"sampling":{"tools":{}}}"#,
            ),
            (r#"{"sampling":{"context":{}}}"#, r#"{"sampling":{"context":{}}}"#),
        ] {
            assert_eq!(forwarded_capabilities(&json(declared)).as_str(), forwarded, "{declared}");
        }
    }

    // GW-04
    #[test]
    fn questions_need_their_capability() {
        let question =
            |method: &str, params: &str| InputRequest { method: method.into(), params: Some(json(params)) };
        let forms = json(r#"{"elicitation":{"form":{}}}"#);
        assert_eq!(check_question(&question("elicitation/create", "{}"), &forms), Ok(()));
        let page = question("elicitation/create", r#"{"mode":"url"}"#);
        let missing = json(r#"{"elicitation":{"url":{}}}"#);
        assert_eq!(check_question(&page, &forms), Err(InputError::MissingCapability(missing)));
        let unknown = question("ping", "{}");
        assert_eq!(check_question(&unknown, &forms), Err(InputError::UnknownQuestion("ping".into())));
    }
}
