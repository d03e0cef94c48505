//! `cargo xtask api`: the public interface of the library, one line per item, kept in the tree so
//! that a review sees every change of it.
//!
//! The items come from rustdoc's JSON, whose form depends on the compiler. A compiler whose form
//! cannot be read says nothing about the interface, so the check is reported as not made, and passes.

mod crate_docs;
mod listing;
mod rustdoc;

use std::{collections::HashSet, fmt::Write as _, fs};

use anyhow::{Context as _, Result, bail};

use crate::workspace::Workspace;
use listing::Listing;
pub(crate) use rustdoc::run_as_rustdoc;

/// Writes the listings.
pub(crate) fn write(workspace: &Workspace) -> Result<()> {
    if !IS_LISTED_PLATFORM {
        bail!("the listings are those of Linux: write them there");
    }
    let docs = rustdoc::document(workspace)?;
    for (name, path) in LISTINGS {
        let listing = Listing::collect(name, &docs)?;
        fs::write(workspace.root().join(path), listing.to_string())?;
        println!("{path}: {} items", listing.count_items());
    }
    Ok(())
}

/// Compares the listings with the code.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    if !IS_LISTED_PLATFORM {
        eprintln!("interface: not checked: the listings are those of Linux");
        return Ok(());
    }
    let docs = rustdoc::document(workspace)?;
    for (name, path) in LISTINGS {
        let listing = match Listing::collect(name, &docs) {
            Ok(listing) => listing,
            Err(error) if is_other_format(&error) => {
                eprintln!(
                    "interface: not checked: this compiler writes another form of rustdoc JSON: {error:#}"
                );
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let kept = fs::read_to_string(workspace.root().join(path)).with_context(|| path)?;
        if let Some(changes) = describe_changes(&kept, &listing.to_string()) {
            bail!(
                "{path} does not have the interface of `{name}`:\n{changes}\nwrite it with `cargo xtask api`"
            );
        }
        eprintln!("{path}: {} items", listing.count_items());
    }
    Ok(())
}

/// Whether the JSON was written by a compiler that is too old or too new for its reader.
fn is_other_format(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(public_api::Error::SerdeJsonError(_)))
}

/// Returns the lines that were removed and added, if there are any.
fn describe_changes(kept: &str, current: &str) -> Option<String> {
    // A checkout on Windows may have other line ends.
    if kept.lines().eq(current.lines()) {
        return None;
    }
    let (kept_lines, current_lines): (HashSet<_>, HashSet<_>) =
        (kept.lines().collect(), current.lines().collect());
    let removed = kept.lines().filter(|line| !current_lines.contains(line)).map(|line| ('-', line));
    let added = current.lines().filter(|line| !kept_lines.contains(line)).map(|line| ('+', line));
    let changes: Vec<_> = removed.chain(added).collect();
    let mut text = String::new();
    for (sign, line) in changes.iter().take(MAX_SHOWN_CHANGES) {
        let _ = writeln!(text, "{sign} {line}");
    }
    match changes.len().checked_sub(MAX_SHOWN_CHANGES) {
        _ if changes.is_empty() => text += "the order of the lines differs\n",
        None | Some(0) => {}
        Some(more) => {
            let _ = writeln!(text, "and {more} more");
        }
    }
    Some(text)
}

/// The crates that are used from outside, each with the file of its listing.
const LISTINGS: [(&str, &str); 2] =
    [("bowline", "crates/client/public-api.txt"), ("bowline_test", "crates/test/public-api.txt")];

const MAX_SHOWN_CHANGES: usize = 40;

/// Some items exist on some platforms only.
const IS_LISTED_PLATFORM: bool = cfg!(target_os = "linux");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_listings_have_no_changes_whatever_their_line_ends() {
        assert_eq!(describe_changes("a\r\nb\r\n", "a\nb\n"), None);
    }

    #[test]
    fn changes_show_what_was_removed_and_added() {
        assert_eq!(describe_changes("a\nb\n", "b\nc\n").unwrap(), "- a\n+ c\n");
        assert_eq!(describe_changes("a\nb\n", "b\na\n").unwrap(), "the order of the lines differs\n");
    }

    #[test]
    fn json_of_another_compiler_is_told_from_other_failures() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("strange.json"), r#"{ "format_version": 1, "root": "0:0" }"#).unwrap();
        let error = Listing::collect("strange", folder.path()).err().unwrap();
        assert!(is_other_format(&error), "{error:#}");
        let error = Listing::collect("absent", folder.path()).err().unwrap();
        assert!(!is_other_format(&error), "{error:#}");
    }

    #[test]
    fn many_changes_are_counted() {
        let current: Vec<String> = (0..MAX_SHOWN_CHANGES + 2).map(|n| n.to_string()).collect();
        let changes = describe_changes("", &current.join("\n")).unwrap();
        assert_eq!(changes.lines().count(), MAX_SHOWN_CHANGES + 1);
        assert!(changes.ends_with("and 2 more\n"), "{changes}");
    }
}
