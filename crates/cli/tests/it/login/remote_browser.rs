//! A person whose browser is on another machine: over SSH, without a display, or on a phone.

use std::time::Duration;

use bowline_testkit::{self as testkit, AuthServer};

use super::{LoginSite, text, url_on_screen, wait_for_exit};
use crate::browser::Browser;
use crate::pty::{CLEAR, ENTER, Person};

/// Starts a person over SSH, whose browser would be opened if it were local.
fn person_over_ssh(site: &LoginSite, args: &[&str]) -> (Person, Browser) {
    let browser = Browser::new(&site.context);
    let mut command = site.bowline(args);
    command.env("BROWSER", &browser.program).env("SSH_CONNECTION", "10.0.0.1 50000 10.0.0.2 22");
    (Person::sits_at(command), browser)
}

/// The person pastes the redirect URL; other input is refused, and the login goes on.
#[tokio::test]
async fn over_ssh_the_address_is_pasted() {
    let site = LoginSite::new().await;
    let (mut person, browser) = person_over_ssh(&site, &["login", "docs"]);
    let asked = person.sees("paste it here");
    assert!(asked.contains("in a browser, on any machine"), "{asked}");
    let url = url_on_screen(&asked, "/authorize");
    person.answers(&format!("{url}{ENTER}"), "that is another URL");
    let back = testkit::follow_authorize_url(&url).await;
    let forged = testkit::with_query_parameter(&back, "state", Some("other"));
    person.presses(CLEAR).pastes_code(&format!("{forged}{ENTER}"));
    person.sees("that is not the response to this login");
    person.presses(CLEAR).answers(&format!("hello{ENTER}"), "a code alone does not identify its issuer");
    assert_eq!(site.auth.count("token"), 0);
    person.presses(CLEAR).pastes_code(&format!("{back}{ENTER}"));
    let end = wait_for_exit(person, 0);
    assert!(end.stdout.contains("logged in to docs"), "{}", end.stdout);
    browser.assert_not_started();
    assert!(site.calls().contains("ahoy"));
}

/// A bare code also works where the redirect URL would add nothing (AF-04), and so does a browser
/// that reaches the listener after all.
#[tokio::test]
async fn a_bare_code_or_a_redirect_finishes_the_login() {
    let site = LoginSite::with_script(AuthServer::builder().no_iss(), |it| it).await;
    let mut command = site.bowline(&["login", "docs", "--no-browser"]);
    command.env("BROWSER", "false");
    let mut person = Person::sits_at(command);
    let url = url_on_screen(&person.sees("paste it here"), "/authorize");
    let back = testkit::follow_authorize_url(&url).await;
    let code = back.split("code=").nth(1).expect("a code").split('&').next().expect("its end");
    // Input that is no code is not sent, and a foreign code is not accepted; both are reported, and
    // the prompt repeats.
    person.answers(&format!("hello{ENTER}"), "that is not a code");
    assert_eq!(site.auth.count("token"), 0);
    person.presses(CLEAR).answers(&format!("{}{ENTER}", "x".repeat(40)), "the code was rejected");
    person.pastes_code(&format!("{code}{ENTER}"));
    wait_for_exit(person, 0);

    let person = Person::sits_at(site.bowline(&["login", "docs", "--no-browser"]));
    let url = url_on_screen(&person.sees("paste it here"), "/authorize");
    testkit::Browser::new().login(&url).await;
    wait_for_exit(person, 0);
}

#[tokio::test]
async fn a_failing_browser_is_reported() {
    let site = LoginSite::new().await;
    let mut command = site.bowline(&["login", "docs"]);
    command.env("BROWSER", "false");
    let mut person = Person::sits_at(command);
    let asked = person.sees("no browser could be opened: false: exit status: 1");
    let back = testkit::follow_authorize_url(&url_on_screen(&asked, "/authorize")).await;
    person.sees("it continues by itself");
    person.pastes_code(&format!("{back}{ENTER}"));
    wait_for_exit(person, 0);
}

/// AX-01: where the server supports device codes, they are used without a browser.
#[tokio::test]
async fn without_a_browser_a_code_is_shown() {
    let site = LoginSite::with_script(AuthServer::builder().device(Duration::from_millis(50)), |it| it).await;
    let (person, browser) = person_over_ssh(&site, &["login", "docs"]);
    let asked = person.sees("and enter this code: ");
    let code = site.auth.user_codes().pop().expect("a code");
    assert!(asked.contains(&code), "{asked}");
    url_on_screen(&asked, "/verify");
    site.auth.approve_device(&code);
    wait_for_exit(person, 0);
    browser.assert_not_started();

    let (person, _browser) = site.person(&["login", "docs", "--device"]);
    person.sees("and enter this code: ");
    site.auth.approve_device(&site.auth.user_codes().pop().expect("a code"));
    wait_for_exit(person, 0);
}

/// A device code needs no input, so it needs no terminal.
#[tokio::test]
async fn a_code_is_shown_without_a_terminal() {
    let site = LoginSite::with_script(AuthServer::builder().device(Duration::from_millis(50)), |it| it).await;
    let mut command = site.bowline(&["login", "docs", "--device"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("bowline starts");
    site.auth.wait_until(|auth| !auth.user_codes().is_empty(), super::TEST_TIMEOUT).await;
    let code = site.auth.user_codes().pop().expect("a code");
    site.auth.approve_device(&code);
    let output = child.wait_with_output().expect("it ends");
    let err = text(&output.stderr);
    assert!(output.status.success(), "{err}");
    assert!(err.contains(&format!("enter this code: {code}")), "{err}");
}

/// A dumb terminal has no dialogs, but reads lines.
#[tokio::test]
async fn a_dumb_terminal_takes_a_line() {
    let site = LoginSite::new().await;
    let mut command = site.bowline(&["login", "docs", "--no-browser"]);
    command.env("TERM", "dumb");
    let mut person = Person::sits_at(command);
    let asked = person.sees("paste the URL you were redirected to");
    let back = testkit::follow_authorize_url(&url_on_screen(&asked, "/authorize")).await;
    person.pastes_code(&format!("{back}\n"));
    wait_for_exit(person, 0);
}

/// Another process has the registered port, so the redirect URL is pasted.
#[tokio::test]
async fn a_taken_port_falls_back_to_pasting() {
    let site = LoginSite::new().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    site.configure(&format!("auth = {{ redirect_port = {port} }}\n"));
    let (mut person, browser) = site.person(&["login", "docs"]);
    let url = super::opened_url(&browser);
    let asked = person.sees("paste it here");
    assert!(asked.contains(&format!("port {port} is in use")), "{asked}");
    let back = testkit::follow_authorize_url(&url).await;
    person.pastes_code(&format!("{back}{ENTER}"));
    wait_for_exit(person, 0);
    assert!(site.calls().contains("ahoy"));
}
