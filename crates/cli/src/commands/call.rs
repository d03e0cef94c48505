//! Implements `bowline call`.

mod argument_form;
mod recovery_line;

use std::path::PathBuf;

use bowline::schema::{OutputCheck, check_output};
use bowline::types::{CallToolResult, LogLevel, Tool};
use bowline::{CallOptions, CallReport, Client, Era, ErrorKind, Server, ToolResult};
use bowline_config::closest_name;
use serde_json::{Map, Value};

use self::recovery_line::RecoveryWatch;
use super::tasks::{TaskStart, start_task, status_progress};
use super::tool_result::{report_output_check, show_result, tool_failure};
use crate::args::CallArgs;
use crate::arguments::{self, ArgumentCheck, RawArguments};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, Report};
use crate::print::Printer;
use crate::print::log_line;
use crate::print::progress::Bar;
use crate::session::{self, OpenSession};
use crate::settings::Settings;
use crate::settings::positional::PositionalArgs;

pub(super) async fn run(args: CallArgs, settings: &Settings) -> Outcome {
    let CallArgs { mut words, args, file, unchecked, task, log_level, content, host: _, mut target } = args;
    words.extend(target.take_hyphen_words()?);
    let mut words = PositionalArgs::new("call", "TOOL [KEY=VALUE]...", words, &target.command)?;
    let tool = words.take_required("TOOL", "`bowline tools` lists a server's tools")?;
    if tool.contains('=') {
        return Err(words.usage_failure(&format!("TOOL is missing: `{tool}` looks like an argument")));
    }
    let server = settings.resolve_server(words.server(), target)?;
    let viewer = settings.viewer(content, &tool)?.for_server(words.server());
    let typed = words.server().map(ToOwned::to_owned);
    let (words, file) = take_stdin_word(words, args.as_ref(), file)?;
    let whole = arguments::read_arguments_object(args, file.as_deref())?;
    let given = RawArguments::parse(whole.as_deref(), words.into_pairs()?)?;
    let printer = &settings.printer;
    let called = session::with_session(settings, &server, None, async |client, open| {
        let failed = |error: bowline::Error| Failure::call(&error, &server, &settings.command_line);
        let (arguments, known) = if unchecked {
            (given.into_typed(&Value::Null)?, None)
        } else {
            let tools = client.list_tools().await.map_err(failed)?;
            super::list::remember_tools(settings, typed.as_deref(), &tools);
            let known = find_tool(&tools, &tool, &server)?;
            (build_arguments(printer, open, &server, known, given).await?, Some(known.clone()))
        };
        let mut at_once = None;
        if task {
            match start_task(settings, client, &open.retention, &server, typed.as_deref(), &tool, &arguments)
                .await?
            {
                TaskStart::Started => return Ok(None),
                TaskStart::Finished(result) => at_once = Some(*result),
            }
        }
        let bar = Bar::start(printer, &tool);
        let (progress_listener, task_listener) = (bar.updater(), bar.updater());
        let options = CallOptions::new()
            .on_progress(move |progress| progress_listener.update(&progress))
            .on_task(move |task| {
                // Without a message it would only displace that of the progress.
                if task.status_message().is_some() {
                    task_listener.update(&status_progress(task));
                }
            });
        let recovery = RecoveryWatch::start(client);
        let result = match (log_level, at_once) {
            (_, Some(result)) => Ok((result, None)),
            (None, None) => client.call_tool_with(&tool, &arguments, &options).await.map(with_report),
            (Some(level), None) => {
                let options = with_log_level(printer, client, level, options).await.map_err(failed)?;
                let call = client.call_tool_with(&tool, &arguments, &options);
                log_line::print_logs_during(printer, level, client.events(), call).await.map(with_report)
            }
        };
        bar.finish();
        let (result, report) = result.map_err(failed)?;
        if let Some(line) = report.and_then(|report| recovery.describe(client, &report)) {
            printer.remark(&line);
        }
        let check = match known {
            Some(known) => check_output(&known, &result, client.peer().await.map_err(failed)?.revision),
            None => OutputCheck::NoSchema,
        };
        Ok(Some((result, check)))
    })
    .await?;
    let Some((result, check)) = called else { return Ok(Exit::Ok) };
    show_result(printer, &viewer, &result)?;
    // In machine output, the result itself carries the error.
    if result.is_error && !printer.is_json() {
        printer.write_failure(&tool_failure(&tool, &result));
    }
    Ok(if result.is_error { Exit::Tool } else { report_output_check(printer, &tool, check) })
}

