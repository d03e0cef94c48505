//! Servers end when the process that runs them is killed with SIGKILL, or just exits.

use crate::support::host::{Host, NO_WATCHDOG, ProcessRoll, is_alive, run_as_host_if_requested};
use crate::support::{pid, within};
#[cfg(target_os = "linux")]
use bowline_transport::process::list;
use rustix::process::{Signal, kill_process, kill_process_group};

/// Runs a script as a server, kills its host, and waits for `count` processes to die.
async fn all_die_with_the_host(script: impl FnOnce(&str) -> String, count: usize) {
    let roll = ProcessRoll::new();
    let mut host = Host::start(HOST, &script(&roll.stay()), &roll.records());
    let present = roll.wait_for(count).await;
    host.kill();
    present.gone().await;
}

/// Name of the test that also runs as the host of the others.
const HOST: &str = "killed::a_wrapper_and_its_child_die";

#[tokio::test]
async fn a_wrapper_and_its_child_die() {
    run_as_host_if_requested().await;
    all_die_with_the_host(|stay| format!("{stay} & {stay}; echo never"), 2).await;
}

/// A host that has a watchdog of its own starts none of ours.
#[tokio::test]
async fn a_server_without_a_watchdog_starts_none() {
    for (env, has_watchdog) in [(&[][..], true), (&[(NO_WATCHDOG, "1")][..], false)] {
        let roll = ProcessRoll::new();
        let host = Host::start_with(HOST, &format!("{}; echo never", roll.stay()), &roll.records(), env);
        roll.wait_for(1).await;
        assert_eq!(host.find_watchdog().is_some(), has_watchdog);
    }
}

/// As `npx` starts a server: a launcher, its shell, the server, its child.
#[tokio::test]
async fn a_chain_of_launchers_dies() {
    let chain = |stay: &str| format!(r#"sh -c "sh -c '{stay} & wait'; echo never"; echo never"#);
    all_die_with_the_host(chain, 1).await;
}

/// The parent of the child is gone; its group is not.
#[tokio::test]
async fn a_double_forked_child_dies() {
    all_die_with_the_host(|stay| format!("(({stay} &) &); {stay}; echo never"), 2).await;
}

/// The child has left its group and its session, but descends from its server.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_with_a_session_of_its_own_dies() {
    all_die_with_the_host(|stay| format!("setsid {stay} & {stay}; echo never"), 2).await;
}

/// Its parent is gone as well: like a browser that the server opened for a person. So is what it
/// starts.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_detached_process_lives() {
    let (roll, users) = (ProcessRoll::new(), ProcessRoll::new());
    let detached = format!("setsid sh -c 'setsid sh -c \"{0} & {0}\" &'", users.stay());
    let mut host = Host::start(HOST, &format!("{detached}; {}; echo never", roll.stay()), &roll.records());
    let (present, browser) = (roll.wait_for(1).await, users.wait_for(2).await);
    let watchdog = host.watchdog();
    host.kill();
    present.gone().await;
    within(async {
        while is_alive(watchdog) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(browser.pids().into_iter().all(is_alive), "{:?}", browser.pids());
    assert!(list(&roll.records()).unwrap()[0].processes.iter().all(|process| process.is_detached));
}

/// `grep` without `-z`, as in some builds of BusyBox.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_with_a_session_of_its_own_dies_where_grep_knows_no_zero_bytes() {
    let roll = ProcessRoll::new();
    let bin = tempfile::tempdir().unwrap();
    let path = std::env::var("PATH").unwrap();
    let refuse = r#"for word; do case $word in -*z*) echo "$word" >>"${0%/*}/refused"; exit 2 ;; esac; done"#;
    crate::support::executable(
        &bin.path().join("grep"),
        &format!("#!/bin/sh\n{refuse}\nPATH='{path}'\nexec grep \"$@\"\n"),
    );
    let script = format!("setsid {0} & {0}; echo never", roll.stay());
    let path = format!("{}:{path}", bin.path().display());
    let mut host = Host::start_with(HOST, &script, &roll.records(), &[("PATH", &path)]);
    let present = roll.wait_for(2).await;
    host.kill();
    present.gone().await;
    assert!(bin.path().join("refused").exists());
}

#[tokio::test]
async fn server_that_ignores_sigterm_is_killed() {
    all_die_with_the_host(|stay| format!("trap '' TERM HUP INT; {stay} & {stay}; {stay}"), 2).await;
}

#[tokio::test]
async fn a_host_that_just_exits_leaves_nothing() {
    let roll = ProcessRoll::new();
    let script = format!("{0} & {0}", roll.stay());
    let mut host = Host::start(HOST, &script, &roll.records());
    let present = roll.wait_for(2).await;
    host.leave();
    present.gone().await;
}

/// A terminal, or a supervisor of the host, signals the whole group of the host.
#[tokio::test]
async fn the_watchdog_is_not_in_the_hosts_group() {
    let roll = ProcessRoll::new();
    let script = format!("{0} & {0}", roll.stay());
    let host = Host::start(HOST, &script, &roll.records());
    let present = roll.wait_for(2).await;
    let watchdog = host.watchdog();
    wait_until_signals_ignored(watchdog).await;
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        // Signals to the watchdog itself have no effect either.
        kill_process(pid(watchdog), signal).unwrap();
    }
    assert!(is_alive(watchdog));
    kill_process_group(pid(host.pid()), Signal::KILL).unwrap();
    present.gone().await;
    // The watchdog exits afterwards.
    within(async {
        while is_alive(watchdog) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Waits until the shell has run its first line.
async fn wait_until_signals_ignored(watchdog: u32) {
    let status = std::path::PathBuf::from(format!("/proc/{watchdog}/status"));
    within(async {
        // Other systems have no such file; there the servers were started after the shell.
        while let Ok(text) = std::fs::read_to_string(&status) {
            let ignored = text.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
            let mask = ignored.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(u64::MAX);
            if mask & (1 << (Signal::TERM.as_raw() - 1)) != 0 {
                break;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Inherited files could belong to anybody, also to the test runner.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_watchdog_holds_nothing_of_ours() {
    let roll = ProcessRoll::new();
    let host = Host::start(HOST, &roll.stay(), &roll.records());
    let _present = roll.wait_for(1).await;
    let proc = std::path::PathBuf::from(format!("/proc/{}", host.watchdog()));
    let mut open: Vec<(u32, String)> = std::fs::read_dir(proc.join("fd"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let number = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            (number, std::fs::read_link(path).unwrap().display().to_string())
        })
        // The test passes on what it inherited itself; a shell can close only the first ten.
        .filter(|(number, _)| *number < 10)
        .collect();
    open.sort_unstable();
    assert!(open.len() == 3 && open[0].1.starts_with("socket:"), "{open:?}");
    assert!(open[1..].iter().all(|(_, name)| name == "/dev/null"), "{open:?}");
    assert_eq!(std::fs::read_link(proc.join("cwd")).unwrap().to_str(), Some("/"));
    let environment = std::fs::read_to_string(proc.join("environ")).unwrap();
    let names = environment.split_terminator('\0').map(|entry| entry.split('=').next().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["PATH"]);
}
