//! The events that hooks receive, and that hooks cannot disturb a connection.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline::config::{Hook, HookEvent};
use bowline::{Client, Server, hooks};
use bowline_config::TransportSettings as _;
use bowline_testkit::{self as testkit, HttpServer};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{TEST_TIMEOUT, http};

/// Makes a hook that runs a shell script.
fn script_hook(text: impl Into<String>) -> Hook {
    Hook::command("/bin/sh", ["-c".to_owned(), text.into()])
}

/// Makes a hook that writes each event to a file, as a line of JSON.
fn recording_hook(file: &Path) -> Hook {
    script_hook(format!("cat >> '{}'", file.display()))
}

fn read_events(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("one JSON object per line")).collect()
}

fn event_names(told: &[Value]) -> Vec<&str> {
    told.iter().map(|it| it["event"].as_str().unwrap()).collect()
}

struct TempFolder(tempfile::TempDir);

impl TempFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

async fn lose_session(server: &HttpServer, client: &Client) {
    server.drop_sessions();
    client.call_tool("echo", &json!({})).await.unwrap();
}

/// A session loss and its recovery are reported in order with cause and duration, as JSON and as
/// variables.
#[tokio::test]
async fn a_session_loss_and_its_recovery_are_reported() {
    let folder = TempFolder::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    let (file, env) = (folder.file("json"), folder.file("env"));
    let variables = format!(
        "echo \"$BOWLINE_EVENT|$BOWLINE_SERVER|$BOWLINE_CAUSE|$BOWLINE_ATTEMPT|${{BOWLINE_OUTAGE_MS-unset}}\" >> '{}'",
        env.display()
    );
    let client = Client::builder(http(&server)).open().unwrap();
    let hooks = hooks::spawn(&client, [recording_hook(&file), script_hook(variables)]);
    client.ready().await.unwrap();
    lose_session(&server, &client).await;
    client.close().await;
    timeout(TEST_TIMEOUT, hooks.finished()).await.unwrap();

    let told = read_events(&file);
    assert_eq!(event_names(&told), ["connected", "session_lost", "recovered"]);
    for it in &told {
        assert_eq!((it["server"].as_str(), it["missed"].as_u64()), (Some("test"), Some(0)));
        let time = it["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
    }
    assert_eq!(told[0]["cause"], Value::Null);
    assert_eq!(told[1]["cause_kind"], "session_lost");
    assert!(told[1]["cause"].as_str().unwrap().contains("lost the session"), "{}", told[1]);
    assert!(told[2]["outage_ms"].is_u64() && told[1]["outage_ms"].is_null(), "{told:?}");

    let lines = std::fs::read_to_string(env).unwrap();
    let lines: Vec<Vec<&str>> = lines.lines().map(|line| line.split('|').collect()).collect();
    assert_eq!(lines[0][..4], ["connected", "test", "", "1"]);
    assert_eq!((lines[1][0], lines[1][4]), ("session_lost", "unset"));
    assert_eq!((lines[2][0], lines[2][4].parse::<u64>().ok()), ("recovered", told[2]["outage_ms"].as_u64()));
}

/// A client that is already connected when hooks are added reports that once.
#[tokio::test]
async fn hooks_added_late_get_the_current_state() {
    let folder = TempFolder::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let file = folder.file("json");
    let hooks = hooks::spawn(&client, [recording_hook(&file)]);
    lose_session(&server, &client).await;
    client.close().await;
    timeout(TEST_TIMEOUT, hooks.finished()).await.unwrap();
    assert_eq!(event_names(&read_events(&file)), ["connected", "session_lost", "recovered"]);
}

/// A hanging hook is killed with its children at its timeout. Calls and other hooks do not wait for
/// it, and it gets the missed events afterwards.
#[tokio::test]
async fn a_hanging_hook_is_killed_and_nobody_waits_for_it() {
    let folder = TempFolder::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    let client = Client::builder(http(&server)).open().unwrap();
    let (pids, quick) = (folder.file("pids"), folder.file("quick"));
    let hang = format!("sleep 1000 & echo $$ $! >> '{}'; wait", pids.display());
    let hanging = script_hook(hang).on([HookEvent::SessionLost]).with_timeout(Duration::from_millis(700));
    let hooks = hooks::spawn(&client, [hanging, recording_hook(&quick)]);
    client.ready().await.unwrap();
    for _ in 0..3 {
        lose_session(&server, &client).await;
    }
    client.close().await;
    timeout(TEST_TIMEOUT, hooks.finished()).await.unwrap();
    assert_eq!(read_events(&quick).len(), 7);
    let pids = std::fs::read_to_string(pids).unwrap();
    assert!(!pids.is_empty(), "it was run");
    for pid in pids.split_whitespace() {
        // The timeout kills them long before `sleep` would end.
        assert!(testkit::wait_for_exit(pid.parse().unwrap(), TEST_TIMEOUT).await, "{pid} is still there");
    }
}

/// A hook that fails, that does not exist, that writes more than is read, or that reads nothing
/// disturbs nobody, and each event has its run.
#[tokio::test]
async fn a_failing_hook_hurts_nobody() {
    let folder = TempFolder::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    let client = Client::builder(http(&server)).open().unwrap();
    let (failed, good) = (folder.file("failed"), folder.file("good"));
    let hooks = hooks::spawn(
        &client,
        [
            script_hook(format!("echo x >> '{}'; exit 7", failed.display())),
            Hook::command("no-such-command-anywhere", [""; 0]),
            script_hook("yes | head -c 1000000; yes | head -c 1000000 >&2"),
            script_hook("exec <&-"),
            recording_hook(&good),
        ],
    );
    client.ready().await.unwrap();
    lose_session(&server, &client).await;
    client.close().await;
    timeout(TEST_TIMEOUT, hooks.finished()).await.unwrap();
    assert_eq!(std::fs::read_to_string(failed).unwrap(), "x\nx\nx\n");
    assert_eq!(read_events(&good).len(), 3);
}

/// A hook gets only the events it is configured for, and changed tools whether announced or
/// detected.
#[tokio::test]
async fn changed_tools_are_reported() {
    let folder = TempFolder::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    let client = Client::builder(http(&server)).open().unwrap();
    let file = folder.file("json");
    let hooks =
        hooks::spawn(&client, [recording_hook(&file).on([HookEvent::ToolsChanged, HookEvent::Failed])]);
    client.list_tools().await.unwrap();
    let mut events = client.events();
    server.wait_until(|server| server.announce_tools() > 0, TEST_TIMEOUT).await;
    // A change that the client has received reaches hooks before they end.
    while !matches!(
        timeout(TEST_TIMEOUT, events.next()).await.unwrap().unwrap(),
        bowline::Event::Notification(_)
    ) {}
    client.close().await;
    timeout(TEST_TIMEOUT, hooks.finished()).await.unwrap();
    let told = read_events(&file);
    assert!(told.iter().all(|it| it["event"] == "tools_changed"), "{told:?}");
}

/// Hooks get none of a server's secrets, and only the common variables of our environment.
#[tokio::test]
async fn hooks_get_no_secrets() {
    let folder = TempFolder::new();
    let server = testkit::server().legacy().tool("echo").run().await;
    let (file, env) = (folder.file("json"), folder.file("env"));
    let entry = http(&server).with_header("Authorization", "Bearer hunter2").unwrap();
    let client = Client::builder(entry).open().unwrap();
    let hooks = hooks::spawn(
        &client,
        [
            recording_hook(&file),
            script_hook(format!("env > '{}'", env.display())).with_env("GIVEN", "to the hook").unwrap(),
        ],
    );
    client.ready().await.unwrap();
    lose_session(&server, &client).await;
    client.close().await;
    timeout(TEST_TIMEOUT, hooks.finished()).await.unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.lines().count() == 3 && !text.contains("hunter2"), "{text}");
    let env = std::fs::read_to_string(env).unwrap();
    assert!(env.contains("GIVEN=to the hook\n") && env.contains("BOWLINE_EVENT=recovered\n"), "{env}");
    // Cargo sets this variable for the test; it is not one of those passed on.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some() && !env.contains("CARGO_MANIFEST_DIR"), "{env}");
    assert!(!env.contains("hunter2"));
}

