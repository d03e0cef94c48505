//! Sessions of `bowline serve` outlive the process.

#[cfg(unix)]
mod large_responses;

use bowline_testkit::{self as testkit};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::connect::host::TEST_TIMEOUT;
use crate::context::Context;
use crate::serve::Gateway;
use crate::status::http_entry;

/// A host over HTTP that does nothing by itself.
pub(crate) struct RawHost {
    address: String,
    session: Option<String>,
}

/// The response to a request, read line by line.
struct Lines {
    reader: BufReader<TcpStream>,
}

impl RawHost {
    pub(crate) fn new(url: &str) -> Self {
        let address = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("a URL");
        Self { address: address.to_owned(), session: None }
    }

    /// Goes on at another address.
    fn move_to(&mut self, url: &str) {
        self.address = Self::new(url).address;
    }

    async fn send(&self, verb: &str, headers: &str, body: &str) -> Lines {
        let mut stream = TcpStream::connect(&self.address).await.expect("it listens");
        let session = self.session.as_ref().map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
        let head = format!(
            "{verb} /mcp HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{session}{headers}content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.expect("it reads");
        Lines { reader: BufReader::new(stream) }
    }

    async fn request(&self, id: u64, method: &str, params: Value) -> Lines {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send("POST", "", &message.to_string()).await
    }

    /// Begins a session of the newest revision that has sessions.
    pub(crate) async fn initialize(&mut self) {
        self.initialize_with("2025-11-25").await;
    }

    async fn initialize_with(&mut self, revision: &str) {
        let params = json!({
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        });
        let mut answer = self.request(0, "initialize", params).await;
        self.session = Some(answer.value_of("mcp-session-id: ").await);
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let mut answer = self.send("POST", "", &initialized.to_string()).await;
        assert_eq!(answer.next().await.as_deref(), Some("HTTP/1.1 202 Accepted"));
    }

    /// Calls a tool and returns the response.
    pub(crate) async fn call(&self, id: u64, tool: &str, arguments: Value) -> Value {
        self.request(id, "tools/call", json!({"name": tool, "arguments": arguments})).await.message().await
    }
}

impl Lines {
    async fn next(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = timeout(TEST_TIMEOUT, self.reader.read_line(&mut line)).await.expect("a line in time");
        // A process that is killed resets its connections.
        (read.unwrap_or(0) > 0).then(|| line.trim_end().to_owned())
    }

    /// The rest of the next line that begins in this way.
    async fn value_of(&mut self, start: &str) -> String {
        loop {
            let line = self.next().await.unwrap_or_else(|| panic!("no line begins with {start}"));
            if let Some(value) = line.strip_prefix(start) {
                return value.to_owned();
            }
        }
    }

    /// The next message, as JSON or as an event.
    async fn message(&mut self) -> Value {
        loop {
            let line = self.next().await.expect("a message");
            let text = line.strip_prefix("data: ").unwrap_or(&line);
            if let Ok(message @ Value::Object(_)) = serde_json::from_str(text) {
                return message;
            }
        }
    }
}

async fn start(context: &Context) -> (Gateway, String) {
    let mut gateway = Gateway::start(context, &["--listen", "127.0.0.1:0", "--no-token"]);
    let url = gateway.url().await;
    gateway.note().await;
    (gateway, url)
}

pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}

