//! A process that is stopped during a refresh and resumes after its lease has expired, in real
//! time, at the two most critical steps. `steps.rs` covers all steps with a clock that is set
//! ahead.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use bowline_testkit::AuthFault;
use rustix::process::{Pid, Signal, kill_process};

use super::{LoginSite, TEST_TIMEOUT};
use crate::context::Command;

/// How long a process is stopped: longer than its lease lasts, and shorter than the other process
/// waits. Leases use the machine's clock and waiting is no event, so time really has to pass.
const STANDSTILL: Duration = Duration::from_secs(33);

impl LoginSite {
    /// Waits for a process that holds the refresh lock.
    async fn wait_for_lock_holder(&self, earlier: &BTreeSet<i32>) -> Pid {
        let looking = async {
            loop {
                if let Some(pid) = self.lock_holders().difference(earlier).next() {
                    return Pid::from_raw(*pid).expect("a pid");
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, looking).await.expect("somebody takes the lock")
    }

    /// Reads the process ids in the lock files. A file keeps the id of a process that has ended.
    fn lock_holders(&self) -> BTreeSet<i32> {
        let folder = self.context.path("home/.local/state/bowline/store.db-locks");
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files.filter_map(|file| std::fs::read_to_string(file.path()).ok()?.parse().ok()).collect()
    }

    fn call_command(&self) -> Command {
        let mut command = self.bowline(&["call", "docs", "echo", "message=ahoy", "--timeout", "120"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

async fn wait_for_output(child: tokio::process::Child) -> (Option<i32>, String) {
    let output =
        tokio::time::timeout(TEST_TIMEOUT * 3, child.wait_with_output()).await.expect("it ends").unwrap();
    let shown = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), shown.into_owned())
}

/// Resumes the stopped process. One of the two refreshes the token, and both use it.
async fn resume_and_check(
    site: &LoginSite,
    pid: Pid,
    stopped: tokio::process::Child,
    other: tokio::process::Child,
) {
    kill_process(pid, Signal::CONT).expect("it is there");
    for child in [other, stopped] {
        let (code, said) = wait_for_output(child).await;
        assert!(code == Some(0) && said.contains("ahoy"), "{code:?}: {said}");
    }
    assert_eq!((site.auth.count("refresh_token"), site.auth.authorizations()), (1, 1));
}

/// The refresh token is sent, and its response is delayed. A second use of the token would lose the
/// login.
#[tokio::test]
async fn a_process_stopped_after_sending_the_token_blocks_others() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    site.auth.revoke_all_access();
    site.auth.arm(AuthFault::delay(STANDSTILL + Duration::from_secs(1)).on("refresh_token"));
    let earlier = site.lock_holders();
    let stopped = site.call_command().spawn_async().expect("bowline starts");
    site.auth.wait_for(|seen| seen.matches("refresh_token"), TEST_TIMEOUT).await;
    let pid = site.wait_for_lock_holder(&earlier).await;
    kill_process(pid, Signal::STOP).expect("it is there");
    let other = site.call_command().spawn_async().expect("bowline starts");
    tokio::time::sleep(STANDSTILL).await;
    assert_eq!(site.auth.count("refresh_token"), 1, "the other one waits");
    resume_and_check(&site, pid, stopped, other).await;
}

/// The lease is confirmed, and nothing is sent.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_stopped_before_sending_the_token_sends_no_used_one() {
    use super::stepper::{Stepper, can_trace};
    use super::steps::{Step, url_port};

    if !can_trace() {
        eprintln!("not checked: there is no strace that works here");
        return;
    }
    let site = LoginSite::new().await;
    site.logs_in().await;
    site.auth.revoke_all_access();
    let point = Step::LeaseConfirmed.stop_point(url_port(&site.auth.issuer()));
    let mut stopped = Stepper::start(&site.context, site.call_command(), point);
    let pid = stopped.wait_until_stopped().await;
    let other = site.call_command().spawn_async().expect("bowline starts");
    tokio::time::sleep(STANDSTILL).await;
    assert_eq!(site.auth.count("refresh_token"), 0, "neither has sent it");
    resume_and_check(&site, pid, stopped.child, other).await;
}
