//! Implements `bowline tools|resources|templates|prompts`.

use bowline::config::Server;
use bowline::view::{Prompt, Tool};
use bowline::wire::Json;
use serde_json::{Map, Value};

use crate::args::ListArgs;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::print::table::Table;
use crate::print::{Printer, escape, units};
use crate::session;
use crate::settings::Settings;
use crate::settings::positional::PositionalArgs;
use crate::shell::names::{self, NameRecord, bounded_records};

pub(super) async fn tools(args: ListArgs, settings: &Settings) -> Outcome {
    let (typed, server) = resolve_list_server("tools", args, settings)?;
    let printer = &settings.printer;
    let list = session::with_client(settings, &server, async |client| client.list_tools_full().await).await?;
    remember_tools(settings, typed.as_deref(), &list.items);
    for dropped in &list.dropped {
        printer.note(&format!("a tool was left out: {}", dropped.reason));
    }
    let mut table = Table::new(["NAME", "HINTS", "DESCRIPTION"]);
    for tool in &list.items {
        table.push_row([tool.name.to_string(), tool_hints(tool), tool.description().unwrap_or_default()]);
    }
    print_list(printer, &server, "tool", list.items.iter().map(|tool| (&*tool.name, &tool.json)), &table)
}

pub(super) async fn resources(args: ListArgs, settings: &Settings) -> Outcome {
    let (typed, server) = resolve_list_server("resources", args, settings)?;
    let printer = &settings.printer;
    let list = session::with_client(settings, &server, async |client| client.list_resources().await).await?;
    names::remember(settings, typed.as_deref(), |known| {
        known.resources =
            bounded_records(list.iter().map(|one| name_record(&one.uri, Some(one.name.to_string()))));
    });
    let mut table = Table::new(["URI", "TYPE", "NAME", "DESCRIPTION"]);
    for resource in &list {
        table.push_row([
            resource.uri.to_string(),
            resource.mime_type().unwrap_or_default(),
            resource.name.to_string(),
            resource.description().unwrap_or_default(),
        ]);
    }
    print_list(
        printer,
        &server,
        "resource",
        list.iter().map(|resource| (&*resource.uri, &resource.json)),
        &table,
    )
}

pub(super) async fn templates(args: ListArgs, settings: &Settings) -> Outcome {
    let (typed, server) = resolve_list_server("templates", args, settings)?;
    let printer = &settings.printer;
    let list = session::with_client(settings, &server, async |client| client.list_resource_templates().await)
        .await?;
    names::remember(settings, typed.as_deref(), |known| {
        known.templates = bounded_records(
            list.iter().map(|one| name_record(&one.uri_template, Some(one.name.to_string()))),
        );
    });
    let mut table = Table::new(["TEMPLATE", "TYPE", "NAME", "DESCRIPTION"]);
    for template in &list {
        table.push_row([
            template.uri_template.to_string(),
            template.mime_type().unwrap_or_default(),
            template.name.to_string(),
            template.description().unwrap_or_default(),
        ]);
    }
    let items = list.iter().map(|template| (&*template.uri_template, &template.json));
    print_list(printer, &server, "resource template", items, &table)
}

pub(super) async fn prompts(args: ListArgs, settings: &Settings) -> Outcome {
    let (typed, server) = resolve_list_server("prompts", args, settings)?;
    let printer = &settings.printer;
    let list = session::with_client(settings, &server, async |client| client.list_prompts().await).await?;
    remember_prompts(settings, typed.as_deref(), &list);
    let mut table = Table::new(["NAME", "ARGUMENTS", "DESCRIPTION"]);
    for prompt in &list {
        table.push_row([
            prompt.name.to_string(),
            argument_list(prompt),
            prompt.description().unwrap_or_default(),
        ]);
    }
    print_list(printer, &server, "prompt", list.iter().map(|prompt| (&*prompt.name, &prompt.json)), &table)
}