/// A session goes on whether the process was killed or ended in order.
#[cfg(unix)]
#[tokio::test]
async fn a_session_outlives_a_restart() {
    let context = Context::new();
    let one = testkit::server().legacy().tool("counter").run().await;
    context.user_config(&http_entry("one", &one));
    let (gateway, url) = start(&context).await;
    let mut host = RawHost::new(&url);
    host.initialize().await;
    assert_eq!(text(&host.call(1, "counter", json!({})).await), "1");
    gateway.kill().await;
    let (gateway, url) = start(&context).await;
    host.move_to(&url);
    assert_eq!(text(&host.call(2, "counter", json!({})).await), "2");
    assert_eq!(gateway.terminate().await.code(), Some(0));
    let (gateway, url) = start(&context).await;
    host.move_to(&url);
    assert_eq!(text(&host.call(3, "counter", json!({})).await), "3");
    // A session that its host has ended is over.
    let mut answer = host.send("DELETE", "", "").await;
    assert_eq!(answer.next().await.as_deref(), Some("HTTP/1.1 204 No Content"));
    assert_eq!(gateway.terminate().await.code(), Some(0));
    let (gateway, url) = start(&context).await;
    host.move_to(&url);
    let mut answer = host.send("GET", "", "").await;
    assert_eq!(answer.next().await.as_deref(), Some("HTTP/1.1 404 Not Found"));
    assert_eq!(gateway.terminate().await.code(), Some(0));
    assert_eq!(one.executions("counter"), 3);
}

/// A call that is open when the process is killed is executed once, and answered once.
#[cfg(unix)]
#[tokio::test]
async fn a_call_that_a_kill_interrupts_is_answered_and_not_repeated() {
    let context = Context::new();
    let one = testkit::server().legacy().tool("slow").tool("counter").run().await;
    context.user_config(&http_entry("one", &one));
    let (gateway, url) = start(&context).await;
    let mut host = RawHost::new(&url);
    host.initialize().await;
    let call = json!({"name": "slow", "arguments": {"ms": 600_000}});
    let mut answer = host.request(7, "tools/call", call).await;
    let begin = answer.value_of("id: ").await;
    one.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    gateway.kill().await;
    let (gateway, url) = start(&context).await;
    host.move_to(&url);
    let mut resumed = host.send("GET", &format!("last-event-id: {begin}\r\n"), "").await;
    let answer = resumed.message().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-31050)));
    assert_eq!(answer["error"]["data"]["bowline"]["execution"], "unknown");
    assert_eq!(text(&host.call(8, "counter", json!({})).await), "1");
    assert_eq!((one.executions("slow"), one.executions("counter")), (1, 1));
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// Another gateway of the same user does not go on with a session while its own one serves it: an open
/// call would be answered twice.
#[cfg(unix)]
#[tokio::test]
async fn a_session_that_is_served_is_unknown_elsewhere() {
    let context = Context::new();
    let one = testkit::server().legacy().tool("counter").tool("slow").run().await;
    context.user_config(&http_entry("one", &one));
    let (first, first_url) = start(&context).await;
    let (second, second_url) = start(&context).await;
    let mut host = RawHost::new(&first_url);
    host.initialize().await;
    assert_eq!(text(&host.call(1, "counter", json!({})).await), "1");
    host.move_to(&second_url);
    for (verb, body) in [("POST", r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#), ("GET", ""), ("DELETE", "")]
    {
        let mut refused = host.send(verb, "", body).await;
        assert_eq!(refused.next().await.as_deref(), Some("HTTP/1.1 404 Not Found"), "{verb}");
    }
    host.move_to(&first_url);
    assert_eq!(text(&host.call(3, "counter", json!({})).await), "2");
    first.kill().await;
    host.move_to(&second_url);
    assert_eq!(text(&host.call(4, "counter", json!({})).await), "3");
    assert_eq!(second.terminate().await.code(), Some(0));
}

/// What is stored is encrypted, and only its owner can read it.
#[cfg(unix)]
#[tokio::test]
async fn stored_sessions_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let context = Context::new();
    let one = testkit::server().legacy().tool("echo").run().await;
    context.user_config(&http_entry("one", &one));
    let (gateway, url) = start(&context).await;
    let mut host = RawHost::new(&url);
    host.initialize().await;
    assert!(text(&host.call(1, "echo", json!({"secret": "swordfish"})).await).contains("swordfish"));
    assert_eq!(gateway.terminate().await.code(), Some(0));
    let folder = context.path("home/.local/state/bowline/sessions");
    let mut files = 0;
    for file in std::fs::read_dir(folder).expect("a folder") {
        let path = file.expect("a file").path();
        assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o077, 0, "{}", path.display());
        if path.is_dir() {
            continue;
        }
        let bytes = std::fs::read(&path).expect("a file");
        for secret in [b"swordfish".as_slice(), host.session.as_ref().expect("an id").as_bytes()] {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{}", path.display());
        }
        files += 1;
    }
    assert_eq!(files, 2, "a session and the key");
}

