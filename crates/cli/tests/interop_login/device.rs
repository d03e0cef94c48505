//! Device authorization: the code is entered in an independent browser.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::chromium::Chromium;
use crate::script::{TEST_TIMEOUT, lines};
use crate::site::LoginSite;

#[test]
fn a_device_code_is_entered_in_another_browser() {
    let (mut site, mut chromium) = (LoginSite::new(), Chromium::start());
    let mut command = site.bowline(&["login", "docs", "--device", "--json"]);
    let mut login = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bowline starts");
    let said = lines(login.stderr.take().expect("a pipe"));
    let shown = loop {
        let line = said.recv_timeout(TEST_TIMEOUT).expect("a code is shown");
        let mut told: Value = serde_json::from_str(&line).unwrap_or_default();
        if told["note"]["kind"] == "device_code" {
            break told["note"].take();
        }
    };
    let (url, code) = (shown["url"].as_str().unwrap(), shown["code"].as_str().unwrap());
    let page = chromium.visit(url, json!({ "code": code, "shot": "device" }));
    assert_eq!(page.steps, ["code", "confirm", "login", "consent"]);
    assert!(page.text.contains("Sign-in Success"), "{page:?}");
    let output = login.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", said.iter().collect::<Vec<_>>().join("\n"));
    assert_eq!(site.prints(&["call", "docs", "whoami"]).trim(), "ada");

    let record = site.record();
    // Polling too early is answered with `slow_down`.
    assert!(
        record.complaints.iter().all(|it| it.error == "authorization_pending"),
        "{:?}",
        record.complaints
    );
    assert_eq!(record.requests_to("device_authorization").next().unwrap().params["resource"], *site.mcp);
    assert_eq!(site.json(&["auth", "--json"])["logins"][0]["refreshable"], true);
}
