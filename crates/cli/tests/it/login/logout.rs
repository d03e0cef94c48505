//! Logout after the entry or URL of a login has changed: it ends that login, and no other.

use bowline_testkit as testkit;

use super::{LoginSite, opened_url, wait_for_exit};

impl LoginSite {
    /// Logs in by URL or name, with a browser on this machine.
    async fn log_in_to(&self, typed: &str) {
        let (person, browser) = self.person(&["login", typed]);
        let page = testkit::Browser::new().login(&opened_url(&browser)).await;
        assert_eq!(page.status, 200, "{page:?}");
        wait_for_exit(person, 0);
    }

    /// Returns the number of listed logins.
    fn login_count(&self) -> usize {
        self.json(&["auth", "--json"])["logins"].as_array().expect("a list").len()
    }

    /// Returns the URL of a tenant.
    fn tenant_url(&self, name: &str) -> String {
        format!("{}?tenant={name}", self.server.url())
    }
}

/// A query is not shown, but it is part of a login's key.
#[tokio::test]
async fn every_login_is_ended_with_its_query() {
    let site = LoginSite::new().await;
    site.log_in_to(&site.tenant_url("x")).await;
    site.log_in_to(&site.tenant_url("y")).await;
    let shown = site.run_args(&["logout", "--all"]);
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    assert_eq!(shown.matches("logged out; the token was revoked").count(), 2, "{shown}");
    assert_eq!((site.login_count(), site.auth.count("revoke")), (0, 4));
}

#[tokio::test]
async fn two_tenants_are_told_apart() {
    let site = LoginSite::new().await;
    let (x, y) = (site.tenant_url("x"), site.tenant_url("y"));
    site.log_in_to(&x).await;
    site.log_in_to(&y).await;
    let both = site.run_args(&["logout", &site.server.url()]);
    assert!(both.starts_with("exit: 2\n") && both.contains("2 logins are stored for"), "{both}");
    assert_eq!(site.login_count(), 2);
    assert!(site.run_args(&["logout", &x]).contains("logged out; the token was revoked"));
    assert!(site.run_args(&["call", &y, "echo", "message=ahoy"]).contains("ahoy"));
    // A query on the command line means exactly that tenant.
    let none = site.run_args(&["logout", &x]);
    assert!(none.contains("there was no login"), "{none}");
    assert_eq!(site.login_count(), 1);
    // `bowline auth` lists URLs without queries, so these work as well where they are unambiguous.
    let last = site.run_args(&["logout", &site.server.url()]);
    assert!(last.contains("logged out; the token was revoked"), "{last}");
    assert_eq!(site.login_count(), 0);
}

/// A login listed under a name is ended by that name, even if its entry has changed meanwhile.
#[tokio::test]
async fn a_changed_entry_keeps_no_login_alive() {
    let site = LoginSite::new().await;
    let url = site.server.url();
    let entry = |text: &str| {
        site.context.user_config(&format!("[store]\nkey = 'file'\n{text}"));
    };
    let tenant = format!("[servers.docs]\nurl = '{url}?tenant=x'\n");
    let plain = format!("[servers.docs]\nurl = '{url}'\n");
    for (before, after) in [
        (&*tenant, ""),
        (&tenant, &*plain),
        (&plain, &format!("{plain}auth = {{ account = 'ada' }}\n")),
        (&plain, &format!("{plain}enabled = false\n")),
        (&plain, "[servers.docs]\ncommand = 'true'\n"),
        (&plain, "[servers.docs]\nurl = 'https://127.0.0.1:9/elsewhere'\n"),
    ] {
        entry(before);
        site.log_in_to("docs").await;
        entry(after);
        let shown = site.run_args(&["logout", "docs"]);
        assert!(shown.starts_with("exit: 0\n"), "{shown}");
        assert!(shown.contains("docs: logged out; the token was revoked"), "{before}{after}{shown}");
        assert_eq!(site.login_count(), 0, "{before}{after}");
    }
}

/// The entry's own login ends first; a note mentions the other login under the name.
#[tokio::test]
async fn a_second_login_under_a_name_is_mentioned() {
    let site = LoginSite::new().await;
    site.log_in_to("docs").await;
    site.configure("auth = { account = 'ada' }\n");
    site.log_in_to("docs").await;
    assert_eq!(site.login_count(), 2);
    let first = site.run_args(&["logout", "docs"]);
    assert!(first.contains("run `bowline logout docs` again to end it"), "{first}");
    let accounts = site.json(&["auth", "--json"]);
    assert_eq!(accounts["logins"][0]["account"], serde_json::Value::Null, "{accounts}");
    let second = site.run_args(&["logout", "docs"]);
    assert!(
        second.contains("logged out; the token was revoked") && !second.contains("again to end it"),
        "{second}"
    );
    assert_eq!(site.login_count(), 0);
}

/// A login that was made by URL is exported by exactly that URL.
#[tokio::test]
async fn a_login_by_url_is_exported_by_it() {
    let site = LoginSite::new().await;
    let (x, y) = (site.tenant_url("x"), site.tenant_url("y"));
    site.log_in_to(&x).await;
    site.log_in_to("docs").await;
    let path = site.context.path("logins").display().to_string();
    let export = |server: &str| {
        let mut command = site.bowline(&["auth", "export", server, "-o", &path, "--force"]);
        command.env("BOWLINE_PASSPHRASE", "tk-secret-passphrase: a knot that holds");
        site.run(command)
    };
    let none = export(&y);
    assert!(none.starts_with("exit: 2\n") && none.contains("there is no login for"), "{none}");
    let one = export(&x);
    assert!(one.starts_with("exit: 0\n") && one.contains("1 login written"), "{one}");

    let other = crate::context::Context::new();
    other.user_config("[store]\nkey = 'file'\n");
    let mut import = other.bowline(["auth", "import", &path]);
    import.env("BOWLINE_PASSPHRASE", "tk-secret-passphrase: a knot that holds");
    assert!(other.run(import).starts_with("exit: 0\n"));
    let called = other.run(other.bowline(["call", &x, "echo", "message=ahoy"]));
    assert!(called.contains("ahoy"), "{called}");
}
