//! The lifecycle of a connection, from connecting to closing, and that nothing is left behind.

use std::pin::Pin;
use std::time::Duration;

use bowline::config::Protocol;
use bowline::{
    Cause, Client, ClientBuilder, ConnectionEventKind, Event, Execution, Exit, Handler, HandlerResult, Json,
    Misbehavior, Server, ServerRequest, ShutdownStep, SpawnError, Status,
};
use bowline_testkit::{self as testkit, Fault, StdioServer};
use serde_json::json;
use tokio::sync::mpsc;

use crate::support::{TEST_TIMEOUT, http, io_pair, stdio};

fn is_alive(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// A handler that reports when it is dropped, which happens after everything else of the
/// connection.
struct DropSignal(#[expect(dead_code, reason = "its end is what counts")] mpsc::Sender<()>);

impl Handler for DropSignal {
    fn capabilities(&self) -> Json {
        Json::empty_object()
    }

    fn handle(&self, _: ServerRequest) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + '_>> {
        unreachable!("nothing was declared")
    }
}

/// Makes a builder with a drop signal, and a future that waits for the signal.
fn with_drop_signal(server: &StdioServer) -> (ClientBuilder, impl Future<Output = ()>) {
    let (sender, mut ended) = mpsc::channel(1);
    let builder = Client::builder(stdio(server)).handler(DropSignal(sender));
    (builder, async move {
        let ended = tokio::time::timeout(TEST_TIMEOUT, ended.recv()).await;
        assert_eq!(ended.expect("all that belongs to the connection ends"), None);
    })
}

/// ST-04: closing ends the process, and its children.
#[tokio::test]
async fn st_04_closing_ends_the_process_and_its_children() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let client = Client::connect(stdio(&server)).await.unwrap();
    let grandchild = server.spawn_grandchild().await;
    let pid = server.pid().unwrap();
    assert!(is_alive(pid) && is_alive(grandchild));
    client.close().await;
    assert!(!is_alive(pid), "closing waits for its end");
    assert!(testkit::wait_for_exit(grandchild, TEST_TIMEOUT).await, "the grandchild is still there");
}

/// ST-04: a server that goes on when its input has ended gets SIGTERM after the wait, and not before.
#[cfg(unix)]
#[tokio::test]
async fn st_04_the_wait_for_the_end_of_a_process_can_be_set() {
    let folder = tempfile::tempdir().unwrap();
    let ending = async |wait| {
        let mark = folder.path().join("ending");
        // It needs a moment after the end of its input.
        let script = format!(
            r#"trap 'echo terminated > {0}; exit' TERM
            read -r _; printf '%s\n' '{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-06-18","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}}}}}}'
            while read -r _; do :; done
            sleep 0.5 & wait; echo finished > {0}"#,
            mark.display()
        );
        let server = Server::stdio("test", "sh").args(["-c", &script]).protocol(Protocol::Legacy);
        Client::builder(server).exit_wait(wait).connect().await.unwrap().close().await;
        std::fs::read_to_string(mark).unwrap()
    };
    assert_eq!(ending(Duration::ZERO).await, "terminated\n");
    assert_eq!(ending(TEST_TIMEOUT).await, "finished\n");
}

/// Dropping the last clone closes the connection.
#[tokio::test]
async fn dropping_the_last_clone_closes() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let (builder, ended) = with_drop_signal(&server);
    let client = builder.connect().await.unwrap();
    let pid = server.pid().unwrap();
    let clone = client.clone();
    drop(client);
    clone.call_tool("echo", &json!({})).await.unwrap();
    drop(clone);
    ended.await;
    assert!(!is_alive(pid));
}

/// Dropping the future of `connect` leaves no process behind.
#[tokio::test]
async fn dropping_connect_leaves_nothing_behind() {
    let server = testkit::server().legacy().stdio().await;
    server.arm(Fault::silent().always());
    let (builder, ended) = with_drop_signal(&server);
    let connecting = tokio::spawn(builder.connect());
    server.wait_for(|received| received.has_method("server/discover"), TEST_TIMEOUT).await;
    let pid = server.pid().unwrap();
    connecting.abort();
    ended.await;
    assert!(!is_alive(pid));
}

