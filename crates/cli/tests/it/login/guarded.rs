//! What a person is kept from: a login that is of no use.

use bowline_testkit as testkit;

use crate::context::Context;

#[tokio::test]
async fn an_open_server_needs_no_login() {
    let server = testkit::server().tool("echo").run().await;
    let context = Context::new();
    let url = server.url();
    context.user_config(&format!("[store]\nkey = 'file'\n\n[servers.docs]\nurl = '{url}'\n"));
    let shown = context.run(context.bowline(["login", "docs"]));
    let (start, out) = ("exit: 0\n--- stdout\ndocs: no login is needed\n--- stderr\n", &shown);
    assert!(out.starts_with(start) && !out.contains("error"), "{shown}");
    let output = context.bowline(["login", "docs", "--json"]).output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told, serde_json::json!({ "server": "docs", "state": "not_needed" }));
    assert_eq!(output.status.code(), Some(0));
}
