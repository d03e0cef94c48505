//! `bowline serve` on a socket that a service manager has opened.

use std::os::fd::OwnedFd;
use std::process::Stdio;

use bowline_testkit::{self as testkit};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, UnixDatagram};
use tokio::process::Child;
use tokio::time::timeout;

use crate::connect::host::TEST_TIMEOUT;
use crate::context::{Context, to_pid};
use crate::serve_restart::{RawHost, text};
use crate::status::http_entry;

/// A gateway that was started as systemd starts it, and its notes so far.
struct Activated {
    child: Child,
    notes: Vec<String>,
}

impl Activated {
    /// Starts it with this socket, and waits for so many notes.
    async fn start(context: &Context, socket: OwnedFd, count: usize) -> Self {
        // The socket is the third descriptor, and the process has the id that the variable says.
        let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve --no-token 3<&0 </dev/null";
        let mut shell = context.shell(script);
        shell.env("NOTIFY_SOCKET", context.path("notify")).stdin(Stdio::from(socket)).stderr(Stdio::piped());
        let mut child = shell.spawn_async().expect("a shell");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut notes = Vec::new();
        while notes.len() < count {
            let line = timeout(TEST_TIMEOUT, lines.next_line()).await.expect("a note in time");
            notes.push(line.expect("text").expect("a note"));
        }
        Self { child, notes }
    }

    fn send_term(&self) {
        let id = to_pid(self.child.id().expect("it runs"));
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it runs");
    }

    async fn terminate(mut self) {
        self.send_term();
        let status = timeout(TEST_TIMEOUT, self.child.wait()).await.expect("it ends").expect("it ends");
        assert_eq!(status.code(), Some(0));
    }

    async fn terminate_at_once(mut self) {
        self.send_term();
        timeout(TEST_TIMEOUT, self.child.wait()).await.expect("it ends").expect("it ends");
    }
}

/// A host that connects while no process runs waits for the next one, and none is refused.
#[tokio::test]
async fn hosts_wait_on_the_socket_of_a_service_manager() {
    let context = Context::new();
    let one = testkit::server().legacy().tool("counter").run().await;
    context.user_config(&http_entry("one", &one));
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/mcp", socket.local_addr().expect("an address"));
    let copy = || OwnedFd::from(socket.try_clone().expect("a descriptor"));
    let first = Activated::start(&context, copy(), 2).await;
    assert_eq!(first.notes[0], format!("note: serving 1 server at {url}; Ctrl-C ends it"));
    let call = || context.bowline(["call", "-q", &url, "counter"]).spawn_async().expect("bowline starts");
    assert!(call().wait().await.expect("it ends").success());
    first.terminate().await;
    let mut waiting = call();
    let second = Activated::start(&context, copy(), 2).await;
    let waited = timeout(TEST_TIMEOUT, waiting.wait()).await.expect("it is answered");
    assert!(waited.expect("it ends").success());
    assert_eq!(one.executions("counter"), 2);
    second.terminate().await;
    // What is no socket, or two of them, is refused with the reason.
    let file = std::fs::File::open("/dev/null").expect("a file");
    let mut refused = Activated::start(&context, OwnedFd::from(file), 1).await;
    assert_eq!(
        refused.notes[0],
        "error: the socket of the service manager cannot be used: fd 3 is not a socket"
    );
    assert_eq!(refused.child.wait().await.expect("it ends").code(), Some(2));
}

/// A process that ends leaves new connections to the next one, although calls are still open.
#[tokio::test]
async fn a_process_that_ends_accepts_no_connections() {
    let context = Context::new();
    let one = testkit::server().legacy().tool("slow").tool("counter").run().await;
    context.user_config(&http_entry("one", &one));
    let notices = UnixDatagram::bind(context.path("notify")).expect("a socket");
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("an address").to_string();
    let url = format!("http://{address}/mcp");
    let copy = || OwnedFd::from(socket.try_clone().expect("a descriptor"));
    let mut first = Activated::start(&context, copy(), 2).await;
    let mut host = RawHost::new(&url);
    host.initialize().await;
    assert_eq!(text(&host.call(1, "counter", json!({})).await), "1");
    let mut call =
        context.bowline(["call", "-q", &url, "slow", "ms=600000"]).spawn_async().expect("it starts");
    one.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    first.send_term();
    let mut notice = [0; 32];
    while timeout(TEST_TIMEOUT, notices.recv(&mut notice)).await.expect("a notice").expect("a notice")
        != "STOPPING=1".len()
    {}
    let second = Activated::start(&context, copy(), 2).await;
    for _ in 0..20 {
        let mut connection = TcpStream::connect(&address).await.expect("it listens");
        let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).await.expect("it reads");
        let mut status = String::new();
        let read = timeout(TEST_TIMEOUT, BufReader::new(connection).read_line(&mut status)).await;
        read.expect("in time").expect("a line");
        assert_eq!(status, "HTTP/1.1 200 OK\r\n");
    }
    // Sessions go on there.
    assert_eq!(text(&host.call(2, "counter", json!({})).await), "2");
    assert!(first.child.try_wait().expect("it was started").is_none(), "its call is still open");
    // The second signal ends it at once.
    first.terminate_at_once().await;
    assert!(!call.wait().await.expect("it ends").success());
    second.terminate().await;
}

#[tokio::test]
async fn a_unix_socket_of_a_service_manager_stays() {
    let context = Context::new();
    let one = testkit::server().legacy().tool("counter").run().await;
    context.user_config(&http_entry("one", &one));
    let path = context.path("given.sock");
    let socket = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let gateway = Activated::start(&context, OwnedFd::from(socket), 1).await;
    assert_eq!(
        gateway.notes[0],
        format!("note: serving 1 server on the socket {}; Ctrl-C ends it", path.display())
    );
    context.user_config(&format!(
        "[servers.gateway]\nurl = 'http://localhost/mcp'\nsocket = '{}'\n",
        path.display()
    ));
    let called = context.run(context.bowline(["call", "gateway", "counter"]));
    assert_eq!(called, "exit: 0\n--- stdout\n1\n--- stderr\n---");
    gateway.terminate().await;
    assert!(path.exists(), "it is not ours");
}
