//! Decides what a relayed host sees of its server, if the configuration exposes only a part of it.

use bowline::config::Exposure;
use bowline::types::{code, method};
use bowline::{Json, RpcError};
use bowline_proto::wire::object::Edit;

use crate::unchecked_methods::{hides_tools, refuse_variant};

/// Returns the error for a request about something that is not exposed.
pub(super) fn refuse(exposure: &Exposure, method: &str, params: Option<&Json>) -> Option<RpcError> {
    let text = |member: &str| params?.member(member)?.decode::<String>().ok();
    let (what, member) = match method {
        method::TOOLS_CALL if hides_tools(exposure) => ("tool", "name"),
        method::PROMPTS_GET if !exposure.prompts => ("prompt", "name"),
        method::RESOURCES_READ | method::RESOURCES_SUBSCRIBE | method::RESOURCES_UNSUBSCRIBE
            if !exposure.resources =>
        {
            ("resource", "uri")
        }
        method::COMPLETE => return refuse_completion(exposure, params),
        _ => return refuse_variant(exposure, method),
    };
    let message = match text(member) {
        Some(name) if what == "tool" && exposure.exposes_tool(&name) => return None,
        // The words that a server has for a name that it does not know.
        Some(name) => format!("Unknown {what}: {name}"),
        // A server may take another value for the text that it looks like, as JavaScript does with `["name"]`.
        None => format!("params need {member}"),
    };
    Some(RpcError::new(code::INVALID_PARAMS, message))
}

/// Returns the error for a completion for a prompt or a resource template that is not exposed.
fn refuse_completion(exposure: &Exposure, params: Option<&Json>) -> Option<RpcError> {
    if exposure.prompts && exposure.resources {
        return None;
    }
    let reference = params.and_then(|params| params.member("ref"));
    let text = |member: &str| reference.as_ref()?.member(member)?.decode::<String>().ok();
    let (name, uri) = (text("name"), text("uri"));
    let is_exposed = match text("type").as_deref() {
        Some("ref/prompt") => exposure.prompts,
        Some("ref/resource") => exposure.resources,
        _ => false,
    };
    // A server may go by the member, whatever the type is.
    let message = match (name, uri) {
        (Some(name), _) if !exposure.prompts => format!("Unknown prompt: {name}"),
        (_, Some(uri)) if !exposure.resources => format!("Unknown resource: {uri}"),
        _ if is_exposed => return None,
        _ => "params need ref, with a type and a name or URI".to_owned(),
    };
    Some(RpcError::new(code::INVALID_PARAMS, message))
}

/// Leaves out of the params of `subscriptions/listen` the resources that are not exposed.
pub(super) fn filter_listen(exposure: &Exposure, method: &str, params: Option<Json>) -> Option<Json> {
    if method != method::LISTEN || exposure.resources {
        return params;
    }
    let wanted = params.as_ref()?.member("notifications")?;
    let shown = Edit::new().remove("resourceSubscriptions").apply(Some(&wanted)).ok()?;
    // Without params it is refused.
    Edit::new().set("notifications", &shown).apply(params.as_ref()).ok()
}

/// Leaves out of a page of a list what is not exposed.
pub(super) fn filter_page(exposure: &Exposure, method: &str, page: Json) -> Json {
    let (member, is_exposed): (_, &dyn Fn(&Json) -> bool) = match method {
        method::TOOLS_LIST if hides_tools(exposure) => ("tools", &|tool: &Json| exposes_tool(exposure, tool)),
        method::PROMPTS_LIST if !exposure.prompts => ("prompts", &|_: &Json| false),
        method::RESOURCES_LIST if !exposure.resources => ("resources", &|_: &Json| false),
        method::TEMPLATES_LIST if !exposure.resources => ("resourceTemplates", &|_: &Json| false),
        // Nothing is hidden, so that nothing is changed, not even what is malformed.
        _ => return page,
    };
    let Some(items) = page.member(member).and_then(|items| items.decode::<Vec<Json>>().ok()) else {
        return page;
    };
    let exposed: Vec<&Json> = items.iter().filter(|item| is_exposed(item)).collect();
    if exposed.len() == items.len() {
        return page;
    }
    // A page that cannot be edited must not show what is hidden.
    let edited =
        Json::encode(&exposed).ok().and_then(|list| Edit::new().set(member, &list).apply(Some(&page)).ok());
    edited.unwrap_or_else(Json::empty_object)
}

/// Whether an element of a list of tools is exposed. One without a name cannot be called.
fn exposes_tool(exposure: &Exposure, tool: &Json) -> bool {
    let name = tool.member("name").and_then(|name| name.decode::<String>().ok());
    name.is_some_and(|name| exposure.exposes_tool(&name))
}

#[cfg(test)]
mod tests {
    use bowline::config::ToolPattern;

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    fn without(patterns: &[&str]) -> Exposure {
        let mut exposure = Exposure::default();
        exposure.disabled_tools = patterns.iter().copied().map(ToolPattern::new).collect();
        exposure
    }

