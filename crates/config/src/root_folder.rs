//! Owns which folders of hosts select a view.

use std::path::Path;

use crate::exposure::ToolPattern;

/// A folder, below which the roots of hosts lie that get a view. `*` stands for anything within one name
/// of the path: `/home/me/work/*` is every folder in `/home/me/work`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RootFolder(Vec<ToolPattern>);

/// How closely a [`RootFolder`] describes a folder. The closer one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RootCloseness {
    /// How many names the path of the folder has.
    names: usize,
    /// How many of them are written out.
    literal: usize,
}

impl RootFolder {
    /// Creates a folder from its path.
    pub fn new(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_string_lossy();
        Self(names(&path).map(ToolPattern::new).collect())
    }

    /// How closely this folder describes another one that it is, or that lies below it. `None` for any
    /// other folder, and for a path with `..` in it, whose folder is not known.
    pub fn closeness(&self, folder: &str) -> Option<RootCloseness> {
        let names: Vec<_> = names(folder).collect();
        let is_below = names.len() >= self.0.len()
            && !names.contains(&"..")
            && self.0.iter().zip(&names).all(|(pattern, name)| pattern.matches(name));
        let literal = self.0.iter().filter(|pattern| pattern.is_literal()).count();
        is_below.then_some(RootCloseness { names: self.0.len(), literal })
    }
}

/// The names of a path, from the outermost folder on.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split(std::path::is_separator).filter(|name| !name.is_empty() && *name != ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_matched_with_everything_below_it() {
        for (folder, root, expected) in [
            ("/w", "/w", true),
            ("/w", "/w/a/b", true),
            ("/w/", "/w", true),
            ("/w", "/wide", false),
            ("/w/a", "/w", false),
            ("/w/*", "/w", false),
            ("/w/*", "/w/a", true),
            ("/w/*", "/w/a/b", true),
            ("/w/*/src", "/w/a/src", true),
            ("/w/*/src", "/w/a/b/src", false),
            ("/w/team-*", "/w/team-a/x", true),
            ("/w/team-*", "/w/other", false),
            ("/", "/anything", true),
            // Where it leads is not known.
            ("/w", "/w/../etc", false),
            ("/w", "/w/./a", true),
            ("/w", "//w//a", true),
        ] {
            assert_eq!(RootFolder::new(folder).closeness(root).is_some(), expected, "{folder} {root}");
        }
    }

    #[test]
    fn a_longer_path_is_closer_and_then_one_without_a_star() {
        let closeness = |folder: &str| RootFolder::new(folder).closeness("/w/a/b").unwrap();
        assert!(closeness("/w") < closeness("/w/*") && closeness("/w/*") < closeness("/w/a"));
        assert!(closeness("/w/a") < closeness("/*/*/*") && closeness("/*/*/*") < closeness("/w/a/b"));
    }
}
