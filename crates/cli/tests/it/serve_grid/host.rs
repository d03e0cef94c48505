//! Scripted hosts of each revision. They do nothing by themselves: one whose session is gone fails.

use serde_json::{Value, json};

use super::http::{Request, Response};
use super::pipe::{ACKNOWLEDGED, Pipe};

/// A revision of the protocol, as a host of `bowline serve` over HTTP speaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

impl Revision {
    fn name(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// All that a host of this revision can be asked.
    fn capabilities(self) -> Value {
        let mut capabilities = json!({"roots": {}, "sampling": {}});
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 => {}
            Self::V2025_06_18 => capabilities["elicitation"] = json!({}),
            Self::V2025_11_25 | Self::V2026_07_28 => {
                capabilities["elicitation"] = json!({"form": {}, "url": {}});
            }
        }
        capabilities
    }
}

/// A host.
pub(crate) struct GridHost {
    pub(crate) revision: Revision,
    address: String,
    session: Session,
    /// The token that it uses, if it needs one.
    token: Option<String>,
    /// Whether it declares tasks of 2026-07-28 with each request.
    pub(crate) declares_tasks: bool,
    last_id: u64,
}

/// What a host keeps between its requests.
enum Session {
    /// HTTP+SSE: everything arrives on one stream.
    Sse { stream: Response, messages: String },
    /// Streamable HTTP: a session, and the stream for what belongs to no request.
    Streamable { id: String, stream: Response },
    /// No session. The stream of the only subscription, if there is one.
    Stateless { stream: Option<Response> },
    /// No session, on stdin and stdout.
    Pipe(Pipe),
}

/// What came of a request.
pub(crate) struct Outcome {
    /// The whole response.
    pub(crate) answer: Value,
    /// The notifications before it, on the same stream.
    pub(crate) notices: Vec<Value>,
    /// The methods of what the host was asked.
    pub(crate) asked: Vec<String>,
    /// The requests of the server that a session was sent meanwhile.
    pub(crate) questions: Vec<Value>,
}

/// A request whose response was not read yet.
pub(crate) struct OpenRequest {
    id: u64,
    /// `None` if the response arrives on the stream of the session.
    response: Option<Response>,
}

impl GridHost {
    /// Connects to `bowline serve` at this address.
    pub(crate) async fn connect(address: &str, revision: Revision) -> Self {
        Self::connect_with_token(address, revision, None).await
    }

