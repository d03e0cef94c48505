//! Asks for the arguments that a prompt needs and was not given, in a form with the server's suggestions.
// CP-03.

use std::collections::BTreeMap;

use bowline::types::{Prompt, PromptArgument};
use bowline::{Client, Completer, Reference, Server};
use serde_json::{Map, Value};

use crate::arguments::text_field;
use crate::dialog::{ArgumentContent, ArgumentForm, Query};
use crate::failure::{Failure, Outcome};
use crate::session::OpenSession;

/// Asks for missing arguments, filled in with those that were given. `None` if nobody can be asked.
pub(super) async fn ask_missing(
    client: &Client,
    open: &OpenSession,
    server: &Server,
    prompt: &Prompt,
    given: &BTreeMap<String, String>,
) -> Outcome<Option<BTreeMap<String, String>>> {
    if open.dialogs.unavailable_reason().is_some() {
        return Ok(None);
    }
    let (needed, others): (Vec<PromptArgument>, Vec<PromptArgument>) =
        prompt.arguments().into_iter().partition(|argument| argument.required);
    let field =
        |argument: &PromptArgument| text_field(&argument.name, argument.description(), argument.required);
    let fields = needed.iter().chain(&others).filter_map(field).collect();
    let given: Map<String, Value> =
        given.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
    let form = ArgumentForm {
        server: &server.name,
        name: &prompt.name,
        about: prompt.description(),
        fields,
        content: ArgumentContent { action: "Expand", given, check: Box::new(|_| None) },
    };
    let completer = Completer::new(client);
    let suggest = |query: Query| {
        let completer = &completer;
        async move {
            let Query { field, text, context } = query;
            let found = completer.suggest(&Reference::Prompt(&prompt.name), &field, &text, &context).await;
            found.unwrap_or_default().values.into_iter().map(String::from).collect()
        }
    };
    let Some(answers) = open.dialogs.ask_arguments(form, Some(suggest)).await else {
        return Err(Failure::usage(format!("`{}` was not expanded: nothing was sent", prompt.name)));
    };
    let text = |value: Value| value.as_str().map(ToOwned::to_owned).unwrap_or_default();
    Ok(Some(answers.into_iter().map(|(name, value)| (name, text(value))).collect()))
}
