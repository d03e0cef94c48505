//! Protection of the person: from useless logins, from login pages on foreign hosts, and from
//! sending secrets over plain HTTP.

use bowline_testkit::{self as testkit, AuthServer};

use super::{LoginSite, text, wait_for_exit};
use crate::context::{Command, Context, snapshot};
use crate::pty::{ENTER, ESCAPE, UP};

/// A login page that is neither on the issuer's host nor below it.
const FOREIGN_PAGE: &str = "https://accounts.example.org/authorize";

async fn site_with_foreign_page() -> LoginSite {
    LoginSite::with_script(AuthServer::builder().metadata("authorization_endpoint", FOREIGN_PAGE), |it| it)
        .await
}

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

#[tokio::test]
async fn a_login_page_on_a_foreign_host_is_opened_after_consent() {
    let site = site_with_foreign_page().await;
    let (mut person, browser) = site.person(&["login", "docs"]);
    let asked = person.sees("> Give up");
    assert!(asked.contains("its login page is at           accounts.example.org"), "{asked}");
    assert!(asked.contains("the authorization server is at 127.0.0.1"), "{asked}");
    browser.assert_not_started();
    assert_eq!(site.auth.count("register"), 0, "nobody is told of us before that");
    person.answers(UP, "> Log in there");
    person.presses(ENTER);
    assert!(super::opened_url(&browser).starts_with(FOREIGN_PAGE));
    person.sees("esc gives up");
    person.presses(ESCAPE);
    wait_for_exit(person, 5);
}

#[tokio::test]
async fn a_login_page_on_a_foreign_host_is_not_opened_after_refusal() {
    for keys in [ENTER, ESCAPE] {
        let site = site_with_foreign_page().await;
        let (mut person, browser) = site.person(&["login", "docs"]);
        person.sees("> Give up");
        person.presses(keys);
        let end = wait_for_exit(person, 5);
        assert!(end.screen.contains("its page is at accounts.example.org"), "{}", end.screen);
        browser.assert_not_started();
        assert_eq!(site.auth.count("register"), 0);
    }
}

#[tokio::test]
async fn without_a_terminal_the_configuration_allows_foreign_login_pages() {
    let site = site_with_foreign_page().await;
    snapshot!(site.run_args(&["login", "docs"]), @r#"
    exit: 5
    --- stdout
    --- stderr
    note: made the key file [TMP]/home/.local/state/bowline/store.key
    error: `docs`: http://127.0.0.1:[PORT] has its login page at accounts.example.org, which is on another site

    hint: if that is right, set `issuer = "http://127.0.0.1:[PORT]"` in the server's `auth`
    ---
    "#);
    site.configure(&format!("auth = {{ issuer = '{}' }}", site.auth.issuer()));
    let shown = site.run_args(&["login", "docs"]);
    assert!(shown.contains(&format!("log in at: {FOREIGN_PAGE}?")), "{shown}");
}

/// Makes a command for a server on another machine, reached through a proxy so that no name has to
/// be resolved.
fn bowline_through_proxy(site: &LoginSite, args: &[&str]) -> Command {
    let mut command = site.bowline(args);
    let proxy = site.server.url().rsplit_once('/').unwrap().0.to_owned();
    command.env("http_proxy", proxy);
    command
}

#[tokio::test]
async fn credentials_do_not_go_over_plain_http_to_another_machine() {
    let site = LoginSite::new().await;
    let entry = |more: &str| {
        let entry = format!("[store]\nkey = 'file'\n\n[servers.docs]\nurl = 'http://mcp.test/mcp'\n{more}");
        site.context.user_config(&entry);
    };
    // A configured header, with any verb.
    entry("headers = { Authorization = 'Bearer tk-secret-header' }");
    for args in [&["tools", "docs"][..], &["call", "docs", "echo", "message=a"], &["ping", "docs"]] {
        let shown = site.run(bowline_through_proxy(&site, args));
        assert!(shown.starts_with("exit: 2\n"), "{shown}");
        assert!(shown.contains("set `allow_http = true` in the server's entry"), "{shown}");
        assert!(!shown.contains("tk-secret-header"), "{shown}");
    }
    assert_eq!(site.server.connections(), 0);
    // A login that the server demands.
    entry("");
    for args in [&["tools", "docs"][..], &["login", "docs"]] {
        let output = bowline_through_proxy(&site, args).output().unwrap();
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains("`allow_http = true`"), "{said}");
    }
    assert_eq!(site.auth.received().len(), 0);
    // The person can allow it.
    entry("headers = { Authorization = 'Bearer tk-secret-header' }\nallow_http = true");
    let shown = site.run(bowline_through_proxy(&site, &["tools", "docs"]));
    assert!(shown.starts_with("exit: 5\n") && shown.contains("the credentials were refused"), "{shown}");
    assert!(site.server.connections() > 0);
}
