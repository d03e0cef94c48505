//! Implements `bowline search`.

use std::borrow::Cow;

use bowline::Json;
use serde::Deserialize;
use serde_json::json;

use crate::args::SearchArgs;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::list_cache::{KnownLists, ListCache, Refresh};
use crate::print::table::Table;
use crate::print::units;
use crate::search_index::SearchIndex;
use crate::settings::Settings;

pub(super) async fn run(args: SearchArgs, settings: &Settings) -> Outcome {
    let SearchArgs { words, limit, refresh } = args;
    let selection = settings.select_servers(&[])?;
    let refresh = if refresh { Refresh::All } else { Refresh::Missing };
    let known = ListCache::open(settings).lists(selection.servers, refresh, settings).await?;
    let printer = &settings.printer;
    for note in known.iter().filter(|one| one.failure.is_some()).flat_map(KnownLists::notes) {
        printer.note(&note);
    }
    let words = words.join(" ");
    let (index, items) = build_index(&known);
    let ranked = index.search(&words);
    let found: Vec<_> = ranked.iter().take(limit as usize).map(|(at, rank)| (&items[*at], *rank)).collect();
    if printer.is_json() {
        let results: Vec<_> = found
            .iter()
            .map(|(item, rank)| {
                json!({
                    "kind": item.kind, "server": item.server, "name": item.id, "title": item.about.title,
                    "description": item.about.description, "score": rank,
                })
            })
            .collect();
        printer.write_json(&json!({ "results": results, "found": ranked.len() }).to_string())?;
    } else if found.is_empty() {
        let servers = units::count(known.len(), "server");
        printer.note(&format!(
            "nothing offered by {servers} matches `{words}`; `--refresh` asks them what they offer now"
        ));
    } else {
        let mut table = Table::new(["KIND", "SERVER", "NAME", "DESCRIPTION"]).with_name_columns(3);
        for (item, _) in &found {
            let about = item.about.description.as_deref().or(item.about.title.as_deref()).unwrap_or_default();
            table.push_row([item.kind.into(), item.server.into(), item.id.to_string(), about.to_owned()]);
        }
        printer.write_layout(&table.render(printer))?;
        if printer.on_terminal() && ranked.len() > found.len() {
            printer.note(&format!("the first {} of {}", found.len(), ranked.len()));
        }
    }
    Ok(Exit::Ok)
}

/// An element of a list that can be found.
struct Item<'a> {
    kind: &'static str,
    server: &'a str,
    /// The name of a tool or prompt, the URI of a resource, or a template.
    id: Cow<'a, str>,
    about: About<'a>,
}

/// What is said about an element of a list.
#[derive(Default, Deserialize)]
#[serde(default)]
struct About<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow)]
    description: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uri: Cow<'a, str>,
    #[serde(borrow, rename = "uriTemplate")]
    uri_template: Cow<'a, str>,
}

/// How much the fields of an element count.
const NAME_WEIGHT: f32 = 3.0;
const TITLE_WEIGHT: f32 = 2.0;
const SERVER_WEIGHT: f32 = 1.0;
const ABOUT_WEIGHT: f32 = 1.0;

fn build_index(known: &[KnownLists]) -> (SearchIndex, Vec<Item<'_>>) {
    let mut index = SearchIndex::default();
    let mut items = Vec::new();
    for one in known {
        let lists = &one.lists;
        let kinds: [(&str, &[Json]); 4] = [
            ("tool", &lists.tools),
            ("prompt", &lists.prompts),
            ("resource", &lists.resources),
            ("template", &lists.templates),
        ];
        for (kind, list) in kinds {
            for json in list {
                let Ok(about) = json.decode::<About<'_>>() else { continue };
                let id = match kind {
                    "resource" => about.uri.clone(),
                    "template" => about.uri_template.clone(),
                    _ => about.name.clone(),
                };
                index.add(&[
                    (&id, NAME_WEIGHT),
                    (if *id == *about.name { "" } else { &about.name }, NAME_WEIGHT),
                    (about.title.as_deref().unwrap_or_default(), TITLE_WEIGHT),
                    (&one.server.name, SERVER_WEIGHT),
                    (about.description.as_deref().unwrap_or_default(), ABOUT_WEIGHT),
                ]);
                items.push(Item { kind, server: &one.server.name, id, about });
            }
        }
    }
    (index, items)
}
