//! One crate as rustdoc describes it: its public items, and which of them are re-exports.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result};
use public_api::{PublicApi, PublicItem};
use serde::Deserialize;

/// The path of an item where it is defined, from its crate on. Modules in it may be private.
pub(super) type DefinitionPath = Vec<String>;

pub(super) struct CrateDocs {
    api: PublicApi,
    document: Document,
}

impl CrateDocs {
    /// Reads the file of a crate. Its error is one of `public_api` if the file has another form.
    pub(super) fn read(folder: &Path, name: &str) -> Result<Self> {
        let file = folder.join(format!("{name}.json"));
        let builder = public_api::Builder::from_rustdoc_json(&file);
        // What every type has tells nothing, and what is derived rarely changes.
        let builder =
            builder.omit_blanket_impls(true).omit_auto_trait_impls(true).omit_auto_derived_impls(true);
        let api = builder.build().with_context(|| format!("reading {name}.json"))?;
        let document = serde_json::from_str(&fs::read_to_string(file)?)?;
        Ok(Self { api, document })
    }

    /// Returns the items that are defined at one of `paths`, and all that is inside of them.
    pub(super) fn select(&self, paths: &BTreeSet<DefinitionPath>) -> Vec<&PublicItem> {
        let roots = self.document.paths.iter().filter(|(_, it)| it.crate_id == 0 && paths.contains(&it.path));
        let mut selected: HashSet<u32> = roots.filter_map(|(id, _)| id.parse().ok()).collect();
        // An item may be listed before the one that it is inside of.
        loop {
            let before = selected.len();
            let is_inside = |item: &&PublicItem| item.parent_id().is_some_and(|id| selected.contains(&id.0));
            let inside: Vec<u32> = self.api.items().filter(is_inside).map(|item| item.id().0).collect();
            selected.extend(inside);
            if selected.len() == before {
                let is_shown =
                    |item: &&PublicItem| selected.contains(&item.id().0) && !self.is_method_of_trait(item);
                return self.api.items().filter(is_shown).collect();
            }
        }
    }

    /// Whether an item is a function of the implementation of a trait, which says how it is declared.
    fn is_method_of_trait(&self, item: &PublicItem) -> bool {
        let find = |id: u32| self.document.index.get(&id.to_string());
        let is_function = find(item.id().0).is_some_and(|entry| entry.inner.get("function").is_some());
        let parent = item.parent_id().and_then(|id| find(id.0));
        is_function && parent.is_some_and(|entry| !entry.inner["impl"]["trait"].is_null())
    }

    /// Returns what an item of another crate is called in the source, and where it is defined, if
    /// `item` is the re-export of one.
    pub(super) fn find_reexport(&self, item: &PublicItem) -> Option<(String, DefinitionPath)> {
        let entry = self.document.index.get(&item.id().0.to_string())?;
        let reexport: Use = serde_json::from_value(entry.inner.get("use")?.clone()).ok()?;
        let definition = self.document.paths.get(&reexport.id?.to_string())?;
        (definition.crate_id != 0).then(|| (reexport.source, definition.path.clone()))
    }
}

/// The part of rustdoc's JSON that `public_api` does not show.
#[derive(Deserialize)]
struct Document {
    index: HashMap<String, Entry>,
    paths: HashMap<String, Definition>,
}

#[derive(Deserialize)]
struct Entry {
    inner: serde_json::Value,
}

#[derive(Deserialize)]
struct Definition {
    /// 0 is the crate itself.
    crate_id: u32,
    path: DefinitionPath,
}

#[derive(Deserialize)]
struct Use {
    source: String,
    id: Option<u32>,
}
