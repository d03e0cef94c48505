//! Queries the user's login shell for its PATH.
//!
//! A host that was started from a desktop has the PATH of the system, not the one its user set up
//! in the files of the shell, so `npx` or `uvx` are not found although they work in every terminal.
//! The shell is run once per process, and only when a program is missing.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use memchr::memmem;
use nix::unistd::{User, getuid};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout, timeout_at};

use super::group::Group;

/// The PATH of the login shell, if the shell printed one.
pub(super) async fn path() -> Option<&'static OsStr> {
    static PATH: OnceCell<Option<OsString>> = OnceCell::const_new();
    PATH.get_or_init(|| async { query_path(&user_shell()?, SHELL_TIMEOUT).await }).await.as_deref()
}

/// How long the shell may take. Its startup files can run anything.
const SHELL_TIMEOUT: Duration = Duration::from_secs(3);
/// How many bytes the startup files may print before the PATH.
const MAX_SHELL_OUTPUT: usize = 256 * 1024;
/// Printed before and after the PATH, because startup files print banners too.
const PATH_DELIMITER: &str = "__BOWLINE_PATH__";

fn user_shell() -> Option<PathBuf> {
    let named = std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).map(PathBuf::from);
    named.or_else(|| User::from_uid(getuid()).ok().flatten().map(|user| user.shell))
}

/// Runs the shell interactively first, because many people extend PATH in a file that only
/// interactive shells read.
async fn query_path(shell: &Path, limit: Duration) -> Option<OsString> {
    let deadline = Instant::now() + limit;
    for flags in [&["-i", "-l"][..], &["-l"]] {
        // An interactive shell may hang where a plain one does not, so it gets two thirds of the
        // time.
        let until = if flags.len() > 1 { deadline - limit / 3 } else { deadline };
        if let Ok(Some(path)) = timeout_at(until, run_shell(shell, flags)).await {
            return Some(path);
        }
    }
    tracing::warn!(shell = %shell.display(), "the login shell did not tell its PATH");
    None
}

async fn run_shell(shell: &Path, flags: &[&str]) -> Option<OsString> {
    let mut command = Command::new(shell);
    command.args(flags).arg("-c").arg(format!("printf '{PATH_DELIMITER}%s{PATH_DELIMITER}' \"$PATH\""));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // In its own session it cannot take the terminal from us. It never outlives this function.
    let mut group = Group::spawn_session(command).ok()?;
    let mut stdout = group.stdout()?.take(MAX_SHELL_OUTPUT as u64);
    let mut output = Vec::new();
    loop {
        let read = stdout.read_buf(&mut output).await;
        if let Some(path) = extract_path(&output) {
            let path = OsString::from_vec(path.to_vec());
            // The shell is about to exit by itself.
            let _ = timeout(Duration::from_millis(100), group.wait_for_exit()).await;
            return (!path.is_empty()).then_some(path);
        }
        if !matches!(read, Ok(1..)) {
            return None;
        }
    }
}

fn extract_path(output: &[u8]) -> Option<&[u8]> {
    let start = memmem::find(output, PATH_DELIMITER.as_bytes())? + PATH_DELIMITER.len();
    let length = memmem::find(&output[start..], PATH_DELIMITER.as_bytes())?;
    Some(&output[start..start + length])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a fake shell. It gets the flags and `-c SCRIPT`.
    fn fake_shell(folder: &tempfile::TempDir, script: &str) -> PathBuf {
        let shell = folder.path().join("shell");
        // Written by another process: a file that we had open for writing ourselves cannot be
        // executed while a child that another test is starting still holds it.
        let write = r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod 755 "$1""#;
        let mut command = std::process::Command::new("sh");
        assert!(command.args(["-c", write, "sh"]).arg(&shell).arg(script).status().unwrap().success());
        shell
    }

    async fn query_fake_shell(script: &str, limit: Duration) -> Option<OsString> {
        let folder = tempfile::tempdir().unwrap();
        query_path(&fake_shell(&folder, script), limit).await
    }

    const TEST_TIMEOUT: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn the_real_sh_answers() {
        assert!(query_path("/bin/sh".as_ref(), TEST_TIMEOUT).await.is_some());
    }

    #[tokio::test]
    async fn banners_and_daemons_do_not_matter() {
        let script = "echo welcome; sleep 1000 & PATH=/opt/x:/bin; while [ $1 != -c ]; do shift; done; eval \"$2\"; echo bye";
        assert_eq!(query_fake_shell(script, TEST_TIMEOUT).await.unwrap(), "/opt/x:/bin");
    }

    #[tokio::test]
    async fn a_shell_that_fails_when_interactive_is_asked_again() {
        let script = "[ $1 = -i ] && exit 1; shift; PATH=/plain; eval \"$2\"";
        assert_eq!(query_fake_shell(script, TEST_TIMEOUT).await.unwrap(), "/plain");
    }

    #[tokio::test]
    async fn a_shell_that_hangs_or_floods_is_given_up() {
        assert_eq!(query_fake_shell("exec sleep 1000", Duration::from_millis(150)).await, None);
        assert_eq!(query_fake_shell("exec yes", TEST_TIMEOUT).await, None);
        assert_eq!(query_path("/nonexistent/shell".as_ref(), TEST_TIMEOUT).await, None);
    }
}
