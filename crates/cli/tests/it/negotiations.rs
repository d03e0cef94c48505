//! Negotiation results that are cached from one command to the next: real processes, and exact
//! counts of probes and handshakes.

use std::path::PathBuf;

use bowline_testkit::{self as testkit, Control, HttpServer, Script};

use crate::context::{Command, Context};

fn ping(context: &Context, server: &HttpServer) -> Command {
    context.bowline(["ping", &server.url()])
}

fn assert_success(mut command: Command) {
    let output = command.output().expect("bowline starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the number of probes and handshakes since the last call.
fn negotiation_counts(server: &Control) -> (usize, usize) {
    let asked = (server.count("server/discover"), server.count("initialize"));
    server.clear_received();
    asked
}

fn folder(context: &Context) -> PathBuf {
    context.path(if cfg!(windows) {
        "home/AppData/Local/bowline/cache/negotiations"
    } else {
        "home/.cache/bowline/negotiations"
    })
}

#[tokio::test]
async fn only_the_first_command_probes_a_legacy_server() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    assert_success(ping(&context, &server));
    assert_eq!(negotiation_counts(&server), (1, 1));
    for _ in 0..2 {
        assert_success(ping(&context, &server));
        assert_eq!(negotiation_counts(&server), (0, 1));
    }
    // A command that is killed while writing leaves a file like this.
    let files: Vec<_> =
        std::fs::read_dir(folder(&context)).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    std::fs::write(&files[0], "{\"version\":1,\"revi").unwrap();
    assert_success(ping(&context, &server));
    assert_eq!(negotiation_counts(&server), (1, 1));
    // The folder may be deleted at any time, and may lie elsewhere.
    std::fs::remove_dir_all(folder(&context)).unwrap();
    assert_success(ping(&context, &server));
    assert_eq!(negotiation_counts(&server), (1, 1));
    let elsewhere = context.path("elsewhere");
    let mut command = ping(&context, &server);
    command.env("XDG_CACHE_HOME", &elsewhere);
    assert_success(command);
    assert_eq!(negotiation_counts(&server), (1, 1));
    assert!(elsewhere.join("bowline").is_dir());
}

#[tokio::test]
async fn a_server_that_changes_between_commands_is_found() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    assert_success(ping(&context, &server));
    server.edit(Script::modern);
    server.clear_received();
    assert_success(ping(&context, &server));
    // The ping of a modern server is a discovery as well.
    assert_eq!(negotiation_counts(&server), (2, 1));
    server.edit(Script::legacy);
    assert_success(ping(&context, &server));
    assert_eq!(negotiation_counts(&server), (1, 1));
    assert_success(ping(&context, &server));
    assert_eq!(negotiation_counts(&server), (0, 1));
}

#[tokio::test]
async fn many_commands_at_once_share_one_folder() {
    let context = Context::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    let running: Vec<_> = (0..6).map(|_| ping(&context, &server).spawn().expect("bowline starts")).collect();
    for mut command in running {
        assert!(command.wait().unwrap().success());
    }
    server.clear_received();
    assert_success(ping(&context, &server));
    assert_eq!(negotiation_counts(&server), (0, 1));
    assert_eq!(std::fs::read_dir(folder(&context)).unwrap().count(), 1, "no draft is left");
}

/// `bowline connect` uses the same record, including that of HTTP+SSE.
#[tokio::test]
async fn a_relay_opens_the_older_transport_first_where_it_was_found() {
    let context = Context::new();
    let server = testkit::server().http_sse().tool("echo").run().await;
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}"#;
    let relay = || {
        let shown =
            context.run_with_input(context.bowline(["connect", &server.url()]), &format!("{hello}\n"));
        assert!(shown.contains("\"serverInfo\""), "{shown}");
    };
    relay();
    assert_eq!(negotiation_counts(&server), (1, 2));
    relay();
    assert_eq!(negotiation_counts(&server), (0, 1));
}
