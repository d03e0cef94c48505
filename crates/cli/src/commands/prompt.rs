//! `bowline prompt`

use std::collections::BTreeMap;

use bowline::config::Server;
use bowline::view::{GetPromptResult, Prompt};

use crate::args::PromptArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::print::save::Saver;
use crate::print::{Printer, STRONG, content, escape};
use crate::session;
use crate::settings::words::Words;
use crate::settings::{Settings, closest};

pub(super) async fn run(args: PromptArgs, settings: &Settings) -> Outcome {
    let PromptArgs { words, save, target } = args;
    let mut words = Words::new("prompt", "NAME [KEY=VALUE]...", words, &target.command)?;
    let name = words.take("NAME", "`bowline prompts` lists a server's prompts")?;
    let server = settings.server(words.server(), target)?;
    let arguments = pairs(words.pairs()?)?;
    let printer = &settings.printer;
    let result = session::with_outcome(settings, &server, async |client| {
        let failed = |error: bowline::Error| Failure::call(&error, &server);
        let prompts = client.list_prompts().await.map_err(failed)?;
        check(&prompts, &name, &arguments, &server)?;
        client.get_prompt(&name, &arguments).await.map_err(failed)
    })
    .await?;
    show(printer, &Saver::new(save, &name), &result)?;
    Ok(Exit::Ok)
}

/// PM-01: values are text, whatever they look like.
fn pairs(words: Vec<String>) -> Outcome<BTreeMap<String, String>> {
    let mut arguments = BTreeMap::new();
    for word in words {
        let Some((key, value)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(Failure::usage(format!("`{word}` is not key=value")));
        };
        if arguments.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(Failure::usage(format!("`{key}` is given twice")));
        }
    }
    Ok(arguments)
}

/// PM-02: what is needed has to be there. Arguments that are not listed are the server's to judge.
fn check(prompts: &[Prompt], name: &str, given: &BTreeMap<String, String>, server: &Server) -> Outcome<()> {
    let Some(prompt) = prompts.iter().find(|prompt| &*prompt.name == name) else {
        let message = format!("`{}` has no prompt named `{name}`", server.name);
        return Err(match closest(name, prompts.iter().map(|prompt| &*prompt.name)) {
            Some(near) => Failure::usage_hint(message, format!("did you mean `{near}`?")),
            None => Failure::usage_hint(message, "`bowline prompts` lists what there is"),
        });
    };
    let missing: Vec<String> = prompt
        .arguments()
        .into_iter()
        .filter(|argument| argument.required && !given.contains_key(&*argument.name))
        .map(|argument| format!("{}=…", argument.name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::usage(format!("the prompt `{name}` also needs {}", missing.join(" "))))
}

fn show(printer: &Printer, saver: &Saver, result: &GetPromptResult) -> Outcome<()> {
    if printer.is_json() {
        return Ok(printer.json(result.json.as_str())?);
    }
    for (index, message) in result.messages.iter().enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        let role = printer.paint(STRONG, &format!("{}:", escape::line(message.role.as_str())));
        printer.layout(&format!("{gap}{role}\n"))?;
        content::block(printer, saver, &message.content)?;
    }
    for dropped in &result.dropped {
        printer.note(&format!("a message was left out: {}", dropped.reason));
    }
    Ok(())
}
