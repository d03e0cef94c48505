//! Crashes and other processes reveal nothing of bowline's memory, which holds tokens.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command as Shell, Stdio};
use std::time::Duration;

use bowline_testkit::{self as testkit, SECRET_PREFIX};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::json;

use crate::connect::host::Host;
use crate::context::{Command, Context, to_pid};
use crate::login::LoginSite;

const ENABLE_CORE_DUMPS: &str = "ulimit -c unlimited; ";

/// Lists the files in a folder.
fn list_files(folder: &Path) -> Vec<std::ffi::OsString> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// The process is logged in and has used its token.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_leaves_no_core_dump() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    let folder = site.context.path("crashed");
    std::fs::create_dir(&folder).unwrap();
    for signal in [Signal::ABORT, Signal::SEGV] {
        let crash = format!("{ENABLE_CORE_DUMPS}kill -{} $$", signal.as_raw());
        let control = Shell::new("sh").args(["-c", &crash]).current_dir(&folder).status().unwrap();
        assert_eq!(control.signal(), Some(signal.as_raw()));
        if !control.core_dumped() {
            eprintln!("not checked: this machine writes no core dumps");
            return;
        }
        // Where the system does not pipe core dumps to a program, that of a shell lies here.
        for file in list_files(&folder) {
            std::fs::remove_file(folder.join(file)).unwrap();
        }
        let exec = format!("{ENABLE_CORE_DUMPS}exec \"$@\"");
        let mut command = site.bowline(&["connect", "docs"]).run_by("sh", ["-c", &exec, "sh"]);
        command.current_dir(&folder);
        let mut host = Host::start_initialized(command).await;
        let answer =
            host.request("tools/call", json!({"name": "echo", "arguments": {"message": "ahoy"}})).await;
        assert!(answer["result"].is_object(), "{answer}");
        let call = site.server.received_with_method("tools/call").pop().expect("a call");
        assert!(call.header("authorization").is_some_and(|token| token.contains(SECRET_PREFIX)), "{call:?}");
        let pid = to_pid(host.id());
        kill_process(pid, signal).unwrap();
        if signal == Signal::SEGV {
            // Rust has a handler for this signal, which removes itself if the stack did not
            // overflow.
            wait_until_uncaught(pid, signal).await;
            kill_process(pid, signal).unwrap();
        }
        let status = host.wait().await.status;
        assert_eq!((status.signal(), status.core_dumped()), (Some(signal.as_raw()), false));
        assert_eq!(list_files(&folder), [""; 0]);
    }
}

/// Waits until a process has no handler for a signal.
async fn wait_until_uncaught(pid: Pid, signal: Signal) {
    let is_caught = || {
        let status =
            std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it is not waited for yet");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("it is there");
        u64::from_str_radix(caught.trim(), 16).expect("a mask") & (1 << (signal.as_raw() - 1)) != 0
    };
    while is_caught() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns a user other than root as whom this process can run others.
fn unprivileged_user() -> Option<u32> {
    const NOBODY: u32 = 65534;
    if !geteuid().is_root() {
        return Some(geteuid().as_raw());
    }
    // The binary may lie in a folder that only root can enter.
    let mut version = Shell::new(env!("CARGO_BIN_EXE_bowline"));
    version.arg("--version").uid(NOBODY).stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success()).then_some(NOBODY)
}

/// Returns which files of a process with secrets another process of this user can read.
fn readable_files(pid: u32, user: u32) -> Vec<&'static str> {
    let reads = |file: &&str| {
        // The shell only opens the file: address 0 of the memory is not mapped and cannot be read.
        let mut shell = Shell::new("sh");
        shell.args(["-c", "exec 3< \"$1\"", "sh", &format!("/proc/{pid}/{file}")]);
        shell.uid(user).stderr(Stdio::null()).status().unwrap().success()
    };
    ["mem", "environ", "maps", "auxv"].into_iter().filter(reads).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn other_processes_of_the_same_user_cannot_read_our_memory() {
    let Some(user) = unprivileged_user() else {
        eprintln!("not checked: root may read everything, and nobody else may run the binary");
        return;
    };
    let mut control = Shell::new("sleep").arg("60").uid(user).spawn().unwrap();
    let allowed = readable_files(control.id(), user);
    control.kill().unwrap();
    control.wait().unwrap();
    if !allowed.contains(&"mem") {
        eprintln!("not checked: this system lets no process read another one");
        return;
    }
    assert_eq!(allowed, ["mem", "environ", "maps", "auxv"]);
    let context = Context::new();
    let server = testkit::server().tool("counter").run().await;
    let header = "Authorization: Bearer ${TOKEN}";
    let mut command: Command = context.bowline(["connect", &server.url(), "--header", header]);
    command.env("TOKEN", testkit::canary::test_secret("header")).uid(user);
    for folder in ["", "home", "home/.config", "home/.config/bowline", "project", "project/below"] {
        std::os::unix::fs::chown(context.path(folder), Some(user), None).unwrap();
    }
    let mut host = Host::start_initialized(command).await;
    assert!(host.call("counter").await["result"].is_object());
    assert_eq!(readable_files(host.id(), user), [""; 0]);
    host.close().await;
}
