//! Completion of arguments (group CP).

use std::collections::BTreeMap;
use std::time::Duration;

use bowline::{Client, Completer, ErrorKind, Reference};
use bowline_testkit::{self as testkit, Fault};
use serde_json::json;

use crate::support::{TEST_TIMEOUT, http, run_everywhere};

fn no_arguments() -> BTreeMap<String, String> {
    BTreeMap::new()
}

/// CP-01: the shape of the request for prompts and templates, in both eras.
#[tokio::test]
async fn cp_01_request_shape() {
    for (name, running, server) in run_everywhere(testkit::server().prompt("greet", "{who}")).await {
        let client = Client::connect(server).await.unwrap();
        let found = client.complete(&Reference::Prompt("greet"), "who", "A", &no_arguments()).await.unwrap();
        assert_eq!(found.values, [Box::<str>::from("A-done")], "{name}");
        assert!(!found.has_more, "{name}");
        client.complete(&Reference::Resource("f:///{path}"), "path", "", &no_arguments()).await.unwrap();
        let asked = running.received_with_method("completion/complete");
        assert_eq!(asked[0].params()["ref"], json!({ "type": "ref/prompt", "name": "greet" }), "{name}");
        assert_eq!(asked[0].params()["argument"], json!({ "name": "who", "value": "A" }), "{name}");
        assert_eq!(
            asked[1].params()["ref"],
            json!({ "type": "ref/resource", "uri": "f:///{path}" }),
            "{name}"
        );
        assert_eq!(asked[0].params().get("context"), None, "{name}");
        client.close().await;
        assert_eq!(running.violations(), Vec::<String>::new(), "{name}");
    }
}

/// CP-01: a server without the capability is not asked. Revision 2024-11-05 could not declare it.
#[tokio::test]
async fn cp_01_only_servers_that_declare_it_are_asked() {
    for (name, running, server) in
        run_everywhere(testkit::server().tool("echo").without_capability("completions")).await
    {
        let client = Client::connect(server).await.unwrap();
        let error = client.complete(&Reference::Prompt("p"), "a", "", &no_arguments()).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotOffered("completions")), "{name}: {error}");
        let completer = Completer::new(&client).pause(Duration::ZERO);
        let found = completer.suggest(&Reference::Prompt("p"), "a", "", &no_arguments()).await.unwrap();
        assert_eq!(found.values, [] as [Box<str>; 0], "{name}");
        assert_eq!(running.count("completion/complete"), 0, "{name}");
        client.close().await;
    }
    let old = testkit::server()
        .tool("echo")
        .without_capability("completions")
        .legacy_only("2024-11-05")
        .run()
        .await;
    let client = Client::connect(http(&old)).await.unwrap();
    let found = client.complete(&Reference::Prompt("p"), "a", "", &no_arguments()).await.unwrap();
    assert_eq!((found.values.len(), found.has_more), (0, false));
    assert_eq!(old.count("completion/complete"), 1);
    client.close().await;
}

/// CP-02: arguments already chosen are sent along, from 2025-06-18 on.
#[tokio::test]
async fn cp_02_chosen_arguments_are_sent_as_context() {
    let chosen = BTreeMap::from([("owner".to_owned(), "knots".to_owned())]);
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let server = testkit::server().prompt("p", "").legacy_only(version).run().await;
        let client = Client::connect(http(&server)).await.unwrap();
        client.complete(&Reference::Prompt("p"), "repo", "b", &chosen).await.unwrap();
        let context = server.received_with_method("completion/complete")[0].params().get("context").cloned();
        let expected = (version >= "2025-06-18").then(|| json!({ "arguments": { "owner": "knots" } }));
        assert_eq!(context, expected, "{version}");
        client.close().await;
    }
}

