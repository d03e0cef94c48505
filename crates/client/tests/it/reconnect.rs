//! A server that is unreachable for a while: calls wait for it, or report what is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bowline::config::Protocol;
use bowline::{CallOptions, Cause, Client, ConnectionEventKind, Event, Execution, Status};
use bowline_config::TransportSettings as _;
use bowline_testkit::{self as testkit, CannedResponse, Fault, FaultProxy, StreamKind, Tool};
use serde_json::{Value, json};

use crate::support::{TEST_TIMEOUT, http, run_everywhere, stdio};

/// A call to an unreachable server waits, is sent once, and is answered.
#[tokio::test]
async fn a_call_waits_for_a_server_that_is_away() {
    for protocol in [Protocol::Legacy, Protocol::Modern] {
        let server = testkit::server().tool(Tool::like("look", "counter").read_only()).run().await;
        let client = Client::connect(http(&server).with_protocol(protocol)).await.unwrap();
        client.call_tool("look", &Value::Null).await.unwrap();
        let mut events = client.events();
        server.stop().await;
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("look", &Value::Null).await }
        });
        let mut status = client.status();
        status.wait_for(|status| matches!(status, Status::BackingOff { .. })).await.unwrap();
        server.start().await;
        call.await.unwrap().unwrap();
        assert_eq!(server.executions("look"), 2);
        let mut turns = Vec::new();
        while turns.last() != Some(&ConnectionEventKind::Recovered) {
            if let Event::Connection(life) =
                tokio::time::timeout(TEST_TIMEOUT, events.next()).await.unwrap().unwrap()
            {
                if life.kind == ConnectionEventKind::Recovered {
                    assert!(life.outage.unwrap() > Duration::ZERO && life.attempt > 0);
                }
                turns.push(life.kind);
            }
        }
        assert_eq!(turns.first(), Some(&ConnectionEventKind::Disconnected), "{turns:?}");
        client.close().await;
    }
}

/// The wait is bounded: the error says why, that nothing was executed, and how it goes on.
#[tokio::test]
async fn the_wait_for_a_server_is_bounded() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let entry = http(&server).with_reconnect_wait(Duration::from_millis(300));
    let client = Client::connect(entry).await.unwrap();
    server.stop().await;
    let error = client.call_tool("counter", &Value::Null).await.unwrap_err();
    let fault = error.fault().unwrap();
    assert_eq!((&fault.cause, fault.execution), (&Cause::Refused, Execution::NotExecuted), "{error}");
    // An attempt may just be under way, which is refused in a moment.
    let next = ["; the next attempt ", "; an attempt is under way"];
    assert!(next.iter().any(|next| error.to_string().contains(next)), "{error}");
    // A shorter deadline of the call ends the wait earlier.
    let hurried = CallOptions::new().idle_timeout(Duration::from_millis(50));
    let error = client.call_tool_with("counter", &Value::Null, &hurried).await.unwrap_err();
    assert_eq!(error.execution(), Execution::NotExecuted);
    // The client keeps trying to reconnect.
    server.start().await;
    client.status().wait_for(|status| matches!(status, Status::Ready(_))).await.unwrap();
    client.call_tool("counter", &Value::Null).await.unwrap();
    client.close().await;
}

/// A cut connection is no session loss: the next link probes the session and resumes it.
#[tokio::test]
async fn a_session_outlives_its_connections() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let proxy = FaultProxy::start(server.addr()).await;
    let url = format!("http://{}/mcp", proxy.addr());
    let entry = bowline::Server::http("test", url).build().unwrap().with_protocol(Protocol::Legacy);
    let client = Client::connect(entry).await.unwrap();
    client.call_tool("counter", &Value::Null).await.unwrap();
    for _ in 0..3 {
        proxy.refuse_connections().await;
        proxy.reset_all().await;
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("counter", &Value::Null).await }
        });
        client.status().wait_for(|status| matches!(status, Status::BackingOff { .. })).await.unwrap();
        proxy.accept_connections().await;
        call.await.unwrap().unwrap();
    }
    assert_eq!(server.initialize_count(), 1, "the session was kept");
    assert_eq!(server.executions("counter"), 4);
    client.close().await;
}

