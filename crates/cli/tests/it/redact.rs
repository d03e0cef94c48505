//! Secrets that a server echoes are redacted in all output.

use bowline_testkit::{self as testkit, Fault};
use serde_json::json;

use crate::context::Context;

const SECRET: &str = "tk-secret-hunter2";

fn run_args(context: &Context, args: &[&str]) -> String {
    let shown = context.run(context.bowline(args));
    assert!(!shown.contains(SECRET), "{shown}");
    shown
}

#[tokio::test]
async fn an_echoed_header_is_redacted() {
    let data = json!({ "headers": { "authorization": format!("Bearer {SECRET}") } });
    let refusal = Fault::error_with_data(-32000, &format!("bad token {SECRET}"), &data).on("tools/call");
    let server = testkit::server().tool("echo").run().await;
    let context = Context::new();
    let headers = format!("headers = {{ Authorization = 'Bearer {SECRET}' }}");
    context.user_config(&format!("[servers.docs]\nurl = '{}'\n{headers}\n", server.url()));
    let message = format!("message=you sent {SECRET}, {SECRET}");
    for format in [&[][..], &["--json"]] {
        let result = run_args(&context, &[&["call", "docs", "echo", &message], format].concat());
        assert!(result.starts_with("exit: 0\n"), "{result}");
        assert!(result.contains("you sent [redacted], [redacted]"), "{result}");
    }
    server.arm(refusal);
    let error = run_args(&context, &["call", "docs", "echo", "message=a"]);
    assert!(error.contains("bad token [redacted]"), "{error}");
    assert!(error.contains("Bearer [redacted]"), "{error}");
}

#[tokio::test]
async fn an_echoed_environment_secret_is_redacted() {
    let server = testkit::server().tool("echo").stdio().await;
    let context = Context::new();
    let message = format!("message={SECRET} and ordinary-value");
    let token = format!("API_TOKEN={SECRET}");
    let words = ["call", "-e", &token, "-e", "MODE=ordinary-value", "echo", &message];
    let result = context.run(context.bowline_with(&words, &server.command()));
    assert!(result.contains("[redacted] and ordinary-value") && !result.contains(SECRET), "{result}");
}
