//! A test host that writes and reads lines, and keeps messages that it has not looked at yet.

use std::collections::VecDeque;
use std::time::Duration;

use bowline::Server;
use bowline_gateway::{Host, Relay};
use bowline_testkit::HttpServer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Timeout for anything that should happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A host and the relay that serves it.
pub(crate) struct TestHost {
    to: DuplexStream,
    from: BufReader<DuplexStream>,
    /// Messages that were read while another was searched for.
    passed: VecDeque<Value>,
    stop: Option<oneshot::Sender<()>>,
    relay: JoinHandle<()>,
}

impl TestHost {
    pub(crate) fn start(relay: Relay) -> Self {
        let (to, stdin) = tokio::io::duplex(64 * 1024);
        let (stdout, from) = tokio::io::duplex(64 * 1024);
        let (stop, stopped) = oneshot::channel::<()>();
        let relay = tokio::spawn(relay.run(Host::new(stdin, stdout), async move {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        }));
        Self { to, from: BufReader::new(from), passed: VecDeque::new(), stop: Some(stop), relay }
    }

    /// Starts a relay in front of `server`, and initializes as a host without capabilities.
    pub(crate) async fn of(server: &HttpServer) -> Self {
        Self::able(server, json!({})).await
    }

    /// Starts a relay in front of `server`, and initializes as a host with these capabilities.
    pub(crate) async fn able(server: &HttpServer, capabilities: Value) -> Self {
        let mut host = Self::start(Relay::new(at(server)));
        let answer = host.greet(capabilities).await;
        assert!(answer["result"].is_object(), "{answer}");
        host
    }

    pub(crate) async fn greet(&mut self, capabilities: Value) -> Value {
        self.ask(
            "hello",
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "clientInfo": {"name": "test-host", "version": "9.9"},
            }),
        )
        .await;
        let answer = self.answer("hello").await;
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        answer
    }

    pub(crate) async fn say(&mut self, line: &str) {
        let write = async {
            self.to.write_all(line.as_bytes()).await?;
            self.to.write_all(b"\n").await
        };
        timeout(PATIENCE, write).await.expect("the relay reads").expect("the relay is there");
    }

    pub(crate) async fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id = id.into();
        let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if !params.is_null() {
            request["params"] = params;
        }
        self.say(&request.to_string()).await;
    }

    pub(crate) async fn tell(&mut self, method: &str, params: Value) {
        self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await;
    }

    /// Calls a tool and returns the whole response.
    pub(crate) async fn call(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
        let id = id.into();
        self.ask(id.clone(), "tools/call", json!({"name": tool, "arguments": arguments})).await;
        self.answer(id).await
    }

    /// The next line as it came; skipped messages do not count.
    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.from.read_line(&mut line));
        let bytes = read.await.expect("the relay says something").expect("the pipe is whole");
        assert!(bytes > 0, "the relay closed its end");
        line.trim_end_matches('\n').to_owned()
    }

    /// The next message.
    pub(crate) async fn hear(&mut self) -> Value {
        match self.passed.pop_front() {
            Some(message) => message,
            None => parsed(&self.line().await),
        }
    }

    /// The next message that matches; the others are kept.
    pub(crate) async fn find(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.passed.iter().position(&matches) {
            return self.passed.remove(at).expect("just found");
        }
        loop {
            let message = parsed(&self.line().await);
            if matches(&message) {
                return message;
            }
            self.passed.push_back(message);
        }
    }

    /// The response to the request with this id.
    pub(crate) async fn answer(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        self.find(|message| message["id"] == id && message.get("method").is_none()).await
    }

    /// The next server request.
    pub(crate) async fn asked(&mut self) -> Value {
        self.find(|message| message.get("id").is_some() && message.get("method").is_some()).await
    }

    /// The next notification with this method.
    pub(crate) async fn told(&mut self, method: &str) -> Value {
        self.find(|message| message["method"] == method && message.get("id").is_none()).await
    }

    /// Whether every message was looked at, up to the response to a ping.
    pub(crate) async fn silent(&mut self) -> bool {
        self.ask("silence?", "ping", Value::Null).await;
        self.answer("silence?").await;
        self.passed.is_empty()
    }

    /// Closes stdin, but keeps reading.
    pub(crate) async fn hang_up(&mut self) {
        self.to.shutdown().await.expect("the pipe is whole");
    }

    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
    }

    /// Closes stdin and returns the messages that come until the relay closes its end.
    pub(crate) async fn close(self) -> Vec<Value> {
        let Self { to, mut from, relay, stop: _stop, .. } = self;
        drop(to);
        let mut rest = Vec::new();
        let end = async {
            let mut line = String::new();
            while from.read_line(&mut line).await.expect("the pipe is whole") > 0 {
                rest.push(parsed(line.trim_end()));
                line.clear();
            }
            relay.await.expect("the relay does not panic");
        };
        timeout(PATIENCE, end).await.expect("the relay ends");
        rest
    }
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

pub(crate) fn at(server: &HttpServer) -> Server {
    Server::http("testkit", server.url()).expect("a loopback URL")
}

pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}
