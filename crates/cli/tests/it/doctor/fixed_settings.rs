//! Settings that fix the transport or the era, in front of a server that speaks another one.

use bowline_testkit::{self as testkit, Script};

use super::{Examined, verdict};
use crate::context::Context;

/// Examines a server whose entry has this setting.
async fn verdict_with(script: Script, setting: &str) -> String {
    let server = script.tool("echo").run().await;
    let (context, url) = (Context::new(), server.url());
    context.user_config(&format!("[store]\nkey = 'file'\n\n[servers.docs]\nurl = '{url}'\n{setting}\n"));
    Examined::of(&context, &["docs", "--connect-timeout", "5s"]).verdict()
}

#[tokio::test]
async fn sse_in_front_of_streamable_http_is_named() {
    verdict!(verdict_with(testkit::server().legacy(), "transport = 'sse'").await, @r#"
    exit 3
    connection failed, you: the server speaks Streamable HTTP, but its entry has `transport = "sse"`
      remove `transport` (or `type`) from its entry
      $ bowline edit
    "#);
    verdict!(verdict_with(testkit::server().modern(), "type = 'sse'").await, @r#"
    exit 3
    connection failed, you: the server speaks Streamable HTTP, but its entry has `transport = "sse"`
      remove `transport` (or `type`) from its entry
      $ bowline edit
    "#);
}

#[tokio::test]
async fn http_in_front_of_sse_is_named() {
    verdict!(verdict_with(testkit::server().legacy().http_sse(), "transport = 'http'").await, @r#"
    exit 3
    connection failed, you: the server speaks HTTP+SSE, but its entry has `transport = "http"`
      remove `transport` (or `type`) from its entry
      $ bowline edit
    "#);
}

#[tokio::test]
async fn modern_in_front_of_a_legacy_server_is_named() {
    verdict!(verdict_with(testkit::server().legacy(), "protocol = 'modern'").await, @r#"
    exit 3
    connection failed, you: the server speaks the legacy protocol, revision 2025-11-25, but its entry has `protocol = "modern"`
      remove `protocol` from its entry
      $ bowline edit
    "#);
}

#[tokio::test]
async fn legacy_in_front_of_a_modern_server_is_named() {
    verdict!(verdict_with(testkit::server().modern(), "protocol = 'legacy'").await, @r#"
    exit 3
    connection failed, you: the server speaks the modern protocol, revision 2026-07-28, but its entry has `protocol = "legacy"`
      remove `protocol` from its entry
      $ bowline edit
    "#);
}

/// The setting is not blamed for what has another cause.
#[tokio::test]
async fn setting_that_is_right_is_not_blamed() {
    let broken = || testkit::server().legacy().fault(testkit::Fault::status(500).always());
    verdict!(verdict_with(broken(), "protocol = 'legacy'").await, @"
    exit 3
    connection failed, server: HTTP status 500
      this is an error of the server: its log may say more
      $ bowline doctor docs
    ");
    verdict!(verdict_with(broken(), "transport = 'sse'").await, @"
    exit 3
    connection failed, server: HTTP status 500
      this is an error of the server: its log may say more
      $ bowline doctor docs
    ");
}

/// An option is named in place of the entry, and left out of the command.
#[tokio::test]
async fn option_that_is_wrong_is_named() {
    let server = testkit::server().legacy().tool("echo").run().await;
    let url = server.url();
    let words = [&*url, "--protocol", "modern", "--connect-timeout", "40s"];
    verdict!(Examined::of(&Context::new(), &words).verdict(), @"
    exit 3
    connection failed, you: the server speaks the legacy protocol, revision 2025-11-25, but the option is `--protocol modern`
      leave out `--protocol`
      $ bowline doctor http://127.0.0.1:[PORT]/mcp --connect-timeout 40s
    ");
    let words = [&*url, "--transport", "sse-only"];
    verdict!(Examined::of(&Context::new(), &words).verdict(), @"
    exit 3
    connection failed, you: the server speaks Streamable HTTP, but the option is `--transport sse`
      leave out `--transport`
      $ bowline doctor http://127.0.0.1:[PORT]/mcp
    ");
}

#[cfg(unix)]
#[tokio::test]
async fn wrong_era_of_a_process_is_named() {
    for (script, protocol) in [(testkit::server().legacy(), "modern"), (testkit::server().modern(), "legacy")]
    {
        let context = Context::new();
        let server = script.tool("echo").stdio().await;
        let entry = crate::status::stdio_entry("rope", &server.command());
        let (head, rest) = entry.split_once('\n').unwrap();
        context.user_config(&format!("{head}\nprotocol = '{protocol}'\n{rest}"));
        let examined = Examined::of(&context, &["rope", "--connect-timeout", "10s"]);
        server.expect_all_exited().await;
        assert_eq!(examined.code, 3, "{:#}", examined.json);
        let check = examined.check("connection");
        assert_eq!(
            (&check["blame"], &check["remedy"]["text"]),
            (&"you".into(), &"remove `protocol` from its entry".into()),
            "{check}"
        );
    }
}
