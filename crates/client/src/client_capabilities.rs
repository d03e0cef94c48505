//! Derives the capabilities that are declared to modern servers from those of the handler.

use bowline_proto::wire::object::Edit;
use bowline_proto::wire::{Json, extension};

/// The capabilities for modern servers: adds the tasks extension if `tasks` is set, and removes
/// what modern servers do not have.
pub(crate) fn for_modern_server(capabilities: &Json, tasks: bool) -> Json {
    let declared = without_list_changed(capabilities);
    if tasks { with_tasks(declared) } else { declared }
}

/// Removes `roots.listChanged`, which only legacy servers have (RT-01).
fn without_list_changed(capabilities: &Json) -> Json {
    let roots = capabilities.member("roots").filter(|roots| roots.member("listChanged").is_some());
    let stripped = roots.and_then(|roots| Edit::new().remove("listChanged").apply(Some(&roots)).ok());
    let declared = stripped.and_then(|roots| Edit::new().set("roots", &roots).apply(Some(capabilities)).ok());
    declared.unwrap_or_else(|| capabilities.clone())
}

/// Adds the tasks extension, unless the host declares it itself (TN-01).
fn with_tasks(capabilities: Json) -> Json {
    let extensions = capabilities.member("extensions").filter(Json::is_object);
    if extensions.as_ref().is_some_and(|extensions| extensions.member(extension::TASKS).is_some()) {
        return capabilities;
    }
    let nothing = Json::empty_object();
    let extensions = Edit::new().set(extension::TASKS, &nothing).apply(extensions.as_ref());
    let merged = extensions
        .and_then(|extensions| Edit::new().set("extensions", &extensions).apply(Some(&capabilities)));
    merged.unwrap_or(capabilities)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(capabilities: &str, tasks: bool) -> String {
        for_modern_server(&Json::parse(capabilities.to_owned()).unwrap(), tasks).as_str().to_owned()
    }

    /// RT-01, TN-01
    #[test]
    fn rt_01_capabilities_for_modern_servers() {
        let tasks = r#""extensions":{"io.modelcontextprotocol/tasks":{}}"#;
        assert_eq!(declared("{}", false), "{}");
        assert_eq!(declared("{}", true), format!("{{{tasks}}}"));
        assert_eq!(
            declared(r#"{"roots":{"listChanged":true,"x":1},"sampling":{}}"#, true),
            format!(r#"{{"roots":{{"x":1}},"sampling":{{}},{tasks}}}"#)
        );
        // The host's own declaration of tasks stays.
        let own = r#"{"extensions":{"io.modelcontextprotocol/tasks":{"a":1}}}"#;
        assert_eq!(declared(own, true), own);
        assert_eq!(
            declared(r#"{"extensions":{"com.example/x":{}}}"#, true),
            r#"{"extensions":{"com.example/x":{},"io.modelcontextprotocol/tasks":{}}}"#
        );
    }
}
