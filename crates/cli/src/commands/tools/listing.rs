//! Renders a list of tools: each with its parameters, fitted to the terminal.

use bowline::types::Tool;

use crate::arguments::{Parameter, read_parameters};
use crate::commands::list::tool_hints;
use crate::print::table::{Table, flatten_text, wrap};
use crate::print::text_width::{display_width, truncate};
use crate::print::{FAINT, NAME, Printer, escape};

/// How far what follows the name of a tool is indented.
const INDENT: usize = 4;
/// Most lines of parameters and of a description.
const MAX_SIGNATURE_LINES: usize = 3;
const MAX_ABOUT_LINES: usize = 2;

/// Renders tools for stdout. In a pipe the lines begin with the name of the server, if there is one.
pub(super) fn render(tools: &[Tool], server: Option<&str>, printer: &Printer) -> String {
    if printer.on_terminal() {
        return tools
            .iter()
            .map(|tool| {
                draw(tool, printer.width, |kind, text| match kind {
                    Kind::Name => printer.paint(NAME, text),
                    Kind::Parameters => text.to_owned(),
                    Kind::About => printer.paint(FAINT, text),
                })
            })
            .collect();
    }
    let parameters = |tool: &Tool| crate::arguments::tool_signature(&tool.input_schema);
    let about = |tool: &Tool| tool.description().unwrap_or_default();
    match server {
        None => {
            let mut table = Table::new(["NAME", "HINTS", "DESCRIPTION", "PARAMETERS"]);
            for tool in tools {
                table.push_row([tool.name.to_string(), tool_hints(tool), about(tool), parameters(tool)]);
            }
            table.render(printer)
        }
        Some(server) => {
            let mut table = Table::new(["SERVER", "NAME", "HINTS", "DESCRIPTION", "PARAMETERS"]);
            for tool in tools {
                let name = tool.name.to_string();
                table.push_row([server.to_owned(), name, tool_hints(tool), about(tool), parameters(tool)]);
            }
            table.render(printer)
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Name,
    Parameters,
    About,
}

/// Draws one tool: its name and parameters, and below what it does.
fn draw(tool: &Tool, width: usize, paint: impl Fn(Kind, &str) -> String) -> String {
    let name = flatten_text(&tool.name);
    let name_lines = wrap(&name, width);
    let mut out = name_lines.iter().map(|line| paint(Kind::Name, line)).collect::<Vec<_>>().join("\n");
    let used = name_lines.last().map_or(0, |line| display_width(line));
    let lines = signature_lines(&read_parameters(&tool.input_schema), used, width);
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            out.push('\n');
            out.push_str(&" ".repeat(INDENT));
        } else if !line.is_empty() {
            out.push(' ');
        }
        out.push_str(&paint(Kind::Parameters, line));
    }
    out.push('\n');
    let hints = tool_hints(tool);
    let about = flatten_text(&tool.description().unwrap_or_default());
    let about = if hints.is_empty() || about.is_empty() {
        format!("{hints}{about}")
    } else {
        format!("{hints} · {about}")
    };
    for line in cut_lines(wrap(&about, width.saturating_sub(INDENT)), MAX_ABOUT_LINES) {
        out.push_str(&" ".repeat(INDENT));
        out.push_str(&paint(Kind::About, &line));
        out.push('\n');
    }
    out
}

/// The parameters in lines, of which the first begins after the name. Optional parameters that do not
/// fit are counted.
fn signature_lines(parameters: &[Parameter], name_width: usize, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = name_width;
    for (at, parameter) in parameters.iter().enumerate() {
        let word = escape::line(&parameter.to_string()).into_owned();
        let word = truncate(&word, width.saturating_sub(INDENT));
        let left = parameters.len() - at;
        // Room for what is said about the rest, on the last line.
        let rest = if lines.len() == MAX_SIGNATURE_LINES && left > 1 { REST_WIDTH } else { 0 };
        let fits = used + 1 + display_width(&word) + rest <= width;
        if !fits {
            if lines.len() >= MAX_SIGNATURE_LINES && !parameter.is_required {
                let last = lines.last_mut().expect("there is a first line");
                if !last.is_empty() {
                    last.push(' ');
                }
                last.push('[');
                last.push_str(&left.to_string());
                last.push_str(" more]");
                return lines;
            }
            lines.push(String::new());
            used = INDENT - 1;
        }
        let last = lines.last_mut().expect("there is a first line");
        if !last.is_empty() {
            last.push(' ');
        }
        used += 1 + display_width(&word);
        last.push_str(&word);
    }
    lines
}

