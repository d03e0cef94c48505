//! When a command uses a process that is kept, and when it starts its own.

use bowline_testkit::StdioCommand;
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::connect::host::Host;
use crate::serve_front::daemons::Daemons;

const COUNTER: [&str; 3] = ["call", "knots", "counter"];

fn counter() -> Script {
    testkit::server().legacy().tool("counter")
}

/// Runs a command, and returns how many processes it started.
fn count_starts(pool: &Pool, change: impl FnOnce(&mut crate::context::Command)) -> usize {
    let before = pool.starts();
    let mut command = pool.context.bowline(COUNTER);
    change(&mut command);
    let shown = pool.context.run(command);
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    pool.starts() - before
}

#[tokio::test]
async fn a_command_that_would_start_another_process_does() {
    let pool = Pool::of(counter()).await;
    assert_eq!(count_starts(&pool, |_| ()), 1);
    assert_eq!(count_starts(&pool, |_| ()), 0);
    assert_eq!(
        count_starts(&pool, |command| _ = command.arg("--timeout=50s")),
        0,
        "that is a limit of the client"
    );
    for option in ["--no-daemon", "--protocol=legacy", "-eMORE=1"] {
        assert_eq!(count_starts(&pool, |command| _ = command.arg(option)), 1, "{option}");
    }
    for variable in ["BOWLINE_NO_DAEMON", "LANG"] {
        assert_eq!(count_starts(&pool, |command| _ = command.env(variable, "1")), 1, "{variable}");
    }
    assert_eq!(count_starts(&pool, |command| _ = command.env("TERM", "dumb")), 0, "it matters to no server");
    assert_eq!(count_starts(&pool, |command| _ = command.env("UNRELATED", "1")), 0, "no server gets it");
    // The same command in another folder is another process, which is kept as well.
    let elsewhere = pool.context.path("home");
    assert_eq!(count_starts(&pool, |command| _ = command.current_dir(&elsewhere)), 1);
    assert_eq!(count_starts(&pool, |command| _ = command.current_dir(&elsewhere)), 0);
    pool.wait_until_running(2).await;
}

/// Someone who works on a server gets the new code with the next command.
#[tokio::test]
async fn a_command_after_a_change_of_the_program_starts_it() {
    let server = counter().stdio().await;
    let context = Context::new();
    let StdioCommand { program, env, .. } = server.command();
    let script = |edit: &str| format!("# {edit}\nexec '{}'\n", program.display());
    let file = context.write("server.sh", script("first"));
    let command = StdioCommand { program: "sh".into(), args: vec![file.display().to_string()], env };
    context.user_config(&stdio_entry("knots", &command));
    let gateway = Pool::serve(&context).await;
    let pool = Pool { gateway, server, context };
    assert_eq!(count_starts(&pool, |_| ()), 1);
    assert_eq!(count_starts(&pool, |_| ()), 0);
    pool.context.write("server.sh", script("another"));
    assert_eq!(count_starts(&pool, |_| ()), 1);
    assert_eq!(count_starts(&pool, |_| ()), 0);
    pool.wait_until_running(1).await;
}

/// A process stays in the folder in which it was started, whatever has the name of that folder since.
#[tokio::test]
async fn a_folder_that_was_replaced_is_another_one() {
    let pool = Pool::of(counter()).await;
    let [folder, moved] = ["replaced", "moved"].map(|name| pool.context.path(name));
    let starts = || count_starts(&pool, |command| _ = command.current_dir(&folder));
    std::fs::create_dir(&folder).unwrap();
    assert_eq!([starts(), starts()], [1, 0]);
    std::fs::rename(&folder, &moved).unwrap();
    std::fs::create_dir(&folder).unwrap();
    assert_eq!([starts(), starts()], [1, 0]);
    std::fs::remove_dir(&folder).unwrap();
    std::fs::create_dir(&folder).unwrap();
    assert_eq!([starts(), starts()], [1, 0]);
    pool.wait_until_running(1).await;
}

