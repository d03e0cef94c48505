//! Limits the length of source files.

use anyhow::Result;

use crate::{source::SourceFile, workspace::Workspace};

/// Lists files that are too long, test items not counted, one line of text each.
pub(super) fn find_long_files(workspace: &Workspace) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in ["crates", "conformance", "benches", "examples", "fuzz", "xtask"] {
        for file in SourceFile::load(workspace, folder)? {
            let lines = file.production_lines();
            if lines > MAX_LINES {
                let path = workspace.show(&file.path);
                found.push(format!("{path}: {lines} lines without tests, the limit is {MAX_LINES}"));
            }
        }
    }
    Ok(found)
}

const MAX_LINES: usize = 600;
