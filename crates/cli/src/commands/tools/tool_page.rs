//! Shows one tool: what it does, what it takes and returns, and a command that calls it.

use bowline::Json;
use bowline::types::Tool;

use crate::arguments::{Parameter, example_arguments, is_portable_word, read_parameters};
use crate::commands::list::tool_hints;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::print::table::{flatten_text, wrap};
use crate::print::text_width::display_width;
use crate::print::{FAINT, NAME, Printer, STRONG, escape};
use crate::settings::Settings;
use crate::suggested_command::{CommandLine, quote_words};

/// Shows a tool of the server that was typed, if it was.
pub(super) fn show(settings: &Settings, server: Option<&str>, tool: &Tool) -> Outcome {
    let printer = &settings.printer;
    if printer.is_json() {
        printer.write_json(tool.json.as_str())?;
        return Ok(Exit::Ok);
    }
    let width = if printer.on_terminal() { printer.width } else { PIPE_WIDTH };
    let example = example_command(&settings.command_line, server, &tool.name, &tool.input_schema);
    printer.write_layout(&render(tool, &example.unwrap_or_else(|why| why), width, printer))?;
    super::super::list::invisible_text_notes(printer, "tool", std::slice::from_ref(tool));
    Ok(Exit::Ok)
}

/// Returns a command that calls the tool of the server that was typed, or of a command; or why none is shown.
/// The tool is described by a server, so the command holds it to its own name and arguments: see
/// [`example_arguments`].
fn example_command(
    command_line: &CommandLine,
    server: Option<&str>,
    tool: &str,
    schema: &Json,
) -> Result<String, String> {
    let obstacle = if tool.is_empty() {
        Some("is empty")
    } else if tool.contains('=') {
        Some("contains `=`, like an argument")
    } else if server.is_none() && tool.contains("://") {
        Some("looks like a URL")
    } else if tool.contains(escape::is_active) {
        Some("has control characters or invisible ones")
    } else if !is_portable_word(tool) {
        Some("has a backslash that shells read differently")
    } else {
        None
    };
    if let Some(obstacle) = obstacle {
        return Err(format!("no command is shown: the name of the tool {obstacle}"));
    }
    let Some(arguments) = example_arguments(schema) else {
        return Err("no example was found that fits the input schema".to_owned());
    };
    let command = if tool.starts_with('-') {
        // Options are not read after `--`.
        let is_option = arguments.first().is_some_and(|word| word.starts_with('-'));
        let (options, pairs) = arguments.split_at(if is_option { arguments.len() } else { 0 });
        let before = ["call"].into_iter().chain(server);
        let before = quote_words(command_line.format_command(before), options);
        let name_and_pairs = [&["--".to_owned(), tool.to_owned()], pairs].concat();
        quote_words(before, &name_and_pairs)
    } else {
        let words = ["call"].into_iter().chain(server).chain([tool]);
        quote_words(command_line.format_command(words), &arguments)
    };
    Ok(if server.is_none() { format!("{command} -- COMMAND") } else { command })
}

/// Width of a page in a pipe.
const PIPE_WIDTH: usize = 100;
/// How far the lines below a heading are indented.
const INDENT: &str = "  ";

