//! Tokens that expire during use. The provider rotates refresh tokens, and revokes the whole login
//! if one is used twice.

use std::process::{Child, Stdio};

use serde_json::json;

use crate::chromium::Chromium;
use crate::site::{LoginSite, Record, assert_printed};

/// Runs `count` concurrent processes, each of which must succeed.
fn run_calls(site: &LoginSite, count: usize) {
    let args = ["call", "docs", "whoami"];
    let start = |_| {
        let mut command = site.bowline(&args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bowline starts")
    };
    let running: Vec<Child> = (0..count).map(start).collect();
    for child in running {
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(assert_printed(&args, &output).trim(), "ada");
    }
}

/// Returns the number of refreshes, all of which succeeded and named the one resource.
fn count_refreshes(site: &LoginSite, record: &Record) -> usize {
    record.assert_clean();
    assert_eq!(record.requests_to("authorization").count(), 1);
    let refreshes: Vec<_> = record.grants("refresh_token").collect();
    for request in &refreshes {
        assert_eq!((request.status, &request.params["resource"]), (200, &json!(site.mcp)), "{request:?}");
    }
    refreshes.len()
}

/// Every process finds the token expired, or about to expire.
#[test]
fn tokens_with_a_short_lifetime_are_refreshed() {
    let (mut site, mut chromium) = (LoginSite::with_options(json!({ "lifetime": 2 })), Chromium::start());
    site.logs_in(&mut chromium, "docs", json!({}));
    let mut batches = 0;
    loop {
        run_calls(&site, 4);
        batches += 1;
        let record = site.record();
        if count_refreshes(&site, &record) >= 4 {
            break;
        }
        assert!(batches < 100, "they are never refreshed");
    }
    let login = &site.json(&["auth", "--json"])["logins"][0];
    assert_eq!(login["refreshable"], true, "{login:#}");
    assert!(login["refreshed_at"].is_string(), "{login:#}");
}

/// TK-04: all processes are refused at once; one of them refreshes for all.
#[test]
fn one_of_many_processes_refreshes() {
    let (mut site, mut chromium) = (LoginSite::new(), Chromium::start());
    site.logs_in(&mut chromium, "docs", json!({}));
    run_calls(&site, 1);
    let mut ended = 0;
    for _ in 0..3 {
        site.end_access_tokens();
        ended += 1;
        run_calls(&site, 8);
        let record = site.record();
        assert_eq!(count_refreshes(&site, &record), ended);
        assert!(record.shown.iter().any(|shown| shown.scheme.is_some() && shown.status == 401));
    }
}

/// Replaying a refresh token revokes the login, which proves that the tests above can fail; the
/// error says what to do.
#[test]
fn a_replayed_refresh_token_ends_the_login() {
    let (mut site, mut chromium) = (LoginSite::new(), Chromium::start());
    site.logs_in(&mut chromium, "docs", json!({}));
    run_calls(&site, 1);
    site.end_access_tokens();
    run_calls(&site, 1);
    assert_eq!(site.replay()["error"], "invalid_grant");
    assert!(site.record().revoked > 0);
    for _ in 0..2 {
        let refused = site.run(&["call", "docs", "whoami"]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(5), "{said}");
        assert!(said.contains("bowline login docs"), "{said}");
    }
    // We used our token once and never again.
    let record = site.record();
    let refused = record.grants("refresh_token").filter(|request| request.status != 200);
    assert_eq!(refused.count(), 2, "one is theirs, one is ours");
    site.logs_in(&mut chromium, "docs", json!({}));
    run_calls(&site, 1);
}
