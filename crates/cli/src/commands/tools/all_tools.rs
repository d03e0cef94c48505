//! Lists the tools of all configured servers.

use bowline::types::{ListItem as _, Tool};
use serde_json::json;

use super::listing;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::list_cache::{KnownLists, ListCache, Refresh};
use crate::print::{Printer, STRONG, escape, units};
use crate::settings::Settings;

pub(super) async fn run(refresh: Refresh, settings: &Settings) -> Outcome {
    let selection = settings.select_servers(&[])?;
    for skipped in &selection.skipped {
        settings.printer.note(&format!("`{}` is left out: {}", skipped.name, skipped.reason.as_str()));
    }
    let known = ListCache::open(settings).tools(selection.servers, refresh, settings).await?;
    show(&known, &settings.printer)?;
    Ok(if known.iter().any(|one| one.failure.is_some()) { Exit::Connection } else { Exit::Ok })
}

fn show(known: &[KnownLists], printer: &Printer) -> std::io::Result<()> {
    if printer.is_json() {
        let servers: Vec<_> = known.iter().map(to_json).collect();
        return printer.write_json(&format!(r#"{{"servers":[{}]}}"#, servers.join(",")));
    }
    let mut count = 0;
    for (at, one) in known.iter().enumerate() {
        let tools: Vec<Tool> = one.lists.tools.iter().filter_map(|json| Tool::decode(json).ok()).collect();
        count += tools.len();
        if printer.on_terminal() && !tools.is_empty() {
            let heading = printer.paint(STRONG, &escape::line(&one.server.name));
            printer.write_line(&format!("{}{heading}", if at > 0 { "\n" } else { "" }))?;
        }
        printer.write_layout(&listing::render(&tools, Some(&one.server.name), printer))?;
        for note in one.notes() {
            printer.note(&note);
        }
        if tools.is_empty() && one.failure.is_none() {
            printer.note(&format!("`{}` offers no tools", one.server.name));
        }
    }
    if printer.on_terminal() {
        let servers = units::count(known.len(), "server");
        printer.note(&format!("{} of {servers}", units::count(count, "tool")));
    }
    Ok(())
}

/// A server with its tools, as it wrote them.
fn to_json(known: &KnownLists) -> String {
    let tools: Vec<_> = known.lists.tools.iter().map(bowline::Json::as_str).collect();
    let about =
        json!({ "server": known.server.name, "fetched": known.fetched_text(), "error": known.failure });
    let about = about.to_string();
    format!(r#"{},"tools":[{}]}}"#, about.trim_end_matches('}'), tools.join(","))
}
