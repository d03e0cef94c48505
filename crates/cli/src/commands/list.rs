//! Implements `bowline resources|templates|prompts`.

use bowline::types::{ListItem, Prompt, Resource, ResourceTemplate, Tool};
use bowline::{Json, Server};
use serde_json::Value;

use crate::args::ServerArgs;
use crate::arguments::{ParameterKind, read_parameters};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::print::table::Table;
use crate::print::{Printer, escape, units};
use crate::session;
use crate::settings::Settings;
use crate::shell::names::{self, NameRecord, bounded_records};

pub(super) async fn resources(args: ServerArgs, settings: &Settings) -> Outcome {
    let (typed, server) = settings.resolve_server_args("resources", args)?;
    let list = session::with_client(settings, &server, async |client| client.list_resources().await).await?;
    let mut table = Table::new(["URI", "TYPE", "NAME", "DESCRIPTION"]);
    for resource in &list {
        let about = [resource.mime_type(), Some(resource.name.to_string()), resource.description()];
        let [mime, name, description] = about.map(Option::unwrap_or_default);
        table.push_row([resource.uri.to_string(), mime, name, description]);
    }
    names::remember(settings, typed.as_deref(), |known| {
        known.resources = bounded_records(list.iter().map(resource_record));
    });
    print_list(&settings.printer, &server, "resource", &list, &table)
}

pub(super) async fn templates(args: ServerArgs, settings: &Settings) -> Outcome {
    let (typed, server) = settings.resolve_server_args("templates", args)?;
    let list = session::with_client(settings, &server, async |client| client.list_resource_templates().await)
        .await?;
    let mut table = Table::new(["TEMPLATE", "TYPE", "NAME", "DESCRIPTION"]);
    for template in &list {
        let about = [template.mime_type(), Some(template.name.to_string()), template.description()];
        let [mime, name, description] = about.map(Option::unwrap_or_default);
        table.push_row([template.uri_template.to_string(), mime, name, description]);
    }
    names::remember(settings, typed.as_deref(), |known| {
        known.templates = bounded_records(list.iter().map(template_record));
    });
    print_list(&settings.printer, &server, "resource template", &list, &table)
}

pub(super) async fn prompts(args: ServerArgs, settings: &Settings) -> Outcome {
    let (typed, server) = settings.resolve_server_args("prompts", args)?;
    let list = session::with_client(settings, &server, async |client| client.list_prompts().await).await?;
    remember_prompts(settings, typed.as_deref(), &list);
    let mut table = Table::new(["NAME", "ARGUMENTS", "DESCRIPTION"]);
    for prompt in &list {
        let about = prompt.description().unwrap_or_default();
        table.push_row([prompt.name.to_string(), argument_list(prompt), about]);
    }
    print_list(&settings.printer, &server, "prompt", &list, &table)
}

/// Remembers tools for shell completion.
pub(super) fn remember_tools(settings: &Settings, server: Option<&str>, tools: &[Tool]) {
    names::remember(settings, server, |known| known.tools = bounded_records(tools.iter().map(tool_record)));
}

/// Returns what completion has to know of a tool.
pub(super) fn tool_record(tool: &Tool) -> NameRecord {
    let parameters = read_parameters(&tool.input_schema);
    let arguments = parameters.iter().map(|parameter| parameter.name.clone()).collect();
    let choices = parameters.into_iter().filter_map(|parameter| match parameter.kind {
        ParameterKind::Choice(values) => Some((parameter.name, values)),
        _ => None,
    });
    let choices = choices.collect();
    NameRecord { arguments, choices, ..name_record(&tool.name, tool.description()) }
}

pub(super) fn prompt_record(prompt: &Prompt) -> NameRecord {
    let arguments = prompt.arguments().into_iter().map(|argument| argument.name.to_string()).collect();
    NameRecord { arguments, ..name_record(&prompt.name, prompt.description()) }
}

pub(super) fn resource_record(resource: &Resource) -> NameRecord {
    name_record(&resource.uri, Some(resource.name.to_string()))
}

pub(super) fn template_record(template: &ResourceTemplate) -> NameRecord {
    name_record(&template.uri_template, Some(template.name.to_string()))
}

/// Remembers prompts for shell completion.
pub(super) fn remember_prompts(settings: &Settings, server: Option<&str>, prompts: &[Prompt]) {
    names::remember(settings, server, |known| {
        known.prompts = bounded_records(prompts.iter().map(prompt_record));
    });
}

fn name_record(name: &str, about: Option<String>) -> NameRecord {
    NameRecord { name: name.to_owned(), about: about.unwrap_or_default(), ..NameRecord::default() }
}

/// Prints the server's own objects for machines, or the table for people, with a note if it is
/// empty.
fn print_list<const N: usize>(
    printer: &Printer,
    server: &Server,
    noun: &str,
    items: &[impl ListItem],
    table: &Table<N>,
) -> Outcome {
    if printer.is_json() {
        let objects: Vec<&str> = items.iter().map(|item| item.json().as_str()).collect();
        printer.write_json(&format!("[{}]", objects.join(",")))?;
    } else if items.is_empty() {
        printer.note(&format!("`{}` offers no {noun}s", server.name));
    } else {
        printer.write_layout(&table.render(printer))?;
        if printer.on_terminal() {
            printer.note(&format!("{} of `{}`", units::count(items.len(), noun), server.name));
        }
        invisible_text_notes(printer, noun, items);
    }
    Ok(Exit::Ok)
}

/// Warns of text that a model reads and a person does not see.
pub(super) fn invisible_text_notes(printer: &Printer, noun: &str, items: &[impl ListItem]) {
    for item in items.iter().filter(|item| json_has_hidden_text(item.json())) {
        let name = item.key();
        printer.note(&format!(
            "the {noun} `{name}` contains invisible characters: a model reads them, and you do not see them"
        ));
    }
}

/// Returns whether the value has text that a model reads and a person does not see.
fn json_has_hidden_text(json: &Json) -> bool {
    let text = json.as_str();
    // Most have no character that could be hidden, plain or escaped, and are not worth decoding.
    if text.is_ascii() && !text.contains(r"\u") {
        return false;
    }
    json.decode::<Value>().is_ok_and(|value| escape::value_has_hidden_text(&value))
}

/// Lists the annotations of a tool, and whether it contains invisible text.
pub(super) fn tool_hints(tool: &Tool) -> String {
    let claimed = &tool.annotations;
    let hints = [
        (claimed.read_only == Some(true), "read-only"),
        (claimed.destructive == Some(true), "destructive"),
        (claimed.idempotent == Some(true), "idempotent"),
        (json_has_hidden_text(&tool.json), "invisible text"),
    ];
    hints.into_iter().filter_map(|(applies, hint)| applies.then_some(hint)).collect::<Vec<_>>().join(",")
}

/// Lists the arguments of a prompt: `name` if required, `[name]` if not.
fn argument_list(prompt: &Prompt) -> String {
    let shown = prompt.arguments().into_iter().map(|argument| {
        if argument.required { argument.name.to_string() } else { format!("[{}]", argument.name) }
    });
    shown.collect::<Vec<_>>().join(" ")
}