/// A process that dies fails its calls with its exit code and last stderr lines; the next call
/// starts a new one.
#[tokio::test]
async fn a_crash_is_reported_and_recovered() {
    let server = testkit::server().legacy().tool("echo").tool("counter").stdio().await;
    let client = Client::connect(stdio(&server)).await.unwrap();
    server.arm(Fault::stderr(2_000).on("tools/call"));
    server.arm(Fault::exit(3).on("tools/call"));
    let error = client.call_tool("counter", &json!({})).await.unwrap_err();
    let fault = error.fault().unwrap();
    assert_eq!(fault.cause, Cause::Exited(Exit::Code(3)), "{error}");
    assert_eq!(fault.execution, Execution::Unknown);
    assert!(!fault.evidence.stderr.is_empty(), "the last lines of stderr");
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!(server.runs(), 2);
    client.close().await;
}

/// A server that never becomes ready is given up at the connect timeout, whatever the number of
/// attempts.
#[tokio::test]
async fn connect_timeout_ends_a_server_that_is_never_ready() {
    let server = testkit::server().legacy().stdio().await;
    server.arm(Fault::silent().always());
    let entry = stdio(&server)
        .with_probe_timeout(Duration::from_millis(100))
        .with_connect_timeout(Duration::from_secs(3));
    let error = Client::connect(entry).await.unwrap_err();
    assert!(matches!(error.fault().unwrap().cause, Cause::Timeout(_)), "{error}");
    assert!(!is_alive(server.pid().unwrap()), "whoever gives up leaves nothing behind");
}

#[tokio::test]
async fn a_missing_command_is_a_spawn_failure() {
    let error = Client::connect(Server::stdio("x", "no-such-command-anywhere")).await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Spawn(SpawnError::NotFound));
    assert!(error.to_string().contains("no-such-command-anywhere"), "{error}");
    assert_eq!(error.execution(), Execution::NotExecuted);
}

/// ST-02, ST-03: noise on stdout and a flood on stderr do not disturb the connection.
#[tokio::test]
async fn st_02_noise_costs_nothing() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let client = Client::connect(stdio(&server)).await.unwrap();
    server.arm(Fault::noise("Debugger attached.\n\nWaiting…").on("tools/call"));
    server.arm(Fault::stderr(1_000_000).on("tools/call"));
    client.call_tool("echo", &json!({ "x": 1 })).await.unwrap();
    client.close().await;
}

/// The status of the connection can be watched.
#[tokio::test]
async fn the_status_can_be_watched() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let client = Client::connect(stdio(&server)).await.unwrap();
    let mut status = client.status();
    assert!(matches!(status.current(), Status::Ready(peer) if peer.server.is_some()));
    client.close().await;
    status.wait_for(|status| *status == Status::Closed).await.unwrap();
}

/// Calls after closing fail at once.
#[tokio::test]
async fn calls_after_closing_fail_at_once() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let client = Client::connect(stdio(&server)).await.unwrap();
    let clone = client.clone();
    client.close().await;
    let error = clone.call_tool("echo", &json!({})).await.unwrap_err();
    assert_eq!(error.fault().unwrap().cause, Cause::Closed);
    assert_eq!(error.execution(), Execution::NotExecuted);
    clone.close().await;
}

/// A program that copies its input is not mistaken for a server that refuses.
#[cfg(unix)]
#[tokio::test]
async fn a_program_that_echoes_is_no_server() {
    let error = Client::connect(Server::stdio("echo", "cat")).await.unwrap_err();
    let fault = error.fault().unwrap();
    assert_eq!(fault.cause, Cause::Protocol(Misbehavior::Echo));
    assert_eq!(fault.execution, Execution::NotExecuted);
}

