//! Prints the result of a tool call, and reports whether it fits the tool's output schema.

use bowline::schema::OutputCheck;
use bowline::types::{CallToolResult, Content};

use crate::exit::Exit;
use crate::failure::{Fact, Outcome, Report, suggest_era};
use crate::print::Printer;
use crate::print::content::Viewer;

/// Prints the result: unchanged for machines, formatted for people.
pub(super) fn show_result(printer: &Printer, viewer: &Viewer<'_>, result: &CallToolResult) -> Outcome<()> {
    if printer.is_json() {
        printer.write_json(result.json.as_str())?;
        return Ok(viewer.save_blocks(&result.content)?);
    }
    viewer.show_result(result)?;
    for dropped in &result.dropped {
        printer.note(&format!("a part of the result was left out: {}", dropped.reason));
    }
    Ok(())
}

/// Builds the report of a tool that says that it failed.
pub(super) fn tool_failure(tool: &str, result: &CallToolResult) -> Report {
    let tool = if tool.is_empty() { String::new() } else { format!(" `{tool}`") };
    let mut report = Report::new(Exit::Tool, format!("the tool{tool} reported an error"));
    report.hint = result.content.iter().find_map(|block| match block {
        Content::Text(text) => suggest_era(&text.text.get()),
        _ => None,
    });
    report
}

/// Reports a result that violates the tool's output schema. The result is shown all the same.
// TL-06.
pub(super) fn report_output_check(printer: &Printer, tool: &str, check: OutputCheck) -> Exit {
    let what = match check {
        // Without a usable schema, nothing can be said about the result.
        OutputCheck::Unusable(why) => {
            printer.note(&format!("the result of `{tool}` was not checked: {why}"));
            return Exit::Ok;
        }
        OutputCheck::Missing => vec!["it has no structured content".to_owned()],
        OutputCheck::Violations(why) => why.iter().map(ToString::to_string).collect(),
        // It fits, or there is no schema.
        _ => return Exit::Ok,
    };
    let message = format!("the result of `{tool}` does not fit the output schema that its server gives");
    let mut report = Report::new(Exit::Schema, message);
    report.members.insert("misfits".into(), what.clone().into());
    report.facts.push(Fact { label: "because", lines: what });
    report.hint = Some("this is the server's fault; its result is shown above unchanged".to_owned());
    printer.write_failure(&report);
    Exit::Schema
}