mod webhook {
    use std::convert::Infallible;
    use std::net::SocketAddr;
    use std::sync::Arc;

    use bytes::Bytes;
    use futures_util::StreamExt as _;
    use hyper::body::{Body, Incoming};
    use hyper::{Request, Response};
    use hyper_util::rt::TokioIo;
    use parking_lot::Mutex;
    use tokio::net::TcpListener;

    use super::*;

    type ReceivedPost = (String, Vec<(String, String)>, Value);

    /// Receives POSTs and answers each with the next status, then repeats the last one.
    struct WebhookReceiver {
        addr: SocketAddr,
        calls: Arc<Mutex<Vec<ReceivedPost>>>,
    }

    async fn read_body(incoming: Incoming) -> Vec<u8> {
        let mut incoming = std::pin::pin!(incoming);
        let frames = futures_util::stream::poll_fn(|cx| incoming.as_mut().poll_frame(cx));
        let data = frames.filter_map(async |frame| frame.unwrap().into_data().ok());
        data.collect::<Vec<Bytes>>().await.concat()
    }

    impl WebhookReceiver {
        async fn start(statuses: &'static [u16], location: Option<String>) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let calls = Arc::<Mutex<Vec<ReceivedPost>>>::default();
            let record = Arc::clone(&calls);
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let (record, location) = (Arc::clone(&record), location.clone());
                    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                        let (record, location) = (Arc::clone(&record), location.clone());
                        async move {
                            let (parts, incoming) = request.into_parts();
                            let headers = parts
                                .headers
                                .iter()
                                .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
                            let headers = headers.collect();
                            let json = serde_json::from_slice(&read_body(incoming).await).unwrap();
                            let count = {
                                let mut record = record.lock();
                                record.push((format!("{} {}", parts.method, parts.uri), headers, json));
                                record.len()
                            };
                            let status = statuses[(count - 1).min(statuses.len() - 1)];
                            let mut response = Response::builder().status(status);
                            if let Some(location) = location {
                                response = response.header("location", location);
                            }
                            Ok::<_, Infallible>(response.body(String::new()).unwrap())
                        }
                    });
                    tokio::spawn(
                        hyper::server::conn::http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service),
                    );
                }
            });
            Self { addr, calls }
        }

        fn hook(&self) -> Hook {
            Hook::webhook(format!("http://{}/hooks/k3y?t=k3y", self.addr)).unwrap()
        }

        fn calls(&self) -> Vec<ReceivedPost> {
            self.calls.lock().clone()
        }
    }

    async fn connect_and_lose(hook: Hook) -> HttpServer {
        let server = testkit::server().legacy().tool("echo").run().await;
        let client = Client::builder(http(&server)).open().unwrap();
        let hooks = hooks::spawn(&client, [hook]);
        client.ready().await.unwrap();
        lose_session(&server, &client).await;
        client.close().await;
        timeout(TEST_TIMEOUT, hooks.finished()).await.unwrap();
        server
    }

    /// Each event is one POST with the JSON that a command gets, whatever the receiver answers.
    #[tokio::test]
    async fn each_event_is_posted_once_and_in_order() {
        let receiver = WebhookReceiver::start(&[500, 204, 404], None).await;
        connect_and_lose(receiver.hook().with_header("X-Key", "s3cret").unwrap()).await;
        let calls = receiver.calls();
        let told: Vec<Value> = calls.iter().map(|(_, _, json)| json.clone()).collect();
        assert_eq!(event_names(&told), ["connected", "session_lost", "recovered"]);
        for (line, headers, _) in &calls {
            assert_eq!(line, "POST /hooks/k3y?t=k3y");
            let header = |name: &str| headers.iter().find(|(it, _)| it == name).map(|(_, value)| &**value);
            assert_eq!(header("content-type"), Some("application/json"));
            assert_eq!(header("x-key"), Some("s3cret"));
        }
    }

    /// A redirect to another origin is not followed: neither body nor headers are meant for it.
    #[tokio::test]
    async fn a_redirect_elsewhere_is_not_followed() {
        let other = WebhookReceiver::start(&[200], None).await;
        let elsewhere = format!("http://{}/", other.addr);
        let receiver = WebhookReceiver::start(&[307, 308, 302], Some(elsewhere)).await;
        connect_and_lose(receiver.hook()).await;
        assert_eq!(receiver.calls().len(), 3);
        assert_eq!(other.calls().len(), 0);
    }

    /// A receiver that never answers costs its timeout and nothing else.
    #[tokio::test]
    async fn a_silent_receiver_costs_only_its_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hook = Hook::webhook(format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        connect_and_lose(hook.with_timeout(Duration::from_millis(200))).await;
    }
}

/// Hooks do not keep a client alive, and end with it.
#[tokio::test]
async fn hooks_end_with_the_client() {
    let client = Client::builder(Server::stdio("x", "no-such-command-anywhere")).open().unwrap();
    let hooks = hooks::spawn(&client, [script_hook("true")]);
    drop(client);
    timeout(TEST_TIMEOUT, hooks.finished()).await.unwrap();
}
