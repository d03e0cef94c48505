//! What a crash leaves behind: nothing of our memory, which holds tokens.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use bowline_testkit as testkit;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::context::Context;

/// Runs a shell line in the home of the test, with core dumps allowed.
fn dumping(context: &Context, line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -c unlimited; {line}"), "sh"]).current_dir(context.path("home"));
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_leaves_no_core_dump() {
    let context = Context::new();
    std::fs::create_dir_all(context.path("home")).unwrap();
    let control = dumping(&context, "kill -ABRT $$").status().unwrap();
    assert_eq!(control.signal(), Some(Signal::SIGABRT as i32));
    if !control.core_dumped() {
        eprintln!("not checked: this machine writes no core dumps");
        return;
    }
    let server = testkit::server().tool("echo").run().await;
    let bowline = context.bowline(["connect", &server.url()]);
    let mut command = dumping(&context, "exec \"$@\"");
    command.arg(bowline.get_program()).args(bowline.get_args()).env_clear();
    command.envs(bowline.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}"#;
    writeln!(child.stdin.as_mut().unwrap(), "{initialize}").unwrap();
    let mut reply = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut reply).unwrap();
    assert!(reply.contains("\"result\""), "{reply}");
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGABRT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!((status.signal(), status.core_dumped()), (Some(Signal::SIGABRT as i32), false));
}
