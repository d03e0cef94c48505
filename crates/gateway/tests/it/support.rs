//! A test host that writes and reads lines, and keeps messages that it has not looked at yet.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bowline::Server;
use bowline_gateway::{Gateway, Host, Relay};
use bowline_testkit::HttpServer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Timeout for anything that should happen.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A host and the relay that serves it.
pub(crate) struct TestHost {
    stdin: DuplexStream,
    stdout: BufReader<DuplexStream>,
    /// Messages that were read while another was searched for.
    skipped: VecDeque<Value>,
    stop: Option<oneshot::Sender<()>>,
    relay: JoinHandle<()>,
}

impl TestHost {
    pub(crate) fn start(relay: Relay) -> Self {
        Self::spawn(|host, stop| relay.run(host, stop))
    }

    /// A host that a gateway serves.
    pub(crate) fn join(gateway: &Gateway) -> Self {
        let gateway = gateway.clone();
        Self::spawn(|host, stop| async move { gateway.serve(host, stop).await })
    }

    /// A host with this view of the servers.
    pub(crate) fn join_view(gateway: &Gateway, view: &'static str) -> Self {
        let gateway = gateway.clone();
        Self::spawn(|host, stop| async move { gateway.serve(host.with_view(view), stop).await })
    }

    /// A host that a gateway serves, initialized with these capabilities.
    pub(crate) async fn join_with(gateway: &Gateway, capabilities: Value) -> Self {
        let mut host = Self::join(gateway);
        let answer = host.initialize(capabilities).await;
        assert!(answer["result"].is_object(), "{answer}");
        host
    }

    fn spawn<F>(serve: impl FnOnce(Host, Pin<Box<dyn Future<Output = ()> + Send>>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (to, stdin) = tokio::io::duplex(64 * 1024);
        let (stdout, from) = tokio::io::duplex(64 * 1024);
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async move {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let relay = tokio::spawn(serve(Host::new(stdin, stdout), Box::pin(stopped)));
        Self { stdin: to, stdout: BufReader::new(from), skipped: VecDeque::new(), stop: Some(stop), relay }
    }

    /// Starts a relay in front of `server`, and initializes as a host without capabilities.
    pub(crate) async fn connect(server: &HttpServer) -> Self {
        Self::connect_with(server, json!({})).await
    }

    /// Starts a relay in front of `server`, and initializes as a host with these capabilities.
    pub(crate) async fn connect_with(server: &HttpServer, capabilities: Value) -> Self {
        let mut host = Self::start(Relay::new(server_at(server)));
        let answer = host.initialize(capabilities).await;
        assert!(answer["result"].is_object(), "{answer}");
        host
    }

    pub(crate) async fn initialize(&mut self, capabilities: Value) -> Value {
        self.send_request(
            "hello",
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "clientInfo": {"name": "test-host", "version": "9.9"},
            }),
        )
        .await;
        let answer = self.response("hello").await;
        self.send_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        answer
    }

    pub(crate) async fn send_line(&mut self, line: &str) {
        let write = async {
            self.stdin.write_all(line.as_bytes()).await?;
            self.stdin.write_all(b"\n").await
        };
        timeout(TEST_TIMEOUT, write).await.expect("the relay reads").expect("the relay is there");
    }

    pub(crate) async fn send_request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id = id.into();
        let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if !params.is_null() {
            request["params"] = params;
        }
        self.send_line(&request.to_string()).await;
    }

    pub(crate) async fn send_notification(&mut self, method: &str, params: Value) {
        self.send_line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await;
    }

    /// Calls a tool and returns the whole response.
    pub(crate) async fn call_tool(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
        let id = id.into();
        self.send_request(id.clone(), "tools/call", json!({"name": tool, "arguments": arguments})).await;
        self.response(id).await
    }

    /// The next line as it came; skipped messages do not count.
    pub(crate) async fn read_line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(TEST_TIMEOUT, self.stdout.read_line(&mut line));
        let bytes = read.await.expect("the relay says something").expect("the pipe is whole");
        assert!(bytes > 0, "the relay closed its end");
        line.trim_end_matches('\n').to_owned()
    }

    /// The next message.
    pub(crate) async fn next_message(&mut self) -> Value {
        match self.skipped.pop_front() {
            Some(message) => message,
            None => parse_line(&self.read_line().await),
        }
    }

    /// The next message that matches; the others are kept.
    pub(crate) async fn find_message(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.skipped.iter().position(&matches) {
            return self.skipped.remove(at).expect("just found");
        }
        loop {
            let message = parse_line(&self.read_line().await);
            if matches(&message) {
                return message;
            }
            self.skipped.push_back(message);
        }
    }

    /// The response to the request with this id.
    pub(crate) async fn response(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        self.find_message(|message| message["id"] == id && message.get("method").is_none()).await
    }

    /// The next server request.
    pub(crate) async fn next_server_request(&mut self) -> Value {
        self.find_message(|message| message.get("id").is_some() && message.get("method").is_some()).await
    }

    /// The next notification with this method.
    pub(crate) async fn notification(&mut self, method: &str) -> Value {
        self.find_message(|message| message["method"] == method && message.get("id").is_none()).await
    }

    /// Sends a request without params and returns its result.
    pub(crate) async fn result(&mut self, method: &str, params: Value) -> Value {
        self.send_request("result", method, params).await;
        let answer = self.response("result").await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Sends a request and returns its error.
    pub(crate) async fn error(&mut self, method: &str, params: Value) -> Value {
        self.send_request("error", method, params).await;
        let answer = self.response("error").await;
        assert!(answer.get("result").is_none(), "{method}: {answer}");
        answer["error"].clone()
    }

    /// The names in a list of the gateway.
    pub(crate) async fn names(&mut self, method: &str, list: &str, member: &str) -> Vec<String> {
        let result = self.result(method, Value::Null).await;
        let items = result[list].as_array().unwrap_or_else(|| panic!("no {list} in {result}"));
        items.iter().map(|item| item[member].as_str().expect("a text").to_owned()).collect()
    }

    /// The names of all tools.
    pub(crate) async fn tools(&mut self) -> Vec<String> {
        self.names("tools/list", "tools", "name").await
    }

    /// Whether every message was looked at, up to the response to a ping.
    pub(crate) async fn is_silent(&mut self) -> bool {
        self.send_request("silence?", "ping", Value::Null).await;
        self.response("silence?").await;
        self.skipped.is_empty()
    }

    /// Closes stdin, but keeps reading.
    pub(crate) async fn close_stdin(&mut self) {
        self.stdin.shutdown().await.expect("the pipe is whole");
    }

    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
    }

    /// Closes stdin and returns the messages that come until the relay closes its end.
    pub(crate) async fn close(self) -> Vec<Value> {
        let Self { stdin: to, stdout: mut from, relay, stop: _stop, .. } = self;
        drop(to);
        let mut rest = Vec::new();
        let end = async {
            let mut line = String::new();
            while from.read_line(&mut line).await.expect("the pipe is whole") > 0 {
                rest.push(parse_line(line.trim_end()));
                line.clear();
            }
            relay.await.expect("the relay does not panic");
        };
        timeout(TEST_TIMEOUT, end).await.expect("the relay ends");
        rest
    }
}

fn parse_line(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

pub(crate) fn server_at(server: &HttpServer) -> Server {
    Server::http("testkit", server.url()).build().expect("a loopback URL")
}

pub(crate) fn result_text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}