fn render(tool: &Tool, example: &str, width: usize, printer: &Printer) -> String {
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
    section("Example", vec![escape::line(example).into_owned()]);
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::args::{CallArgs, Cli, Verb, rewrite_json_flag};
    use crate::arguments::{RawArguments, split_pair};
    use crate::settings::positional::PositionalArgs;

    fn example(server: Option<&str>, tool: &str, schema: &Value) -> Result<String, String> {
        example_command(&CommandLine::default(), server, tool, &Json::encode(schema).unwrap())
    }

    /// Splits a command like a POSIX shell, or like fish, in whose quotes a backslash escapes a quote and itself.
    fn split(command: &str, is_fish: bool) -> Vec<String> {
        let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
        let mut chars = command.chars().peekable();
        while let Some(c) = chars.next() {
            assert!(!escape::is_active(c), "{command:?}");
            match c {
                '\'' => is_quoted = !is_quoted,
                '\\' if is_quoted && is_fish => match chars.next_if(|next| matches!(next, '\'' | '\\')) {
                    Some(next) => word.push(next),
                    None => word.push('\\'),
                },
                c if is_quoted => word.push(c),
                '\\' => word.extend(chars.next()),
                ' ' => words.push(std::mem::take(&mut word)),
                c => {
                    assert!(c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c), "{c} in {command}");
                    word.push(c);
                }
            }
        }
        assert!(!is_quoted, "{command}");
        words.push(word);
        words
    }

    /// Parses a command like `bowline call` does, and returns the name of the tool and the arguments.
    fn parse(command: &str, schema: &Value) -> (String, Map<String, Value>) {
        let words = split(command, false);
        assert_eq!(split(command, true), words, "{command}");
        let parse_line = |words: Vec<String>| {
            let argv = rewrite_json_flag(words.into_iter().map(Into::into));
            Cli::try_parse_from(argv).unwrap_or_else(|error| panic!("{command}: {error}"))
        };
        let take_arguments = |cli: &mut Cli| {
            let Verb::Call(CallArgs { words, args, target, .. }) = &mut cli.verb else { panic!("{command}") };
            words.extend(target.take_hyphen_words().ok().unwrap());
            (std::mem::take(words), args.take(), std::mem::take(&mut target.command))
        };
        let mut cli = parse_line(words);
        let (words, args, server) = take_arguments(&mut cli);
        let mut plain = parse_line(["bowline", "call"].map(String::from).into());
        take_arguments(&mut plain);
        assert_eq!(format!("{cli:?}"), format!("{plain:?}"), "an option is set: {command}");
        let mut words = PositionalArgs::new("call", "", words, &server).ok().unwrap();
        let tool = words.take_required("", "").ok().unwrap();
        assert!(!tool.contains('=') && !words.take_word("-"), "{command}");
        let pairs = words.into_pairs().ok().unwrap();
        for pair in &pairs {
            let (_, value) = split_pair(pair).unwrap();
            assert!(value == "@" || !value.starts_with('@'), "a file is read: {command}");
        }
        let arguments = RawArguments::parse(args.as_deref(), pairs).ok().unwrap();
        (tool, arguments.into_typed(schema).ok().unwrap())
    }

    #[test]
    fn a_tool_that_no_command_can_name_has_no_example() {
        for (server, tool, why) in [
            (Some("s"), "", "is empty"),
            (Some("s"), "--config=/tmp/x", "contains `=`, like an argument"),
            (Some("s"), "a=b", "contains `=`, like an argument"),
            (Some("s"), "=ls", "contains `=`, like an argument"),
            (Some("s"), "key:=x", "contains `=`, like an argument"),
            (None, "a://b", "looks like a URL"),
            (Some("s"), "\u{1b}[31m", "has control characters or invisible ones"),
            (Some("s"), "a\u{202e}b", "has control characters or invisible ones"),
            (Some("s"), r"\'; touch x; '", "has a backslash that shells read differently"),
        ] {
            let shown = example(server, tool, &json!({}));
            assert_eq!(shown, Err(format!("no command is shown: the name of the tool {why}")));
        }
        let quoted = r"bowline call s 'it'\''s $(x)'".to_owned();
        assert_eq!(example(Some("s"), "it's $(x)", &json!({})), Ok(quoted));
        assert_eq!(example(Some("s"), "a://b", &json!({})), Ok("bowline call s a://b".to_owned()));
    }

    #[test]
    fn a_tool_whose_name_begins_with_a_hyphen_comes_after_the_separator() {
        let schema =
            |name: &str| json!({ "properties": { name: { "type": "integer" } }, "required": [name] });
        for (server, tool, schema, command) in [
            (Some("s"), "-x", json!({}), "bowline call s -- -x"),
            (Some("s"), "--help", schema("a"), "bowline call s -- --help a=1"),
            (Some("s"), "--", schema("-a"), r#"bowline call s --args '{"-a":1}' -- --"#),
            (None, "-x", schema("a"), "bowline call -- -x a=1 -- COMMAND"),
            (None, "--", schema("-a"), r#"bowline call --args '{"-a":1}' -- -- -- COMMAND"#),
        ] {
            assert_eq!(example(server, tool, &schema), Ok(command.to_owned()));
            assert_eq!(parse(command, &schema).0, tool, "{command}");
        }
    }

    #[test]
    fn an_example_command_is_read_as_its_own_literal_arguments() {
        let plain = "@ @- @/etc/passwd - -- --config --args -v --json = : := ' \" \\ ~ $(x) `x` ! { } [ ] [1] a b \
                     1 -1 1e3 true null é :// % # ; & call #/$defs/x";
        let invisible = ["\u{1b}", "\n", "\0", "\u{202e}", "\u{e0041}", " "];
        let parts: Vec<_> = plain.split(' ').chain(invisible).collect();
        let mut random = fastrand::Rng::with_seed(17);
        let mut shown = 0;
        for _ in 0..600 {
            let text = |random: &mut fastrand::Rng| -> String {
                (0..random.usize(0..4)).map(|_| parts[random.usize(..parts.len())]).collect()
            };
            let mut properties = Map::new();
            for _ in 0..random.usize(1..4) {
                let words = [text(&mut random), text(&mut random)];
                let value = match random.u8(0..8) {
                    0 => json!(random.i64(..)),
                    1 => json!(words),
                    2 => json!({ (words[0].as_str()): words[1] }),
                    3 => json!([[words[0]], random.bool()]),
                    _ => json!(words[0]),
                };
                let mut property = match random.u8(0..5) {
                    0 => json!({ "const": value }),
                    1 => json!({ "enum": [value] }),
                    2 => json!({ "examples": [value] }),
                    _ => json!({ "default": value }),
                };
                if random.bool() {
                    let kinds =
                        [json!("string"), json!("array"), json!("object"), json!(["string", "integer"])];
                    property["type"] = kinds[random.usize(..kinds.len())].clone();
                }
                properties.insert(if random.bool() { "q".to_owned() } else { text(&mut random) }, property);
            }
            let value = |property: &Value| {
                let listed = || &property.get("enum").or(property.get("examples")).unwrap()[0];
                property.get("const").or(property.get("default")).unwrap_or_else(listed).clone()
            };
            let expected: Map<_, _> =
                properties.iter().map(|(name, property)| (name.clone(), value(property))).collect();
            let required: Vec<_> = properties.keys().cloned().collect();
            let schema = json!({ "type": "object", "properties": properties, "required": required });
            let tool = if random.bool() { "tool".to_owned() } else { text(&mut random) };
            let server = random.bool().then_some("server");
            let Ok(command) = example(server, &tool, &schema) else { continue };
            shown += 1;
            assert_eq!(parse(&command, &schema), (tool, expected), "{command}");
        }
        assert!(shown > 150, "only {shown} have an example");
    }
}