    /// Connects to `bowline serve` at this address, with a token if it needs one.
    pub(crate) async fn connect_with_token(address: &str, revision: Revision, token: Option<&str>) -> Self {
        let session = match revision {
            Revision::V2024_11_05 => open_sse(address).await,
            Revision::V2026_07_28 => Session::Stateless { stream: None },
            _ => {
                let request = Request {
                    verb: "POST",
                    path: "/mcp",
                    headers: [("accept", ACCEPT.to_owned())]
                        .into_iter()
                        .chain(authorization(token))
                        .collect(),
                    body: initialize(revision).to_string(),
                };
                let mut response = request.send(address).await;
                let id = response.header("mcp-session-id").expect("a session").to_owned();
                assert_eq!(response.message().await["result"]["protocolVersion"], revision.name());
                let stream = open_stream(address, (revision, token), &id).await;
                Session::Streamable { id, stream }
            }
        };
        let mut host = Self {
            revision,
            address: address.to_owned(),
            session,
            token: token.map(str::to_owned),
            declares_tasks: false,
            last_id: 0,
        };
        if let Session::Sse { .. } = host.session {
            host.post(&initialize(revision), &[]).await;
            assert_eq!(
                host.read_response(0, None).await.answer["result"]["protocolVersion"],
                revision.name()
            );
        }
        if revision < Revision::V2026_07_28 {
            host.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), &[]).await;
        }
        host
    }

    /// A host that speaks 2026-07-28 on stdin and stdout.
    pub(super) fn on_pipe(pipe: Pipe) -> Self {
        let session = Session::Pipe(pipe);
        let revision = Revision::V2026_07_28;
        Self { revision, address: String::new(), session, last_id: 0, declares_tasks: false, token: None }
    }

    /// The pipe of a host on stdin and stdout.
    pub(super) fn into_pipe(self) -> Option<Pipe> {
        match self.session {
            Session::Pipe(pipe) => Some(pipe),
            _ => None,
        }
    }

    /// Opens its streams again, after `bowline serve` was restarted. A host of HTTP+SSE has lost its
    /// session with the stream, as the protocol has it.
    pub(crate) async fn reconnect(&mut self) {
        match &mut self.session {
            Session::Sse { .. } => *self = Self::connect(&self.address, self.revision).await,
            Session::Streamable { id, stream } => {
                *stream = open_stream(&self.address, (self.revision, self.token.as_deref()), id).await;
            }
            Session::Stateless { stream } => *stream = None,
            // It does not notice.
            Session::Pipe(_) => {}
        }
    }

    /// Sends a request and reads its response. What the host is asked in between it answers.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Outcome {
        let mut open = self.begin(method, params.clone()).await;
        let mut outcome = self.read_response(open.id, open.response.as_mut()).await;
        let mut asked = std::mem::take(&mut outcome.asked);
        while outcome.answer["result"]["resultType"] == "input_required" {
            let result = &outcome.answer["result"];
            let mut retried = params.clone();
            let mut responses = json!({});
            for (key, question) in result["inputRequests"].as_object().expect("questions") {
                asked.push(question["method"].as_str().expect("a method").to_owned());
                responses[key] = reply_to(question);
            }
            retried["inputResponses"] = responses;
            retried["requestState"] = result["requestState"].clone();
            let mut open = self.begin(method, retried).await;
            outcome = self.read_response(open.id, open.response.as_mut()).await;
        }
        Outcome { asked, ..outcome }
    }

    /// Sends a request and returns its result.
    pub(crate) async fn result(&mut self, method: &str, params: Value) -> Value {
        let Outcome { answer, .. } = self.request(method, params).await;
        assert!(answer["result"].is_object(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Calls a tool and returns the text of its result.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.result("tools/call", json!({"name": tool, "arguments": arguments})).await;
        text(&result)
    }

    /// Sends a request.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> OpenRequest {
        self.last_id += 1;
        let id = self.last_id;
        let mut params = params;
        let mut headers = Vec::new();
        if self.revision == Revision::V2026_07_28 {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = self.revision.name().into();
            let mut capabilities = self.revision.capabilities();
            if self.declares_tasks {
                capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
            }
            meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
            meta["io.modelcontextprotocol/clientInfo"] = client_info();
            headers.push(("mcp-method", method.to_owned()));
            let name = match method {
                "tools/call" | "prompts/get" => params["name"].as_str(),
                "resources/read" => params["uri"].as_str(),
                "tasks/get" | "tasks/update" | "tasks/cancel" => params["taskId"].as_str(),
                _ => None,
            };
            headers.extend(name.map(|name| ("mcp-name", name.to_owned())));
        }
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if let Session::Pipe(pipe) = &mut self.session {
            pipe.send(&message).await;
            return OpenRequest { id, response: None };
        }
        let response = self.post(&message, &headers).await;
        let response = (!matches!(self.session, Session::Sse { .. })).then_some(response);
        OpenRequest { id, response }
    }

    /// Cancels a request, in the way of its revision.
    pub(crate) async fn cancel(&mut self, open: OpenRequest) {
        if let Session::Pipe(pipe) = &mut self.session {
            return pipe.cancel(open.id).await;
        }
        if self.revision < Revision::V2026_07_28 {
            let params = json!({"requestId": open.id, "reason": "no longer wanted"});
            self.post(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}), &[])
                .await;
        }
    }

    /// Listens for changes of this resource, and of lists.
    pub(crate) async fn subscribe(&mut self, uri: &str) {
        if self.revision < Revision::V2026_07_28 {
            self.result("resources/subscribe", json!({"uri": uri})).await;
            return;
        }
        let filter = json!({"resourceSubscriptions": [uri], "toolsListChanged": true});
        let open = self.begin("subscriptions/listen", json!({"notifications": &filter})).await;
        let acknowledged = if let Session::Pipe(pipe) = &mut self.session {
            pipe.listen(open.id).await
        } else {
            let mut stream = open.response.expect("a stream");
            let first = stream.message().await;
            self.session = Session::Stateless { stream: Some(stream) };
            first
        };
        assert_eq!(acknowledged["method"], ACKNOWLEDGED);
        assert_eq!(acknowledged["params"]["notifications"], filter, "everything is granted");
    }

    /// The next notification with this method that belongs to no request.
    pub(crate) async fn notification(&mut self, method: &str) -> Value {
        let stream = match &mut self.session {
            Session::Sse { stream, .. } | Session::Streamable { stream, .. } => stream,
            Session::Stateless { stream } => stream.as_mut().expect("it listens"),
            Session::Pipe(pipe) => return pipe.notification(method).await,
        };
        loop {
            let message = stream.message().await;
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Posts a message.
    async fn post(&mut self, message: &Value, headers: &[(&'static str, String)]) -> Response {
        let mut headers = headers.to_vec();
        headers.push(("accept", ACCEPT.into()));
        headers.extend(authorization(self.token.as_deref()));
        let path = match &self.session {
            Session::Sse { messages, .. } => messages.as_str(),
            Session::Streamable { id, .. } => {
                headers.extend(session_headers(self.revision, id));
                "/mcp"
            }
            Session::Stateless { .. } => {
                headers.push(("mcp-protocol-version", self.revision.name().into()));
                "/mcp"
            }
            Session::Pipe(_) => panic!("nothing is posted on a pipe"),
        };
        let request = Request { verb: "POST", path, headers, body: message.to_string() };
        let mut response = request.send(&self.address).await;
        let is_request = message.get("id").is_some() && message.get("method").is_some();
        let is_answered_here = is_request && !matches!(self.session, Session::Sse { .. });
        let expected = if is_answered_here { 200 } else { 202 };
        if response.status != expected {
            let status = response.status;
            panic!("{message} gets the status {status} and {}", response.message().await);
        }
        response
    }

    async fn read_response(&mut self, id: u64, mut response: Option<&mut Response>) -> Outcome {
        let (mut notices, mut asked, mut questions) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let message = match (&mut response, &mut self.session) {
                (Some(response), _) => response.message().await,
                (None, Session::Sse { stream, .. }) => stream.message().await,
                (None, Session::Pipe(pipe)) => pipe.message_of_request().await,
                (None, _) => panic!("no stream has the response"),
            };
            match (message.get("id"), message["method"].as_str()) {
                (Some(question), Some(method)) => {
                    asked.push(method.to_owned());
                    let mut result = reply_to(&message);
                    let task = &message["params"]["_meta"][RELATED_TASK];
                    if task.is_object() {
                        result["_meta"] = json!({RELATED_TASK: task});
                    }
                    self.post(&json!({"jsonrpc": "2.0", "id": question, "result": result}), &[]).await;
                    questions.push(message);
                }
                (None, Some(_)) => notices.push(message),
                (Some(given), None) if *given == id => {
                    return Outcome { answer: message, notices, asked, questions };
                }
                _ => panic!("a response to nothing: {message}"),
            }
        }
    }
}

/// The text of a result.
pub(crate) fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}")).to_owned()
}

