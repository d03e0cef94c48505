//! The listing of a crate: its own public items, and those of our other crates that it re-exports,
//! which rustdoc describes with the crate that defines them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};

use anyhow::Result;

use super::crate_docs::{CrateDocs, DefinitionPath};

pub(super) struct Listing {
    name: String,
    /// The lines of each crate; the first crate is the one that is listed.
    sections: Vec<(String, Vec<String>)>,
}

impl Listing {
    pub(super) fn collect(name: &str, docs: &Path) -> Result<Self> {
        let mut crates = BTreeMap::from([(name.to_owned(), CrateDocs::read(docs, name)?)]);
        let mut wanted = BTreeMap::from([(name.to_owned(), BTreeSet::from([vec![name.to_owned()]]))]);
        // What is re-exported may re-export in turn.
        loop {
            let found = follow_reexports(&crates, &wanted);
            if found == wanted {
                break;
            }
            for part in found.keys() {
                if !crates.contains_key(part) {
                    crates.insert(part.clone(), CrateDocs::read(docs, part)?);
                }
            }
            wanted = found;
        }
        let list = |part: &String| (part.clone(), list_items(&crates[part], &wanted[part]));
        let (own, others): (Vec<_>, Vec<_>) = wanted.keys().map(list).partition(|(part, _)| part == name);
        Ok(Self { name: name.to_owned(), sections: own.into_iter().chain(others).collect() })
    }

    pub(super) fn count_items(&self) -> usize {
        self.sections.iter().map(|(_, lines)| lines.len()).sum()
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, sections } = self;
        writeln!(f, "# The public interface of `{name}` with all features; written by `cargo xtask api`.")?;
        writeln!(
            f,
            "# Derived, automatic and blanket implementations are left out, and the functions of the others."
        )?;
        for (part, lines) in sections {
            writeln!(f)?;
            if part != name {
                writeln!(f, "# What is re-exported from `{part}`, under its names there.")?;
            }
            lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        }
        Ok(())
    }
}

/// Which items of which crates are listed.
type Wanted = BTreeMap<String, BTreeSet<DefinitionPath>>;

/// Adds what the wanted items re-export from our other crates.
fn follow_reexports(crates: &BTreeMap<String, CrateDocs>, wanted: &Wanted) -> Wanted {
    let mut found = wanted.clone();
    for (part, paths) in wanted {
        let docs = &crates[part];
        let reexports = docs.select(paths).into_iter().filter_map(|item| docs.find_reexport(item));
        for (_, path) in reexports {
            let Some(origin) = path.first().filter(|origin| is_part(origin)) else { continue };
            found.entry(origin.clone()).or_default().insert(path);
        }
    }
    found
}

/// Whether a crate is a part of the library. `bowline` itself has its own listing.
fn is_part(name: &str) -> bool {
    name.starts_with("bowline_")
}

fn list_items(docs: &CrateDocs, paths: &BTreeSet<DefinitionPath>) -> Vec<String> {
    let show = |item: &public_api::PublicItem| match (item.to_string(), docs.find_reexport(item)) {
        (line, Some((source, _))) => {
            let shown = line.strip_prefix("pub use ").unwrap_or(&line);
            format!("pub use {source} as {shown}")
        }
        (line, None) => line,
    };
    docs.select(paths).into_iter().map(show).collect()
}