    #[test]
    fn a_hidden_tool_is_neither_listed_nor_called() {
        let exposure = without(&["delete*", "drop"]);
        let page = json(
            r#"{"tools":[{"name":"deleteUser"},{"name":"read","x":1},{"name":"drop"},{}],"nextCursor":"2"}"#,
        );
        let shown = filter_page(&exposure, method::TOOLS_LIST, page);
        assert_eq!(shown.as_str(), r#"{"tools":[{"name":"read","x":1}],"nextCursor":"2"}"#);
        let call = |name: &str| {
            let params = json(&format!(r#"{{"name":"{name}","arguments":{{}}}}"#));
            refuse(&exposure, method::TOOLS_CALL, Some(&params)).map(|error| error.message.clone())
        };
        assert_eq!(call("deleteUser").as_deref(), Some("Unknown tool: deleteUser"));
        assert_eq!(call("drop").as_deref(), Some("Unknown tool: drop"));
        assert_eq!(call("read"), None);
    }

    #[test]
    fn a_name_that_is_no_text_is_refused_where_names_are_hidden() {
        for params in [r#"{"name":["drop"]}"#, r#"{"name":{"a":1}}"#, r#"{"name":7}"#, "{}", r#"["drop"]"#] {
            let params = json(params);
            let refused = refuse(&without(&["drop"]), method::TOOLS_CALL, Some(&params));
            let refused = refused.map(|error| (error.code, error.message));
            assert_eq!(refused, Some((code::INVALID_PARAMS, "params need name".to_owned())), "{params}");
            // Where nothing is hidden, it is the server's to refuse.
            assert_eq!(refuse(&Exposure::default(), method::TOOLS_CALL, Some(&params)), None, "{params}");
        }
        assert!(refuse(&without(&["drop"]), method::TOOLS_CALL, None).is_some());
    }

    #[test]
    fn what_is_exposed_stays_byte_for_byte() {
        let text = r#"{ "tools" : [ {"name" : "read"} ] }"#;
        let exposure = without(&["delete*"]);
        assert_eq!(filter_page(&exposure, method::TOOLS_LIST, json(text)).as_str(), text);
        // A result that is no list is the server's to answer for.
        for odd in [r#"{"tools":7}"#, "{}", "[]"] {
            assert_eq!(filter_page(&exposure, method::TOOLS_LIST, json(odd)).as_str(), odd);
        }
    }

    #[test]
    fn a_completion_for_something_hidden_is_refused() {
        let exposing = |prompts, resources| {
            let mut exposure = Exposure::default();
            (exposure.prompts, exposure.resources) = (prompts, resources);
            exposure
        };
        let refusal = |exposure: &Exposure, reference: &str| {
            let params = json(&format!(r#"{{"ref":{reference},"argument":{{"name":"a","value":""}}}}"#));
            refuse(exposure, method::COMPLETE, Some(&params)).map(|error| error.message)
        };
        let prompt = r#"{"type":"ref/prompt","name":"greet"}"#;
        let template = r#"{"type":"ref/resource","uri":"a:{b}"}"#;
        for (prompts, resources) in [(true, true), (true, false), (false, true), (false, false)] {
            let exposure = exposing(prompts, resources);
            let (of_prompt, of_template) = (refusal(&exposure, prompt), refusal(&exposure, template));
            assert_eq!(of_prompt.as_deref(), (!prompts).then_some("Unknown prompt: greet"));
            assert_eq!(of_template.as_deref(), (!resources).then_some("Unknown resource: a:{b}"));
        }
        // A server may take another value for the text that it looks like, or look at another member.
        let only_prompts = exposing(true, false);
        for odd in [
            r#"{"type":["ref/resource"],"uri":["a:{b}"]}"#,
            r#"{"type":"ref/resource"}"#,
            r#"{"type":"ref/prompt","name":"greet","uri":"a:{b}"}"#,
            r#"{"uri":"a:{b}"}"#,
            "[]",
        ] {
            assert!(refusal(&only_prompts, odd).is_some(), "{odd}");
            assert!(refusal(&exposing(true, true), odd).is_none(), "{odd}");
        }
        assert!(refuse(&only_prompts, method::COMPLETE, None).is_some());
    }

    #[test]
    fn hidden_resources_cannot_be_subscribed_to() {
        let text =
            r#"{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]},"_meta":{}}"#;
        let filtered = |exposure: &Exposure, method| {
            filter_listen(exposure, method, Some(json(text))).map(|params| params.as_str().to_owned())
        };
        let mut hiding = Exposure::default();
        hiding.resources = false;
        assert_eq!(
            filtered(&hiding, method::LISTEN).as_deref(),
            Some(r#"{"notifications":{"toolsListChanged":true},"_meta":{}}"#)
        );
        assert_eq!(filtered(&Exposure::default(), method::LISTEN).as_deref(), Some(text));
        assert_eq!(filtered(&hiding, method::TOOLS_CALL).as_deref(), Some(text));
        for odd in ["{}", r#"{"notifications":7}"#] {
            assert_eq!(filter_listen(&hiding, method::LISTEN, Some(json(odd))), None, "{odd}");
        }
    }

    #[test]
    fn prompts_and_resources_are_hidden_as_a_whole() {
        let mut exposure = Exposure::default();
        (exposure.prompts, exposure.resources) = (false, false);
        for (method, page, shown) in [
            (method::PROMPTS_LIST, r#"{"prompts":[{"name":"a"}]}"#, r#"{"prompts":[]}"#),
            (method::RESOURCES_LIST, r#"{"resources":[{"uri":"a:b"}]}"#, r#"{"resources":[]}"#),
            (
                method::TEMPLATES_LIST,
                r#"{"resourceTemplates":[{"uriTemplate":"a:{b}"}]}"#,
                r#"{"resourceTemplates":[]}"#,
            ),
        ] {
            assert_eq!(filter_page(&exposure, method, json(page)).as_str(), shown);
        }
        let params = json(r#"{"name":"a","uri":"a:b"}"#);
        for method in [
            method::PROMPTS_GET,
            method::RESOURCES_READ,
            method::RESOURCES_SUBSCRIBE,
            method::RESOURCES_UNSUBSCRIBE,
            "Resources/Read",
        ] {
            assert!(refuse(&exposure, method, Some(&params)).is_some(), "{method}");
            assert!(refuse(&Exposure::default(), method, Some(&params)).is_none(), "{method}");
        }
    }
}
