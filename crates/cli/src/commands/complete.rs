//! Implements `bowline complete`.

use bowline::Reference;
use bowline::types::Completion;
use serde_json::json;

use super::prompt::parse_pairs;
use crate::args::CompleteArgs;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::print::{Printer, escape, units};
use crate::session;
use crate::settings::Settings;
use crate::settings::positional::PositionalArgs;

pub(super) async fn run(args: CompleteArgs, settings: &Settings) -> Outcome {
    let CompleteArgs { words, chosen, target } = args;
    let mut words =
        PositionalArgs::new("complete", "prompt|resource NAME ARG [VALUE]", words, &target.command)?;
    let kind = words.take_required("`prompt` or `resource`", "what the argument belongs to")?;
    let name = words.take_required("NAME", "the name of the prompt, or the template of the resource")?;
    let argument = words.take_required("ARG", "the argument that is being typed")?;
    let value = words.next().unwrap_or_default();
    let reference = match &*kind {
        "prompt" => Reference::Prompt(&name),
        "resource" => Reference::Resource(&name),
        other => return Err(words.usage_failure(&format!("`{other}` is neither `prompt` nor `resource`"))),
    };
    let chosen = parse_pairs(chosen)?;
    let typed = words.finish(|name| settings.is_configured(name))?;
    let server = settings.resolve_server(typed.as_deref(), target)?;
    let found = session::with_client(settings, &server, async |client| {
        client.complete(&reference, &argument, &value, &chosen).await
    })
    .await?;
    print(&settings.printer, &found)?;
    Ok(Exit::Ok)
}

fn print(printer: &Printer, found: &Completion) -> Outcome<()> {
    if printer.is_json() {
        let object = json!({"values": found.values, "total": found.total, "hasMore": found.has_more});
        return Ok(printer.write_json(&object.to_string())?);
    }
    for value in &found.values {
        printer.write_line(&escape::line(value))?;
    }
    let shown = found.values.len();
    match found.total.and_then(|total| usize::try_from(total).ok()).filter(|total| *total > shown) {
        Some(total) => printer.note(&format!("{shown} of {}", units::count(total, "suggestion"))),
        None if found.has_more => printer.note("there are more"),
        None if shown == 0 => printer.note("no suggestions"),
        None => {}
    }
    for dropped in &found.dropped {
        printer.note(&format!("a suggestion was left out: {}", dropped.reason));
    }
    Ok(())
}
