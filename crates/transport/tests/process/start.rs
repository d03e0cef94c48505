//! How a process is started, and the faults when it cannot be.

use std::collections::BTreeMap;
use std::env;

use crate::support::{LONG_GRACE, command, executable, sh, start, try_start, within};
use bowline_config::Program;
use bowline_proto::fault::{Cause, Execution, Fault, SpawnError};
use bowline_testkit::with;
use bowline_transport::pipe::{FrameReader, InboundFrame};
use bowline_transport::process::{INHERITED_VARIABLES, MARK_VARIABLE};

/// Runs a program and returns all lines it prints.
async fn run_and_read(stdio: &Program) -> Vec<String> {
    let mut process = start(stdio, LONG_GRACE).await;
    let mut lines = vec![];
    while let Ok(InboundFrame::Noise(line) | InboundFrame::Message(line)) =
        within(process.reader.recv()).await
    {
        lines.push(String::from_utf8_lossy(&line).into_owned());
    }
    lines
}

async fn expect_refusal(stdio: &Program) -> Fault {
    let fault = try_start(stdio, LONG_GRACE).await.unwrap_err();
    assert_eq!(fault.execution, Execution::NotExecuted);
    fault
}

/// ST-07: credentials come from the configured environment, and no others get through.
#[tokio::test]
async fn st_07_the_environment_is_cleared() {
    let is_listed = |name: &str| {
        INHERITED_VARIABLES.iter().any(|listed| match listed.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *listed,
        })
    };
    // Variables that a shell sets by itself.
    let shell = ["PWD", "OLDPWD", "SHLVL", "_"];
    let ours: Vec<_> = env::vars().map(|(name, _)| name).collect();
    let kept_back = |name: &str| !is_listed(name) && !shell.contains(&name);
    assert!(ours.iter().any(|name| kept_back(name)), "nothing to be kept from the child");
    let mut stdio = sh("exec env");
    stdio.env.insert("APP_MODE".to_owned(), "from the configuration".into());
    stdio.env.insert("API_KEY".to_owned(), "s3cret-0123456789".into());
    stdio.env.insert("LANG".to_owned(), "xx".into());
    let lines = run_and_read(&stdio).await;
    let seen: BTreeMap<_, _> = lines.iter().filter_map(|line| line.split_once('=')).collect();
    assert_eq!(seen["APP_MODE"], "from the configuration");
    // The server has it, and its echo is redacted.
    assert_eq!(seen["API_KEY"], "[redacted]");
    assert_eq!(seen["LANG"], "xx");
    assert!(seen.contains_key("PATH"));
    assert_eq!(seen.get("HOME").map(ToString::to_string), env::var("HOME").ok());
    let given = ["APP_MODE", "API_KEY", MARK_VARIABLE];
    let leaked: Vec<_> = seen.keys().filter(|name| kept_back(name) && !given.contains(name)).collect();
    assert!(leaked.is_empty(), "{leaked:?}");
}

#[tokio::test]
async fn the_working_folder_and_a_command_relative_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    executable(&folder.join("server"), "#!/bin/sh\npwd\n");
    let stdio = with!(command("./server", &[]), cwd: Some(folder.clone()));
    assert_eq!(run_and_read(&stdio).await, [folder.to_str().unwrap()]);
}

#[tokio::test]
async fn arguments_arrive_as_they_are() {
    let odd = ["two\nlines", "", " $HOME `x` \"' ", "--", "ünï"];
    let script = r#"for a in "$@"; do printf '%s' "$a" | od -An -v -tu1 | tr -s ' \n' ' '; echo .; done"#;
    let args: Vec<_> = ["-c", script, "sh"].into_iter().chain(odd).collect();
    let numbers = |arg: &str| arg.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(" ");
    let expected: Vec<_> = odd.iter().map(|arg| format!("{} .", numbers(arg)).trim().to_owned()).collect();
    assert_eq!(run_and_read(&command("sh", &args)).await, expected);
}

/// The command is searched on the configured PATH, and the child gets it.
#[tokio::test]
async fn a_configured_path_is_searched_and_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    executable(&folder.path().join("bowline-test-server"), "#!/bin/sh\necho \"$PATH\"\n");
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let mut stdio = command("bowline-test-server", &[]);
    stdio.env.insert("PATH".to_owned(), path.clone().into());
    assert_eq!(run_and_read(&stdio).await, [path]);
}

#[tokio::test]
async fn a_missing_command_names_the_path_that_was_searched() {
    let mut stdio = command("bowline-no-such-command", &[]);
    stdio.env.insert("PATH".to_owned(), "/nowhere/bin:/elsewhere/bin".into());
    let fault = expect_refusal(&stdio).await;
    assert_eq!(fault.cause, Cause::Spawn(SpawnError::NotFound));
    let text = fault.to_string();
    assert!(text.starts_with("command not found: bowline-no-such-command"), "{text}");
    assert!(text.contains("/nowhere/bin:/elsewhere/bin"), "{text}");
}

#[tokio::test]
async fn a_missing_file_is_named() {
    let fault = expect_refusal(&command("/nowhere/server", &[])).await;
    assert_eq!(fault.cause, Cause::Spawn(SpawnError::NotFound));
    assert_eq!(fault.to_string(), "command not found: /nowhere/server does not exist");
}

#[tokio::test]
async fn a_file_that_may_not_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server");
    std::fs::write(&file, "text").unwrap();
    let fault = expect_refusal(&command(file.to_str().unwrap(), &[])).await;
    assert_eq!(fault.cause, Cause::Spawn(SpawnError::Denied));
}

#[tokio::test]
async fn a_script_whose_interpreter_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server");
    executable(&file, "#!/nowhere/interpreter\n");
    let fault = expect_refusal(&command(file.to_str().unwrap(), &[])).await;
    assert_eq!(fault.cause, Cause::Spawn(SpawnError::Other));
    assert!(fault.to_string().contains("interpreter"), "{fault}");
}

#[tokio::test]
async fn a_script_whose_first_line_has_a_windows_line_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server");
    executable(&file, "#!/bin/sh\r\necho\r\n");
    let fault = expect_refusal(&command(file.to_str().unwrap(), &[])).await;
    assert_eq!(fault.cause, Cause::Spawn(SpawnError::Other));
    let text = fault.to_string();
    assert!(text.ends_with("/server: its first line has a Windows line end (CR LF)"), "{text}");
}

#[tokio::test]
async fn a_missing_working_folder_is_named() {
    let stdio = with!(sh("exit 0"), cwd: Some("/nowhere/at/all".into()));
    let fault = expect_refusal(&stdio).await;
    assert_eq!(fault.cause, Cause::Spawn(SpawnError::Other));
    assert!(fault.to_string().contains("/nowhere/at/all"), "{fault}");
}
