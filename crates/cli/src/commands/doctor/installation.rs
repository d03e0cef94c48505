//! The checks of the installation: version, state folder, store of logins, clock, leftover processes
//! and daemons.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use bowline::auth::store::OpenedStore;
use bowline::auth::{self, Account, AccountState};
use bowline::processes::{self, RunningServer};
use bowline_store::private::refuse_shared_folder;
use tokio::time::timeout;

use super::check::{Blame, CheckLog, Finding};
use super::configuration;
use super::tls::clock_command;
use crate::env;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::accounts::describe_store;
use crate::print::{clock, units};
use crate::settings::Settings;
use crate::suggested_command::CommandLine;

/// How long opening the store may take: a keyring may ask a person to unlock it.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes all checks of the installation.
pub(super) async fn check(settings: &Settings, log: &CheckLog) {
    log.add_timed("version", Duration::ZERO, Finding::ok(version()));
    configuration::check_files(settings, log);
    let begun = Instant::now();
    let state = env::state_folder(&*settings.env);
    let finding = match state.as_deref().map(|folder| (folder, find_obstacle(folder))) {
        Some((folder, Some(obstacle))) => obstacle_finding(folder, &obstacle),
        Some((folder, None)) => {
            state_finding(folder, refuse_shared_folder(folder).map_err(|error| error.to_string()))
        }
        None => Finding::failed(Blame::Machine, Exit::Usage, "there is no folder for state: HOME is not set")
            .fix("set HOME to your home folder"),
    };
    log.add("state", begun, finding);
    check_store(settings, log).await;
    let begun = Instant::now();
    let program = std::env::current_exe().and_then(std::fs::metadata).and_then(|file| file.modified());
    log.add("clock", begun, clock_finding(program.ok(), SystemTime::now()));
    let begun = Instant::now();
    let finding = match env::process_records_folder(&*settings.env) {
        None => Finding::ok("there are no records of processes: HOME is not set"),
        Some(folder) => {
            // Reads files and queries the system, so it runs on a blocking thread.
            let listed = tokio::task::spawn_blocking(move || processes::list(&folder)).await;
            let listed = listed.map_err(|error| error.to_string());
            processes_finding(
                listed.and_then(|listed| listed.map_err(|error| error.to_string())),
                &settings.command_line,
            )
        }
    };
    log.add("processes", begun, finding);
    #[cfg(unix)]
    daemon::check(settings, log).await;
}

/// Returns version and system, for `version` and for reports.
pub(super) fn version() -> String {
    format!("bowline {} on {} {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH)
}

async fn check_store(settings: &Settings, log: &CheckLog) {
    let begun = Instant::now();
    let logins = settings.login_settings();
    let opened = match timeout(STORE_TIMEOUT, logins.open_existing_store()).await {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err(Failure::usage(format!(
            "no answer within {} s: is the keyring locked?",
            STORE_TIMEOUT.as_secs()
        ))),
    };
    let opened = match opened {
        Ok(opened) => opened,
        Err(failure) => {
            log.add("store", begun, broken_store_finding(failure, &settings.command_line));
            log.skip(&["logins"], "the store cannot be used");
            return;
        }
    };
    log.add("store", begun, store_finding(opened.as_ref()));
    let Some(opened) = opened else { return };
    let begun = Instant::now();
    let accounts = timeout(STORE_TIMEOUT, auth::accounts(&opened.store)).await;
    let finding = match accounts {
        Ok(Ok(accounts)) => logins_finding(&accounts, &settings.command_line),
        Ok(Err(error)) => broken_store_finding(Failure::login_store(&error), &settings.command_line),
        Err(_) => broken_store_finding(Failure::usage("the store does not answer"), &settings.command_line),
    };
    log.add("logins", begun, finding);
}

fn state_finding(folder: &Path, refused: Result<(), String>) -> Finding {
    match refused {
        Ok(()) if folder.exists() => Finding::ok(folder.display().to_string()),
        Ok(()) => Finding::ok(format!("{} does not exist yet", folder.display())),
        Err(why) => Finding::failed(Blame::Machine, Exit::Usage, why)
            .fix("look into the folder, then make it yours alone")
            .run(format!("chmod 700 {}", quote_path(folder))),
    }
}

/// What keeps files from being created in a folder, which may not exist yet.
struct Obstacle {
    /// The folder itself, or the nearest of its parents that exists.
    path: PathBuf,
    why: String,
}

/// Looks for what keeps files from being created in a folder. Nothing is created by it.
fn find_obstacle(folder: &Path) -> Option<Obstacle> {
    let path = folder.ancestors().find(|path| path.symlink_metadata().is_ok())?.to_owned();
    if !path.is_dir() {
        return Some(Obstacle { path, why: "it is not a folder".to_owned() });
    }
    let error = refuse_read_only(&path).err()?;
    Some(Obstacle { why: env::describe_io_error(&error), path })
}

/// Fails if nothing can be created in a folder.
#[cfg(unix)]
fn refuse_read_only(folder: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};

    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(io::Error::from)
}

/// Accepts every folder: on this platform only an attempt would tell.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere the system tells")]
fn refuse_read_only(_folder: &Path) -> io::Result<()> {
    Ok(())
}

fn obstacle_finding(folder: &Path, obstacle: &Obstacle) -> Finding {
    let Obstacle { path, why } = obstacle;
    let seen = format!("no state can be kept in {}: {}: {why}", folder.display(), path.display());
    Finding::failed(Blame::Machine, Exit::Usage, seen)
        .fix("let your user write there, or set XDG_STATE_HOME to a folder where it can")
        .run(format!("ls -ld {}", quote_path(path)))
}