/// Width of ` [99 more]`.
const REST_WIDTH: usize = 10;

/// Keeps the first lines, with an ellipsis if there are more.
fn cut_lines(lines: Vec<&str>, most: usize) -> Vec<String> {
    let is_cut = lines.len() > most;
    let mut kept: Vec<String> = lines.into_iter().take(most).map(ToOwned::to_owned).collect();
    if is_cut && let Some(last) = kept.last_mut() {
        // One column less, so that the ellipsis fits.
        last.pop();
        last.truncate(last.trim_end().len());
        last.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use bowline::Json;
    use bowline::types::ListItem as _;

    use super::*;

    fn drawn(tool: &str, width: usize) -> String {
        let tool = Tool::decode(&Json::parse(tool.to_owned()).unwrap()).unwrap();
        draw(&tool, width, |_, text| text.to_owned())
    }

    #[test]
    fn a_tool_with_its_parameters() {
        let tool = r#"{"name": "search", "description": "Finds notes.\n\nLong text", "annotations": {"readOnlyHint": true},
            "inputSchema": {"properties": {"query": {"type": "string"}, "mode": {"enum": ["exact", "fuzzy"]}}, "required": ["query"]}}"#;
        assert_eq!(
            drawn(tool, 80),
            "\
search query=<text> [mode=exact|fuzzy]
    read-only · Finds notes.
"
        );
        assert_eq!(
            drawn(tool, 30),
            "\
search query=<text>
    [mode=exact|fuzzy]
    read-only · Finds notes.
"
        );
        assert_eq!(drawn(r#"{"name": "bare\u001b[2J", "inputSchema": {}}"#, 80), "bare\\u{1b}[2J\n");
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let properties: serde_json::Map<_, _> =
            (10..40).map(|n| (format!("key{n}"), serde_json::json!({"type": "string"}))).collect();
        let tool = serde_json::json!({
            "name": "many", "description": "x ".repeat(200), "inputSchema": {"properties": properties, "required": ["key10"]},
        });
        let drawn = drawn(&tool.to_string(), 60);
        assert_eq!(
            drawn,
            "\
many key10=<text> [key11=<text>] [key12=<text>]
    [key13=<text>] [key14=<text>] [key15=<text>]
    [key16=<text>] [key17=<text>] [key18=<text>] [21 more]
    x x x x x x x x x x x x x x x x x x x x x x x x x x x x
    x x x x x x x x x x x x x x x x x x x x x x x x x x x…
"
        );
        assert!(drawn.lines().all(|line| display_width(line) <= 60));
    }

    #[test]
    fn long_words_fit() {
        let (name, values) = ("n".repeat(70), ["v".repeat(50), "w".repeat(50)]);
        let tool =
            serde_json::json!({"name": name, "inputSchema": {"properties": {"key": {"enum": values}}}});
        let drawn = drawn(&tool.to_string(), 40);
        assert!(
            drawn.starts_with(&format!("{}\n{}\n    [key=vvv", "n".repeat(40), "n".repeat(30))),
            "{drawn}"
        );
        assert!(drawn.lines().all(|line| display_width(line) <= 40), "{drawn}");
    }

    /// What is required is never left out.
    #[test]
    fn all_required_parameters_are_shown() {
        let names: Vec<_> = (10..40).map(|n| format!("key{n}")).collect();
        let properties: serde_json::Map<_, _> =
            names.iter().map(|name| (name.clone(), serde_json::json!({"type": "string"}))).collect();
        let tool =
            serde_json::json!({"name": "many", "inputSchema": {"properties": properties, "required": names}});
        let drawn = drawn(&tool.to_string(), 60);
        assert!(names.iter().all(|name| drawn.contains(&format!("{name}=<text>"))), "{drawn}");
        assert!(drawn.lines().all(|line| display_width(line) <= 60));
    }
}
