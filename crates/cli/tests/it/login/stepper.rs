//! A process that is stopped at a system call of the test's choice.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;

use super::TEST_TIMEOUT;
use crate::context::{Command, Context};

/// A process under strace. A signal stops it with all its threads right after a system call.
pub(super) struct Stepper {
    pub(super) child: tokio::process::Child,
    stopped: oneshot::Receiver<Pid>,
}

/// The system call at which to stop a process.
pub(super) struct StopPoint {
    /// The system calls that stop the process, in strace's syntax.
    pub(super) syscalls: &'static str,
    /// Further system calls that are observed, if any.
    pub(super) observed_syscalls: &'static str,
    /// Decides whether this call is the one. Gets each call in order, as strace prints it, with the
    /// paths and addresses of file descriptors.
    pub(super) matches: Box<dyn FnMut(&str) -> bool + Send>,
}

/// Returns whether processes can be traced here.
pub(super) fn can_trace() -> bool {
    let mut strace = std::process::Command::new("strace");
    strace.args(["-f", "-o", "/dev/null", "true"]).output().is_ok_and(|it| it.status.success())
}

impl Stepper {
    /// Starts the process. Each listed call stops it, and it is resumed at once unless the call
    /// matches.
    pub(super) fn start(context: &Context, command: Command, point: StopPoint) -> Self {
        let trace = context.path("trace");
        let made = std::process::Command::new("mkfifo").arg(&trace).status().expect("mkfifo runs");
        assert!(made.success());
        let mut args = vec!["-f", "-qq", "-yy", "-s", "64", "-o"];
        let path = trace.display().to_string();
        let comma = if point.observed_syscalls.is_empty() { "" } else { "," };
        let calls = format!("trace={}{comma}{}", point.syscalls, point.observed_syscalls);
        let stops = format!("inject={}:signal=SIGSTOP", point.syscalls);
        args.extend([&*path, "-e", &*calls, "-e", &*stops]);
        let mut command = command.run_by("strace", args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn_async().expect("strace starts");
        let (tell, held) = oneshot::channel();
        std::thread::spawn(move || follow_trace(&trace, point, tell));
        Self { child, stopped: held }
    }

    /// Waits until the process is stopped at the point.
    pub(super) async fn wait_until_stopped(&mut self) -> Pid {
        let held =
            tokio::time::timeout(TEST_TIMEOUT, &mut self.stopped).await.expect("it comes there in time");
        held.expect("it comes there before it ends")
    }
}

/// The last system call of one thread.
#[derive(Default)]
struct ThreadState {
    call: String,
    is_wanted: bool,
    /// Whether this thread got the signal. All threads stop; this one identifies the call.
    is_signaled: bool,
}

/// Reads the trace to its end.
fn follow_trace(trace: &Path, mut point: StopPoint, tell: oneshot::Sender<Pid>) {
    let mut tell = Some(tell);
    let mut threads: HashMap<i32, ThreadState> = HashMap::new();
    let trace = BufReader::new(std::fs::File::open(trace).expect("the pipe is there"));
    for line in trace.lines().map_while(Result::ok) {
        let Some((thread, event)) = line.split_once(' ') else { continue };
        let (Ok(thread), event) = (thread.parse(), event.trim_start()) else { continue };
        let last = threads.entry(thread).or_default();
        if event.starts_with("--- SIGSTOP ") {
            last.is_signaled = true;
        } else if event.starts_with("--- stopped by SIGSTOP") {
            if std::mem::take(&mut last.is_signaled) {
                let pid = Pid::from_raw(thread).expect("a thread id");
                match tell.take_if(|_| last.is_wanted) {
                    Some(tell) => drop(tell.send(pid)),
                    None => drop(kill_process(pid, Signal::CONT)),
                }
            }
        } else if !event.starts_with("---") && !event.starts_with("+++") {
            // A call that other threads interrupt is printed in two parts.
            match event.split_once(" resumed>") {
                Some((_, rest)) => last.call.push_str(rest),
                None => event.trim_end_matches(" <unfinished ...>").clone_into(&mut last.call),
            }
            if !event.ends_with("<unfinished ...>") {
                last.is_wanted = (point.matches)(&last.call);
            }
        }
    }
}