/// What every host answers.
pub(crate) fn reply_to(question: &Value) -> Value {
    match (question["method"].as_str(), question["params"]["mode"].as_str()) {
        (Some("elicitation/create"), Some("url")) => json!({"action": "accept"}),
        (Some("elicitation/create"), _) => json!({"action": "accept", "content": {"city": "Bergen"}}),
        (Some("sampling/createMessage"), _) => {
            json!({"role": "assistant", "content": {"type": "text", "text": "sampled"}, "model": "m"})
        }
        (Some("roots/list"), _) => json!({"roots": [{"uri": "file:///grid"}]}),
        (Some("ping"), _) => json!({}),
        other => panic!("an unexpected question: {other:?}"),
    }
}

async fn open_sse(address: &str) -> Session {
    let headers = vec![("accept", "text/event-stream".to_owned())];
    let request = Request { verb: "GET", path: "/sse", headers, body: String::new() };
    let mut stream = request.send(address).await;
    assert_eq!(stream.status, 200);
    let messages = stream.data().await;
    Session::Sse { stream, messages }
}

async fn open_stream(address: &str, (revision, token): (Revision, Option<&str>), session: &str) -> Response {
    let mut headers = vec![("accept", "text/event-stream".to_owned())];
    headers.extend(authorization(token));
    headers.extend(session_headers(revision, session));
    let stream = Request { verb: "GET", path: "/mcp", headers, body: String::new() }.send(address).await;
    assert_eq!(stream.status, 200);
    stream
}

/// The version is named from 2025-06-18 on.
fn session_headers(revision: Revision, session: &str) -> Vec<(&'static str, String)> {
    let mut headers = vec![("mcp-session-id", session.to_owned())];
    if revision >= Revision::V2025_06_18 {
        headers.push(("mcp-protocol-version", revision.name().to_owned()));
    }
    headers
}

fn initialize(revision: Revision) -> Value {
    let params = json!({
        "protocolVersion": revision.name(),
        "capabilities": revision.capabilities(),
        "clientInfo": client_info(),
    });
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn client_info() -> Value {
    json!({"name": "grid", "version": "1"})
}

fn authorization(token: Option<&str>) -> Option<(&'static str, String)> {
    token.map(|token| ("authorization", format!("Bearer {token}")))
}

/// The task that a message belongs to, in `_meta`.
pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

const ACCEPT: &str = "application/json, text/event-stream";
