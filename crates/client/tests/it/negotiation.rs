//! Negotiation on the wire: which revision a server speaks (groups LC and DE).

use std::time::Duration;

use bowline::config::Protocol;
use bowline::{Cause, Client, Era, Revision, Server};
use bowline_testkit::{self as testkit, CannedResponse, Fault};
use serde_json::{Value, json};

use crate::support::{TEST_TIMEOUT, http, stdio};

async fn revision_of(client: &Client) -> Revision {
    client.peer().await.unwrap().revision
}

#[tokio::test]
async fn every_revision_over_both_transports() {
    for revision in Revision::ALL {
        let script = match revision.era() {
            Era::Legacy => testkit::server().tool("echo").legacy_only(revision.as_str()),
            Era::Modern => testkit::server().tool("echo").modern(),
        };
        let web = script.clone().run().await;
        let client = Client::connect(http(&web)).await.unwrap();
        assert_eq!(revision_of(&client).await, revision);
        assert!(!client.call_tool("echo", &json!({ "x": 1 })).await.unwrap().is_error);
        client.close().await;
        assert_eq!(web.violations(), Vec::<String>::new(), "{revision}");

        let child = script.stdio().await;
        let client = Client::connect(stdio(&child)).await.unwrap();
        assert_eq!(revision_of(&client).await, revision);
        assert_eq!(client.list_tools().await.unwrap().len(), 1);
        client.close().await;
        assert_eq!(child.violations(), Vec::<String>::new(), "{revision}");
    }
}

/// DE-01, LC-14: a server of both eras is found to be modern, and gets no legacy message.
#[tokio::test]
async fn de_01_a_dual_server_is_modern() {
    let server = testkit::server().tool("echo").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    assert_eq!(revision_of(&client).await, Revision::V2026_07_28);
    client.ping().await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    client.close().await;
    for gone in ["initialize", "notifications/initialized", "ping", "GET", "DELETE"] {
        assert_eq!(server.count(gone), 0, "{gone}");
    }
    assert_eq!(server.received()[0].method, "server/discover");
}

/// LC-01, LC-03, DE-12: the first messages to a legacy server after the probe.
#[tokio::test]
async fn lc_01_the_handshake() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let client = Client::builder(stdio(&server)).client_info("host", "1.2").connect().await.unwrap();
    client.list_tools().await.unwrap();
    let seen: Vec<_> = server.received().iter().map(|received| received.method.clone()).collect();
    assert_eq!(seen, ["server/discover", "initialize", "notifications/initialized", "tools/list"]);
    let initialize = &server.received_with_method("initialize")[0];
    assert_eq!(initialize.params()["protocolVersion"], "2025-11-25");
    assert_eq!(initialize.params()["clientInfo"], json!({ "name": "host", "version": "1.2" }));
    assert_eq!(initialize.params()["capabilities"], json!({}));
    let list = &server.received_with_method("tools/list")[0];
    assert!(list.params()["_meta"].get("io.modelcontextprotocol/protocolVersion").is_none());
    client.close().await;
}

/// DE-07: replies that identify a legacy server, as JSON, plain text, event stream or empty body.
#[tokio::test]
async fn de_07_refusals_of_the_probe_in_every_framing() {
    let error =
        json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32601, "message": "Method not found" } });
    let answers: Vec<(&str, CannedResponse)> = vec![
        ("400 text", CannedResponse::new(400).text("Bad Request: No valid session ID provided")),
        (
            "400 JSON",
            CannedResponse::new(400)
                .json(&json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": "x" } })),
        ),
        ("400 SSE", CannedResponse::new(400).sse(&error)),
        ("200 JSON", CannedResponse::new(200).json(&error)),
        ("200 SSE", CannedResponse::new(200).sse(&error)),
        ("200 HTML", CannedResponse::new(200).html("<h1>hello</h1>")),
        ("404", CannedResponse::new(404)),
        ("405", CannedResponse::new(405)),
        ("406", CannedResponse::new(406)),
        ("500", CannedResponse::new(500).text("oops")),
        ("502", CannedResponse::new(502).html("<html>bad gateway</html>")),
        ("503", CannedResponse::new(503)),
        ("empty object", CannedResponse::new(200).json(&json!({}))),
    ];
    for (name, answer) in answers {
        let server = testkit::server().legacy().tool("echo").run().await;
        server.arm(Fault::response(answer).on("server/discover"));
        let client = Client::connect(http(&server)).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(revision_of(&client).await, Revision::V2025_11_25, "{name}");
        client.close().await;
    }
}