/// A server in the same process, over byte streams. Its end is final, and says so.
#[tokio::test]
async fn a_server_is_reached_over_byte_streams() {
    use bowline_transport::pipe::{FrameReader as _, InboundFrame};
    let ((reader, writer), mut theirs) = io_pair();
    let server = tokio::spawn(async move {
        while let Ok(InboundFrame::Message(message)) = theirs.reader.recv().await {
            let message: serde_json::Value = serde_json::from_slice(&message).unwrap();
            let Some(id) = message["id"].as_u64() else { continue };
            let result = match message["method"].as_str().unwrap() {
                "server/discover" => {
                    json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } })
                }
                "tools/call" if message["params"]["name"] == "leave" => return,
                _ => json!({ "content": [{ "type": "text", "text": "from memory" }] }),
            };
            let id = bowline::Id::from(id);
            let result = Json::encode(&result).unwrap();
            theirs.writer.send(&bowline_proto::wire::outgoing::response(&id, Ok(&result))).await.unwrap();
        }
    });
    let entry = Server::stdio("memory", "unused").build().unwrap();
    let client = Client::builder(entry).connect_io(reader, writer).await.unwrap();
    assert_eq!(client.call_tool("any", &json!({})).await.unwrap().text(), "from memory");
    let open = client.call_tool("leave", &json!({})).await.unwrap_err();
    assert_eq!(open.fault().unwrap().cause, Cause::Exited(Exit::Eof));
    assert_eq!(open.execution(), Execution::Unknown);
    let later = client.call_tool("any", &json!({})).await.unwrap_err();
    assert_eq!(later.fault().unwrap().cause, Cause::Exited(Exit::Eof));
    assert_eq!(later.execution(), Execution::NotExecuted);
    assert!(matches!(client.status().current(), Status::Failed(_)));
    client.close().await;
    server.await.unwrap();
}

/// `open` returns the handle before the connection is ready; it can be closed meanwhile.
#[tokio::test]
async fn a_connection_can_be_closed_while_it_is_being_made() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let client = Client::builder(stdio(&server)).open().unwrap();
    assert!(client.ready().await.unwrap().capabilities.tools.is_some());
    client.close().await;

    let server = testkit::server().legacy().stdio().await;
    server.arm(Fault::silent().always());
    let client = Client::builder(stdio(&server)).open().unwrap();
    server.wait_for(|received| received.has_method("server/discover"), TEST_TIMEOUT).await;
    let (pid, clone) = (server.pid().unwrap(), client.clone());
    client.close().await;
    assert!(!is_alive(pid), "closing waits for the process to end");
    assert_eq!(clone.ready().await.unwrap_err().fault().unwrap().cause, Cause::Closed);
}

/// A server that is connected before anybody subscribes is still an event of `open_with_events`, and of no later
/// subscription.
#[tokio::test]
async fn the_first_event_is_not_missed_by_a_client_that_is_opened_with_events() {
    let server = testkit::server().tool("echo").run().await;
    let (client, mut events) = Client::builder(http(&server)).open_with_events().unwrap();
    client.ready().await.unwrap();
    let mut late = client.events();
    client.close().await;
    let kind = |event| if let Event::Connection(change) = event { Some(change.kind) } else { None };
    let kinds: Vec<_> = std::iter::from_fn(|| events.try_next()).filter_map(kind).collect();
    assert_eq!(kinds, [ConnectionEventKind::Connected]);
    let kinds: Vec<_> = std::iter::from_fn(|| late.try_next()).filter_map(kind).collect();
    assert_eq!(kinds, []);
}

/// The events of a connection end when it is closed, also for those who subscribe later, though clients of it
/// are left.
#[tokio::test]
async fn events_end_with_the_connection() {
    let server = testkit::server().tool("echo").run().await;
    let (client, mut events) = Client::builder(http(&server)).open_with_events().unwrap();
    client.ready().await.unwrap();
    client.close().await;
    let Some(Event::Connection(change)) = events.next().await else { panic!("it was connected") };
    assert_eq!(change.kind, ConnectionEventKind::Connected);
    for mut events in [events, client.events()] {
        let end = tokio::time::timeout(TEST_TIMEOUT, events.next()).await.expect("it ends");
        assert_eq!(end, None);
    }
}

/// Limits that no clock can hold count as a year.
#[tokio::test]
async fn endless_limits_do_not_overflow() {
    let server = testkit::server().tool("echo").stdio().await;
    let entry = stdio(&server)
        .with_connect_timeout(Duration::MAX)
        .with_timeout(Duration::MAX)
        .with_idle_timeout(Duration::MAX)
        .with_probe_timeout(Duration::MAX);
    let client = Client::builder(entry).exit_wait(Duration::MAX).connect().await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    let pid = server.pid().unwrap();
    client.close().await;
    assert!(!is_alive(pid));
    let step = client.health().process_end.map(|end| end.step);
    assert!(step.is_some_and(|step| step < ShutdownStep::Terminated), "{step:?}");
}
