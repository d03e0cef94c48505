//! Logins of a person at a terminal, on a machine with a browser.

use bowline_testkit as testkit;

use super::{LoginSite, opened_url, url_on_screen, wait_for_exit};
use crate::context::snapshot;
use crate::pty::{CTRL_C, ESCAPE, Person};

/// The browser opens, the URL is printed, the login is stored, and the next process uses it.
#[tokio::test]
async fn one_login_serves_later_processes() {
    let site = LoginSite::new().await;
    let (person, browser) = site.person(&["login", "docs"]);
    let url = opened_url(&browser);
    let asked = person.sees("it continues by itself");
    assert!(asked.contains("? docs wants you to log in"), "{asked}");
    assert!(asked.contains(&format!("at {}", site.auth.issuer())), "{asked}");
    assert_eq!(url_on_screen(&asked, "/authorize"), url);
    let page = testkit::Browser::new().login(&url).await;
    assert_eq!(page.status, 200);
    let end = wait_for_exit(person, 0);
    assert!(!end.screen.contains("it continues by itself"), "{}", end.screen);
    snapshot!(filter_output(&site, &end.stdout), @"
    logged in to docs
      server   http://127.0.0.1:[PORT]/mcp
      issuer   [ISSUER]
      scopes   not said
      expires  [SOON]; refreshed automatically
      kept     in [HOME]/.local/state/bowline/store.db, encrypted with a key in the file [HOME]/.local/state/bowline/store.key
    ");

    assert!(site.calls().contains("ahoy"));
    assert!(site.calls().contains("ahoy"));
    assert_eq!(site.auth.authorizations(), 1);
    assert_eq!(site.auth.violations(), [""; 0]);
}

/// Removes what differs from run to run.
fn filter_output(site: &LoginSite, text: &str) -> String {
    let folder = site.context.path("home").display().to_string();
    let text = text.replace(&folder, "[HOME]").replace(&site.auth.issuer(), "[ISSUER]");
    let expires = text.find("in 59m").or_else(|| text.find("in 1h"));
    match expires {
        Some(at) => {
            let end = text[at..].find(';').map_or(text.len(), |end| at + end);
            format!("{}[SOON]{}", &text[..at], &text[end..])
        }
        None => text,
    }
}

/// A call starts the login it needs and then goes on; stdout contains only its result.
#[tokio::test]
async fn a_call_starts_the_login_it_needs() {
    let site = LoginSite::new().await;
    let (person, browser) = site.person(&["call", "docs", "echo", "message=ahoy"]);
    testkit::Browser::new().login(&opened_url(&browser)).await;
    let end = wait_for_exit(person, 0);
    assert_eq!(end.stdout.trim(), r#"{"message":"ahoy"}"#);
    assert!(end.screen.contains("docs wants you to log in"), "{}", end.screen);
    assert!(site.calls().contains("ahoy"));
    assert_eq!(site.auth.authorizations(), 1);
}

/// SC-03, SC-04: a call that needs more scopes asks for them and is retried.
#[tokio::test]
async fn sc_03_a_call_asks_for_missing_scopes() {
    let site = LoginSite::with_scopes().await;
    site.logs_in().await;
    let (person, browser) = site.person(&["call", "docs", "add", "a:=1", "b:=2"]);
    let url = opened_url(&browser);
    assert!(url.contains("docs%3Aread") && url.contains("docs%3Awrite"), "{url}");
    person.sees("it asks for: docs:read, docs:write");
    testkit::Browser::new().login(&url).await;
    let end = wait_for_exit(person, 0);
    assert_eq!(end.stdout.trim(), "3");
}

/// AF-03: a redirect that belongs to another login does not end this one.
#[tokio::test]
async fn af_03_another_state_is_not_this_login() {
    let site = LoginSite::new().await;
    let (person, browser) = site.person(&["login", "docs"]);
    let back = testkit::follow_authorize_url(&opened_url(&browser)).await;
    let page =
        testkit::Browser::new().visit(&testkit::with_query_parameter(&back, "state", Some("other"))).await;
    assert_eq!(page.status, 400, "{page:?}");
    person.sees("it continues by itself");
    testkit::Browser::new().visit(&back).await;
    wait_for_exit(person, 0);
}

#[tokio::test]
async fn a_denied_login_is_reported() {
    let site = LoginSite::new().await;
    let (person, browser) = site.person(&["login", "docs"]);
    testkit::Browser::new().deny().login(&opened_url(&browser)).await;
    let end = wait_for_exit(person, 5);
    assert!(end.screen.contains("the person said no"), "{}", end.screen);
    assert_eq!(site.run_args(&["auth", "-q"]), "exit: 0\n--- stdout\n--- stderr\n---");
}

/// Ctrl-C ends the command, Esc dismisses the login; `leaves` checks that the terminal is restored.
#[tokio::test]
async fn a_login_can_be_interrupted_or_dismissed() {
    let site = LoginSite::new().await;
    for (key, code) in [(CTRL_C, 130), (ESCAPE, 5)] {
        let (mut person, _browser) = site.person(&["login", "docs"]);
        person.sees("it continues by itself");
        assert!(person.is_asked());
        person.presses(key);
        let end = wait_for_exit(person, code);
        assert_eq!(end.stdout, "");
        assert!(!end.screen.contains("it continues by itself"), "{}", end.screen);
    }
    // The next login does not wait for the abandoned one.
    for _ in 0..2 {
        let (mut person, _browser) = site.person(&["tools", "docs"]);
        person.sees("it continues by itself");
        person.presses(CTRL_C);
        wait_for_exit(person, 130);
    }
}

/// A killed process leaves its lease behind, but not its lock.
#[tokio::test]
async fn the_next_login_does_not_wait_for_a_killed_one() {
    let site = LoginSite::new().await;
    for args in [["login", "docs"], ["tools", "docs"]] {
        let (person, _browser) = site.person(&args);
        person.sees("it continues by itself");
        drop(person);
    }
    let (mut person, _browser) = site.person(&["-vvv", "tools", "docs"]);
    let screen = person.sees("it continues by itself");
    assert!(!screen.contains("somebody else is logging in"), "{screen}");
    person.presses(CTRL_C);
    wait_for_exit(person, 130);
}

/// Verbs that only inspect or that may not prompt start no login, not even at a terminal.
#[tokio::test]
async fn status_and_declined_prompts_start_no_login() {
    let site = LoginSite::new().await;
    let end = wait_for_exit(Person::sits_at(site.bowline(&["status"])), 5);
    assert!(end.stdout.contains("needs login"), "{}", end.stdout);
    let never = site.bowline(&["call", "docs", "echo", "message=x", "--elicit", "decline"]);
    let end = wait_for_exit(Person::sits_at(never), 5);
    assert!(end.screen.contains("log in with `bowline login docs`"), "{}", end.screen);
    assert_eq!(site.auth.count("authorize") + site.auth.count("register"), 0);
}
