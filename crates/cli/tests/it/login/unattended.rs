//! Logins without a person: the output is enough to continue elsewhere.

use std::process::Stdio;

use bowline_testkit as testkit;
use serde_json::Value;

use super::{LoginSite, text};
use crate::context::snapshot;

/// Returns the URL after a label.
fn url_after<'a>(text: &'a str, label: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(label));
    line.unwrap_or_else(|| panic!("no {label} in\n{text}")).trim()
}

/// The login fails at once with the URL and the command to run; another process finishes it, once.
#[tokio::test]
async fn a_login_is_started_here_and_finished_elsewhere() {
    let site = LoginSite::new().await;
    let shown = site.run_args(&["login", "docs"]);
    let url = url_after(&shown, "log in at:").to_owned();
    snapshot!(shown.replace(&url, "[URL]"), @"
    exit: 5
    --- stdout
    --- stderr
    note: made the key file [TMP]/home/.local/state/bowline/store.key
    error: `docs` requires a login, and there is no terminal to ask you on
      log in at: [URL]
      you are sent to: http://127.0.0.1:[PORT]/callback…, which the browser cannot load

    hint: then run: bowline login docs --finish 'THE URL YOU WERE REDIRECTED TO'
    ---
    ");
    let back = testkit::follow_authorize_url(&url).await;
    let finished = site.run_args(&["login", "docs", "--finish", &back]);
    assert!(finished.starts_with("exit: 0\n") && finished.contains("logged in to docs"), "{finished}");
    assert!(site.calls().contains("ahoy"));
    let again = site.run_args(&["login", "docs", "--finish", &back]);
    assert!(again.starts_with("exit: 5\n"), "{again}");
    assert_eq!(site.auth.violations(), [""; 0]);
}

#[tokio::test]
async fn a_pending_login_is_printed_as_json() {
    let site = LoginSite::new().await;
    let output = site.bowline(&["login", "docs", "--json", "--scope", "more"]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(5), String::new()));
    let told: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    let error = &told["error"];
    assert_eq!(error["kind"], "login");
    let url = error["url"].as_str().expect("an address");
    assert!(url.contains("more"), "{url}");
    assert!(error["finish"].as_str().unwrap().starts_with("bowline login docs --finish "), "{error}");
    let back = testkit::follow_authorize_url(url).await;
    // A code can be read from stdin: arguments are visible to others.
    let command = site.bowline(&["login", "docs", "--json", "--finish", "-"]);
    let shown = site.context.run_with_input(command, &format!("{back}\n"));
    assert!(shown.starts_with("exit: 0\n") && shown.contains(r#""state":"ok""#), "{shown}");
}

/// A login needs a terminal for both input and output.
#[tokio::test]
async fn a_login_needs_both_ends_of_a_terminal() {
    let site = LoginSite::new().await;
    let mut command = site.bowline(&["login", "docs"]);
    command.stdin(Stdio::null());
    let seen = crate::terminal::on_terminal_of(100, command);
    assert!(seen.contains("--finish"), "{seen}");
}

#[tokio::test]
async fn a_call_says_what_to_run() {
    let site = LoginSite::new().await;
    snapshot!(site.run_args(&["call", "docs", "echo", "message=x"]), @r#"
    exit: 5
    --- stdout
    --- stderr
    error: cannot connect to `docs`: the server requires a login: not logged in yet
      phase: connecting
      transport: http
      server: http://127.0.0.1:[PORT]/mcp
      body begins: {"error":"unauthorized"}

    hint: log in with `bowline login docs`
    ---
    "#);
    let by_url = site.run_args(&["tools", &site.server.url()]);
    assert!(by_url.contains(&format!("log in with `bowline login {}`", site.server.url())), "{by_url}");
    // No prompt was possible, so no client was registered.
    assert_eq!(site.auth.count("register"), 0);
}

/// AF-05: a redirect URL that was tampered with is refused.
#[tokio::test]
async fn a_foreign_redirect_url_is_refused() {
    let site = LoginSite::new().await;
    let shown = site.run_args(&["login", "docs"]);
    let back = testkit::follow_authorize_url(url_after(&shown, "log in at:")).await;
    let forged = testkit::with_query_parameter(&back, "state", Some("forged"));
    let refused = site.run_args(&["login", "docs", "--finish", &forged]);
    assert!(refused.starts_with("exit: 5\n"), "{refused}");
    assert_eq!(site.auth.count("token"), 0);
}

/// The log names every request of the discovery, without secrets.
#[tokio::test]
async fn the_log_names_the_authorization_server() {
    let site = LoginSite::new().await;
    let shown = site.run_args(&["-vv", "login", "docs"]);
    for said in
        ["/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/register"]
    {
        assert!(shown.contains(said), "{said} in {shown}");
    }
    assert!(shown.contains("origin=Registered"), "{shown}");
}
