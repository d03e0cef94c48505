//! The watchdog of server processes, as a client starts it or not. This is a test binary of its own
//! because it looks at the children of its process.
#![cfg(target_os = "linux")]

use bowline::{Client, Server};
use bowline_testkit as testkit;

#[tokio::test]
async fn client_without_a_watchdog_starts_the_server_only() {
    let server = testkit::server().tool("echo").stdio().await;
    let command = server.command();
    let mut builder = Server::stdio("test", command.program.to_str().expect("UTF-8")).args(command.args);
    for (name, value) in command.env {
        builder = builder.env(name, value);
    }
    let entry = builder.build().unwrap();
    let before = children();
    let client = Client::builder(entry.clone()).without_watchdog().connect().await.unwrap();
    let without = children();
    client.close().await;
    assert_eq!(without.len(), before.len() + 1, "{before:?} {without:?}");

    let client = Client::connect(entry).await.unwrap();
    let with = children();
    client.close().await;
    assert_eq!(with.len(), before.len() + 2, "{before:?} {with:?}");
}

/// The ids of the processes whose parent is this one.
fn children() -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let id: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name in parentheses may hold anything; the state and the parent follow it.
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let (state, parent) = (fields.next()?, fields.next()?);
        (state != "Z" && parent == std::process::id().to_string()).then_some(id)
    });
    processes.collect()
}
