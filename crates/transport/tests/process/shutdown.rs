//! The shutdown sequence of a process.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::{LONG_GRACE, LivenessPipe, SHORT_GRACE, end, is_reaped, message, sh, start, within};
#[cfg(target_os = "linux")]
use crate::support::{
    command, frame,
    host::{ProcessRoll, is_alive},
};
use bowline_proto::fault::{Cause, Exit};
use tokio::runtime::{Builder, Runtime};

/// ST-04: a well-behaved child sees the end of its input and no signal.
#[tokio::test]
async fn st_04_end_of_input_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = format!(
        "trap 'echo term >> {0}; exit 1' TERM; echo '{{}}'; cat > /dev/null; echo eof >> {0}; exit 7",
        log.display()
    );
    let mut process = start(&sh(&script), LONG_GRACE).await;
    message(&mut process.reader).await;
    assert_eq!(within(process.handle.shutdown()).await, Exit::Code(7));
    assert_eq!(fs::read_to_string(log).unwrap(), "eof\n");
    assert!(is_reaped(process.handle.pid()));
    // A second shutdown returns the same exit.
    assert_eq!(within(process.handle.shutdown()).await, Exit::Code(7));
    assert_eq!(end(&mut process.reader).await.cause, Cause::Exited(Exit::Code(7)));
}

/// ST-04: a child that ignores the end of its input gets SIGTERM.
#[tokio::test]
async fn st_04_then_sigterm() {
    let mut process =
        start(&sh("trap 'exit 5' TERM; echo '{}'; while :; do sleep 1; done"), SHORT_GRACE).await;
    message(&mut process.reader).await;
    assert_eq!(within(process.handle.shutdown()).await, Exit::Code(5));
}

/// ST-04: a child that ignores both is killed, in time.
#[tokio::test]
async fn st_04_then_sigkill() {
    let mut process = start(&sh("trap '' TERM; echo '{}'; while :; do sleep 1; done"), SHORT_GRACE).await;
    message(&mut process.reader).await;
    let started = Instant::now();
    assert_eq!(within(process.handle.shutdown()).await, Exit::Signal(9));
    let taken = started.elapsed();
    assert!(taken >= SHORT_GRACE.eof + SHORT_GRACE.term, "killed after {taken:?}");
    assert!(taken < SHORT_GRACE.eof + SHORT_GRACE.term + Duration::from_secs(5), "killed after {taken:?}");
    assert!(is_reaped(process.handle.pid()));
}

#[tokio::test]
async fn shutdown_takes_the_grandchildren_along() {
    for trap in ["", "trap '' TERM;"] {
        let witness = LivenessPipe::new();
        let process = start(&sh(&format!("{} exec cat", witness.grandchild(trap))), SHORT_GRACE).await;
        let grandchild = witness.wait_until_up().await;
        // The child itself ends at the end of its input; the grandchild has to be signaled.
        assert_eq!(within(process.handle.shutdown()).await, Exit::Code(0));
        grandchild.wait_until_dead().await;
    }
}

/// The daemons left the group, and in one run they ignore SIGTERM.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn shutdown_takes_the_daemons_along() {
    for trap in ["", "trap \"\" TERM;"] {
        let roll = ProcessRoll::new();
        let daemon = format!("{trap} setsid {} &", roll.stay());
        let process = start(&sh(&format!("{daemon} exec cat")), SHORT_GRACE).await;
        let daemon = roll.wait_for(1).await;
        assert_eq!(within(process.handle.shutdown()).await, Exit::Code(0));
        // Nothing is left at the moment shutdown returns.
        assert!(!is_alive(daemon.pids()[0]));
        daemon.gone().await;
    }
}

/// A crashed server has left them behind, and is about to be restarted. They have left its group,
/// but are in its session.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_a_server_that_ended_by_itself_left_behind_is_ended() {
    let roll = ProcessRoll::new();
    let script = format!("set -m; {} & read go < /dev/stdin; exit 1", roll.stay());
    let process = start(&command("bash", &["-c", &script]), LONG_GRACE).await;
    let daemon = roll.wait_for(1).await;
    process.writer.send(&frame("go")).await.unwrap();
    daemon.gone().await;
}

