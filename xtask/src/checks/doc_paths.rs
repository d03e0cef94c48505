//! Checks that every path that the guides name exists, and that every relative link in a Markdown
//! file leads somewhere ([`doc_links`]).
//!
//! Backticks also hold method names (`tools/list`) and files of the user (`config.toml`), so a word
//! counts as a path of ours if it starts with one of our folders or ends like a source or guide
//! file.

use std::fs;

use anyhow::{Context, Result, bail};

use super::doc_links;
use crate::{glob, workspace::Workspace};

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let files: Vec<String> = workspace.files("")?.iter().map(|path| workspace.show(path)).collect();
    let mut problems = Vec::new();
    let mut checked = 0;
    for guide in GUIDES {
        let text = fs::read_to_string(workspace.root().join(guide))
            .with_context(|| format!("{guide} belongs to the project"))?;
        for (line, path) in claimed_paths(&text) {
            checked += 1;
            if !exists(&files, &path) {
                problems.push(format!("{guide}:{line}: `{path}` does not exist"));
            }
        }
    }
    let (broken, links) = doc_links::check(workspace)?;
    problems.extend(broken);
    eprintln!("{checked} paths looked up in {}, and {links} links in all pages", GUIDES.join(", "));
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    Ok(())
}

/// Returns the paths of ours that a Markdown text names in backticks, with their lines.
fn claimed_paths(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (line, number) in text.lines().zip(1..) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let spans = line.split('`').skip(1).step_by(2).filter_map(as_path);
            found.extend(spans.map(|path| (number, path)));
        }
    }
    found
}

fn as_path(span: &str) -> Option<String> {
    let path = span.trim_start_matches("./").trim_end_matches('/');
    // `file.rs:12` points at a line.
    let path =
        path.rsplit_once(':').filter(|(_, line)| line.parse::<u32>().is_ok()).map_or(path, |(path, _)| path);
    let foreign = path.starts_with(['/', '~', '$', '@', '-']) || path.contains([' ', '<', '{', '$']);
    let top = path.split('/').next().unwrap_or_default();
    let ours = FOLDERS.contains(&top) || ENDINGS.iter().any(|ending| path.ends_with(ending));
    (!foreign && !path.contains("://") && ours).then(|| path.to_owned())
}

/// Whether a path exists. A guide may shorten it to its end: `frame/sse.rs` for the file in the one
/// crate that has it.
fn exists(files: &[String], path: &str) -> bool {
    let tail = format!("*/{path}");
    files.iter().any(|file| {
        let mut prefixes = file.match_indices('/').map(|(at, _)| &file[..at]);
        let here = |whole: &str| glob::matches(path, whole);
        here(file) || glob::matches(&tail, file) || prefixes.any(here)
    })
}

const GUIDES: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

const FOLDERS: &[&str] = &[
    ".cargo",
    ".ci",
    ".config",
    ".github",
    "benches",
    "conformance",
    "crates",
    "docs",
    "examples",
    "fuzz",
    "interop",
    "loom",
    "soak",
    "xtask",
];

const ENDINGS: &[&str] = &[".md", ".rs"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_names_and_user_files_are_not_our_paths() {
        let text =
            "`tools/list` `config.toml` `~/.config/x.rs` `crates/{a,b}` `cargo run` `https://x.test/a.rs`";
        assert!(claimed_paths(text).is_empty());
    }

    #[test]
    fn paths_are_found_with_their_line() {
        let text = "a `crates/proto/` and `session.rs:12`\n```\n`docs/not-this`\n```\n`docs/b.md`";
        let want = [(1, "crates/proto"), (1, "session.rs"), (5, "docs/b.md")];
        assert_eq!(claimed_paths(text), want.map(|(line, path)| (line, path.to_owned())));
    }

    #[test]
    fn a_path_may_be_a_file_a_folder_a_tail_or_a_pattern() {
        let files = ["crates/proto/src/frame/sse.rs".to_owned()];
        assert!(exists(&files, "crates/proto/src/frame/sse.rs"));
        assert!(exists(&files, "crates/proto"));
        assert!(exists(&files, "frame/sse.rs"));
        assert!(exists(&files, "crates/*/src/frame/*.rs"));
        assert!(!exists(&files, "se.rs"));
        assert!(!exists(&files, "crates/prot"));
    }
}
