//! The fault that is reported when a process ends by itself.

use crate::support::{
    LONG_GRACE, LivenessPipe, SHORT_GRACE, end, frame, is_reaped, message, sh, start, within,
};
use bowline_proto::fault::{Cause, Execution, Exit};

#[tokio::test]
async fn the_exit_code_and_the_last_words() {
    let mut process = start(&sh("echo 'no API key' >&2; exit 3"), LONG_GRACE).await;
    let fault = end(&mut process.reader).await;
    assert_eq!(fault.cause, Cause::Exited(Exit::Code(3)));
    assert_eq!(fault.execution, Execution::Unknown);
    assert_eq!(fault.evidence.stderr, ["no API key"]);
    // Every later call returns the same fault.
    assert_eq!(end(&mut process.reader).await, fault);
    assert_eq!(process.handle.shutdown().await, Exit::Code(3));
}

#[tokio::test]
async fn the_signal() {
    let mut process = start(&sh("kill -9 $$"), LONG_GRACE).await;
    assert_eq!(end(&mut process.reader).await.cause, Cause::Exited(Exit::Signal(9)));
}

/// ST-07: the end of stdout ends the link, though the process lives on.
#[tokio::test]
async fn st_07_a_closed_stdout_is_the_end() {
    let mut process = start(&sh("exec 1>&-; exec sleep 1000"), SHORT_GRACE).await;
    assert_eq!(end(&mut process.reader).await.cause, Cause::Exited(Exit::Eof));
    assert_eq!(process.handle.shutdown().await, Exit::Signal(15));
}

#[tokio::test]
async fn a_grandchild_that_holds_stdout_hides_nothing() {
    let witness = LivenessPipe::new();
    let script = format!(r#"{} read go < /dev/stdin; echo '{{"last":1}}'; exit 4"#, witness.grandchild(""));
    let mut process = start(&sh(&script), LONG_GRACE).await;
    let grandchild = witness.wait_until_up().await;
    process.writer.send(&frame("go")).await.unwrap();
    assert_eq!(message(&mut process.reader).await, r#"{"last":1}"#);
    assert_eq!(end(&mut process.reader).await.cause, Cause::Exited(Exit::Code(4)));
    // The grandchild is not needed any more, and is ended too.
    grandchild.wait_until_dead().await;
}

/// A daemon that removed its mark outlives the process and holds its stdout, which would never end.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_daemon_that_holds_stdout_hides_nothing() {
    use rustix::process::{Pid, Signal, kill_process};

    let daemon = r#"env -u BOWLINE_OWNER setsid sh -c 'echo "[$$]"; exec sleep 100' &"#;
    let mut process = start(&sh(&format!("{daemon} read go < /dev/stdin; exit 4")), LONG_GRACE).await;
    let pid = message(&mut process.reader).await;
    let pid = Pid::from_raw(pid.trim_matches(['[', ']']).parse().unwrap()).unwrap();
    process.writer.send(&frame("go")).await.unwrap();
    assert_eq!(end(&mut process.reader).await.cause, Cause::Exited(Exit::Code(4)));
    assert_eq!(within(process.handle.shutdown()).await, Exit::Code(4));
    // The daemon was alive all the time.
    kill_process(pid, Signal::KILL).unwrap();
}

/// The grandchild ignores SIGTERM and writes without end.
#[tokio::test]
async fn a_grandchild_that_floods_stdout_is_not_listened_to_for_ever() {
    let mut process = start(&sh(r#"trap '' TERM; yes '{"x":1}' & exit 0"#), SHORT_GRACE).await;
    assert_eq!(end(&mut process.reader).await.cause, Cause::Exited(Exit::Code(0)));
}

#[tokio::test]
async fn no_zombie_is_left() {
    let mut process = start(&sh("exit 0"), LONG_GRACE).await;
    end(&mut process.reader).await;
    assert!(is_reaped(process.handle.pid()));
}
