//! A proxy between a machine and its Valkey that stops the machine at a chosen reply.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::TEST_TIMEOUT;

/// The proxy. Unless armed, it forwards everything.
pub(crate) struct ValkeyProxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    is_armed: AtomicBool,
    /// The process to stop.
    pid: watch::Sender<Option<Pid>>,
    /// Whether the process is stopped and the reply delivered.
    is_stopped: watch::Sender<bool>,
}

/// The lease scripts that one connection has run. The first one acquires a lease, the second
/// confirms it.
#[derive(Default)]
struct LeaseScripts {
    acquire: Option<String>,
    is_confirming: bool,
}

impl ValkeyProxy {
    pub(crate) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            is_armed: AtomicBool::new(false),
            pid: watch::Sender::new(None),
            is_stopped: watch::Sender::new(false),
        });
        let told = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(target).await.expect("the server is there");
                tokio::spawn(forward(client, server, Arc::clone(&told)));
            }
        });
        Self { addr, shared }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Holds the next reply that confirms a lease until its receiver is stopped.
    pub(crate) fn hold_next_confirmation(&self) {
        self.shared.is_armed.store(true, Ordering::SeqCst);
    }

    /// Sets the receiver's process, and waits until it is stopped and has the reply.
    pub(crate) async fn stop_at_confirmation(&self, pid: Pid) {
        self.shared.pid.send_replace(Some(pid));
        let mut stopped = self.shared.is_stopped.subscribe();
        let waiting = tokio::time::timeout(TEST_TIMEOUT, stopped.wait_for(|it| *it)).await;
        waiting.expect("the lease is confirmed in time").expect("the relay runs");
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, shared: Arc<Shared>) {
    let mut scripts = LeaseScripts::default();
    let (mut asked, mut answered) = ([0; 16 << 10], [0; 16 << 10]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
                scripts.observe(&String::from_utf8_lossy(&asked[..count]));
                if server.write_all(&asked[..count]).await.is_err() { return }
            }
            read = server.read(&mut answered) => {
                let Ok(count @ 1..) = read else { return };
                let confirms = std::mem::take(&mut scripts.is_confirming) && &answered[..count] == b":1\r\n";
                let holds = confirms && shared.is_armed.swap(false, Ordering::SeqCst);
                if holds {
                    stop_receiver(&shared).await;
                }
                if client.write_all(&answered[..count]).await.is_err() { return }
                if holds {
                    shared.is_stopped.send_replace(true);
                }
            }
        }
    }
}

/// Stops the receiver and waits until all its threads are stopped.
async fn stop_receiver(shared: &Shared) {
    let mut told = shared.pid.subscribe();
    let pid = told.wait_for(Option::is_some).await.expect("the test runs").expect("a process");
    kill_process(pid, Signal::STOP).expect("it is there");
    let is_standing = || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it is there").flatten();
        let mut stats =
            threads.map(|thread| std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default());
        stats.all(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')))
    };
    while !is_standing() {
        tokio::task::yield_now().await;
    }
}

impl LeaseScripts {
    /// Inspects a request: `EVALSHA`, the script, and a lease among its keys.
    fn observe(&mut self, asked: &str) {
        if !asked.contains("bowline:lease:") {
            return;
        }
        let words: Vec<&str> = asked.split("\r\n").collect();
        let script = words.iter().position(|word| *word == "EVALSHA").and_then(|at| words.get(at + 2));
        let Some(script) = script else { return };
        let acquire = self.acquire.get_or_insert_with(|| (*script).to_owned());
        self.is_confirming = acquire != script;
    }
}