/// CP-03: a hundred suggestions with `hasMore`; values that are not strings are left out.
#[tokio::test]
async fn cp_03_long_and_partial_answers() {
    let server = testkit::server().prompt("p", "").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let many: Vec<_> = (0..500).map(|n| format!("v{n}")).collect();
    server.arm(
        Fault::reply(json!({ "completion": { "values": many, "total": 500 } })).on("completion/complete"),
    );
    let found = client.complete(&Reference::Prompt("p"), "a", "v", &no_arguments()).await.unwrap();
    assert_eq!((found.values.len(), found.total, found.has_more), (100, Some(500), true));
    let odd = json!({ "completion": { "values": ["a", 7, null, "b"] } });
    server.arm(Fault::reply(odd).on("completion/complete"));
    let found = client.complete(&Reference::Prompt("p"), "a", "v", &no_arguments()).await.unwrap();
    assert_eq!(found.values, [Box::<str>::from("a"), Box::<str>::from("b")]);
    assert_eq!(found.dropped.len(), 2);
    server.arm(Fault::reply(json!({ "completion": [] })).on("completion/complete"));
    assert!(client.complete(&Reference::Prompt("p"), "a", "v", &no_arguments()).await.is_err());
    client.close().await;
}

/// CP-03: ten quick keystrokes cause one request, and going back over them causes none.
#[tokio::test]
async fn cp_03_typing_is_debounced_and_cached() {
    let server = testkit::server().prompt("p", "").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let completer = Completer::new(&client).pause(Duration::from_millis(50));
    let text = "0123456789";
    let suggest = |length: usize| {
        let value = &text[..length];
        async { completer.suggest(&Reference::Prompt("p"), "a", value, &no_arguments()).await }
    };
    // Each future is polled once, in order, so all are typed before the first debounce ends.
    let found = futures_util::future::join_all((1..=10).map(suggest)).await;
    assert!(found[..9].iter().all(Option::is_none), "a later question took their place");
    assert_eq!(found[9].as_ref().unwrap().values, [Box::<str>::from(format!("{text}-done"))]);
    assert_eq!(server.count("completion/complete"), 1);
    for _ in 0..3 {
        assert_eq!(suggest(10).await, found[9]);
    }
    assert_eq!(server.count("completion/complete"), 1, "known already");
    // Another context is another request.
    let chosen = BTreeMap::from([("b".to_owned(), "c".to_owned())]);
    completer.suggest(&Reference::Prompt("p"), "a", text, &chosen).await.unwrap();
    assert_eq!(server.count("completion/complete"), 2);
    client.close().await;
}

/// CP-03: an outdated request is canceled while the server is still working on it.
#[tokio::test]
async fn cp_03_the_latest_question_wins() {
    let server = testkit::server().prompt("p", "").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let completer = Completer::new(&client).pause(Duration::ZERO);
    server.arm(Fault::silent().on("completion/complete"));
    let late = async {
        server.wait_for(|received| received.has_method("completion/complete"), TEST_TIMEOUT).await;
        completer.suggest(&Reference::Prompt("p"), "a", "new", &no_arguments()).await
    };
    let first = no_arguments();
    let (old, new) = tokio::join!(completer.suggest(&Reference::Prompt("p"), "a", "old", &first), late);
    assert_eq!(old, None);
    assert_eq!(new.unwrap().values, [Box::<str>::from("new-done")]);
    client.close().await;
}

/// CP-03: errors of the server give no suggestions and do not stop the typing.
#[tokio::test]
async fn cp_03_errors_are_no_suggestions() {
    let server = testkit::server().prompt("p", "").run().await;
    let client = Client::connect(http(&server)).await.unwrap();
    let completer = Completer::new(&client).pause(Duration::ZERO);
    let suggest = |value: &'static str| {
        let completer = &completer;
        async move {
            completer.suggest(&Reference::Prompt("p"), "a", value, &no_arguments()).await.unwrap().values
        }
    };
    for (code, value, next) in [(-32602, "a", "b"), (-32603, "c", "d")] {
        server.arm(Fault::error(code, "no").on("completion/complete"));
        assert_eq!(suggest(value).await, [] as [Box<str>; 0], "{code}");
        assert_eq!(suggest(next).await, [Box::<str>::from(format!("{next}-done"))], "{code}: typing goes on");
        assert_eq!(
            suggest(value).await,
            [Box::<str>::from(format!("{value}-done"))],
            "{code}: an error is not kept"
        );
    }
    let before = server.count("completion/complete");
    server.arm(Fault::error(-32601, "no").on("completion/complete"));
    assert_eq!(suggest("z").await, [] as [Box<str>; 0]);
    assert_eq!(suggest("zz").await, [] as [Box<str>; 0]);
    assert_eq!(server.count("completion/complete"), before + 1, "asked once, and never again");
    client.close().await;
}
