//! Records of running servers: how they are listed, and swept after a crash.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::host::{Host, LiveProcesses, ProcessRoll, is_alive, run_as_host_if_requested};
use crate::support::{LIMIT, LONG_GRACE, SHORT_GRACE, end, message, pid, sh, within};
use bowline_proto::fault::Exit;
use bowline_transport::process::{Launch, Process, list, spawn, sweep};
use rustix::process::{Signal, kill_process};

async fn start_recorded(script: &str, folder: &Path) -> Process {
    let stdio = sh(script);
    let launch = Launch {
        name: "files",
        stdio: &stdio,
        limit: LIMIT,
        grace: SHORT_GRACE,
        records: Some(folder),
        watchdog: true,
        stderr: None,
    };
    within(spawn(launch)).await.unwrap()
}

/// The path and text of the only record in a folder.
fn read_only_record(folder: &Path) -> (PathBuf, String) {
    let paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(paths.len(), 1, "{paths:?}");
    (paths[0].clone(), fs::read_to_string(&paths[0]).unwrap())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[tokio::test]
async fn a_running_server_is_listed_with_all_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let script = "sh -c 'sleep 300; echo $1' secret & echo '{}'; cat; exit 0";
    let mut process = start_recorded(script, folder.path()).await;
    message(&mut process.reader).await;
    // The background shell may not have started its child yet, which is a shell until it becomes
    // `sleep`.
    let entries = within(async {
        loop {
            let entries = list(folder.path()).unwrap();
            let mut names: Vec<_> = entries[0].processes.iter().map(|process| &*process.name).collect();
            names.sort_unstable();
            if names == ["cat", "sh", "sh", "sleep"] {
                break entries;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let entry = &entries[0];
    assert_eq!((&*entry.server, entry.owner, entry.is_orphan), ("files", std::process::id(), false));
    assert!(entry.started.elapsed().unwrap() < Duration::from_secs(60));
    let first = &entry.processes[0];
    assert_eq!((first.pid, first.parent, first.depth), (process.handle.pid(), std::process::id(), 0));
    for process in &entry.processes {
        assert!(process.memory > 10_000 && process.memory < 100_000_000, "{process:?}");
        assert!(process.started.elapsed().unwrap_or_default() < Duration::from_secs(60), "{process:?}");
        let parent = entry.processes.iter().position(|other| other.pid == process.parent);
        assert_eq!(
            parent.map(|at| entry.processes[at].depth + 1),
            (process.depth > 0).then_some(process.depth)
        );
    }

    // The command line is not recorded.
    assert!(!read_only_record(folder.path()).1.contains("secret"));
    assert_eq!(within(process.handle.shutdown()).await, Exit::Code(0));
    assert!(list(folder.path()).unwrap().is_empty());
    assert!(is_empty(folder.path()));
}

#[tokio::test]
async fn a_server_that_ends_by_itself_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = start_recorded("exit 3", folder.path()).await;
    end(&mut process.reader).await;
    within(process.handle.shutdown()).await;
    assert!(is_empty(folder.path()));
}

/// Listing does not reap: the exit of the server is still reported to its supervisor.
#[tokio::test]
async fn listing_does_not_take_the_exit_of_a_dead_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = start_recorded("echo '{}'; exec cat", folder.path()).await;
    message(&mut process.reader).await;
    kill_process(pid(process.handle.pid()), Signal::KILL).unwrap();
    // Without a pause: the runtime of this thread cannot reap it before the list sees it dead.
    while !list(folder.path()).unwrap().is_empty() {}
    assert_eq!(within(process.handle.shutdown()).await, Exit::Signal(9));
}

#[tokio::test]
async fn a_server_runs_also_where_nothing_can_be_written() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut process = start_recorded("echo '{}'; exec cat", file.path()).await;
    assert_eq!(message(&mut process.reader).await, "{}");
    assert!(list(file.path()).is_err());
}

#[tokio::test]
async fn a_sweep_leaves_alone_what_has_an_owner() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = start_recorded("echo '{}'; exec cat", folder.path()).await;
    message(&mut process.reader).await;
    assert_eq!(sweep(folder.path()).await.unwrap(), []);
    assert!(is_alive(process.handle.pid()));
    assert_eq!(list(folder.path()).unwrap().len(), 1);
    assert_eq!(within(process.handle.shutdown()).await, Exit::Code(0));
}