/// A browser that a server opened belongs to the user: its parent has ended, and it has its own
/// session.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_a_server_detached_lives_on_and_what_descends_from_it_does_not() {
    let (roll, users) = (ProcessRoll::new(), ProcessRoll::new());
    let detached = format!("setsid sh -c 'setsid sh -c \"{0} & {0}\" &'", users.stay());
    let script = format!("{detached}; setsid {} & exec cat", roll.stay());
    let process = start(&sh(&script), SHORT_GRACE).await;
    let (child, browser) = (roll.wait_for(1).await, users.wait_for(2).await);
    assert_eq!(within(process.handle.shutdown()).await, Exit::Code(0));
    child.gone().await;
    assert!(browser.pids().into_iter().all(is_alive), "{:?}", browser.pids());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn dropping_the_handle_kills_the_daemons_at_once() {
    let roll = ProcessRoll::new();
    let script = format!("trap '' TERM; setsid {} & exec cat", roll.stay());
    // With a grace period so long that a graceful end would fail the test.
    let process = start(&sh(&script), LONG_GRACE).await;
    let daemon = roll.wait_for(1).await;
    drop(process);
    daemon.gone().await;
}

#[cfg(target_os = "linux")]
#[test]
fn a_runtime_that_ends_first_takes_the_daemons_along() {
    for runtime in runtimes() {
        let roll = ProcessRoll::new();
        let script = format!("setsid {} & exec sleep 1000", roll.stay());
        let process = runtime.block_on(start(&sh(&script), LONG_GRACE));
        let daemon = runtime.block_on(roll.wait_for(1));
        drop(runtime);
        Runtime::new().unwrap().block_on(daemon.gone());
        drop(process);
    }
}

#[tokio::test]
async fn a_shutdown_nobody_waits_for_goes_on() {
    let mut process = start(&sh("trap '' TERM; echo '{}'; while :; do sleep 1; done"), SHORT_GRACE).await;
    message(&mut process.reader).await;
    assert!(tokio::time::timeout(Duration::ZERO, process.handle.shutdown()).await.is_err());
    assert_eq!(end(&mut process.reader).await.cause, Cause::Exited(Exit::Signal(9)));
}

#[tokio::test]
async fn dropping_the_handle_kills_all() {
    let witness = LivenessPipe::new();
    let script = format!("trap '' TERM; {} cat; sleep 1000", witness.grandchild(""));
    let mut process = start(&sh(&script), LONG_GRACE).await;
    let grandchild = witness.wait_until_up().await;
    let pid = process.handle.pid();
    drop(process.handle);
    grandchild.wait_until_dead().await;
    assert_eq!(end(&mut process.reader).await.cause, Cause::Exited(Exit::Signal(9)));
    assert!(is_reaped(pid));
}

#[test]
fn dropping_the_handle_outside_a_runtime_kills_all() {
    for runtime in runtimes() {
        let witness = LivenessPipe::new();
        let script = format!("{} exec sleep 1000", witness.grandchild(""));
        let process = runtime.block_on(start(&sh(&script), LONG_GRACE));
        let grandchild = witness.up();
        let pid = process.handle.pid();
        drop(process);
        grandchild.dead();
        drop(runtime);
        assert!(is_reaped(pid));
    }
}

#[test]
fn a_runtime_that_ends_first_takes_all_along() {
    for runtime in runtimes() {
        let witness = LivenessPipe::new();
        let script = format!("{} exec sleep 1000", witness.grandchild(""));
        let process = runtime.block_on(start(&sh(&script), LONG_GRACE));
        let grandchild = witness.up();
        drop(runtime);
        grandchild.dead();
        assert!(is_reaped(process.handle.pid()));
        drop(process);
    }
}

#[test]
fn a_runtime_that_ends_during_shutdown_takes_all_along() {
    for runtime in runtimes() {
        let process = runtime.block_on(start(&sh("trap '' TERM; cat; exec sleep 1000"), LONG_GRACE));
        runtime.block_on(async {
            assert!(tokio::time::timeout(Duration::ZERO, process.handle.shutdown()).await.is_err());
        });
        drop(runtime);
        assert!(is_reaped(process.handle.pid()));
    }
}

fn runtimes() -> [Runtime; 2] {
    [
        Builder::new_current_thread().enable_all().build().unwrap(),
        Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
    ]
}
