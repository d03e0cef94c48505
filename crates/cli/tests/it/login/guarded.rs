//! What a person is kept from: a login that is of no use, and secrets that everybody on the way could read.

use bowline_testkit as testkit;

use super::{Site, text};
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

/// A server of another machine: reached through a proxy, so that no name has to be looked up.
fn away(site: &Site, args: &[&str]) -> std::process::Command {
    let mut command = site.bowline(args);
    let proxy = site.server.url().rsplit_once('/').unwrap().0.to_owned();
    command.env("http_proxy", proxy);
    command
}

#[tokio::test]
async fn credentials_do_not_go_over_plain_http_to_another_machine() {
    let site = Site::new().await;
    let entry = |more: &str| {
        let entry = format!("[store]\nkey = 'file'\n\n[servers.docs]\nurl = 'http://mcp.test/mcp'\n{more}");
        site.context.user_config(&entry);
    };
    // A header of the configuration, whatever the verb.
    entry("headers = { Authorization = 'Bearer hunter2' }");
    for args in [&["tools", "docs"][..], &["call", "docs", "echo", "message=a"], &["ping", "docs"]] {
        let shown = site.run(away(&site, args));
        assert!(shown.starts_with("exit: 2\n"), "{shown}");
        assert!(shown.contains("set `allow_http = true` in the server's entry"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    assert_eq!(site.server.connections(), 0);
    // A login that the server wants.
    entry("");
    for args in [&["tools", "docs"][..], &["login", "docs"]] {
        let output = away(&site, args).output().unwrap();
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains("`allow_http = true`"), "{said}");
    }
    assert_eq!(site.auth.seen().len(), 0);
    // It is the person's to allow.
    entry("headers = { Authorization = 'Bearer hunter2' }\nallow_http = true");
    let shown = site.run(away(&site, &["tools", "docs"]));
    assert!(shown.starts_with("exit: 5\n") && shown.contains("the credentials were refused"), "{shown}");
    assert!(site.server.connections() > 0);
}
