//! Decides which folders are offered to servers as roots: those that were typed, else those of the
//! configuration, else none. A server may use them in place of the folders that it was started
//! with, and so get access to more, so only folders that somebody asked for are offered.
// RT-01, RT-02.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline::host::Root;

use crate::failure::{Failure, Outcome};
use crate::print::Printer;

/// Resolves the roots. A typed folder that does not exist is an error; a configured one may appear
/// later.
pub(super) async fn resolve_roots(
    typed: Vec<PathBuf>,
    configured: Option<Vec<PathBuf>>,
    printer: &Printer,
) -> Outcome<Vec<Root>> {
    if !typed.is_empty() {
        let mut roots = Vec::new();
        for path in typed {
            if let Err(why) = check_folder(&path).await {
                return Err(Failure::usage(format!("--root {}: {why}", path.display())));
            }
            roots.push(Root::folder(path).map_err(|error| Failure::usage(error.to_string()))?);
        }
        return Ok(roots);
    }
    let mut roots = Vec::new();
    for path in configured.into_iter().flatten() {
        if let Err(why) = check_folder(&path).await {
            let path = path.display();
            printer
                .note(&format!("the folder {path} of your configuration is not offered to servers: {why}"));
        }
        match Root::folder(path) {
            // A configured folder is offered once it exists.
            Ok(root) => roots.push(root),
            Err(error) => tracing::debug!(%error, "a configured folder is left out"),
        }
    }
    Ok(roots)
}

/// Checks that the path is a folder. The error says what it is instead.
async fn check_folder(path: &Path) -> Result<(), &'static str> {
    if path.as_os_str().is_empty() {
        return Err("it is empty");
    }
    let path = path.to_owned();
    // A network file system that is unavailable may never answer.
    let looked = tokio::task::spawn_blocking(move || std::fs::metadata(path));
    match tokio::time::timeout(STAT_TIMEOUT, looked).await {
        Ok(Ok(Ok(found))) if found.is_dir() => Ok(()),
        Ok(Ok(Ok(_))) => Err("it is not a folder"),
        Ok(Ok(Err(error))) if error.kind() == std::io::ErrorKind::NotFound => Err("there is no such folder"),
        Ok(_) => Err("it cannot be read"),
        Err(_) => Err("it does not respond"),
    }
}

const STAT_TIMEOUT: Duration = Duration::from_secs(2);