/// A server that closes the connection on the unknown probe is legacy.
#[tokio::test]
async fn a_probe_that_is_cut_off_falls_back() {
    let server = testkit::server().legacy().tool("echo").run().await;
    server.arm(Fault::close().on("server/discover"));
    let client = Client::connect(http(&server)).await.unwrap();
    assert_eq!(revision_of(&client).await.era(), Era::Legacy);
    client.close().await;
}

/// DE-01, DE-03: a modern server is reached though it is greeted with `initialize` and refuses that with
/// a code that says nothing.
#[tokio::test]
async fn de_03_a_modern_server_is_reached_after_it_refused_initialize() {
    for code in [-32602, -32600] {
        let script = testkit::server()
            .modern()
            .tool("echo")
            .fault(Fault::error(code, "Invalid request parameters").on("initialize").always());
        let (web, child) = (script.clone().run().await, script.stdio().await);
        for server in [http(&web), stdio(&child)] {
            let client = Client::builder(server).begin_with(Era::Legacy).connect().await.unwrap();
            assert_eq!(revision_of(&client).await, Revision::V2026_07_28, "{code}");
            assert!(!client.call_tool("echo", &json!({ "x": 1 })).await.unwrap().is_error);
            client.close().await;
        }
        let counts = |count: &dyn Fn(&str) -> usize| (count("initialize"), count("server/discover"));
        assert_eq!(counts(&|method| web.count(method)), (1, 1), "{code}");
        assert_eq!(counts(&|method| child.count(method)), (1, 1), "{code}");
    }
}

/// DE-03: a legacy server that refuses `initialize` is asked once whether it is modern, and its own
/// reason is reported.
#[tokio::test]
async fn de_03_a_legacy_server_that_refuses_initialize_gives_its_reason() {
    let script = testkit::server()
        .legacy()
        .fault(Fault::error(-32602, "clientInfo.name is not allowed").on("initialize").always());
    let (web, child) = (script.clone().run().await, script.stdio().await);
    for server in [http(&web), stdio(&child)] {
        let error = Client::builder(server).begin_with(Era::Legacy).connect().await.unwrap_err().to_string();
        let reason = "the server refused the handshake: clientInfo.name is not allowed (code -32602)";
        assert!(error.contains(reason), "{error}");
    }
    assert_eq!((web.count("initialize"), web.count("server/discover")), (1, 1));
    assert_eq!((child.count("initialize"), child.count("server/discover")), (1, 1));
}

/// DE-06, LC-12: modern errors never lead to `initialize`; the version is corrected once.
#[tokio::test]
async fn de_06_modern_errors_never_lead_to_initialize() {
    let refuse = |code: i64, data: Value| {
        let error =
            json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": code, "message": "no", "data": data } });
        Fault::response(CannedResponse::new(400).json(&error)).on("server/discover")
    };
    let server = testkit::server().tool("echo").run().await;
    server.arm(refuse(-32022, json!({ "supported": ["2026-07-28"], "requested": "2026-07-28" })));
    let client = Client::connect(http(&server)).await.unwrap();
    assert_eq!((server.count("server/discover"), server.count("initialize")), (2, 0));
    client.close().await;

    for (code, data) in [(-32020, json!({})), (-32021, json!({ "requiredCapabilities": { "sampling": {} } }))]
    {
        let server = testkit::server().tool("echo").run().await;
        server.arm(refuse(code, data));
        let error = Client::connect(http(&server)).await.unwrap_err();
        // LC-13: the error is reported, not worked around.
        assert!(error.to_string().contains(&code.to_string()), "{error}");
        assert_eq!((server.count("server/discover"), server.count("initialize")), (1, 0));
    }
}

/// A server that never answers the probe neither hangs nor fails the connection.
#[tokio::test]
async fn a_silent_probe_times_out_early() {
    let quick = |server: Server| server.with_probe_timeout(Duration::from_millis(200));
    let web = testkit::server().legacy().tool("echo").run().await;
    web.arm(Fault::silent().on("server/discover"));
    let client = Client::connect(quick(http(&web))).await.unwrap();
    assert_eq!(revision_of(&client).await.era(), Era::Legacy);
    client.close().await;

    let child = testkit::server().legacy().tool("echo").stdio().await;
    child.arm(Fault::silent().on("server/discover"));
    let client = Client::connect(quick(stdio(&child))).await.unwrap();
    assert_eq!(revision_of(&client).await.era(), Era::Legacy);
    assert_eq!(child.runs(), 1, "the same process");
    client.close().await;
}