/// A call that an outage cut and one that began during it wait equally long for the server, each from its own
/// first moment without it.
#[tokio::test]
async fn calls_cut_by_an_outage_and_begun_in_it_wait_equally_long() {
    let wait = Duration::from_millis(1_500);
    for protocol in [Protocol::Legacy, Protocol::Modern] {
        let server = testkit::server().tool(Tool::like("look", "slow").read_only()).run().await;
        let client =
            Client::connect(http(&server).with_protocol(protocol).with_reconnect_wait(wait)).await.unwrap();
        client.list_tools().await.unwrap();
        let call = |ms: u64| {
            let client = client.clone();
            async move {
                let error = client.call_tool("look", &json!({ "ms": ms })).await.unwrap_err();
                (Instant::now(), error)
            }
        };
        let cut = tokio::spawn(call(60_000));
        server.wait_for(|received| received.has_method("tools/call"), TEST_TIMEOUT).await;
        let stopped = Instant::now();
        server.stop().await;
        client.status().wait_for(|status| matches!(status, Status::BackingOff { .. })).await.unwrap();
        let begun = Instant::now();
        let (during, cut) = tokio::join!(call(0), cut);
        for (since, attempts, (ended, error)) in [(begun, 0, during), (stopped, 1, cut.unwrap())] {
            assert!(ended - since >= wait, "{protocol:?}: {:?}: {error}", ended - since);
            assert!(error.is_unreachable(), "{protocol:?}: {error}");
            assert_eq!(error.report().unwrap().attempts, attempts, "{error}");
        }
        client.close().await;
    }
}

/// An outage is counted from the first sign of trouble, also when a call is what proves it later.
#[tokio::test]
async fn outage_begins_with_the_first_sign_of_trouble() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let entry = http(&server).with_protocol(Protocol::Legacy).with_keepalive(None);
    let client = Client::connect(entry).await.unwrap();
    let mut events = client.events();
    client.list_tools().await.unwrap();
    server.arm(Fault::silent().on("ping").times(1));
    server.close_connections().await;
    server.wait_for(|received| received.has_method("ping"), TEST_TIMEOUT).await;
    // The server is in doubt for at least this long before the call.
    let doubted = Duration::from_millis(300);
    tokio::time::sleep(doubted).await;
    server.arm(Fault::reset().on("tools/call").times(1));
    client.call_tool("counter", &Value::Null).await.unwrap_err();
    let recovered = async {
        loop {
            if let Event::Connection(life) = events.next().await.unwrap()
                && life.kind == ConnectionEventKind::Recovered
            {
                return life.outage.unwrap();
            }
        }
    };
    let outage = tokio::time::timeout(TEST_TIMEOUT, recovered).await.unwrap();
    assert!(outage >= doubted, "{outage:?}");
    assert_eq!(server.initialize_count(), 1, "the session outlived it");
    client.close().await;
}

/// 502, 503 and 504 are outages: harmless calls are retried, others have an unknown outcome, and
/// the next call waits for the server.
#[tokio::test]
async fn gateway_errors_are_outages() {
    for code in [502, 503, 504] {
        let script =
            testkit::server().legacy().tool("counter").tool(Tool::like("look", "counter").read_only());
        let server = script.run().await;
        let client = Client::connect(http(&server)).await.unwrap();
        client.list_tools().await.unwrap();
        server
            .arm(Fault::response(CannedResponse::new(code).html("<h1>bad gateway</h1>")).on_tool("counter"));
        let error = client.call_tool("counter", &Value::Null).await.unwrap_err();
        assert_eq!(error.execution(), Execution::Unknown, "{error}");
        server.arm(Fault::response(CannedResponse::new(code)).on_tool("look"));
        client.call_tool("look", &Value::Null).await.unwrap();
        assert_eq!((server.executions("look"), server.executions("counter")), (1, 0), "{code}");
        assert_eq!(server.initialize_count(), 1, "{code}: the session was there all the time");
        client.close().await;
    }
}

/// `Retry-After` is respected within the call's deadline, where the rate limit covers everything. A
/// tool that sends it about itself may have run.
#[tokio::test]
async fn retry_after_is_respected() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let busy =
        |after| Fault::response(CannedResponse::new(429).header("retry-after", after).text("slow down"));
    server.arm(busy("1").on("tools/call"));
    server.arm(busy("1").on("ping"));
    let begun = Instant::now();
    client.call_tool("counter", &Value::Null).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(server.executions("counter"), 1);
    server.arm(busy("1").on("tools/call").executed());
    let error = client.call_tool("counter", &Value::Null).await.unwrap_err();
    assert_eq!((error.execution(), server.executions("counter")), (Execution::Unknown, 2), "{error}");
    server.arm(busy("3600").on("tools/call"));
    let error = client.call_tool("counter", &Value::Null).await.unwrap_err();
    assert_eq!((error.execution(), server.executions("counter")), (Execution::Unknown, 2), "{error}");
    client.close().await;
}