/// Starts a server whose host and watchdog are then killed.
async fn start_orphan(roll: &ProcessRoll, script: &str, count: usize) -> LiveProcesses {
    let mut host = Host::start(HOST, script, &roll.records());
    let present = roll.wait_for(count).await;
    // The server may be up before its host has written the record.
    within(async {
        while list(&roll.records()).unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    kill_process(pid(host.watchdog()), Signal::KILL).unwrap();
    host.kill();
    present
}

/// Name of the test that also runs as the host of the others.
const HOST: &str = "records::an_orphan_is_found_and_ended";

#[tokio::test]
async fn an_orphan_is_found_and_ended() {
    run_as_host_if_requested().await;
    let roll = ProcessRoll::new();
    // One of them ignores SIGTERM.
    let script = format!("(trap '' TERM; {0}) & exec {0}", roll.stay());
    let present = start_orphan(&roll, &script, 2).await;
    let entries = list(&roll.records()).unwrap();
    assert!(entries.len() == 1 && entries[0].is_orphan, "{entries:?}");
    assert!(entries[0].processes.len() >= 2, "{entries:?}");

    let swept = within(sweep(&roll.records())).await.unwrap();
    assert_eq!(swept.len(), 1);
    assert_eq!((&*swept[0].server, swept[0].pid), ("test", entries[0].processes[0].pid));
    assert_eq!(swept[0].processes, entries[0].processes.len());
    present.gone().await;
    assert!(is_empty(&roll.records()));
    assert_eq!(sweep(&roll.records()).await.unwrap(), []);
}

/// The server itself is dead; its daemon carries its mark.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_daemon_of_a_dead_server_is_found_by_its_mark() {
    let roll = ProcessRoll::new();
    let script = format!("bash -c 'set -m; {0} &'; exec {0}", roll.stay());
    let present = start_orphan(&roll, &script, 2).await;
    let leader = list(&roll.records()).unwrap()[0].processes[0].pid;
    kill_process(pid(leader), Signal::KILL).unwrap();
    within(async {
        while is_alive(leader) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let swept = within(sweep(&roll.records())).await.unwrap();
    assert_eq!((swept.len(), swept[0].processes), (1, 1));
    present.gone().await;
}

/// A detached process belongs to the user, and is listed for as long as it lives.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_a_dead_server_detached_is_listed_and_not_ended() {
    let (roll, users) = (ProcessRoll::new(), ProcessRoll::new());
    let script = format!("setsid sh -c 'setsid {} &'; exec {}", users.stay(), roll.stay());
    let (present, browser) = tokio::join!(start_orphan(&roll, &script, 1), users.wait_for(1));
    let detached = || -> Vec<(u32, bool)> {
        let entries = list(&roll.records()).unwrap();
        entries.iter().flat_map(|entry| &entry.processes).map(|it| (it.pid, it.is_detached)).collect()
    };
    let mut expected = [(present.pids()[0], false), (browser.pids()[0], true)];
    expected.sort_unstable();
    let mut found = detached();
    found.sort_unstable();
    assert_eq!(found, expected);

    let swept = within(sweep(&roll.records())).await.unwrap();
    assert_eq!((swept.len(), swept[0].processes), (1, 1));
    present.gone().await;
    assert!(is_alive(browser.pids()[0]));
    assert_eq!(detached(), [(browser.pids()[0], true)]);
    assert!(!list(&roll.records()).unwrap()[0].is_orphan, "nobody would end it");
    assert_eq!(within(sweep(&roll.records())).await.unwrap(), []);

    let pid = browser.pids()[0];
    drop(browser);
    within(async {
        while is_alive(pid) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(within(sweep(&roll.records())).await.unwrap(), []);
    assert!(is_empty(&roll.records()));
}

/// A process id with another start time is another process. A mark that nobody carries proves
/// nothing.
#[tokio::test]
async fn a_record_that_does_not_match_ends_nobody() {
    let roll = ProcessRoll::new();
    let present = start_orphan(&roll, &format!("exec {}", roll.stay()), 1).await;
    let (path, text) = read_only_record(&roll.records());
    let pid = present.pids()[0];
    let mark = path.file_stem().unwrap().to_str().unwrap();
    let (before, after) = text.split_once("\"leader\":{").unwrap();
    let (leader, after) = after.split_once('}').unwrap();
    let other = "0123456789abcdef0123456789abcdef";
    let before = before.replace(mark, other);
    fs::remove_file(&path).unwrap();
    let forged = path.with_file_name(format!("{other}.json"));
    for wrong in [
        leader.replace("\"start\":\"", "\"start\":\"1"),
        leader.replace(&pid.to_string(), "1"),
        leader.replace(&pid.to_string(), "0"),
        leader.replace(&pid.to_string(), &u32::MAX.to_string()),
    ] {
        assert_ne!(wrong, leader);
        fs::write(&forged, format!("{before}\"leader\":{{{wrong}}}{after}")).unwrap();
        assert_eq!(sweep(&roll.records()).await.unwrap(), [], "{wrong}");
        // The forged record is valid but useless, and is removed.
        assert!(is_empty(&roll.records()));
        assert!(is_alive(pid));
    }
    // Half a record is not a record, and is kept for inspection.
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    assert_eq!(sweep(&roll.records()).await.unwrap(), []);
    assert!(is_alive(pid) && path.exists());

    fs::write(&path, text).unwrap();
    assert_eq!(sweep(&roll.records()).await.unwrap().len(), 1);
    present.gone().await;
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    assert_eq!(sweep(&missing).await.unwrap(), []);
    assert!(list(&missing).unwrap().is_empty());
}

#[tokio::test]
async fn a_handle_that_is_dropped_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let stdio = sh("exec sleep 300");
    let launch = Launch {
        name: "files",
        stdio: &stdio,
        limit: LIMIT,
        grace: LONG_GRACE,
        records: Some(folder.path()),
        watchdog: true,
        stderr: None,
    };
    let mut process = within(spawn(launch)).await.unwrap();
    read_only_record(folder.path());
    drop(process.handle);
    end(&mut process.reader).await;
    within(async {
        while !is_empty(folder.path()) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