/// DE-05: a probe response after the fallback is discarded.
#[tokio::test]
async fn de_05_a_late_probe_answer_is_discarded() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    server.arm(Fault::silent().on("server/discover"));
    let client =
        Client::connect(stdio(&server).with_probe_timeout(Duration::from_millis(100))).await.unwrap();
    let id = &server.received_with_method("server/discover")[0].body["id"];
    let late = json!({ "jsonrpc": "2.0", "id": id, "result": { "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {} } });
    server.write_stdout(format!("{late}\n"));
    for n in 0..10 {
        let result = client.call_tool("echo", &json!({ "n": n })).await.unwrap();
        assert!(result.text().contains(&n.to_string()));
    }
    assert_eq!(revision_of(&client).await.era(), Era::Legacy);
    client.close().await;
}

/// DE-05: a process that exits on the probe is restarted with a legacy handshake.
#[tokio::test]
async fn de_05_a_server_that_dies_on_the_probe_is_started_again() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    server.arm(Fault::exit(1).on("server/discover").always());
    let client = Client::connect(stdio(&server)).await.unwrap();
    assert_eq!(revision_of(&client).await, Revision::V2025_11_25);
    assert_eq!(server.runs(), 2);
    assert_eq!(server.count("server/discover"), 1, "the second process is not probed");
    client.close().await;
}

/// DE-10: a login challenge is no evidence of an era; the error carries it, and no handshake
/// follows.
#[tokio::test]
async fn de_10_a_login_challenge_is_no_evidence_of_an_era() {
    let server = testkit::server().tool("echo").run().await;
    let challenge =
        CannedResponse::new(401).header("WWW-Authenticate", "Bearer resource_metadata=\"http://x/\"");
    server.arm(Fault::response(challenge).always());
    let error = Client::connect(http(&server)).await.unwrap_err();
    let Cause::LoginRequired { challenge, .. } = &error.fault().unwrap().cause else { panic!("{error}") };
    assert_eq!(challenge.len(), 1);
    assert_eq!(server.count("initialize"), 0);
}

/// LC-02, LC-06: without a common revision the connection fails and names the server's revisions.
#[tokio::test]
async fn lc_02_no_common_revision_is_an_error() {
    let server = testkit::server().legacy_only("1999-01-01").tool("echo").run().await;
    let error = Client::connect(http(&server)).await.unwrap_err();
    assert!(error.to_string().contains("1999-01-01"), "{error}");
    assert_eq!(server.count("tools/list"), 0);
    assert_eq!(server.count("notifications/initialized"), 0);
}

/// DE-04: a pinned era is kept.
#[tokio::test]
async fn de_04_a_pinned_era_fails_up_front() {
    let legacy = testkit::server().legacy().tool("echo").stdio().await;
    let error = Client::connect(stdio(&legacy).with_protocol(Protocol::Modern)).await.unwrap_err();
    assert!(error.fault().is_some(), "{error}");
    assert_eq!(legacy.count("initialize"), 0);
    let dual = testkit::server().tool("echo").run().await;
    let client = Client::connect(http(&dual).with_protocol(Protocol::Legacy)).await.unwrap();
    assert_eq!(revision_of(&client).await, Revision::V2025_11_25);
    client.close().await;
    assert_eq!(dual.count("server/discover"), 0);
}

/// DE-09: a client remembers the era for its next connection.
#[tokio::test]
async fn de_09_the_era_is_remembered_and_re_probed_when_wrong() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    let client = Client::connect(stdio(&server)).await.unwrap();
    server.exit(0);
    server.wait_until(|server| server.initialize_count() == 1, TEST_TIMEOUT).await;
    client.status().wait_for(|status| !matches!(status, bowline::Status::Ready(_))).await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!((server.initialize_count(), server.count("server/discover")), (2, 1), "no second probe");
    // The server is replaced by one without the handshake.
    server.control().edit(bowline_testkit::Script::modern);
    server.exit(0);
    client.status().wait_for(|status| !matches!(status, bowline::Status::Ready(_))).await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    assert_eq!(revision_of(&client).await.era(), Era::Modern);
    client.close().await;
}

/// LC-04: until the handshake is answered the client sends nothing but responses to pings.
#[tokio::test]
async fn lc_04_an_early_ping_is_answered() {
    let server = testkit::server().legacy().tool("echo").stdio().await;
    server.arm(Fault::delay(Duration::from_millis(500)).on("initialize"));
    let connecting = tokio::spawn(Client::connect(stdio(&server)));
    server.wait_for(|received| received.has_method("initialize"), TEST_TIMEOUT).await;
    let pong = server.control().request("ping", json!({})).await;
    assert_eq!(pong["result"], json!({}), "{pong}");
    let client = connecting.await.unwrap().unwrap();
    client.list_tools().await.unwrap();
    client.close().await;
}
