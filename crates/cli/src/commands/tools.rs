//! Implements `bowline tools`.

mod all_tools;
mod listing;
mod tool_page;

use bowline::Server;
use bowline::types::Tool;

use super::list::{invisible_text_notes, remember_tools};
use crate::args::ToolsArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::list_cache::{ListCache, Refresh};
use crate::print::units;
use crate::session;
use crate::settings::Settings;
use crate::settings::positional::PositionalArgs;

pub(super) async fn run(args: ToolsArgs, settings: &Settings) -> Outcome {
    let ToolsArgs { mut words, refresh, mut target } = args;
    words.extend(target.take_hyphen_words()?);
    if words.is_empty() && target.command.is_empty() {
        if target.has_overrides() {
            return Err(Failure::usage_hint(
                "SERVER is missing: connection options apply to one server",
                "write `bowline tools SERVER`",
            ));
        }
        return all_tools::run(if refresh { Refresh::All } else { Refresh::Missing }, settings).await;
    }
    let mut words = PositionalArgs::new("tools", "[TOOL]", words, &target.command)?;
    let tool = words.next();
    let typed = words.finish(|name| settings.is_configured(name))?;
    let server = settings.resolve_server(typed.as_deref(), target)?;
    let list = session::with_client(settings, &server, async |client| client.list_tools_full().await).await?;
    remember_tools(settings, typed.as_deref(), &list.items);
    if typed.as_deref().is_some_and(|typed| !typed.contains("://")) {
        let jsons = list.items.iter().map(|tool| tool.json.clone()).collect();
        ListCache::open(settings).update_tools(&server, jsons);
    }
    if let Some(name) = tool {
        let tool = super::call::find_tool(&list.items, &name, &server)?;
        return tool_page::show(settings, typed.as_deref(), tool);
    }
    for dropped in &list.dropped {
        settings.printer.note(&format!("a tool was left out: {}", dropped.reason));
    }
    show(settings, &server, &list.items)
}

fn show(settings: &Settings, server: &Server, tools: &[Tool]) -> Outcome {
    let printer = &settings.printer;
    if printer.is_json() {
        let objects: Vec<&str> = tools.iter().map(|tool| tool.json.as_str()).collect();
        printer.write_json(&format!("[{}]", objects.join(",")))?;
    } else if tools.is_empty() {
        printer.note(&format!("`{}` offers no tools", server.name));
    } else {
        printer.write_layout(&listing::render(tools, None, printer))?;
        if printer.on_terminal() {
            printer.note(&format!("{} of `{}`", units::count(tools.len(), "tool"), server.name));
        }
        invisible_text_notes(printer, "tool", tools);
    }
    Ok(Exit::Ok)
}