/// `Retry-After` of a status that is no rate limit is respected too: nothing is asked before it.
#[tokio::test]
async fn retry_after_of_an_unavailable_server_is_respected() {
    let look = Tool::like("look", "counter").read_only();
    let server = testkit::server().legacy().tool(look).run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    client.list_tools().await.unwrap();
    let busy = CannedResponse::new(503).header("retry-after", "2");
    server.arm(Fault::response(busy).on_tool("look"));
    let begun = Instant::now();
    client.call_tool("look", &Value::Null).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(server.executions("look"), 1);
    client.close().await;
}

/// A dead process is restarted, and a harmless call is retried in the same call.
#[tokio::test]
async fn a_dead_process_is_replaced_in_the_same_call() {
    let script = testkit::server().tool("counter").tool(Tool::like("look", "counter").read_only());
    for (name, running, entry) in run_everywhere(script).await {
        if name.ends_with("http") {
            continue;
        }
        let client = Client::connect(entry).await.unwrap();
        client.list_tools().await.unwrap();
        running.arm(Fault::exit(3).on_tool("look").executed());
        client.call_tool("look", &Value::Null).await.unwrap();
        assert_eq!(running.executions("look"), 2, "{name}");
        running.arm(Fault::exit(3).on_tool("counter").executed());
        let error = client.call_tool("counter", &Value::Null).await.unwrap_err();
        assert_eq!(error.execution(), Execution::Unknown, "{name}: {error}");
        client.call_tool("counter", &Value::Null).await.unwrap();
        assert_eq!(running.executions("counter"), 2, "{name}");
        client.close().await;
    }
}

/// A new process gets the log level of the old one.
#[tokio::test]
async fn a_new_process_gets_the_log_level_again() {
    let server = testkit::server().legacy().tool("counter").stdio().await;
    let client = Client::connect(stdio(&server).with_protocol(Protocol::Legacy)).await.unwrap();
    client.request("logging/setLevel", &json!({ "level": "error" })).await.unwrap();
    server.arm(Fault::exit(3).on("tools/call"));
    let _ = client.call_tool("counter", &Value::Null).await;
    client.call_tool("counter", &Value::Null).await.unwrap();
    assert_eq!(server.sessions().last().unwrap().log_level.as_deref(), Some("error"));
    client.close().await;
}

/// A stream that ends for good because of a session loss is noticed without a call.
#[tokio::test]
async fn a_stream_lost_with_its_session_leads_to_a_new_one() {
    let server = testkit::server().legacy().tool("counter").run().await;
    let client = Client::connect(http(&server).with_protocol(Protocol::Legacy)).await.unwrap();
    server.wait_until(|server| server.open_streams(StreamKind::Get) == 1, TEST_TIMEOUT).await;
    client.call_tool("counter", &Value::Null).await.unwrap();
    server.drop_sessions();
    server.close_streams();
    server.wait_until(|server| server.initialize_count() == 2, TEST_TIMEOUT).await;
    server.wait_until(|server| server.open_streams(StreamKind::Get) == 1, TEST_TIMEOUT).await;
    client.close().await;
}

/// All attempts to recover a call happen within its own deadline.
#[tokio::test]
async fn cn_06_retries_stay_within_the_call_deadline() {
    let limits = |idle| CallOptions::new().idle_timeout(Duration::from_millis(idle));
    let server = testkit::server().legacy().tool("counter").run().await;
    let client = Client::connect(http(&server).with_protocol(Protocol::Legacy)).await.unwrap();
    let late = Duration::from_secs(3);
    // A busy server demands a longer wait than the deadline allows.
    server.arm(Fault::response(CannedResponse::new(429).header("retry-after", "4")).on("tools/call"));
    let begun = Instant::now();
    client.call_tool_with("counter", &Value::Null, &limits(500)).await.unwrap_err();
    assert!(begun.elapsed() < late, "{:?}", begun.elapsed());
    // A probe that is never answered.
    server.arm(Fault::response(CannedResponse::new(500)).on("tools/call"));
    server.arm(Fault::silent().on("ping"));
    let begun = Instant::now();
    client.call_tool_with("counter", &Value::Null, &limits(500)).await.unwrap_err();
    assert!(begun.elapsed() < late, "{:?}", begun.elapsed());
    assert_eq!(server.executions("counter"), 0);
    // Unlimited timeouts work as well.
    server.stop().await;
    let endless = CallOptions::new().idle_timeout(Duration::MAX).timeout(Duration::MAX);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool_with("counter", &Value::Null, &endless).await }
    });
    server.start().await;
    waiting.await.unwrap().unwrap();
    client.close().await;
}

