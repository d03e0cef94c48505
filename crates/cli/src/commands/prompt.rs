//! Implements `bowline prompt`.

mod argument_form;

use std::collections::BTreeMap;

use bowline::Server;
use bowline::types::{GetPromptResult, Prompt, PromptArgument};
use bowline_config::closest_name;

use crate::args::PromptArgs;
use crate::arguments::{parse_pair, repeated_argument_failure};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::print::content::Viewer;
use crate::print::{Printer, STRONG, escape};
use crate::session;
use crate::settings::Settings;
use crate::settings::positional::PositionalArgs;

pub(super) async fn run(args: PromptArgs, settings: &Settings) -> Outcome {
    let PromptArgs { mut words, content, host: _, mut target } = args;
    words.extend(target.take_hyphen_words()?);
    let mut words = PositionalArgs::new("prompt", "NAME [KEY=VALUE]...", words, &target.command)?;
    let name = words.take_required("NAME", "`bowline prompts` lists a server's prompts")?;
    let server = settings.resolve_server(words.server(), target)?;
    let viewer = settings.viewer(content, &name)?.for_server(words.server());
    let typed = words.server().map(ToOwned::to_owned);
    let mut arguments = parse_pairs(words.into_pairs()?)?;
    let printer = &settings.printer;
    let result = session::with_session(settings, &server, None, async |client, open| {
        let failed = |error: bowline::Error| Failure::call(&error, &server, &settings.command_line);
        let prompts = client.list_prompts().await.map_err(failed)?;
        super::list::remember_prompts(settings, typed.as_deref(), &prompts);
        let prompt = find_prompt(&prompts, &name, &server)?;
        let missing = missing_arguments(prompt, &arguments);
        if !missing.is_empty() {
            let asked = if printer.is_json() {
                None
            } else {
                argument_form::ask_missing(client, open, &server, prompt, &arguments).await?
            };
            arguments = asked.ok_or_else(|| {
                let wanted: Vec<String> =
                    missing.iter().map(|argument| format!("{}=…", argument.name)).collect();
                Failure::usage(format!("the prompt `{name}` also needs {}", wanted.join(" ")))
            })?;
        }
        client.get_prompt(&name, &arguments).await.map_err(failed)
    })
    .await?;
    show_prompt(printer, &viewer, &result)?;
    Ok(Exit::Ok)
}

/// Parses `key=value` words. Values are always text.
// PM-01.
pub(super) fn parse_pairs(words: Vec<String>) -> Outcome<BTreeMap<String, String>> {
    let mut arguments = BTreeMap::new();
    for word in words {
        let (key, value) = parse_pair(&word)?;
        if arguments.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(repeated_argument_failure(key, "it has one value, which is text"));
        }
    }
    Ok(arguments)
}

fn find_prompt<'a>(prompts: &'a [Prompt], name: &str, server: &Server) -> Outcome<&'a Prompt> {
    if let Some(prompt) = prompts.iter().find(|prompt| &*prompt.name == name) {
        return Ok(prompt);
    }
    let message = format!("`{}` has no prompt named `{name}`", server.name);
    Err(match closest_name(name, prompts.iter().map(|prompt| &*prompt.name)) {
        Some(near) => Failure::usage_hint(message, format!("did you mean `{near}`?")),
        None => Failure::usage_hint(message, "`bowline prompts` lists what there is"),
    })
}

// PM-02: required arguments that were not given. Unlisted arguments are left to the server.
fn missing_arguments(prompt: &Prompt, given: &BTreeMap<String, String>) -> Vec<PromptArgument> {
    let needed = prompt.arguments().into_iter();
    needed.filter(|argument| argument.required && !given.contains_key(&*argument.name)).collect()
}

fn show_prompt(printer: &Printer, viewer: &Viewer<'_>, result: &GetPromptResult) -> Outcome<()> {
    if printer.is_json() {
        printer.write_json(result.json.as_str())?;
        return Ok(viewer.save_blocks(result.messages.iter().map(|message| &message.content))?);
    }
    for (index, message) in result.messages.iter().enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        let role = printer.paint(STRONG, &format!("{}:", escape::line(message.role.as_str())));
        printer.write_layout(&format!("{gap}{role}\n"))?;
        viewer.show_block(&message.content)?;
    }
    viewer.note_links();
    for dropped in &result.dropped {
        printer.note(&format!("a message was left out: {}", dropped.reason));
    }
    Ok(())
}