/// Resolves the server, and returns it with the name that was typed.
fn resolve_list_server(
    verb: &'static str,
    args: ListArgs,
    settings: &Settings,
) -> Outcome<(Option<String>, Server)> {
    let ListArgs { words, target } = args;
    let name = PositionalArgs::new(verb, "", words, &target.command)?.finish()?;
    let server = settings.resolve_server(name.as_deref(), target)?;
    Ok((name, server))
}

/// Remembers tools for shell completion.
pub(super) fn remember_tools(settings: &Settings, server: Option<&str>, tools: &[Tool]) {
    let entry = |tool: &Tool| {
        let properties = tool.input_schema.member("properties");
        let properties =
            properties.and_then(|all| all.decode::<Map<String, Value>>().ok()).unwrap_or_default();
        let arguments = properties.into_iter().map(|(name, _)| name).collect();
        NameRecord { arguments, ..name_record(&tool.name, tool.description()) }
    };
    names::remember(settings, server, |known| known.tools = bounded_records(tools.iter().map(entry)));
}

/// Remembers prompts for shell completion.
pub(super) fn remember_prompts(settings: &Settings, server: Option<&str>, prompts: &[Prompt]) {
    let entry = |prompt: &Prompt| {
        let arguments = prompt.arguments().into_iter().map(|argument| argument.name.to_string()).collect();
        NameRecord { arguments, ..name_record(&prompt.name, prompt.description()) }
    };
    names::remember(settings, server, |known| known.prompts = bounded_records(prompts.iter().map(entry)));
}

fn name_record(name: &str, about: Option<String>) -> NameRecord {
    NameRecord { name: name.to_owned(), about: about.unwrap_or_default(), arguments: Vec::new() }
}

/// Prints the server's own objects for machines, or the table for people, with a note if it is
/// empty.
fn print_list<'a, const N: usize>(
    printer: &Printer,
    server: &Server,
    noun: &str,
    items: impl Iterator<Item = (&'a str, &'a Json)>,
    table: &Table<N>,
) -> Outcome {
    let items: Vec<(&str, &Json)> = items.collect();
    if printer.is_json() {
        let objects: Vec<&str> = items.iter().map(|(_, json)| json.as_str()).collect();
        printer.write_json(&format!("[{}]", objects.join(",")))?;
    } else if items.is_empty() {
        printer.note(&format!("`{}` offers no {noun}s", server.name));
    } else {
        printer.write_layout(&table.render(printer))?;
        if printer.on_terminal() {
            printer.note(&format!("{} of `{}`", units::count(items.len(), noun), server.name));
        }
        for (name, _) in items.iter().filter(|(_, json)| json_has_hidden_text(json)) {
            printer.note(&format!(
                "the {noun} `{name}` contains invisible characters: a model reads them, and you do not see them"
            ));
        }
    }
    Ok(Exit::Ok)
}

/// Returns whether the value has text that a model reads and a person does not see.
fn json_has_hidden_text(json: &Json) -> bool {
    json.decode::<Value>().is_ok_and(|value| escape::value_has_hidden_text(&value))
}

/// Lists the annotations of a tool, and whether it contains invisible text.
fn tool_hints(tool: &Tool) -> String {
    let claimed = tool.annotations.clone();
    let mut hints = Vec::new();
    if claimed.read_only == Some(true) {
        hints.push("read-only");
    }
    if claimed.destructive == Some(true) {
        hints.push("destructive");
    }
    if claimed.idempotent == Some(true) {
        hints.push("idempotent");
    }
    if json_has_hidden_text(&tool.json) {
        hints.push("invisible text");
    }
    hints.join(",")
}

/// Lists the arguments of a prompt: `name` if required, `[name]` if not.
fn argument_list(prompt: &Prompt) -> String {
    let shown = prompt.arguments().into_iter().map(|argument| {
        if argument.required { argument.name.to_string() } else { format!("[{}]", argument.name) }
    });
    shown.collect::<Vec<_>>().join(" ")
}