/// Closing ends every call, in any state of the connection.
#[tokio::test]
async fn closing_ends_every_waiting_call() {
    let server = testkit::server().legacy().tool("counter").tool("echo").run().await;
    let client = Client::connect(http(&server).with_protocol(Protocol::Legacy)).await.unwrap();
    server.arm(Fault::silent().on_tool("counter"));
    let silent = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("counter", &Value::Null).await }
    });
    server.wait_for(|received| received.tool() == Some("counter"), TEST_TIMEOUT).await;
    server.arm(Fault::response(CannedResponse::new(503).header("retry-after", "60")).on_tool("echo"));
    let hurried = CallOptions::new().idle_timeout(Duration::from_millis(200));
    client.call_tool_with("echo", &json!({}), &hurried).await.unwrap_err();
    client.close().await;
    let ended = tokio::time::timeout(TEST_TIMEOUT, silent).await.expect("it was left waiting").unwrap();
    assert_eq!(ended.unwrap_err().fault().unwrap().cause, Cause::Closed);
}

/// A server that closes its streams properly and restarts is waited for like any other.
#[tokio::test]
async fn calls_survive_a_graceful_restart() {
    let look = Tool::like("look", "counter").read_only();
    let server = testkit::server().legacy().tool(look).reply_sse().run().await;
    let client = Client::connect(http(&server).with_protocol(Protocol::Legacy)).await.unwrap();
    client.list_tools().await.unwrap();
    server.arm(Fault::end_after(0).on_tool("look"));
    server.drop_sessions();
    client.call_tool("look", &Value::Null).await.unwrap();
    server.arm(Fault::end_after(0).on_tool("look"));
    server.arm(Fault::drop_sessions().on("ping"));
    client.call_tool("look", &Value::Null).await.unwrap();
    client.close().await;
}

/// A tool that demands other credentials affects no other tool, and no sessions pile up.
#[tokio::test]
async fn a_tool_that_is_refused_does_not_affect_others() {
    let server = testkit::server().legacy().tool("counter").tool("echo").run().await;
    let entry =
        http(&server).with_protocol(Protocol::Legacy).with_header("Authorization", "Bearer x").unwrap();
    let client = Client::connect(entry).await.unwrap();
    client.call_tool("counter", &Value::Null).await.unwrap();
    let refusal = CannedResponse::new(401).header("www-authenticate", "Bearer error=\"insufficient_scope\"");
    server.arm(Fault::response(refusal).on_tool("echo").always());
    for _ in 0..3 {
        client.call_tool("echo", &json!({})).await.unwrap_err();
        client.call_tool("counter", &Value::Null).await.unwrap();
    }
    assert_eq!(server.initialize_count(), 2, "one new session was tried, and no more");
    client.close().await;
}

/// A stream that is refused at once must not break the connection. Many connections are made to hit
/// the case where the refusal comes before anything waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hl_05_an_immediately_refused_stream_is_harmless() {
    let server = testkit::server().legacy().tool("echo").no_get_stream().run().await;
    for _ in 0..60 {
        let client = Client::connect(http(&server).with_protocol(Protocol::Legacy)).await.unwrap();
        client.ping().await.unwrap();
        client.close().await;
    }
}

/// A call whose link is replaced between its start and its sending is sent over the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_sent_again_that_finds_its_pipe_closed() {
    let server = testkit::server().legacy().tool(Tool::named("echo").read_only()).stdio().await;
    let server = Arc::new(server);
    let is_due = Arc::new(AtomicBool::new(false));
    // The source of traces is queried after a call has begun and before it is sent.
    let source = {
        let (server, is_due) = (Arc::clone(&server), Arc::clone(&is_due));
        move || {
            if is_due.swap(false, Ordering::Relaxed) {
                server.exit(1);
                let until = Instant::now() + TEST_TIMEOUT;
                while server.processes().len() < 2 && Instant::now() < until {
                    std::thread::yield_now();
                }
            }
            None
        }
    };
    let client = Client::builder(stdio(&server)).trace(source).connect().await.unwrap();
    client.list_tools().await.unwrap();
    is_due.store(true, Ordering::Relaxed);
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!((server.processes().len(), server.executions("echo")), (2, 1));
    client.close().await;
}
