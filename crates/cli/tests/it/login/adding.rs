//! Logins that `bowline add` calls for.

use bowline_testkit as testkit;

use super::{LoginSite, opened_url, wait_for_exit};
use crate::context::snapshot;
use crate::entries::config;
use crate::pty::{ESCAPE, Person};

const STORE: &str = "[store]\nkey = 'file'\n";

/// The person logs in at once, and what worked is written.
#[tokio::test]
async fn a_server_that_requires_a_login_is_added_after_it() {
    let site = LoginSite::new().await;
    site.context.user_config(STORE);
    let url = site.server.url();
    let (person, browser) = site.person(&["add", "fresh", &url]);
    testkit::Browser::new().login(&opened_url(&browser)).await;
    let end = wait_for_exit(person, 0);
    assert!(end.screen.contains("fresh wants you to log in"), "{}", end.screen);
    assert!(end.stdout.ends_with("\n2 tools\n"), "{}", end.stdout);
    assert_eq!(config(&site.context).unwrap(), format!("{STORE}\n[servers.fresh]\nurl = \"{url}\"\n"));
    let called = site.run_args(&["call", "fresh", "echo", "message=ahoy"]);
    assert!(called.contains("ahoy"), "{called}");
    assert_eq!(site.auth.authorizations(), 1);
}

/// Without a login nothing is written, and the next step is said.
#[tokio::test]
async fn a_missing_login_is_said_with_the_next_step() {
    let site = LoginSite::new().await;
    site.context.user_config(STORE);
    let url = site.server.url();
    snapshot!(site.run_args(&["add", "fresh", &url]), @r#"
    exit: 5
    --- stdout
    --- stderr
    note: [TMP]/home/.config/bowline/config.toml was not changed; `--no-check` adds the entry as it is
    error: cannot connect to `fresh`: the server requires a login: not logged in yet
      phase: connecting
      transport: http
      server: http://127.0.0.1:[PORT]/mcp
      body begins: {"error":"unauthorized"}

    hint: add it with --no-check, then run: bowline login fresh
    ---
    "#);
    assert_eq!(config(&site.context).unwrap(), STORE);
    let mut person = Person::sits_at(site.bowline(&["add", "fresh", &url]));
    person.sees("fresh wants you to log in");
    person.presses(ESCAPE);
    let end = wait_for_exit(person, 5);
    assert!(
        end.screen.contains("hint: add it with --no-check, then run: bowline login fresh"),
        "{}",
        end.screen
    );
    assert_eq!(config(&site.context).unwrap(), STORE);
}
