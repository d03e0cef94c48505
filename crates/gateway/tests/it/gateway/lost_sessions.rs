//! Ten servers under load, of which one forgets its session in every way that the engine knows. No call fails, each is
//! executed once, the host keeps its session, and the other servers see nothing of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline::Server;
use bowline_testkit::{self as testkit, CannedResponse, Fault, HttpServer, Script, StreamKind, Tool};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::http_host::{RawSession, ServedGateway, serve_on_loopback};
use super::{at, gateway};
use crate::support::{TEST_TIMEOUT, result_text};

/// How many servers are behind the gateway.
const SERVERS: usize = 10;
/// The server that forgets its session, in the midst of the others.
const FORGETFUL: usize = 4;
/// How many calls each server has open at once.
const CALLERS: usize = 2;

/// Ten servers behind a gateway, and a host that calls all of them all the time.
struct Load {
    servers: Vec<HttpServer>,
    gateway: ServedGateway,
    host: RawSession,
    stop: Arc<AtomicBool>,
    /// Each caller returns the server that it has called, and what was counted there.
    callers: JoinSet<(usize, Vec<u64>)>,
}

/// The tool of this server.
fn tool(number: usize) -> String {
    format!("count{number}")
}

fn script(number: usize) -> Script {
    testkit::server().tool(Tool::like(&tool(number), "counter"))
}

impl Load {
    /// Starts the servers. The one that will forget its session does as `forgetful` says, is configured by `configure`, and
    /// has this many callers.
    async fn start(forgetful: &Script, configure: fn(&str, &HttpServer) -> Server, callers: usize) -> Self {
        let mut servers = Vec::new();
        for number in 0..SERVERS {
            let script = if number == FORGETFUL { forgetful.clone() } else { script(number).legacy() };
            servers.push(script.run().await);
        }
        let configured = servers.iter().enumerate().map(|(number, server)| {
            let configure = if number == FORGETFUL { configure } else { at };
            configure(&format!("s{number}"), server)
        });
        let gateway = serve_on_loopback(&gateway(configured), TEST_TIMEOUT).await;
        let host = RawSession::begin(gateway.address, json!({})).await;
        let list = json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list"});
        let listed = host.post(&list).await.message().await;
        assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(SERVERS), "{listed}");
        let mut load = Self { servers, gateway, host, stop: Arc::default(), callers: JoinSet::new() };
        for server in 0..SERVERS {
            let callers = if server == FORGETFUL { callers } else { CALLERS };
            for caller in 0..callers {
                load.spawn_caller(server, caller);
            }
        }
        load
    }

    /// Calls a server again and again until all callers stop. Every call has a result, in the session of the host.
    fn spawn_caller(&mut self, server: usize, caller: usize) {
        let (host, stop) = (self.host.clone(), Arc::clone(&self.stop));
        self.callers.spawn(async move {
            let mut counted = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                // The ids of the calls that a session has open differ.
                let id = ((server * CALLERS + caller) * 1_000_000 + counted.len()) as u64;
                let answer = host.call(id, &tool(server), json!({})).await;
                assert_eq!(answer["id"], id, "{answer}");
                counted.push(result_text(&answer).parse().expect("a number"));
            }
            (server, counted)
        });
    }

    fn forgetful(&self) -> &HttpServer {
        &self.servers[FORGETFUL]
    }

    /// Has the server forget its session at its next call, and waits until it has a new one that is used.
    async fn lose_session(&mut self, way: &str) {
        self.forgetful().arm(Fault::drop_sessions().on("tools/call"));
        self.expect_new_session(way).await;
    }

    /// Waits until the fault that is armed has struck, and the server executes calls in another session.
    async fn expect_new_session(&mut self, way: &str) {
        let (tool, server) = (tool(FORGETFUL), self.forgetful());
        server.wait_until(|server| server.armed_faults().is_empty(), TEST_TIMEOUT).await;
        // Those that were being executed when it was forgotten are no sign of a new one.
        let executions = server.executions(&tool);
        let goes_on = |server: &testkit::Control| server.executions(&tool) > executions + CALLERS as u64;
        server.wait_until(goes_on, TEST_TIMEOUT).await;
        // A call that failed has ended its caller.
        if let Some(ended) = self.callers.try_join_next() {
            panic!("a call failed when the session was lost by {way}: {ended:?}");
        }
    }

    /// Ends the load. Checks that no call was lost, doubled or failed, and that there were this many losses.
    async fn finish(mut self, losses: usize) {
        self.stop.store(true, Ordering::Relaxed);
        let mut counted = vec![Vec::new(); SERVERS];
        while let Some(caller) = timeout(TEST_TIMEOUT, self.callers.join_next()).await.expect("they end") {
            let (server, numbers) = caller.expect("no call fails");
            counted[server].extend(numbers);
        }
        for (number, (server, mut counted)) in self.servers.iter().zip(counted).enumerate() {
            counted.sort_unstable();
            let calls = counted.len() as u64;
            assert!(
                counted.iter().copied().eq(1..=calls),
                "each call of {number} is one execution: {counted:?}"
            );
            assert_eq!(server.executions(&tool(number)), calls, "{number}");
            if number == FORGETFUL {
                assert_eq!(server.initialize_count(), 1 + losses);
                continue;
            }
            // The others see their own calls, once each, and nothing else.
            let seen = ["initialize", "ping", "tools/list"].map(|method| server.count(method));
            assert_eq!(seen, [1, 0, 1], "{number}");
            assert_eq!(server.count("tools/call") as u64, calls, "{number}");
            assert_eq!(server.sessions().len(), 1, "{number}");
            assert_eq!(server.violations(), [""; 0], "{number}");
        }
        // The session of the host is the one that it began with.
        let ping = json!({"jsonrpc": "2.0", "id": "last", "method": "ping"});
        assert_eq!(self.host.post(&ping).await.message().await["result"], json!({}));
        let ServedGateway { stop, serving, .. } = self.gateway;
        let _ = stop.send(());
        timeout(TEST_TIMEOUT, serving).await.expect("it ends").expect("no panic");
    }
}

