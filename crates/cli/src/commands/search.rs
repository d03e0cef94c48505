//! Implements `bowline search`.

use serde_json::json;

use crate::args::SearchArgs;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::list_cache::{Known, ListCache, Refresh};
use crate::print::table::Table;
use crate::print::units;
use crate::search_index::SearchIndex;
use crate::settings::Settings;

pub(super) async fn run(args: SearchArgs, settings: &Settings) -> Outcome {
    let SearchArgs { words, limit, refresh } = args;
    let selection = settings.select_servers(&[])?;
    let refresh = if refresh { Refresh::All } else { Refresh::Missing };
    let known = ListCache::open(settings).search_texts(selection.servers, refresh, settings).await?;
    let printer = &settings.printer;
    for note in known.iter().filter(|one| one.failure.is_some()).flat_map(Known::notes) {
        printer.note(&note);
    }
    let words = words.join(" ");
    let mut index = SearchIndex::default();
    for one in &known {
        index.add(&one.server.name, &one.lists);
    }
    let ranked = index.search(&words);
    let found: Vec<_> = ranked
        .iter()
        .take(limit as usize)
        .filter_map(|found| {
            let Known { server, lists, .. } = &known[found.server];
            Some((&*server.name, lists.item(found.document)?, found.rank))
        })
        .collect();
    let is_any_known = known.is_empty() || known.iter().any(Known::is_known);
    if printer.is_json() {
        let results: Vec<_> = found
            .iter()
            .map(|(server, item, rank)| {
                json!({
                    "kind": item.kind, "server": server, "name": item.id, "title": item.title,
                    "description": item.description, "score": rank,
                })
            })
            .collect();
        let errors: Vec<_> = known
            .iter()
            .filter_map(|one| Some(json!({ "server": one.server.name, "error": one.failure.as_ref()? })))
            .collect();
        let output = json!({ "results": results, "found": ranked.len(), "errors": errors });
        printer.write_json(&output.to_string())?;
    } else if found.is_empty() && is_any_known {
        let servers = known.iter().filter(|one| one.is_known()).count();
        let servers = units::count(servers, "server");
        printer.note(&format!(
            "nothing offered by {servers} matches `{words}`; `--refresh` asks them what they offer now"
        ));
    } else if !found.is_empty() {
        let mut table = Table::new(["KIND", "SERVER", "NAME", "DESCRIPTION"]).with_name_columns(3);
        for (server, item, _) in &found {
            let about = item.description.as_deref().or(item.title.as_deref()).unwrap_or_default();
            let cells = [&*item.kind, server, &*item.id, about];
            table.push_row(cells.map(str::to_owned));
        }
        printer.write_layout(&table.render(printer))?;
        if printer.on_terminal() && ranked.len() > found.len() {
            printer.note(&format!("the first {} of {}", found.len(), ranked.len()));
        }
    }
    Ok(if known.iter().any(|one| one.failure.is_some()) { Exit::Connection } else { Exit::Ok })
}
