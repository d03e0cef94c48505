//! No source file grows past what a reader can hold.

use anyhow::Result;

use crate::{source::SourceFile, tree::Workspace};

/// Files that are too long, test items not counted, as lines for people.
pub(super) fn too_long(workspace: &Workspace) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in ["crates", "conformance", "benches", "examples", "fuzz", "xtask"] {
        for file in SourceFile::load(workspace, folder)? {
            let lines = file.production_lines();
            if lines > LIMIT {
                let path = workspace.show(&file.path);
                found.push(format!("{path}: {lines} lines without tests, the limit is {LIMIT}"));
            }
        }
    }
    Ok(found)
}

const LIMIT: usize = 600;
