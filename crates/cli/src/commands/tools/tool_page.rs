//! Shows one tool: what it does, what it takes and returns, and a command that calls it.

use bowline::types::Tool;

use crate::arguments::{Parameter, example_arguments, read_parameters};
use crate::commands::list::tool_hints;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::print::table::{flatten_text, wrap};
use crate::print::text_width::display_width;
use crate::print::{FAINT, NAME, Printer, STRONG, escape};
use crate::settings::Settings;
use crate::suggested_command::shell_quote;

/// Shows a tool of the server that was typed, if it was.
pub(super) fn show(settings: &Settings, server: Option<&str>, tool: &Tool) -> Outcome {
    let printer = &settings.printer;
    if printer.is_json() {
        printer.write_json(tool.json.as_str())?;
        return Ok(Exit::Ok);
    }
    let width = if printer.on_terminal() { printer.width } else { PIPE_WIDTH };
    let example = example_arguments(&tool.input_schema).map(|arguments| {
        let words = ["call"].into_iter().chain(server).chain([&*tool.name]);
        let command = settings.command_line.format_command(words);
        arguments.iter().fold(command, |command, word| format!("{command} {}", shell_quote(word)))
    });
    printer.write_layout(&render(tool, server.is_none(), example.as_deref(), width, printer))?;
    super::super::list::invisible_text_notes(printer, "tool", std::slice::from_ref(tool));
    Ok(Exit::Ok)
}

/// Width of a page in a pipe.
const PIPE_WIDTH: usize = 100;
/// How far the lines below a heading are indented.
const INDENT: &str = "  ";

fn render(tool: &Tool, is_command: bool, example: Option<&str>, width: usize, printer: &Printer) -> String {
    let title = Some(tool.display_name()).filter(|title| **title != *tool.name);
    let hints = tool_hints(tool);
    let mut heading = vec![printer.paint(NAME, &flatten_text(&tool.name))];
    heading.extend(title.map(|title| flatten_text(&title)));
    heading.extend((!hints.is_empty()).then(|| printer.paint(FAINT, &hints)));
    let mut lines = vec![heading.join("  ")];
    for line in tool.description().unwrap_or_default().trim().lines() {
        let line = escape::line(line).into_owned();
        let wrapped = wrap(&line, width.saturating_sub(INDENT.len()));
        if wrapped.is_empty() {
            lines.push(String::new());
        }
        lines.extend(wrapped.into_iter().map(|line| format!("{INDENT}{line}")));
    }
    let mut section = |heading: &str, content: Vec<String>| {
        lines.extend([String::new(), printer.paint(STRONG, heading)]);
        lines.extend(content.into_iter().map(|line| format!("{INDENT}{line}")));
    };
    let parameters = read_parameters(&tool.input_schema);
    let none = vec!["none".to_owned()];
    section("Parameters", if parameters.is_empty() { none } else { rows(&parameters, width, true) });
    let output = tool.output_schema.as_ref().map(read_parameters).unwrap_or_default();
    if !output.is_empty() {
        section("Result", rows(&output, width, false));
    }
    let example = match example {
        Some(example) if is_command => format!("{example} -- COMMAND"),
        Some(example) => example.to_owned(),
        None => "no example was found that fits the input schema".to_owned(),
    };
    section("Example", vec![escape::line(&example).into_owned()]);
    lines.push(String::new());
    lines.join("\n")
}

/// Two columns: a parameter with its kind, and what is said about it.
fn rows(parameters: &[Parameter], width: usize, is_input: bool) -> Vec<String> {
    let labels: Vec<_> = parameters
        .iter()
        .map(|one| escape::line(&format!("{}={}", one.name, one.kind)).into_owned())
        .collect();
    let column = labels.iter().map(|label| display_width(label)).max().unwrap_or(0).min(MAX_LABEL_WIDTH);
    let room = width.saturating_sub(INDENT.len() + column + 2).max(MIN_ABOUT_WIDTH);
    let mut rows = Vec::new();
    for (one, label) in parameters.iter().zip(labels) {
        let mut said: Vec<String> = Vec::new();
        if is_input && one.is_required {
            said.push("required".to_owned());
        }
        if let Some(choices) = one.kind.shortened_choices() {
            said.push(format!("one of {}", choices.join(", ")));
        }
        said.extend(one.limits.iter().cloned());
        let about = flatten_text(&one.about);
        let text = [flatten_text(&said.join(", ")), about].into_iter().filter(|part| !part.is_empty());
        let text = text.collect::<Vec<_>>().join(" · ");
        let mut lines = wrap(&text, room).into_iter();
        let padding = column.saturating_sub(display_width(&label));
        if display_width(&label) > column {
            rows.push(label);
        } else {
            let first = lines.next().unwrap_or_default();
            rows.push(format!("{label}{}  {first}", " ".repeat(padding)).trim_end().to_owned());
        }
        rows.extend(lines.map(|line| format!("{}  {line}", " ".repeat(column))));
    }
    rows
}

/// Greatest width of the first column, and least of the second.
const MAX_LABEL_WIDTH: usize = 36;
const MIN_ABOUT_WIDTH: usize = 24;
