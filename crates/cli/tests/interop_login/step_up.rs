//! A call that needs more scopes than the login has.

use serde_json::json;

use crate::chromium::Chromium;
use crate::site::LoginSite;

/// SC-03: the person is asked for the old and new scopes, and the call is retried.
#[test]
fn sc_03_a_call_asks_for_the_scopes_it_needs() {
    let (mut site, mut chromium) = (LoginSite::new(), Chromium::start());
    site.logs_in(&mut chromium, "docs", json!({}));
    let unattended = site.run(&["call", "docs", "write", "message=ahoy"]);
    assert_eq!(unattended.status.code(), Some(5), "{unattended:?}");
    let (end, page) =
        site.attended(&mut chromium, &["call", "docs", "write", "message=ahoy"], json!({ "shot": "more" }));
    assert_eq!(end.code, 0, "{}{}\n{page:?}", end.stdout, end.screen);
    assert_eq!(end.stdout.trim(), "ada wrote ahoy");
    let record = site.record();
    record.assert_clean();
    let asked: Vec<_> = record.requests_to("authorization").map(|request| &request.params["scope"]).collect();
    assert_eq!(asked.len(), 2);
    for scope in ["docs:read", "docs:write", "offline_access"] {
        assert!(asked[1].as_str().unwrap().split(' ').any(|it| it == scope), "{asked:?}");
    }
    // Later calls have the scopes.
    assert_eq!(site.prints(&["call", "docs", "write", "message=again"]).trim(), "ada wrote again");
    assert_eq!(site.prints(&["call", "docs", "whoami"]).trim(), "ada");
}
