//! `bowline auth` and `bowline logout`.

use bowline_testkit::{self as testkit, AuthServer};
use serde_json::Value;

use super::{LoginSite, opened_url, wait_for_exit};
use crate::context::snapshot;

#[tokio::test]
async fn every_login_is_shown_and_nothing_secret() {
    let site = LoginSite::new().await;
    snapshot!(site.run_args(&["auth"]), @"
    exit: 0
    --- stdout
    --- stderr
    note: no logins are stored; `bowline login SERVER` creates one
    note: logins are stored in [TMP]/home/.local/state/bowline/store.db, encrypted with a key in the file [TMP]/home/.local/state/bowline/store.key
    note: made the key file [TMP]/home/.local/state/bowline/store.key
    ---
    ");
    site.logs_in().await;
    let known = site.json(&["auth", "--json"]);
    let [docs] = known["logins"].as_array().unwrap().as_slice() else { panic!("{known}") };
    assert_eq!(docs["server"], "docs");
    assert_eq!(docs["by"], "login");
    assert_eq!(docs["url"], site.server.url());
    assert_eq!(docs["issuer"], site.auth.issuer());
    assert_eq!(docs["state"], "ok");
    assert_eq!(docs["refreshable"], true);
    assert!(docs["expires_at"].as_str().unwrap().ends_with('Z'), "{docs}");
    assert_eq!(known["kept"]["key"], "file");
    let file = known["kept"]["key_file"].as_str().unwrap();
    assert!(file.starts_with(&site.context.path("home").display().to_string()), "{file}");

    let line = site.run_args(&["auth", "-q"]);
    let cells: Vec<&str> = line.lines().nth(2).unwrap().split('\t').collect();
    assert_eq!((cells[0], cells[2], cells[4]), ("docs", "ok", "refreshed"), "{line}");
    assert!(cells[3].starts_with("in "), "{line}");
    let drawn = crate::terminal::on_terminal_of(100, site.bowline(&["auth", "--color", "never"]));
    // Without an ID token the account is unknown.
    assert!(drawn.starts_with("docs: ok\r\n"), "{drawn}");
    assert!(drawn.contains("refreshed automatically"), "{drawn}");
    // The log adds nothing secret at any verbosity.
    site.run_args(&["call", "docs", "echo", "message=x", "-vvv"]);
}

/// Logins at one host are told apart by the parts of a path that are words.
#[tokio::test]
async fn keys_in_paths_of_urls_are_not_shown() {
    const KEY: &str = "AbCdEf0123456789xyz";
    let auth = AuthServer::builder().path(&format!("/tenants/{KEY}"));
    let site = LoginSite::with_script(auth, |protected| protected).await;
    site.logs_in().await;
    let entry = |name: &str| {
        format!(
            "[servers.{name}]\nurl = 'https://h.example/{KEY}/team-{name}/mcp'\nheaders = {{ Authorization = 'Bearer of-{name}' }}\n"
        )
    };
    site.configure(&(entry("a") + &entry("b")));
    let known = site.json(&["auth", "--json"]);
    let shown = |name: &str| {
        let logins = known["logins"].as_array().unwrap();
        logins.iter().find(|login| login["server"] == name).unwrap_or_else(|| panic!("{known}"))
    };
    assert_eq!(shown("a")["url"], "https://h.example/…/team-a/mcp");
    assert_eq!(shown("b")["url"], "https://h.example/…/team-b/mcp");
    let issuer = site.auth.issuer();
    assert_eq!(shown("docs")["issuer"], issuer.replace(KEY, "…"));
    assert!(issuer.contains(KEY), "{issuer}");
    let drawn = crate::terminal::on_terminal_of(100, site.bowline(&["auth", "--color", "never"]));
    assert!(drawn.contains("https://h.example/…/team-b/mcp") && drawn.contains("/tenants/…"), "{drawn}");
    let others = [&["auth"][..], &["doctor", "docs", "--json"], &["logout", "docs", "--json"]];
    for shown in others.map(|args| site.run_args(args)).into_iter().chain([drawn, known.to_string()]) {
        assert!(!shown.contains(KEY), "{shown}");
    }
}

/// RFC 7009: the token is revoked at the server and deleted here.
#[tokio::test]
async fn a_logout_ends_the_login() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    snapshot!(site.run_args(&["logout", "docs"]), @"
    exit: 0
    --- stdout
    docs: logged out; the token was revoked
    --- stderr
    ---
    ");
    assert!(site.auth.count("revoke") > 0);
    assert!(site.calls().starts_with("exit: 5\n"));
    snapshot!(site.run_args(&["logout", "docs"]), @"
    exit: 0
    --- stdout
    docs: there was no login
    --- stderr
    ---
    ");
}

#[tokio::test]
async fn a_logout_says_what_it_could_not_do() {
    let site =
        LoginSite::with_script(AuthServer::builder().without_metadata("revocation_endpoint"), |it| it).await;
    site.logs_in().await;
    let told = site.json(&["logout", "docs", "--json"]);
    assert_eq!(told["logged_out"][0]["outcome"], "forgotten", "{told}");

    let site = LoginSite::new().await;
    site.logs_in().await;
    site.auth.stop().await;
    let shown = site.run_args(&["logout", "--all"]);
    assert!(shown.contains("docs: logged out locally. The token could not be revoked: "), "{shown}");
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    let none = site.run_args(&["logout", "--all"]);
    assert!(none.contains("no logins are stored"), "{none}");
}

/// A login whose entry was removed can still be ended.
#[tokio::test]
async fn a_login_outlives_its_entry_and_can_be_ended() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    site.context.user_config("[store]\nkey = 'file'\n");
    let shown = site.run_args(&["logout", "docs"]);
    assert!(shown.contains("docs: logged out; the token was revoked"), "{shown}");
}

/// Two entries with one URL and two accounts: each call uses the account of its entry.
#[tokio::test]
async fn two_accounts_stay_apart() {
    let site = LoginSite::with_script(AuthServer::builder().interactive(), |it| it).await;
    let url = site.server.url();
    site.configure(&format!(
        "auth = {{ account = 'ada' }}\n\n[servers.other]\nurl = '{url}'\nauth = {{ account = 'bob' }}\n"
    ));
    for (name, account) in [("docs", "ada"), ("other", "bob")] {
        let (person, browser) = site.person(&["login", name]);
        let page = testkit::Browser::new().account(account).login(&opened_url(&browser)).await;
        assert_eq!(page.status, 200);
        wait_for_exit(person, 0);
    }
    let known = site.json(&["auth", "--json"]);
    let names: Vec<(&str, &str)> = known["logins"]
        .as_array()
        .unwrap()
        .iter()
        .map(|login| (login["server"].as_str().unwrap(), login["account"].as_str().unwrap()))
        .collect();
    assert_eq!(names, [("docs", "ada"), ("other", "bob")]);
    let token_of = |name: &str| {
        let before = site.server.received().len();
        assert!(site.run_args(&["call", name, "echo", "message=x"]).starts_with("exit: 0\n"));
        let received = site.server.received();
        let call = received[before..].iter().find(|it| it.has_method("tools/call")).expect("a call");
        call.header("authorization").expect("a token").to_owned()
    };
    let (ada, bob) = (token_of("docs"), token_of("other"));
    assert_ne!(ada, bob);
    assert_eq!(token_of("docs"), ada);
    assert!(site.run_args(&["logout", "docs"]).contains("logged out; the token was revoked"));
    assert_eq!(token_of("other"), bob);
}

/// Item 7: configured headers replace a login, and none is started.
#[tokio::test]
async fn headers_take_the_place_of_a_login() {
    let site = LoginSite::new().await;
    site.configure("headers = { Authorization = 'Bearer tk-secret-header' }\n");
    let known = site.json(&["auth", "--json"]);
    let expected = serde_json::json!([{ "server": "docs", "url": site.server.url(), "by": "headers" }]);
    assert_eq!(known["logins"], expected);
    snapshot!(site.run_args(&["login", "docs"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: the entry of `docs` sets an Authorization header, which is used instead of a login

    hint: remove it to log in
    ---
    ");
    let refused = site.calls();
    assert!(refused.contains("the credentials were refused") && !refused.contains("tk-secret-"), "{refused}");
    assert_eq!(site.auth.received().len(), 0);

    site.configure("headers_command = ['sh', '-c', 'echo {}']\n");
    let known = site.json(&["auth", "--json"]);
    assert_eq!(known["logins"][0]["by"], "headers_command", "{known}");
}

#[test]
fn auth_document_prints_client_metadata() {
    let context = crate::context::Context::new();
    let output = context.bowline(["auth", "document", "https://example.org/bowline.json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["client_id"], "https://example.org/bowline.json");
    assert_eq!(document["token_endpoint_auth_method"], "none");
    assert!(document["redirect_uris"].to_string().contains("http://127.0.0.1"), "{document}");
    for wrong in ["http://example.org/x.json", "https://example.org", "nonsense"] {
        let shown = context.run(context.bowline(["auth", "document", wrong]));
        assert!(shown.starts_with("exit: 2\n"), "{wrong}: {shown}");
    }
}