/// What servers answer to a request in a session that they have forgotten.
fn signatures() -> Vec<(&'static str, CannedResponse)> {
    let error = |id: &str, code: i64, message: &str| {
        let id = if id.is_empty() { Value::Null } else { id.into() };
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
    };
    let answer = CannedResponse::new;
    let wrapped =
        "Error POSTing to endpoint (HTTP 400): {\"error\":{\"message\":\"No valid session ID provided\"}}";
    vec![
        ("404 with a JSON-RPC error", answer(404).json(&error("", -32001, "Session not found"))),
        ("404 for our id", answer(404).json(&error("$id", -32001, "Session not found"))),
        ("404 without a body", answer(404)),
        ("404 with text", answer(404).text("Not Found: Session not found")),
        ("410", answer(410)),
        ("400 with text", answer(400).text("Bad Request: No valid session ID provided")),
        ("400 without a session", answer(400).json(&error("", -32600, "Bad Request: Missing session ID"))),
        (
            "400 without a handshake",
            answer(400).json(&error("", -32000, "Bad Request: Server not initialized")),
        ),
        ("400 without a reason", answer(400)),
        ("401 with text", answer(401).text("Unauthorized: Session not found")),
        ("403", answer(403).text("session user mismatch")),
        ("409", answer(409).json(&json!({"error": "session has expired"}))),
        ("422", answer(422).text("Unexpected message, expect initialize request")),
        ("500 around another error", answer(500).json(&json!({ "error": wrapped }))),
        ("503 with text", answer(503).text("no active session")),
        ("200 with an error", answer(200).json(&error("$id", -32001, "session not found"))),
        ("200 with an error on a stream", answer(200).sse(&error("$id", -32001, "session not found"))),
        ("200 for no request", answer(200).json(&error("", -32600, "Invalid Request"))),
    ]
}

/// HL-03: every answer to a lost session over Streamable HTTP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hl_03_every_loss_signature_is_recovered_under_load() {
    let mut load = Load::start(&script(FORGETFUL).legacy(), at, CALLERS).await;
    let signatures = signatures();
    for (lost, (way, answer)) in signatures.iter().enumerate() {
        load.forgetful().edit(|script| script.unknown_session_response(answer.clone()));
        load.lose_session(way).await;
        assert_eq!(load.forgetful().initialize_count(), 1 + lost + 1, "{way}");
    }
    load.finish(signatures.len()).await;
}

/// The event stream ends, and the request that opens it again finds the session forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_ends_with_its_stream_is_recovered_under_load() {
    let mut load = Load::start(&script(FORGETFUL).legacy(), at, CALLERS).await;
    for lost in 0..3 {
        let has_stream = |server: &testkit::Control| server.open_streams(StreamKind::Get) > 0;
        load.forgetful().wait_until(has_stream, TEST_TIMEOUT).await;
        load.forgetful().arm(Fault::drop_sessions().on("GET"));
        load.forgetful().close_streams();
        load.expect_new_session("the end of its stream").await;
        assert_eq!(load.forgetful().initialize_count(), 1 + lost + 1);
    }
    load.finish(3).await;
}

/// Over HTTP+SSE the response to a call is lost with the session, so one call at a time is open there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_over_http_sse_are_recovered_under_load() {
    let sse =
        |name: &str, server: &HttpServer| Server::sse(name, server.url()).build().expect("a loopback URL");
    let mut load = Load::start(&script(FORGETFUL).http_sse(), sse, 1).await;
    let wordings =
        [(-32602, "Received request before initialization was complete"), (-32600, "Server not initialized")];
    for (lost, (code, message)) in wordings.into_iter().enumerate() {
        load.forgetful().edit(|script| script.uninitialized(code, message));
        load.lose_session(message).await;
        assert_eq!(load.forgetful().initialize_count(), 1 + lost + 1, "{message}");
    }
    load.forgetful()
        .arm(Fault::response(CannedResponse::new(404).text("Could not find session")).on("tools/call"));
    load.expect_new_session("404").await;
    load.finish(wordings.len() + 1).await;
}