/// A damaged store costs the sessions in it, and is said once; calls do not wait for it, and later
/// sessions are recorded again.
#[cfg(unix)]
#[tokio::test]
async fn a_damaged_store_of_sessions_is_set_aside() {
    let context = Context::new();
    let one = testkit::server().legacy().tool("counter").run().await;
    context.user_config(&http_entry("one", &one));
    std::fs::create_dir_all(context.path("home/.local/state/bowline/sessions")).expect("folders");
    context.write("home/.local/state/bowline/sessions/key", "no key");
    for folder in ["home/.local/state/bowline/sessions", "home/.local/state/bowline"] {
        context.set_mode(folder, 0o700);
    }
    context.set_mode("home/.local/state/bowline/sessions/key", 0o600);
    let mut gateway = Gateway::start(&context, &["--listen", "127.0.0.1:0", "--no-token"]);
    let note = gateway.note().await;
    assert!(note.starts_with("the stored sessions of hosts cannot be used and were set aside: "), "{note}");
    let mut host = RawHost::new(&gateway.url().await);
    gateway.note().await;
    host.initialize().await;
    assert_eq!(text(&host.call(1, "counter", json!({})).await), "1");
    gateway.kill().await;
    let (gateway, url) = start(&context).await;
    host.move_to(&url);
    assert_eq!(text(&host.call(2, "counter", json!({})).await), "2");
    assert_eq!(gateway.terminate().await.code(), Some(0));
    let aside = context.path("home/.local/state/bowline/sessions.damaged/key");
    assert_eq!(std::fs::read(aside).expect("it is kept"), b"no key");
}

/// Sessions that cannot be recorded are noted, and calls are served all the same.
#[cfg(unix)]
#[tokio::test]
async fn sessions_that_cannot_be_recorded_are_noted() {
    let context = Context::new();
    let one = testkit::server().legacy().tool("counter").run().await;
    context.user_config(&http_entry("one", &one));
    let (mut gateway, url) = start(&context).await;
    let mut host = RawHost::new(&url);
    host.initialize().await;
    assert_eq!(text(&host.call(1, "counter", json!({})).await), "1");
    let folder = context.path("home/.local/state/bowline/sessions");
    std::fs::remove_dir_all(&folder).expect("a folder");
    std::fs::write(&folder, "").expect("a file in its place");
    assert_eq!(text(&host.call(2, "counter", json!({})).await), "2");
    let cause = "Not a directory (os error 20)";
    let note = format!(
        "sessions and calls of hosts cannot be recorded: {}: {cause} (a restart would cost hosts the responses that are \
         open)",
        folder.display()
    );
    assert_eq!(gateway.note().await, note);
    assert_eq!(text(&host.call(3, "counter", json!({})).await), "3");
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// A limit of the size of files costs what is recorded, not the process.
#[cfg(unix)]
#[tokio::test]
async fn a_limit_of_the_size_of_files_is_survived() {
    let context = Context::new();
    let one = testkit::server().legacy().tool("echo").run().await;
    context.user_config(&http_entry("one", &one));
    let script = "ulimit -f 40; exec \"$0\" serve --listen 127.0.0.1:0 --no-token";
    let mut gateway = Gateway::start_command(context.shell(script));
    let mut host = RawHost::new(&gateway.url().await);
    host.initialize().await;
    let long = "x".repeat(4_000);
    for id in 1..30 {
        assert!(text(&host.call(id, "echo", json!({"text": long})).await).contains(&long), "{id}");
    }
    assert_eq!(one.executions("echo"), 29);
    assert_eq!(gateway.terminate().await.code(), Some(0));
}