#[tokio::test]
async fn another_configuration_is_not_that_of_the_daemon() {
    let pool = Pool::of(counter()).await;
    assert_eq!(count_starts(&pool, |_| ()), 1);
    let entry = stdio_entry("knots", &pool.server.command()).replace("env = {", "env = { MORE = '1', ");
    let other = pool.context.write("other.toml", entry);
    let with_other = |command: &mut crate::context::Command| _ = command.arg("--config").arg(&other);
    assert_eq!(count_starts(&pool, with_other), 1);
    assert_eq!(count_starts(&pool, with_other), 1);
    assert_eq!(count_starts(&pool, |_| ()), 0);
}

#[tokio::test]
async fn a_server_of_which_each_session_has_its_own_is_not_kept() {
    let pool = Pool::with_entry(counter(), "share = 'session'\n").await;
    assert_eq!(count_starts(&pool, |_| ()), 1);
    assert_eq!(count_starts(&pool, |_| ()), 1);
    pool.wait_until_running(0).await;
}

#[tokio::test]
async fn a_process_that_is_idle_for_too_long_is_ended() {
    let pool = Pool::with_entry(counter(), "idle_stop = '1s'\n").await;
    assert_eq!(count_starts(&pool, |_| ()), 1);
    pool.wait_until_running(0).await;
    assert_eq!(count_starts(&pool, |_| ()), 1);
}

#[tokio::test]
async fn a_reload_ends_processes_of_servers_that_have_changed() {
    let mut pool = Pool::of(counter()).await;
    assert_eq!(count_starts(&pool, |_| ()), 1);
    let entry = stdio_entry("knots", &pool.server.command());
    pool.context.user_config(&entry.replace("env = {", "env = { MORE = '1', "));
    pool.gateway.signal(Signal::HUP);
    let note = pool.gateway.note().await;
    assert_eq!(note, "the configuration was reloaded: 1 changed (knots)");
    pool.wait_until_running(0).await;
    assert_eq!(count_starts(&pool, |_| ()), 1);
    assert_eq!(count_starts(&pool, |_| ()), 0);
}

/// The daemon that hosts on stdio share keeps processes as well, beside those of its hosts.
#[tokio::test]
async fn the_daemon_of_hosts_keeps_processes_for_commands() {
    let server = counter().stdio().await;
    let context = Context::new();
    context.user_config(&stdio_entry("knots", &server.command()));
    let daemons = Daemons::of(&context);
    let host = Host::start_initialized(context.bowline(["serve", "--stdio"])).await;
    server.wait_until(|_| server.processes().len() == 1, TEST_TIMEOUT).await;
    for count in 1..=2 {
        let shown = context.run(context.bowline(COUNTER));
        assert_eq!(shown, format!("exit: 0\n--- stdout\n{count}\n--- stderr\n---"));
    }
    assert_eq!(server.processes().len(), 2, "the process of the host is not that of commands");
    assert_eq!(host.close().await.status.code(), Some(0));
    daemons.kill();
}

/// What a host over TCP sees is decided by its token. Processes for commands are elsewhere.
#[tokio::test]
async fn processes_for_commands_cannot_be_reached_over_tcp() {
    let server = counter().stdio().await;
    let context = Context::new();
    context.user_config(&stdio_entry("knots", &server.command()));
    let mut gateway = Gateway::start(&context, &["--listen", "127.0.0.1:0", "--no-token"]);
    let url = gateway.url().await;
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let body = json!({"key": "", "folder": null, "files": "", "roots": ""}).to_string();
    for path in ["/servers/knots", "/mcp/servers/knots", "/pool"] {
        let mut stream = tokio::net::TcpStream::connect(&address).await.expect("it listens");
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("text");
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
    }
    let raw = format!("{body}\n");
    let mut stream = tokio::net::TcpStream::connect(&address).await.expect("it listens");
    stream.write_all(raw.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(server.processes().len(), 0);
    // The commands of the user reach it on their own socket.
    for _ in 0..2 {
        assert!(context.run(context.bowline(COUNTER)).starts_with("exit: 0\n"));
    }
    assert_eq!(server.processes().len(), 1);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}
