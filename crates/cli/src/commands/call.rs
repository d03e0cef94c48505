//! `bowline call`

use bowline::CallOptions;
use bowline::config::Server;
use bowline::view::{CallToolResult, Tool};
use serde_json::{Map, Value};

use crate::args::CallArgs;
use crate::arguments::{self, Given, Verdict};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome, Report};
use crate::print::progress::Bar;
use crate::print::save::Saver;
use crate::print::{Printer, content, json};
use crate::session;
use crate::settings::words::Words;
use crate::settings::{Settings, closest};

pub(super) async fn run(args: CallArgs, settings: &Settings) -> Outcome {
    let CallArgs { words, args, file, unchecked, save, target } = args;
    let mut words = Words::new("call", "TOOL [KEY=VALUE]...", words, &target.command)?;
    let tool = words.take("TOOL", "`bowline tools` lists a server's tools")?;
    if tool.contains('=') {
        return Err(words.wrong(&format!("TOOL is missing: `{tool}` looks like an argument")));
    }
    let server = settings.server(words.server(), target)?;
    let whole = arguments::whole(args, file.as_deref())?;
    let given = Given::parse(whole.as_deref(), words.pairs()?)?;
    let saver = Saver::new(save, &tool);
    saver.prepare().map_err(Failure::usage)?;
    let printer = &settings.printer;
    let result = session::with_outcome(settings, &server, async |client| {
        let arguments = if unchecked {
            given.typed(&Value::Null)?
        } else {
            let tools = client.list_tools().await.map_err(|error| Failure::call(&error, &server))?;
            checked(printer, &server, find(&tools, &tool, &server)?, given)?
        };
        let bar = Bar::start(printer, &tool);
        let listener = bar.clone();
        let options = CallOptions::new().on_progress(move |progress| listener.update(&progress));
        let result = client.call_tool_with(&tool, &arguments, &options).await;
        bar.finish();
        result.map_err(|error| Failure::call(&error, &server))
    })
    .await?;
    show(printer, &saver, &result)?;
    if !result.is_error {
        return Ok(Exit::Ok);
    }
    // In machine output the result says so itself.
    if !printer.is_json() {
        printer.failure(&Report::new(Exit::Tool, format!("the tool `{tool}` reported an error")));
    }
    Ok(Exit::Tool)
}

fn find<'a>(tools: &'a [Tool], name: &str, server: &Server) -> Outcome<&'a Tool> {
    if let Some(tool) = tools.iter().find(|tool| &*tool.name == name) {
        return Ok(tool);
    }
    let message = format!("`{}` has no tool named `{name}`", server.name);
    let names = || tools.iter().map(|tool| &*tool.name);
    Err(match closest(name, names()) {
        Some(near) => Failure::usage_hint(message, format!("did you mean `{near}`?")),
        None if tools.is_empty() => Failure::usage_hint(message, "it offers no tools at all"),
        None => {
            let few: Vec<&str> = names().take(MOST_NAMES).collect();
            let more = if tools.len() > MOST_NAMES { ", …" } else { "" };
            Failure::usage_hint(message, format!("there are: {}{more}", few.join(", ")))
        }
    })
}

const MOST_NAMES: usize = 20;

/// The arguments, as the tool's schema wants them. Nothing was sent if they do not fit.
fn checked(printer: &Printer, server: &Server, tool: &Tool, given: Given) -> Outcome<Map<String, Value>> {
    let schema = match tool.input_schema.decode::<Value>() {
        Ok(schema) => schema,
        Err(error) => {
            printer.note(&format!("the input schema of `{}` cannot be used: {error}", tool.name));
            return given.typed(&Value::Null);
        }
    };
    let arguments = Value::Object(given.typed(&schema)?);
    match arguments::check(&schema, &arguments) {
        Verdict::Fits => {}
        Verdict::Unusable(why) => {
            printer.note(&format!("the input schema of `{}` cannot be used: {why}", tool.name));
        }
        Verdict::Misfits(misfits) => return Err(misfit(server, tool, &schema, misfits)),
    }
    match arguments {
        Value::Object(arguments) => Ok(arguments),
        _ => unreachable!("it was made an object above"),
    }
}

fn misfit(server: &Server, tool: &Tool, schema: &Value, misfits: Vec<String>) -> Failure {
    let mut report =
        Report::new(Exit::Usage, format!("the arguments do not fit `{}` of `{}`", tool.name, server.name));
    report.members.insert("misfits".into(), misfits.clone().into());
    report.facts.push(crate::failure::Fact { label: "because", lines: misfits });
    let signature = arguments::signature(schema);
    report.hint = Some(format!("it takes: {signature}; --unchecked sends them anyway"));
    report.into()
}

fn show(printer: &Printer, saver: &Saver, result: &CallToolResult) -> Outcome<()> {
    if printer.is_json() {
        return Ok(printer.json(result.json.as_str())?);
    }
    for block in &result.content {
        if result.structured.as_ref().is_some_and(|structured| content::repeats(block, structured)) {
            continue;
        }
        content::block(printer, saver, block)?;
    }
    if let Some(structured) = &result.structured {
        printer.text(&json::pretty(structured.as_str()))?;
    }
    for dropped in &result.dropped {
        printer.note(&format!("a part of the result was left out: {}", dropped.reason));
    }
    Ok(())
}
