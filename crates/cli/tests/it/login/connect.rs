//! Logins for `bowline connect`, which cannot prompt: it uses the login of another process.

use std::time::Duration;

use bowline_testkit::{self as testkit, AuthClient, AuthFault, AuthServer};
use serde_json::{Value, json};

use super::{LoginSite, opened_url, wait_for_exit};
use crate::connect::host::{Host, modern_call, with_meta};

async fn check_echo(host: &mut Host) {
    let answer = host.request("tools/call", json!({"name": "echo", "arguments": {"message": "ahoy"}})).await;
    assert!(answer["result"].to_string().contains("ahoy"), "{answer}");
}

#[tokio::test]
async fn a_host_uses_the_login_of_its_person() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    let mut host = Host::start_initialized(site.bowline(&["connect", "docs"])).await;
    check_echo(&mut host).await;
    let ended = host.close().await;
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), ""));
}

/// A host that starts before the login gets an error, and is served after the login without a
/// restart.
#[tokio::test]
async fn a_login_in_another_process_is_picked_up() {
    let site = LoginSite::new().await;
    let mut host = Host::start(site.bowline(&["connect", "docs"]));
    let refused = host.initialize().await;
    assert!(refused["error"]["message"].to_string().contains("login"), "{refused}");
    site.logs_in().await;
    let greeted = host.initialize().await;
    assert!(greeted["result"].is_object(), "{greeted}");
    check_echo(&mut host).await;
    let ended = host.close().await;
    assert!(ended.stderr.contains("`docs` requires a login: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("run `bowline login docs`"), "{}", ended.stderr);
    assert_eq!(site.auth.authorizations(), 1);
}

/// A client that was registered by hand, as the options of `mcp-remote` name it. The host is told the command that logs
/// in, and is served after it.
#[tokio::test]
async fn a_registered_client_is_used_by_the_options_of_mcp_remote() {
    let script = AuthServer::builder().client(AuthClient::basic("app", "tk-secret-of-app")).no_registration();
    let site = LoginSite::with_script(script, |protected| protected).await;
    let info = r#"{"client_id": "app", "client_secret": "tk-secret-of-app"}"#;
    let info = format!("@{}", site.context.write("home/client.json", info).display());
    let url = site.server.url();
    let options = [&url, "--static-oauth-client-info", &info, "--authorize-param", "prompt=consent"];
    let mut host = Host::start(site.bowline(&[&["connect"], &options[..]].concat()));
    let refused = host.initialize().await;
    let login = format!("run `bowline login {}`", options.join(" "));
    assert!(refused["error"]["message"].as_str().unwrap().ends_with(&login), "{refused}\n{login}");
    let (person, browser) = site.person(&[&["login"], &options[..]].concat());
    let page = opened_url(&browser);
    assert!(page.contains("client_id=app&") && page.contains("prompt=consent"), "{page}");
    assert_eq!(testkit::Browser::new().login(&page).await.status, 200);
    wait_for_exit(person, 0);
    assert!(host.initialize().await["result"].is_object());
    check_echo(&mut host).await;
    host.close().await;
}

/// A host of 2026-07-28 reads in the answers to its probe and its lists why there is nothing, and picks up the login too.
#[tokio::test]
async fn a_login_in_another_process_is_picked_up_without_a_session() {
    let site = LoginSite::new().await;
    let mut host = Host::start(site.bowline(&["connect", "docs"]));
    for method in ["server/discover", "tools/list"] {
        let refused = host.request(method, with_meta(json!({}))).await;
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("run `bowline login docs`"), "{refused}");
    }
    site.logs_in().await;
    let listed = host.request("tools/list", with_meta(json!({}))).await;
    assert!(listed["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{listed}");
    let answer = host.request("tools/call", modern_call("echo", json!({"message": "ahoy"}))).await;
    assert!(answer["result"].to_string().contains("ahoy"), "{answer}");
    let ended = host.close().await;
    assert!(ended.stderr.contains("`docs` requires a login: "), "{}", ended.stderr);
    assert_eq!(site.auth.authorizations(), 1);
}

/// SC-03: a call that needs more scopes names them and the command to run, to the host and once on
/// stderr. After that command it succeeds, without a restart.
#[tokio::test]
async fn sc_03_missing_scopes_are_reported_with_the_command_to_run() {
    let site = LoginSite::with_scopes().await;
    site.logs_in().await;
    let host = Host::start_initialized(site.bowline(&["connect", "docs"])).await;
    check_missing_scopes(&site, host, || json!({"name": "add", "arguments": {"a": 1, "b": 2}})).await;
}

/// SC-03: the same for a host of 2026-07-28.
#[tokio::test]
async fn sc_03_missing_scopes_are_reported_to_a_host_without_a_session() {
    let site = LoginSite::with_scopes().await;
    site.logs_in().await;
    let host = Host::start(site.bowline(&["connect", "docs"]));
    check_missing_scopes(&site, host, || modern_call("add", json!({"a": 1, "b": 2}))).await;
}

/// Calls a tool with these params that needs more scopes.
async fn check_missing_scopes(site: &LoginSite, mut host: Host, add: impl Fn() -> Value) {
    for _ in 0..2 {
        let error = host.request("tools/call", add()).await["error"].take();
        let run = "bowline login docs --scope docs:write";
        assert!(error["message"].as_str().unwrap().ends_with(&format!("run `{run}`")), "{error}");
        let facts = &error["data"]["bowline"];
        assert_eq!((&facts["login"], &facts["scopes"]), (&json!(run), &json!(["docs:write"])), "{error}");
    }
    site.logs_in_with(&["--scope", "docs:write"]).await;
    let answer = host.request("tools/call", add()).await;
    assert!(answer["result"].is_object(), "{answer}");
    let ended = host.close().await;
    assert_eq!(
        ended.stderr.matches("run `bowline login docs --scope docs:write`").count(),
        1,
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("`docs` requires another login for a call: "), "{}", ended.stderr);
}

/// A slow refresh is not an outage: the reconnect wait does not limit it.
#[tokio::test]
async fn a_slow_refresh_is_waited_for() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    site.auth.revoke_all_access();
    site.auth.arm(AuthFault::delay(Duration::from_secs(2)).on("refresh_token"));
    let mut host = Host::start(site.bowline(&["connect", "docs", "--reconnect-wait", "200ms"]));
    let greeted = host.initialize().await;
    assert!(greeted["result"].is_object(), "{greeted}");
    check_echo(&mut host).await;
    let ended = host.close().await;
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), ""));
    assert_eq!((site.auth.authorizations(), site.auth.refreshes()), (1, 1));
}

/// A refresh that outlasts the call's timeout is not reported as a missing login.
#[tokio::test]
async fn a_hanging_refresh_is_not_reported_as_a_missing_login() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    site.auth.revoke_all_access();
    site.auth.arm(AuthFault::silent().on("refresh_token"));
    let mut host = Host::start(site.bowline(&["connect", "docs", "--timeout", "1s"]));
    host.initialize().await;
    let error = host.request("tools/call", json!({"name": "echo", "arguments": {}})).await["error"].take();
    let facts = &error["data"]["bowline"];
    assert_eq!(
        (&facts["cause"], &facts["execution"]),
        (&json!("timeout"), &json!("not_executed")),
        "{error}"
    );
    assert_eq!(facts["login"], json!(null), "{error}");
    let told = "the token endpoint of its authorization server has not answered for 1 s";
    assert!(error["message"].as_str().unwrap().contains(told), "{error}");
}