// LG-01, LG-02: a legacy server has one log level for all calls, a modern one gets it per request.
async fn with_log_level(
    printer: &Printer,
    client: &Client,
    level: LogLevel,
    options: CallOptions,
) -> bowline::Result<CallOptions> {
    if client.peer().await?.era() == Era::Legacy {
        match client.set_log_level(level).await {
            // The call matters more than its logs, so a server without logging is only noted.
            Err(error) if matches!(error.kind(), ErrorKind::NotOffered(_)) => {
                printer.note(&format!("`{}` offers no logs", client.name()));
            }
            set => set?,
        }
    }
    Ok(options.log_level(level))
}

pub(super) fn find_tool<'a>(tools: &'a [Tool], name: &str, server: &Server) -> Outcome<&'a Tool> {
    if let Some(tool) = tools.iter().find(|tool| &*tool.name == name) {
        return Ok(tool);
    }
    let message = format!("`{}` has no tool named `{name}`", server.name);
    let names = || tools.iter().map(|tool| &*tool.name);
    Err(match closest_name(name, names()) {
        Some(near) => Failure::usage_hint(message, format!("did you mean `{near}`?")),
        None if tools.is_empty() => Failure::usage_hint(message, "it offers no tools at all"),
        None => {
            let few: Vec<&str> = names().take(MAX_LISTED_NAMES).collect();
            let more = if tools.len() > MAX_LISTED_NAMES { ", …" } else { "" };
            Failure::usage_hint(message, format!("there are: {}{more}", few.join(", ")))
        }
    })
}

const MAX_LISTED_NAMES: usize = 20;

fn with_report(result: ToolResult) -> (CallToolResult, Option<CallReport>) {
    let report = result.report;
    (result.into_result(), Some(report))
}

/// Takes the word `-`, which means that the arguments come from stdin as a JSON object, like `--file -`.
fn take_stdin_word(
    mut words: PositionalArgs,
    args: Option<&String>,
    file: Option<PathBuf>,
) -> Outcome<(PositionalArgs, Option<PathBuf>)> {
    if !words.take_word("-") {
        return Ok((words, file));
    }
    if args.is_some() || file.is_some() {
        return Err(words.usage_failure("`-` and --args or --file both give the arguments"));
    }
    Ok((words, Some("-".into())))
}

/// Converts and checks the arguments by the tool's schema, and asks for those that are missing if there is a
/// person to ask. On failure nothing was sent.
async fn build_arguments(
    printer: &Printer,
    open: &OpenSession,
    server: &Server,
    tool: &Tool,
    given: RawArguments,
) -> Outcome<Map<String, Value>> {
    let schema = match tool.input_schema.decode::<Value>() {
        Ok(schema) => schema,
        Err(error) => {
            printer.note(&format!("the input schema of `{}` cannot be used: {error}", tool.name));
            return given.into_typed(&Value::Null);
        }
    };
    let mut arguments = Value::Object(given.into_typed(&schema)?);
    let asked = argument_form::ask_missing(printer, open, server, tool, &arguments).await?;
    let is_noted = asked.is_some();
    arguments = asked.unwrap_or(arguments);
    match arguments::check_arguments(&schema, &arguments) {
        ArgumentCheck::Valid => {}
        ArgumentCheck::SchemaUnusable(why) => {
            printer.note(&format!("the input schema of `{}` cannot be used: {why}", tool.name));
        }
        ArgumentCheck::Invalid(misfits) => {
            let meant = arguments.as_object().map(|given| arguments::find_misspelled_names(&schema, given));
            return Err(invalid_arguments_failure(server, tool, misfits, &meant.unwrap_or_default()));
        }
    }
    match arguments {
        Value::Object(arguments) => {
            if !is_noted {
                note_unknown_names(printer, tool, &schema, &arguments);
            }
            Ok(arguments)
        }
        _ => unreachable!("it was made an object above"),
    }
}

/// Notes the arguments that no parameter has, with the one that may be meant.
fn note_unknown_names(printer: &Printer, tool: &Tool, schema: &Value, arguments: &Map<String, Value>) {
    for (name, meant) in arguments::find_unknown_names(schema, arguments) {
        let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        printer.note(&format!("`{}` has no parameter `{name}`; it is sent all the same{meant}", tool.name));
    }
}

/// Reports arguments that do not fit. `meant` are the parameters whose names may have been misspelled.
fn invalid_arguments_failure(server: &Server, tool: &Tool, misfits: Vec<String>, meant: &[&str]) -> Failure {
    let mut report =
        Report::new(Exit::Usage, format!("the arguments do not fit `{}` of `{}`", tool.name, server.name));
    report.members.insert("misfits".into(), misfits.clone().into());
    report.facts.push(crate::failure::Fact { label: "because", lines: misfits });
    let signature = arguments::tool_signature(&tool.input_schema);
    let meant: Vec<String> = meant.iter().map(|name| format!("`{name}`")).collect();
    let question =
        if meant.is_empty() { String::new() } else { format!("did you mean {}? ", meant.join(" and ")) };
    report.hint = Some(format!("{question}it takes: {signature}; --unchecked sends them anyway"));
    report.into()
}
