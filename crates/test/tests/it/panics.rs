//! Tools and prompts that panic.

use std::future::Ready;
use std::time::Duration;

use bowline::Error;
use bowline::host::Host;
use bowline_test::FakeServer;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::support::everywhere;

/// Shorter than the limit of a call without an answer.
const LIMIT: Duration = Duration::from_secs(30);

fn code_and_message(error: &Error) -> (i64, &str) {
    let error = error.server_error().unwrap_or_else(|| panic!("no error of the server: {error}"));
    (error.code, &error.message)
}

#[tokio::test]
async fn a_tool_that_panics_is_answered_at_once() {
    let add = |server: FakeServer| {
        server
            .tool("plain", |_| -> String { panic!("by intent") })
            .async_tool("early", |_, _| -> Ready<String> { panic!("by intent") })
            .async_tool("late", |cx, args| async move {
                cx.progress(1.0, None, None);
                yield_now().await;
                assert!(args.is_null(), "by intent");
                "never"
            })
            .tool("fine", |_| "fine")
    };
    for (server, client) in everywhere(&Host::new(), add).await {
        for tool in ["plain", "early", "late"] {
            let error = client.call(tool).timeout(LIMIT).await.unwrap_err();
            assert_eq!(code_and_message(&error), (-32603, &*format!("the tool `{tool}` panicked")));
            server.control().assert_called(tool, 1);
        }
        assert_eq!(client.call_tool("fine", &()).await.unwrap().text(), "fine");
        client.close().await;
    }
}

#[tokio::test]
async fn a_prompt_that_panics_is_answered_at_once() {
    let add = |server: FakeServer| server.prompt("greet", |_| -> String { panic!("by intent") });
    for (_server, client) in everywhere(&Host::new(), add).await {
        let error = timeout(LIMIT, client.get_prompt("greet", &[].into())).await.unwrap().unwrap_err();
        assert_eq!(code_and_message(&error), (-32603, "the prompt `greet` panicked"));
        client.close().await;
    }
}
