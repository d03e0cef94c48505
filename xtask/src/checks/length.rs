//! Limits the length of source files.

use anyhow::Result;

use crate::workspace::Workspace;

/// Lists files that are too long, one line of text each.
pub(super) fn find_long_files(workspace: &Workspace) -> Result<Vec<String>> {
    let sources = workspace.rust_sources("")?.into_iter().map(|(path, text)| (path, text.lines().count()));
    let long = sources.filter(|(_, lines)| *lines > MAX_LINES);
    Ok(long.map(|(path, lines)| format!("{path}: {lines} lines, the limit is {MAX_LINES}")).collect())
}

const MAX_LINES: usize = 600;
