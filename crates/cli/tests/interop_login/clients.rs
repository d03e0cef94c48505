//! Client identification: by metadata document, by a registration that the server has lost, and by
//! client credentials.

use serde_json::json;

use crate::chromium::Chromium;
use crate::site::LoginSite;

/// AR-02: the provider reads the document that we print, and accepts any loopback port for the
/// registered one.
#[test]
fn ar_02_a_metadata_document_identifies_the_client() {
    let (mut site, mut chromium) = (LoginSite::new(), Chromium::start());
    let url = "https://client.example/bowline.json";
    let document = site.prints(&["auth", "document", url]);
    site.publish(url, &document);
    let mcp = site.mcp.clone();
    site.configure(&format!("[auth]\nclient_metadata_url = '{url}'\n\n[servers.docs]\nurl = '{mcp}'\n"));
    site.logs_in(&mut chromium, "docs", json!({}));
    assert_eq!(site.prints(&["call", "docs", "whoami"]).trim(), "ada");
    site.end_access_tokens();
    assert_eq!(site.prints(&["call", "docs", "whoami"]).trim(), "ada");
    let record = site.record();
    record.assert_clean();
    assert_eq!(record.requests_to("registration").count(), 0);
    assert!(record.requests_to("token").all(|request| request.params["client_id"] == url));
    assert_eq!(record.requests_to("token").count(), 2);
    assert_eq!(site.json(&["auth", "--json"])["logins"][0]["client"], "document");
}

/// When the provider no longer knows the client, the next login registers again and succeeds at the
/// first attempt.
#[test]
fn a_lost_registration_is_repeated() {
    let (mut site, mut chromium) = (LoginSite::new(), Chromium::start());
    site.logs_in(&mut chromium, "docs", json!({}));
    assert_eq!(site.prints(&["call", "docs", "whoami"]).trim(), "ada");
    site.end_access_tokens();
    site.forget_clients();
    let refused = site.run(&["call", "docs", "whoami"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "{said}");
    assert!(said.contains("bowline login docs"), "{said}");
    site.logs_in(&mut chromium, "docs", json!({}));
    assert_eq!(site.prints(&["call", "docs", "whoami"]).trim(), "ada");
    let record = site.record();
    assert_eq!(record.requests_to("registration").count(), 2);
    let refused: Vec<_> = record.complaints.iter().map(|it| (it.event.as_str(), it.error.as_str())).collect();
    assert_eq!(refused, [("grant", "invalid_client")]);
}

/// AX-01, AR-05: a secret that must be escaped in a header and in a body, and a private key.
#[test]
fn client_credentials_need_no_person() {
    let mut site = LoginSite::new();
    let key = site.context.path("key.pem");
    std::fs::write(&key, site.machines["key"].as_str().unwrap()).unwrap();
    let secret = &site.machines["secret"];
    let entry = |name: &str, how: String| {
        format!("[servers.{name}]\nurl = '{}'\nauth = {{ grant = 'client-credentials', {how} }}\n", site.mcp)
    };
    site.configure(
        &[
            entry("basic", format!("client_id = 'bot: 1', client_secret = {secret}")),
            entry(
                "post",
                format!("client_id = 'bot: 1', client_secret = {secret}, client_auth = 'client_secret_post'"),
            ),
            entry(
                "signed",
                format!("client_id = 'signer', private_key = '{{file:{}}}', key_id = 'k1'", key.display()),
            ),
        ]
        .concat(),
    );
    for (server, who) in [("basic", "bot: 1"), ("post", "bot: 1"), ("signed", "signer")] {
        assert_eq!(site.prints(&["call", server, "whoami"]).trim(), who, "{server}");
    }
    let record = site.record();
    record.assert_clean();
    let proved = |by: &str| record.grants("client_credentials").filter(|it| !it.params[by].is_null()).count();
    assert_eq!(["grant_type", "client_secret", "client_assertion"].map(proved), [3, 1, 1]);
    assert!(record.requests_to("token").all(|request| request.params["resource"] == *site.mcp));
}

/// AR-05: a person logs in with a preregistered client of each kind; the login is refreshed and
/// revoked.
#[test]
fn a_registered_client_uses_every_authentication_method() {
    let (mut site, mut chromium) = (LoginSite::new(), Chromium::start());
    let key = site.context.path("key.pem");
    std::fs::write(&key, site.machines["key"].as_str().unwrap()).unwrap();
    let secret = format!("client_secret = {}", site.machines["secret"]);
    let signed = format!("private_key = '{{file:{}}}', key_id = 'k1'", key.display());
    let mcp = site.mcp.clone();
    for (id, how) in [("by none", ""), ("by basic", &*secret), ("by post", &secret), ("by key", &signed)] {
        let sep = if how.is_empty() { "" } else { ", " };
        let auth = format!("auth = {{ client_id = '{id}'{sep}{how} }}");
        site.configure(&format!("[servers.docs]\nurl = '{mcp}'\n{auth}\n"));
        site.logs_in(&mut chromium, "docs", json!({}));
        assert_eq!(site.prints(&["call", "docs", "whoami"]).trim(), "ada", "{id}");
        site.end_access_tokens();
        assert_eq!(site.prints(&["call", "docs", "whoami"]).trim(), "ada", "{id}");
        assert_eq!(
            site.prints(&["logout", "docs"]).trim(),
            "docs: logged out; the token was revoked",
            "{id}"
        );
    }
    let record = site.record();
    assert_eq!(record.requests_to("registration").count(), 0);
    assert!(record.complaints.is_empty(), "{:#?}", record.complaints);
    let grants = |kind| record.grants(kind).map(|request| request.status).collect::<Vec<_>>();
    assert_eq!(grants("refresh_token"), [200; 4]);
    assert!(record.requests_to("token").all(|request| !request.params["client_id"].is_null()));
}

/// AR-05: a client that registers dynamically uses the only offered authentication method.
#[test]
fn a_dynamic_client_uses_the_only_authentication_method() {
    let mut chromium = Chromium::start();
    for method in ["client_secret_basic", "client_secret_post"] {
        let mut site = LoginSite::with_options(json!({ "method": method }));
        site.logs_in(&mut chromium, "docs", json!({}));
        assert_eq!(site.prints(&["call", "docs", "whoami"]).trim(), "ada", "{method}");
        site.end_access_tokens();
        assert_eq!(site.prints(&["call", "docs", "whoami"]).trim(), "ada", "{method}");
        let record = site.record();
        record.assert_clean();
        assert_eq!(
            record.requests_to("registration").next().unwrap().body["given"]["token_endpoint_auth_method"],
            method
        );
        let posted =
            record.requests_to("token").filter(|request| !request.params["client_secret"].is_null()).count();
        assert_eq!(posted, if method == "client_secret_post" { 2 } else { 0 });
    }
}