fn quote_path(path: &Path) -> String {
    bowline_settings::shell_quote(&path.display().to_string())
}

fn store_finding(opened: Option<&OpenedStore>) -> Finding {
    match opened {
        None => Finding::ok("nothing is stored yet"),
        Some(opened) => Finding::ok(describe_store(opened)).details(opened.notes.iter().cloned()),
    }
}

fn broken_store_finding(failure: Failure, command_line: &CommandLine) -> Finding {
    let (seen, hint) = match failure {
        Failure::Report(report) => (report.message, report.hint),
        Failure::Signal(_) | Failure::Output(_) => ("the store cannot be used".to_owned(), None),
    };
    Finding::failed(Blame::Machine, Exit::Usage, seen)
        .fix(
            hint.unwrap_or_else(|| "`[store]` in your configuration sets where logins are stored".to_owned()),
        )
        .run(command_line.format_command(["auth"]))
}

fn logins_finding(accounts: &[Account], command_line: &CommandLine) -> Finding {
    let needing: Vec<&Account> =
        accounts.iter().filter(|account| matches!(account.state, AccountState::NeedsLogin(_))).collect();
    let count = units::count(accounts.len(), "login");
    let Some(first) = needing.first() else { return Finding::ok(count) };
    let names: Vec<&str> = needing.iter().map(|account| account.server.as_str()).collect();
    Finding::warning(Blame::You, format!("{count}, of which these have ended: {}", names.join(", ")))
        .fix("log in again")
        .run(command_line.format_command(["login", &first.server]))
}

/// A clock that is behind the file of this program is wrong.
fn clock_finding(program: Option<SystemTime>, now: SystemTime) -> Finding {
    let shown = clock::utc(now);
    match program.and_then(|made| made.duration_since(now).ok()) {
        Some(behind) if behind > Duration::from_secs(24 * 60 * 60) => {
            let seen = format!("{shown} is {} before this program was made", clock::format_span(behind));
            Finding::failed(Blame::Machine, Exit::Usage, seen)
                .fix("set the clock: tokens and certificates seem invalid otherwise")
                .run(clock_command())
        }
        _ => Finding::ok(shown),
    }
}

fn processes_finding(listed: Result<Vec<RunningServer>, String>, command_line: &CommandLine) -> Finding {
    let listed = match listed {
        Ok(listed) => listed,
        Err(why) => {
            return Finding::warning(
                Blame::Machine,
                format!("the records of processes cannot be read: {why}"),
            )
            .fix("see what is wrong with them")
            .run(command_line.format_command(["ps"]));
        }
    };
    let orphans: Vec<&str> =
        listed.iter().filter(|server| server.is_orphan).map(|server| server.server.as_str()).collect();
    if orphans.is_empty() {
        return Finding::ok(match listed.len() {
            0 => "no server of bowline is running".to_owned(),
            count => format!("{} of running bowlines", units::count(count, "server")),
        });
    }
    let seen = format!("left by a bowline that was killed: {}", orphans.join(", "));
    Finding::warning(Blame::Machine, seen).fix("end them").run(command_line.format_command(["ps", "--clean"]))
}

#[cfg(unix)]
mod daemon {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use tokio::net::UnixStream;
    use tokio::time::timeout;

    use super::super::check::{Blame, CheckLog, Finding};
    use crate::commands::serve::{DaemonPulse, find_daemons};
    use crate::exit::Exit;
    use crate::settings::Settings;

    /// How long a daemon may take to answer.
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

    /// Checks the daemons of `bowline serve --stdio` that run.
    pub(super) async fn check(settings: &Settings, log: &CheckLog) {
        let mut count = 0;
        let begun = Instant::now();
        for found in find_daemons(settings) {
            let begun = Instant::now();
            // A daemon that was killed leaves its socket behind, which the next one takes over.
            if UnixStream::connect(&found.socket).await.is_err() {
                continue;
            }
            count += 1;
            let pulse = Arc::new(DaemonPulse::new(found.socket));
            let is_hung = timeout(ANSWER_TIMEOUT, pulse.is_hung()).await.unwrap_or(true);
            log.add("daemon", begun, finding(is_hung, found.pid, found.version.as_deref()));
        }
        if count == 0 {
            log.add("daemon", begun, Finding::ok("none is running"));
        }
    }

    fn finding(is_hung: bool, pid: Option<u32>, version: Option<&str>) -> Finding {
        let facts =
            [pid.map(|pid| format!("pid {pid}")), version.map(|version| format!("version {version}"))];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        let named = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        if !is_hung {
            return Finding::ok(format!("`bowline serve`{named} answers"));
        }
        Finding::failed(Blame::Bowline, Exit::Timeout, format!("`bowline serve`{named} does not answer"))
            .fix("end it: hosts start another one, and keep their sessions")
            .run(pid.map(|pid| format!("kill -9 {pid}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::check::Status;

    #[test]
    fn clock_before_the_program_is_wrong() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let day = Duration::from_secs(24 * 60 * 60);
        assert_eq!(clock_finding(Some(now - day), now).status, Status::Ok);
        assert_eq!(clock_finding(None, now).status, Status::Ok);
        let wrong = clock_finding(Some(now + 400 * day), now);
        assert_eq!((wrong.status, wrong.blame), (Status::Failed, Some(Blame::Machine)));
        assert_eq!(wrong.seen, "2001-09-09T01:46:40.000Z is 400d 0h before this program was made");
    }

    #[test]
    fn shared_state_folder_is_refused() {
        let finding = state_finding(Path::new("/a b"), Err("others can write to it".to_owned()));
        let command = finding.remedy.unwrap().command;
        assert_eq!((finding.status, command.as_deref()), (Status::Failed, Some("chmod 700 '/a b'")));
    }
}
