//! `bowline serve` over HTTP, and the processes of its servers.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bowline::config::Protocol;
use bowline::{Client, Server};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use crate::limit::within;
use crate::peer_server::PeerServer;
use crate::processes::{ProcessIdentity, WatchedProcesses};
use crate::site::confine;

const BOWLINE: &str = env!("CARGO_BIN_EXE_bowline");

/// A running gateway. Dropping it kills it.
pub(crate) struct Gateway {
    home: PathBuf,
    url: String,
    child: Child,
    processes: WatchedProcesses,
}

impl Gateway {
    /// Configures these servers, and starts a gateway in front of them, which gives each tool the prefix of its server.
    pub(crate) async fn start(home: &Path, servers: &[PeerServer]) -> Self {
        let folder = home.join(".config/bowline");
        std::fs::create_dir_all(&folder).expect("a folder");
        let config: String = servers.iter().map(PeerServer::entry).collect();
        std::fs::write(folder.join("config.toml"), config).expect("a file");

        let mut command = bowline_command(home, &["serve", "--prefix", "--listen", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let note = within("a note", lines.next_line()).await.expect("text").expect("a line");
        let url = note.split([' ', ';']).find(|word| word.starts_with("http://"));
        let url = url.unwrap_or_else(|| panic!("{note}")).to_owned();
        // What else it says is shown if the test fails.
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                println!("gateway: {line}");
            }
        });
        let processes = WatchedProcesses::below(child.id().expect("it runs"));
        Self { home: home.to_owned(), url, child, processes }
    }

    /// Connects a host.
    pub(crate) async fn connect(&self, protocol: Protocol) -> Client {
        let token = std::fs::read_to_string(self.home.join(".local/state/bowline/serve-token"));
        let header = format!("Bearer {}", token.expect("a token").trim());
        let entry = Server::http("gateway", &self.url).header("Authorization", header).protocol(protocol);
        within("the host connects", Client::connect(entry)).await.expect("it connects")
    }

    /// Returns the process of a server, which has one alone. Processes below it are recorded as well.
    pub(crate) async fn only_process_of(&mut self, server: &str) -> ProcessIdentity {
        let output = tokio::process::Command::from(bowline_command(&self.home, &["ps", "--json"])).output();
        let output = within("bowline ps", output).await.expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let listed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let entries = listed["servers"].as_array().expect("a list").iter();
        let entries: Vec<_> = entries.filter(|entry| entry["server"] == server).collect();
        let [entry] = entries[..] else { panic!("one process of {server}, in {listed:#}") };
        let process = &entry["processes"][0];
        assert_eq!(process["parent"], self.child.id().expect("it runs"), "{entry:#}");
        let below = self.processes.record();
        let found = below.into_iter().find(|identity| process["pid"] == identity.pid);
        found.unwrap_or_else(|| panic!("{process} is below the gateway"))
    }

    /// Kills a process below the gateway.
    pub(crate) async fn kill(&self, identity: ProcessIdentity) {
        self.processes.kill(identity).await;
    }

    /// Ends the gateway as a service manager does, and checks that everything below it ends too.
    pub(crate) async fn stop(mut self) {
        self.processes.record();
        let pid = self.child.id().expect("it runs").cast_signed();
        kill_process(Pid::from_raw(pid).expect("a pid"), Signal::TERM).expect("it runs");
        let status = within("the gateway ends", self.child.wait()).await.expect("it ends");
        assert_eq!(status.code(), Some(0));
        self.processes.wait_for_exit_of_all().await;
        println!("{} processes have run, and ended", self.processes.count());
    }
}

fn bowline_command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(BOWLINE);
    confine(&mut command, home);
    command.args(args);
    command
}
