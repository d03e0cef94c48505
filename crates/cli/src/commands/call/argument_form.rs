//! Asks for the arguments that a call needs and was not given, in a form.

use bowline::Server;
use bowline::types::Tool;
use serde_json::Value;

use crate::arguments::{find_violation, form_fields, missing_names};
use crate::dialog::{ArgumentContent, ArgumentForm, ArgumentProblem, Query};
use crate::failure::{Failure, Outcome};
use crate::print::Printer;
use crate::session::OpenSession;

/// Asks for missing arguments, filled in with those that were given. `None` if none is missing, or nobody is
/// to be asked: then the check of the arguments reports what is missing.
pub(super) async fn ask_missing(
    printer: &Printer,
    open: &OpenSession,
    server: &Server,
    tool: &Tool,
    given: &Value,
) -> Outcome<Option<Value>> {
    let Value::Object(given) = given else { return Ok(None) };
    if printer.is_json() || open.dialogs.unavailable_reason().is_some() {
        return Ok(None);
    }
    let fields = form_fields(&tool.input_schema);
    if missing_names(&fields, given).is_empty() {
        return Ok(None);
    }
    let schema: Value = tool.input_schema.decode().unwrap_or_default();
    // Before the form, so that a person can cancel a call with a misspelled name.
    super::note_unknown_names(printer, tool, &schema, given);
    let check = move |arguments: &Value| {
        find_violation(&schema, arguments).map(|(pointer, text)| ArgumentProblem { pointer, text })
    };
    let form = ArgumentForm {
        server: &server.name,
        name: &tool.name,
        about: tool.description(),
        fields,
        content: ArgumentContent { action: "Call", given: given.clone(), check: Box::new(check) },
    };
    // Servers suggest values for prompts and resources, not for tools.
    let suggest = None::<fn(Query) -> std::future::Ready<Vec<String>>>;
    match open.dialogs.ask_arguments(form, suggest).await {
        Some(arguments) => Ok(Some(Value::Object(arguments))),
        None => Err(Failure::usage(format!("`{}` was not called: nothing was sent", tool.name))),
    }
}
