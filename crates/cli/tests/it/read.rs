//! `bowline read` and `bowline prompt`.

use bowline_testkit::{self as testkit, Fault};
use serde_json::json;

use crate::context::{Context, snapshot};

#[tokio::test]
async fn text_is_printed_unchanged() {
    let context = Context::new();
    let server = testkit::server().resource("file:///notes.txt", "one\x1b[31m\r\ntwo").run().await;
    let output = context.bowline(["read", &server.url(), "file:///notes.txt"]).output().unwrap();
    assert_eq!(output.stdout, b"one\x1b[31m\r\ntwo\n");
    snapshot!(context.run(context.bowline(["read", "--json", &server.url(), "file:///notes.txt"])), @r#"
    exit: 0
    --- stdout
    {"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"testkit","version":"1.0.0"}},"cacheScope":"public","contents":[{"mimeType":"text/plain","text":"one\u001b[31m\r\ntwo","uri":"file:///notes.txt"}],"resultType":"complete","ttlMs":60000}
    --- stderr
    ---
    "#);
}

#[tokio::test]
async fn a_binary_resource_can_be_redirected_or_saved() {
    let context = Context::new();
    let blob = json!({"contents": [{"uri": "file:///a.png", "mimeType": "image/png", "blob": "AAEC/w=="}]});
    let server = testkit::server()
        .resource("file:///a.png", "")
        .fault(Fault::reply(blob).on("resources/read").always())
        .run()
        .await;
    let output = context.bowline(["read", &server.url(), "file:///a.png"]).output().unwrap();
    assert_eq!(output.stdout, [0, 1, 2, 255]);
    let out = context.path("out").display().to_string();
    snapshot!(context.run(context.bowline(["read", &server.url(), "file:///a.png", "--save", &out])), @"
    exit: 0
    --- stdout
    [binary image/png, 4 B, saved to [TMP]/out/a-png-1.png]
    --- stderr
    ---
    ");
    assert_eq!(std::fs::read(context.path("out/a-png-1.png")).unwrap(), [0, 1, 2, 255]);
}

#[tokio::test]
async fn a_missing_resource_is_an_error() {
    let context = Context::new();
    let server = testkit::server().resource("file:///a", "").run().await;
    snapshot!(context.run(context.bowline(["read", &server.url(), "file:///b"])), @r#"
    exit: 6
    --- stdout
    --- stderr
    error: `127.0.0.1:[PORT]` answered resources/read with an error: Resource not found (code -32602)
      data: {"uri":"file:///b"}

    hint: `bowline resources` lists the resources, `bowline templates` the templates
    ---
    "#);
}

#[tokio::test]
async fn unoffered_features_are_not_requested() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    snapshot!(context.run(context.bowline(["read", &server.url(), "file:///b"])), @"
    exit: 6
    --- stdout
    --- stderr
    error: `127.0.0.1:[PORT]` offers no resources

    hint: `bowline info` shows what a server offers
    ---
    ");
    assert_eq!(server.count("resources/read"), 0);
}

#[tokio::test]
async fn prompts_are_expanded() {
    let context = Context::new();
    let server = testkit::server().prompt("greet", "Hello {name}").run().await;
    let url = server.url();
    snapshot!(context.run(context.bowline(["prompt", &url, "greet", "name=5"])), @"
    exit: 0
    --- stdout
    user:
    Hello 5
    --- stderr
    ---
    ");
    snapshot!(context.run(context.bowline(["prompt", &url, "great"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `127.0.0.1:[PORT]` has no prompt named `great`

    hint: did you mean `greet`?
    ---
    ");
    let get = server.received_with_method("prompts/get");
    assert_eq!(get[0].params()["arguments"], json!({"name": "5"}), "PM-01: values are text");
}

/// PM-02: missing arguments are found before anything is sent.
#[tokio::test]
async fn missing_prompt_arguments_are_an_error() {
    let context = Context::new();
    let list = json!({"prompts": [{"name": "greet", "arguments": [
        {"name": "name", "required": true}, {"name": "title"},
    ]}]});
    let server = testkit::server()
        .prompt("greet", "Hello")
        .fault(Fault::reply(list).on("prompts/list").always())
        .run()
        .await;
    snapshot!(context.run(context.bowline(["prompt", &server.url(), "greet", "title=Dr"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: the prompt `greet` also needs name=…
    ---
    ");
    snapshot!(context.run(context.bowline(["prompts", &server.url()])), @"
    exit: 0
    --- stdout
    greet	name [title]
    --- stderr
    ---
    ");
    assert_eq!(server.count("prompts/get"), 0);
}
