//! Tricks of servers that are started as processes.

use bowline_testkit::{self as testkit, Fault, StdioCommand};

use super::{Examined, examine_command, verdict};
use crate::context::Context;

/// Examines a legacy server with these faults.
async fn verdict_with(faults: impl IntoIterator<Item = Fault>) -> String {
    let context = Context::new();
    let mut script = testkit::server().legacy().tool("echo");
    for fault in faults {
        script = script.fault(fault);
    }
    let server = script.stdio().await;
    let examined = examine_command(&context, &server.command());
    // No process is left behind.
    server.expect_all_exited().await;
    context.hide_paths(&examined.verdict())
}

macro_rules! named {
    ($test:ident, $faults:expr, @$expected:literal) => {
        #[tokio::test]
        pub(super) async fn $test() {
            verdict!(verdict_with($faults).await, @$expected);
        }
    };
}

named!(healthy_process_passes_every_check, [], @"exit 0");
named!(exit_instead_of_a_handshake_is_named, [Fault::exit(3).on("initialize").always()], @"
exit 3
connection failed, server: the server exited with code 3
  it printed nothing: run its command directly to see what it needs
  $ bowline info rope -vv
");
named!(exit_in_a_request_is_named, [Fault::exit(3).on("tools/list")], @"
exit 0
session warning, server: the connection broke once within this check: the server exited with code 3
  it was made again; the log of the server may say why it broke
  $ bowline info rope -vv
");
named!(noise_on_stdout_is_named, [Fault::noise("listening on port 80").on("initialize")], @"
exit 0
output warning, server: non-MCP output on stdout: 1 line; 0 lines on stderr
  other hosts may give up there: the server has to write its log to stderr
  $ bowline info rope -vv
");
named!(flood_of_stderr_is_no_fault, [Fault::stderr(1_000_000).on("initialize")], @"exit 0");
named!(process_that_ignores_its_input_is_named, [Fault::ignore_eof()], @"
exit 0
shutdown warning, server: it did not end when its input did; SIGTERM ended it
  hosts that only close its input leave it running: report it to who makes the server
  $ -
");
named!(process_that_ignores_sigterm_is_named, [Fault::ignore_eof(), Fault::ignore_term()], @"
exit 0
shutdown warning, server: it ended neither when its input did nor on SIGTERM, and was killed
  hosts that only close its input leave it running: report it to who makes the server
  $ -
");
named!(process_left_behind_is_named, [Fault::grandchild().on("initialize")], @"
exit 0
shutdown warning, server: it ended when its input did, and left processes behind, which were ended
  hosts that only close its input leave it running: report it to who makes the server
  $ -
");
named!(cut_message_is_named, [Fault::cut_after(5).on("initialize").always()], @"
exit 3
connection failed, server: the server exited with code 1
  see what it printed: often an argument or a variable is missing
  $ bowline info rope -vv
output warning, server: non-MCP output on stdout: 1 line; 0 lines on stderr
  other hosts may give up there: the server has to write its log to stderr
  $ bowline info rope -vv
");
named!(malformed_message_is_named, [Fault::raw("{").on("initialize").always()], @"
exit 4
connection failed, server: the server did not become ready in time
  a first start may have to download: allow more time; else it waits for something, see its log
  $ bowline doctor rope --connect-timeout 2m
");
named!(silence_is_named, [Fault::silent().always()], @"
exit 4
connection failed, server: the server did not become ready in time
  a first start may have to download: allow more time; else it waits for something, see its log
  $ bowline doctor rope --connect-timeout 2m
");
named!(refused_list_is_named, [Fault::error(-32603, "no rope").on("tools/list").always()], @"
exit 6
requests failed, server: tools/list was answered with error -32603: no rope
  this is an error of the server: its log may say more
  $ bowline info rope -vv
");

/// Examines a shell script.
fn verdict_of_script(script: &str) -> String {
    let context = Context::new();
    let command = StdioCommand {
        program: "/bin/sh".into(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: Vec::default(),
    };
    context.hide_paths(&examine_command(&context, &command).verdict())
}

#[test]
fn program_that_prints_and_ends_is_named() {
    verdict!(verdict_of_script("echo usage: server FOLDER; echo no token >&2; exit 2"), @"
    exit 3
    connection failed, server: the server exited with code 2
      see what it printed: often an argument or a variable is missing
      $ bowline info rope -vv
    output warning, server: non-MCP output on stdout: 2 lines; 2 lines on stderr
      other hosts may give up there: the server has to write its log to stderr
      $ bowline info rope -vv
    ");
}

/// The line that says what is missing comes before those that node writes last.
#[test]
fn missing_script_is_shown_and_is_the_mistake_of_the_command() {
    let context = Context::new();
    let error = "Error: Cannot find module '/x/server.js'";
    let text = format!(
        "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\n{error}\n{}",
        "    at x\n".repeat(8)
    );
    let script = context.write("home/run.sh", format!("cat <<'E' >&2\n{text}E\nexit 1\n"));
    let examine = |script_name: &str| {
        let args = vec![script.display().to_string(), script_name.to_owned()];
        examine_command(&context, &StdioCommand { program: "/bin/sh".into(), args, env: Vec::default() })
    };
    let examined = examine("server.js");
    let details = examined.check("connection")["details"].as_array().unwrap().clone();
    assert_eq!((details.len(), &details[0]), (6, &format!("stderr: {error}").into()));
    verdict!(examined.verdict(), @"
    exit 3
    connection failed, you: the server exited with code 1
      what its command line names was not found: correct the path or the name
      $ bowline edit
    ");
    // A module that the server itself needs.
    assert_eq!(examine("other.js").check("connection")["blame"], "server");
}

#[test]
fn program_that_echoes_is_named() {
    verdict!(verdict_of_script("cat"), @"
    exit 3
    connection failed, you: the program echoes its input and is not an MCP server
      `command` is not an MCP server: correct it
      $ bowline edit
    ");
}

fn verdict_of_command(command: &str) -> String {
    let context = Context::new();
    context.user_config(&format!("[servers.rope]\ncommand = '{command}'\n"));
    let mut doctor = context.bowline(["doctor", "rope"]);
    doctor.env("PATH", "/nowhere/at/all").env("SHELL", "/nowhere/sh");
    context.hide_paths(&Examined::run(doctor).verdict())
}

#[test]
fn missing_program_is_named() {
    verdict!(verdict_of_command("no-such-mcp-server"), @"
    exit 3
    program failed, machine: command not found: no-such-mcp-server is in no folder of the PATH /nowhere/at/all
      install `no-such-mcp-server`, or write its full path
      $ -
    ");
}

#[test]
fn missing_launcher_is_named_with_what_installs_it() {
    verdict!(verdict_of_command("uvx"), @"
    exit 3
    program failed, machine: command not found: uvx is in no folder of the PATH /nowhere/at/all
      install uv (https://docs.astral.sh/uv)
      $ curl -LsSf https://astral.sh/uv/install.sh | sh
    ");
}

#[test]
fn command_with_its_arguments_is_named() {
    verdict!(verdict_of_command("npx -y server"), @r#"
    exit 3
    configuration warning, you: [TMP]/home/.config/bowline/config.toml: servers.rope.command: contains spaces and is used as one program name
      write command = "npx" and args = ["-y", "server"]
      $ -
    program failed, you: command not found: npx -y server is in no folder of the PATH /nowhere/at/all
      `command` is the program alone: write what follows it into `args`
      $ bowline edit
    "#);
}

#[test]
fn script_without_its_interpreter_is_named() {
    let context = Context::new();
    let script = context.write("home/server", "#!/usr/bin/env no-such-interpreter\n");
    context.set_mode("home/server", 0o755);
    context.user_config(&format!("[servers.rope]\ncommand = '{}'\n", script.display()));
    let examined = Examined::of(&context, &["rope"]);
    verdict!(context.hide_paths(&examined.verdict()), @"
    exit 3
    program failed, machine: [TMP]/home/server is a script for `no-such-interpreter`, which was not found
      install `no-such-interpreter`, or write its full path
      $ -
    ");
}

/// Checks what doctor says of a script with this first line and a Windows line end. Returns what `bowline tools` says.
fn assert_windows_line_end_is_named(line: &str) -> String {
    let context = Context::new();
    let script = context.write("home/server", format!("{line}\r\nexit 0\r\n"));
    context.set_mode("home/server", 0o755);
    context.user_config(&format!("[servers.rope]\ncommand = '{}'\n", script.display()));
    let examined = Examined::of(&context, &["rope"]);
    insta::allow_duplicates! {
        verdict!(context.hide_paths(&examined.verdict()), @r"
        exit 3
        program failed, machine: [TMP]/home/server cannot be started: its first line has a Windows line end (CR LF)
          save the script with Unix line ends (LF)
          $ perl -pi -e 's/\r$//' [TMP]/home/server
        ");
    }
    context.run(context.bowline(["tools", "rope", "--no-daemon"]))
}

#[test]
fn windows_line_end_after_an_interpreter_is_named() {
    verdict!(assert_windows_line_end_is_named("#!/bin/sh"), @"
    exit: 3
    --- stdout
    --- stderr
    error: cannot connect to `rope`: command could not be started: [TMP]/home/server: its first line has a Windows line end (CR LF)
      phase: connecting
      transport: stdio

    hint: save the script with Unix line ends (LF)
    ---
    ");
}

#[test]
fn windows_line_end_after_env_is_named() {
    let listed = assert_windows_line_end_is_named("#!/usr/bin/env sh");
    let hint = "hint: its script has Windows line ends (CR LF): save the script with Unix line ends (LF)\n";
    assert!(listed.contains(hint), "{listed}");
}

#[test]
fn file_that_is_no_program_is_named() {
    let context = Context::new();
    let file = context.write("home/server", "#!/bin/sh\n");
    context.set_mode("home/server", 0o644);
    context.user_config(&format!("[servers.rope]\ncommand = '{}'\n", file.display()));
    let examined = Examined::of(&context, &["rope"]);
    verdict!(context.hide_paths(&examined.verdict()), @"
    exit 3
    program failed, machine: command may not be run: [TMP]/home/server is not an executable file
      mark it as executable, if it is a program
      $ chmod +x [TMP]/home/server
    ");
}
