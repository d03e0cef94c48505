//! The server's process ends with its connection.

use std::time::Duration;

use bowline::{Client, Server};
use bowline_config::TransportSettings as _;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::{required_variable, within};

/// A Node module that makes the server write its process id before anything else.
const WRITE_PID: &str = "data:text/javascript,import fs from 'node:fs';\
    fs.writeFileSync(process.env.PID_FILE, String(process.pid))";

/// ST-04
#[tokio::test]
async fn closing_leaves_no_process() {
    within("close", async {
        let (client, pid) = connect_with_pid().await;
        client.close().await;
        assert_eq!(test_kill_process(pid), Err(Errno::SRCH), "the server outlived its connection");
    })
    .await;
}

/// Dropping the last handle closes the connection in the background.
#[tokio::test]
async fn dropping_leaves_no_process() {
    within("drop", async {
        let (client, pid) = connect_with_pid().await;
        let mut status = client.status();
        drop(client);
        while status.changed().await.is_some() {}
        assert_eq!(status.current(), bowline::Status::Closed);
        // No handle is left to wait on, so poll until the process has ended.
        while test_kill_process(pid) != Err(Errno::SRCH) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

async fn connect_with_pid() -> (Client, Pid) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let args = ["--import", WRITE_PID, &required_variable("BOWLINE_EVERYTHING"), "stdio"].map(String::from);
    let server = Server::stdio("everything", required_variable("BOWLINE_NODE"))
        .args(args)
        .build()
        .unwrap()
        .with_env("PID_FILE", file.to_str().unwrap())
        .unwrap();
    let client = Client::connect(server).await.unwrap();
    client.ping().await.unwrap();
    let pid = Pid::from_raw(std::fs::read_to_string(file).unwrap().parse().unwrap()).unwrap();
    assert_eq!(test_kill_process(pid), Ok(()), "the server runs while it is connected");
    (client, pid)
}
