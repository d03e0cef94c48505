//! The views that `bowline serve` has, and the one that a host on stdio selects.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use bowline::config::{Problem, View};

use crate::failure::{Failure, Outcome};
use crate::settings::Settings;

/// The configured views by name.
pub(super) type ViewMap = BTreeMap<String, View>;

/// Returns the configured views. Those with a problem are left out, with a note.
pub(super) fn configured(settings: &Settings) -> Outcome<ViewMap> {
    let layers = settings.layers()?;
    let mut left_out: Vec<&str> = layers.view_problems().filter_map(name_of).collect();
    left_out.dedup();
    for name in left_out {
        settings.printer.note(&format!("the view `{name}` is left out; see `bowline config check`"));
    }
    Ok(layers.views())
}

/// Checks that there is a view of this name.
pub(super) fn check_selected(name: &str, views: &ViewMap, settings: &Settings) -> Outcome<()> {
    if views.contains_key(name) {
        return Ok(());
    }
    let layers = settings.layers()?;
    let is_of_view = |problem: &&Problem| name_of(problem) == Some(name);
    let problems: Vec<_> = layers.view_problems().filter(is_of_view).cloned().collect();
    if !problems.is_empty() {
        return Err(Failure::config(format!("the view `{name}` cannot be used"), problems));
    }
    let file = settings.files.paths().first().map(|(path, _)| path.display().to_string());
    let file = file.unwrap_or_else(|| "your configuration file".to_owned());
    let hint = if views.is_empty() {
        format!("add [views.{name}] to {file}")
    } else {
        let names: Vec<_> = views.keys().map(String::as_str).collect();
        format!("{file} has {}", names.join(", "))
    };
    Err(Failure::usage_hint(format!("there is no view `{name}`"), hint))
}

/// How views differ from those before, by their names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ViewChanges {
    added: Vec<String>,
    changed: Vec<String>,
    removed: Vec<String>,
}

impl ViewChanges {
    pub(super) fn new(before: &ViewMap, after: &ViewMap) -> Self {
        let mut changes = Self::default();
        for (name, view) in after {
            match before.get(name) {
                None => changes.added.push(name.clone()),
                Some(earlier) if earlier != view => changes.changed.push(name.clone()),
                Some(_) => {}
            }
        }
        changes.removed = before.keys().filter(|name| !after.contains_key(*name)).cloned().collect();
        changes
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Such as `views: 1 added (docs), 2 removed (files, web)`.
impl fmt::Display for ViewChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [("added", &self.added), ("changed", &self.changed), ("removed", &self.removed)];
        let kinds = kinds.into_iter().filter(|(_, names)| !names.is_empty());
        let parts: Vec<_> =
            kinds.map(|(kind, names)| format!("{} {kind} ({})", names.len(), names.join(", "))).collect();
        write!(f, "views: {}", parts.join(", "))
    }
}

/// The file with the token of a view, beside that of the general token.
pub(super) fn token_path(general: &Path, view: &str) -> PathBuf {
    let mut path = OsString::from(general);
    path.push(".");
    path.push(view);
    path.into()
}

/// The name of the view that a problem is about, if it is about one.
fn name_of(problem: &Problem) -> Option<&str> {
    let path = problem.key.strip_prefix("views.")?;
    // A name that is no bare key is quoted.
    match path.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => path.split('.').next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_view_is_beside_the_general_one() {
        let path = token_path(Path::new("/state/serve-token"), "review");
        assert_eq!(path, Path::new("/state/serve-token.review"));
        assert_eq!(token_path(Path::new("my.token"), "a"), Path::new("my.token.a"));
    }
}
