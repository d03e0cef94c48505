//! A login from the first request to its end.

use serde_json::{Value, json};

use crate::chromium::Chromium;
use crate::script::Script;
use crate::site::LoginSite;

#[test]
fn a_login_from_start_to_finish() {
    let (mut site, mut chromium) = (LoginSite::new(), Chromium::start());
    let refused = site.run(&["tools", "docs"]);
    assert_eq!(refused.status.code(), Some(5), "{}", String::from_utf8_lossy(&refused.stderr));

    let page = site.logs_in(&mut chromium, "docs", json!({ "shot": "desktop" }));
    assert_eq!(page.steps, ["login", "consent"]);
    assert!(page.text.contains("bowline can now use docs for you."), "{page:?}");
    assert!(site.prints(&["tools", "docs"]).contains("Says it again"));
    assert_eq!(site.prints(&["call", "docs", "whoami"]).trim(), "ada");
    let logins = &site.json(&["auth", "--json"])["logins"];
    let login = &logins[0];
    assert_eq!(logins.as_array().unwrap().len(), 1);
    for (name, value) in [
        ("server", json!("docs")),
        ("state", json!("ok")),
        ("issuer", json!(site.issuer)),
        ("resource", json!(site.mcp)),
        ("refreshable", json!(true)),
    ] {
        assert_eq!(login[name], value, "{login:#}");
    }

    let record = site.record();
    record.assert_clean();
    let registrations: Vec<_> = record.requests_to("registration").collect();
    assert_eq!(registrations.len(), 1);
    let asked = &registrations[0].body["asked"];
    assert_eq!(asked["application_type"], "native", "AR-03");
    // AF-01, AF-02: the provider refuses a code without its verifier, and a resource that differs
    // between requests.
    let authorizations: Vec<_> = record.requests_to("authorization").collect();
    assert_eq!(authorizations.len(), 1);
    let codes: Vec<_> = record.grants("authorization_code").collect();
    assert_eq!(codes.len(), 1);
    for request in authorizations.iter().chain(&codes) {
        assert_eq!(request.params["resource"], *site.mcp, "{request:?}");
    }
    assert_eq!(authorizations[0].params["code_challenge_method"], "S256");
    assert_eq!(codes[0].params["code_verifier"], true);
    // TK-01: after the login every request carried a token.
    let after = record.shown.iter().skip_while(|shown| shown.scheme.is_none());
    assert!(after.clone().count() > 2);
    assert!(after.clone().all(|shown| shown.scheme.as_deref() == Some("Bearer") && shown.status != 401));
}

/// Without a terminal: a person elsewhere has the URL and brings back the redirect.
#[test]
fn a_login_is_finished_by_another_process() {
    let (mut site, mut chromium) = (LoginSite::new(), Chromium::start());
    let begun = site.run(&["login", "docs", "--json"]);
    assert_eq!(begun.status.code(), Some(5));
    let said = String::from_utf8_lossy(&begun.stderr);
    let mut told = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let url = told.find_map(|told| told["error"]["url"].as_str().map(str::to_owned));
    let page = chromium.visit(&url.unwrap_or_else(|| panic!("no address: {said}")), json!({}));
    assert_eq!((page.status, &*page.steps.join(" ")), (None, "login consent"), "{page:?}");
    site.prints(&["login", "docs", "--finish", &page.sent]);
    assert_eq!(site.prints(&["call", "docs", "whoami"]).trim(), "ada");
    site.record().assert_clean();
}

/// RFC 7009: after a logout the old tokens are refused at the authorization server and unknown
/// here.
#[test]
fn a_logout_revokes_the_login_at_the_server() {
    let (mut site, mut chromium) = (LoginSite::new(), Chromium::start());
    site.logs_in(&mut chromium, "docs", json!({}));
    site.prints(&["call", "docs", "whoami"]);
    assert_eq!(site.good_access_tokens(), 1);
    assert_eq!(site.prints(&["logout", "docs"]).trim(), "docs: logged out; the token was revoked");
    assert_eq!(site.good_access_tokens(), 0);
    let record = site.record();
    assert!(record.complaints.is_empty(), "{:?}", record.complaints);
    let hints: Vec<_> =
        record.requests_to("revocation").map(|request| &request.params["token_type_hint"]).collect();
    assert_eq!(hints, ["refresh_token", "access_token"]);
    assert!(record.revoked > 0);
    assert_eq!(site.run(&["call", "docs", "whoami"]).status.code(), Some(5));
    assert_eq!(site.json(&["auth", "--json"])["logins"], json!([]));

    // The next login reuses the registered client.
    site.logs_in(&mut chromium, "docs", json!({}));
    assert_eq!(site.prints(&["call", "docs", "whoami"]).trim(), "ada");
    assert_eq!(site.record().requests_to("registration").count(), 1);
}

#[test]
fn two_accounts_at_one_server_stay_apart() {
    let (mut site, mut chromium) = (LoginSite::new(), Chromium::start());
    let entry = |account: &str| {
        let auth = format!("auth = {{ account = '{account}' }}");
        format!("[servers.docs-{account}]\nurl = '{}'\n{auth}\n", site.mcp)
    };
    site.configure(&["ada", "bob"].map(entry).concat());
    for account in ["ada", "bob"] {
        site.logs_in(&mut chromium, &format!("docs-{account}"), json!({ "account": account }));
    }
    let is = |site: &LoginSite, account: &str| {
        assert_eq!(site.prints(&["call", &format!("docs-{account}"), "whoami"]).trim(), account);
    };
    is(&site, "ada");
    is(&site, "bob");
    let record = site.record();
    record.assert_clean();
    let hints: Vec<_> =
        record.requests_to("authorization").map(|request| &request.params["login_hint"]).collect();
    assert_eq!(hints, ["ada", "bob"]);
    assert_eq!(record.requests_to("registration").count(), 1);
    site.prints(&["logout", "docs-ada"]);
    is(&site, "bob");
}

/// A FastMCP server, which verifies tokens itself and writes its metadata with another library.
#[test]
fn a_fastmcp_server_accepts_the_login() {
    let (mut site, mut chromium) = (LoginSite::new(), Chromium::start());
    let (_fastmcp, first) = Script::python("guarded.py", &site.issuer);
    let url = first["mcp"].as_str().unwrap();
    site.configure(&format!("[servers.fast]\nurl = '{url}'\n"));
    site.logs_in(&mut chromium, "fast", json!({}));
    assert_eq!(site.prints(&["call", "fast", "whoami"]).trim(), "ada");
    assert_eq!(site.json(&["auth", "--json"])["logins"][0]["resource"], url);
    site.record().assert_clean();
}
