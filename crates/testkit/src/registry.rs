//! [`ScriptedRegistry`]: an MCP registry with the servers that a test publishes, which can answer in wrong ways.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::port_listener::PortListener;
use crate::server_thread::ServerThread;

/// A registry on a loopback port, which serves version 0.1 of the registry interface for readers.
///
/// # Behavior
///
/// - It runs on its own thread, so it responds while the test waits for a process.
/// - The version `latest` of a server is the one that was published last.
/// - Dropping it closes the port and every connection.
pub struct ScriptedRegistry {
    addr: SocketAddr,
    state: Arc<Mutex<RegistryState>>,
    _thread: ServerThread,
}

/// What a registry answers to every request, instead of what it was asked for.
#[derive(Clone, Debug)]
pub enum RegistryAnswer {
    /// These bytes, as JSON.
    Body(Vec<u8>),
    /// A status without a body.
    Status(u16),
    /// A redirect to this URL.
    Redirect(String),
    /// Nothing, while the connection stays open.
    Silence,
}

#[derive(Default)]
struct RegistryState {
    /// Published servers, each with its metadata.
    servers: Vec<Value>,
    answer: Option<RegistryAnswer>,
    requests: Vec<String>,
}

impl ScriptedRegistry {
    /// Starts an empty registry on a free loopback port.
    pub async fn start() -> Self {
        let thread = ServerThread::start("testkit-registry");
        let state = Arc::new(Mutex::new(RegistryState::default()));
        let (spawner, serving) = (thread.spawner.clone(), Arc::clone(&state));
        let addr = thread
            .run(async move {
                let port = PortListener::reserve(spawner.clone()).expect("a loopback port is free");
                let accept = move |stream| {
                    let state = Arc::clone(&serving);
                    let service =
                        hyper::service::service_fn(move |request| serve(Arc::clone(&state), request));
                    let connection = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service);
                    spawner.spawn(connection);
                };
                port.start(accept).await.expect("the port can be listened on");
                port.addr()
            })
            .await;
        Self { addr, state, _thread: thread }
    }

    /// Returns the URL without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Publishes a version of a server: a `server.json`.
    pub fn publish(&self, server: &Value) {
        self.publish_with_meta(server, &json!({ "status": "active" }));
    }

    /// Publishes a version of a server with what the registry itself says about it.
    pub fn publish_with_meta(&self, server: &Value, official: &Value) {
        let meta = json!({ "io.modelcontextprotocol.registry/official": official });
        self.state.lock().servers.push(json!({ "server": server, "_meta": meta }));
    }

    /// Answers every request from now on in this way.
    pub fn answer_with(&self, answer: RegistryAnswer) {
        self.state.lock().answer = Some(answer);
    }

    /// Returns the path and query of every request so far.
    pub fn requests(&self) -> Vec<String> {
        self.state.lock().requests.clone()
    }
}

async fn serve(
    state: Arc<Mutex<RegistryState>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let answer = {
        let mut state = state.lock();
        state.requests.push(path.clone());
        state.answer.clone()
    };
    let (status, body) = match answer {
        Some(RegistryAnswer::Silence) => std::future::pending().await,
        Some(RegistryAnswer::Redirect(location)) => {
            let redirect = Response::builder().status(StatusCode::FOUND).header("location", location);
            return Ok(redirect.body(Full::default()).expect("a valid response"));
        }
        Some(RegistryAnswer::Status(status)) => {
            (StatusCode::from_u16(status).expect("a valid status"), Vec::new())
        }
        Some(RegistryAnswer::Body(body)) => (StatusCode::OK, body),
        None => match find(&state.lock().servers, &path) {
            Some(found) => (StatusCode::OK, found.to_string().into_bytes()),
            None => (StatusCode::NOT_FOUND, json!({ "error": "Server not found" }).to_string().into_bytes()),
        },
    };
    let response = Response::builder().status(status).header("content-type", "application/json");
    Ok(response.body(Full::new(Bytes::from(body))).expect("a valid response"))
}

/// Finds what a path and query name.
fn find(servers: &[Value], path: &str) -> Option<Value> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let rest = path.strip_prefix("/v0.1/servers")?;
    if rest.is_empty() {
        let pairs = form_urlencoded::parse(query.as_bytes());
        let wanted = pairs.into_iter().find(|(key, _)| key == "search").map(|(_, value)| value.into_owned());
        let is_wanted = |entry: &&Value| {
            let name = entry["server"]["name"].as_str().unwrap_or_default();
            wanted.as_deref().is_none_or(|wanted| name.contains(wanted))
        };
        let found: Vec<_> = servers.iter().filter(is_wanted).collect();
        return Some(json!({ "servers": found, "metadata": { "count": found.len() } }));
    }
    let (name, version) = rest.strip_prefix('/')?.split_once("/versions/")?;
    let name = name.replace("%2F", "/");
    let is_wanted = |entry: &&Value| {
        entry["server"]["name"] == *name && (version == "latest" || entry["server"]["version"] == *version)
    };
    // The slash of a name must have been encoded, since a name is one segment.
    (rest.matches('/').count() == 3).then(|| servers.iter().rfind(is_wanted).cloned()).flatten()
}
