//! Reads the files in which Claude Code says which servers it does not use.

use std::path::{Path, PathBuf};

use bowline_hosts::{ClaudeFiles, ClaudeSettings, Host};
use bowline_settings::read_text_file;

use super::host_files::{FileProblem, MAX_FILE_MEBIBYTES, describe_unreadable, is_there};
use crate::settings::Settings;

/// Reads the settings of Claude Code that count in a project. Those of a file that cannot be read are left
/// out, with a problem.
pub(super) fn read_claude_settings(
    project: Option<&Path>,
    settings: &Settings,
    problems: &mut Vec<FileProblem>,
) -> ClaudeSettings {
    let files = ClaudeFiles::of(&*settings.env, project);
    let mut read = ClaudeSettings::default();
    let mut report = |path: PathBuf, line: Option<usize>, message: String| {
        if problems.iter().all(|known| known.path != path) {
            let host = Some(Host::ClaudeCode);
            problems.push(FileProblem { host, path, line, message, is_refused: false });
        }
    };
    for path in files.settings.into_iter().filter(|path| is_there(path)) {
        match read_text_file(&path, MAX_FILE_MEBIBYTES) {
            Ok(text) => {
                if let Err(problem) = read.add_settings(&path, &text) {
                    report(path, Some(problem.line), problem.message);
                }
            }
            Err(error) => report(path, None, describe_unreadable(&error)),
        }
    }
    // The servers of this file are read on their own account, which reports what is wrong with it.
    if let (Some(project), Some(path)) = (project, files.state)
        && let Ok(text) = read_text_file(&path, MAX_FILE_MEBIBYTES)
    {
        let _ = read.add_project_state(project, &path, &text);
    }
    read
}
