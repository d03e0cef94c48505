//! The store of logins: only where the configuration says, and private.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bowline_testkit as testkit;

use super::{LoginSite, wait_for_exit};
use crate::context::{Context, snapshot};

/// Invalid configurations of the store, and the message about each.
const BROKEN_STORE_CONFIGS: [(&str, &str); 6] = [
    ("[store]\nkey = 'keyrng'\n", "2:7: store.key: "),
    ("[store]\nkey = 'file'\nbackend = 'valky'\n", "3:11: store.backend: "),
    ("[store]\nkey = 'file'\nbakend = 'valkey'\n", "3:1: store.bakend: unknown key"),
    ("[store]\nkey = 'file'\nbackend = 'valkey'\n", "1:2: store: needs `url`"),
    ("[stor]\nkey = 'file'\n", "1:2: stor: unknown key"),
    ("[store]\nkey = 'file\n", "2:"),
];

impl LoginSite {
    /// Writes the configuration with another store section.
    fn configure_store(&self, store: &str) {
        self.context.user_config(&format!("{store}\n[servers.docs]\nurl = '{}'\n", self.server.url()));
    }
}

/// A mistake in `[store]` must not move logins to another place or give them a weaker key.
#[tokio::test]
async fn an_invalid_store_config_never_falls_back() {
    let site = LoginSite::new().await;
    for (store, told) in BROKEN_STORE_CONFIGS {
        site.configure_store(store);
        let url = site.server.url();
        for verb in [
            &["auth"][..],
            &["login", &url],
            &["logout", &url],
            &["logout", "--all"],
            &["auth", "export", "-o", "logins"],
        ] {
            let shown = site.run_args(verb);
            assert!(shown.starts_with("exit: 2\n") && shown.contains(told), "{store}{verb:?}\n{shown}");
        }
        // A call may not need the store; if it does, it reports the same error.
        let called = site.run_args(&["call", &url, "echo", "message=x"]);
        assert!(!called.starts_with("exit: 0\n") && called.contains(told), "{store}{called}");
    }
    let made = site.context.path("home/.local/state/bowline");
    for file in ["store.db", "store.key"] {
        assert!(!made.join(file).exists(), "{file} was made");
    }
    site.configure_store(BROKEN_STORE_CONFIGS[0].0);
    snapshot!(site.run_args(&["logout", "--all"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: [TMP]/home/.config/bowline/config.toml does not set where logins are stored
      problems:
        2:7: store.key: must be "auto", "keyring" or "file"
          did you mean "keyring"?
    ---
    "#);
}

/// An unreadable configuration file does not count as one without a store section; stored logins
/// are not reported as missing.
#[tokio::test]
async fn a_file_that_cannot_be_read_hides_no_login() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    site.configure_store("[servers.a");
    let missing = site.run_args(&["logout", "--all", "--config", "nowhere.toml"]);
    for shown in [site.run_args(&["logout", "--all"]), missing] {
        assert!(shown.starts_with("exit: 2\n") && !shown.contains("no logins are stored"), "{shown}");
    }
    site.configure("");
    assert!(site.calls().contains("ahoy"));
}

/// Errors elsewhere in the file do not affect logins, nor do errors of a server that needs none.
#[tokio::test]
async fn only_errors_in_the_store_section_hide_logins() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    site.configure("\n[servers.broken]\nurl = 'nonsense'\n\n[elicitation]\npolicy = 7\n");
    let shown = site.run_args(&["auth", "-q"]);
    assert!(shown.starts_with("exit: 0\n") && shown.contains("docs\t"), "{shown}");

    let open = testkit::server().tool("echo").run().await;
    site.configure_store(BROKEN_STORE_CONFIGS[0].0);
    let shown = site.run_args(&["call", &open.url(), "echo", "message=ahoy"]);
    assert!(shown.starts_with("exit: 0\n") && shown.contains("ahoy"), "{shown}");
}

/// A project cannot configure the store, valid or not; the attempt is noted.
#[tokio::test]
async fn a_project_cannot_configure_the_store() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    site.context.project_config("[store]\nkey = 'keyrng'\n");
    let listed = site.run_args(&["auth", "-q"]);
    assert!(listed.starts_with("exit: 0\n") && listed.contains("docs\t"), "{listed}");
    site.context.project_config("[store]\nkey = 'keyring'\n").trust_project();
    assert!(site.calls().contains("ahoy"));
    let noted = "bowline.toml:1:1: store: not used: a project cannot set where logins are stored";
    let shown = site.run_args(&["config", "check"]);
    assert!(shown.starts_with("exit: 0\n") && shown.contains(noted), "{shown}");
    let told = site.json(&["config", "check", "--json"]);
    let of_project = told["files"][1]["notes"].to_string();
    assert!(of_project.contains("a project cannot set where logins are stored"), "{told}");
}

/// Whichever verb runs first creates the state folder, with access for its owner alone.
#[tokio::test]
async fn the_state_folder_is_private_from_the_start() {
    let site = LoginSite::new().await;
    let open = testkit::server().tool("echo").run().await;
    site.configure(&format!("\n[servers.open]\nurl = '{}'\n", open.url()));
    assert!(site.run_args(&["tools", "open"]).starts_with("exit: 0\n"));
    let state = site.context.path("home/.local/state/bowline");
    let made = std::fs::metadata(state).expect("names of tools are kept for the shell");
    assert_eq!(made.permissions().mode() & 0o777, 0o700);
    let (person, browser) = site.person(&["login", "docs"]);
    testkit::Browser::new().login(&super::opened_url(&browser)).await;
    let end = wait_for_exit(person, 0);
    assert!(!end.screen.contains("others"), "{}", end.screen);
}

/// A token that the server echoes is redacted.
#[tokio::test]
async fn a_token_echoed_by_a_server_is_redacted() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    assert!(site.calls().contains("ahoy"));
    let received = site.server.received();
    let sent = received.iter().rev().find_map(|it| it.header("authorization")).expect("a token");
    let body = format!("you sent {sent}, which I do not like");
    site.server.arm(
        testkit::Fault::response(testkit::CannedResponse::new(500).text(&body)).on("tools/call").always(),
    );
    for verbosity in ["-q", "-vvv"] {
        let shown = site.run_args(&["call", "docs", "echo", "message=x", verbosity]);
        assert!(shown.contains("you sent Bearer [redacted], which I do not like"), "{shown}");
    }
}

/// A store written by version 0.1.0, before refreshes were locked, for servers that no longer
/// exist. No upgrade may log anybody out.
#[test]
fn a_store_of_an_earlier_version_is_read_as_it_was() {
    let context = Context::new();
    let state = context.path("home/.local/state/bowline");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
    for name in ["store.db", "store.key"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/store-0.1").join(name);
        std::fs::copy(from, state.join(name)).unwrap();
        std::fs::set_permissions(state.join(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let url = "http://127.0.0.1:39379/mcp";
    context.user_config(&format!("[store]\nkey = 'file'\n\n[servers.docs]\nurl = '{url}'\n"));
    let logins = || -> serde_json::Value {
        let output = context.bowline(["auth", "--json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["logins"].take()
    };
    let before = logins();
    let [login] = before.as_array().unwrap().as_slice() else { panic!("{before}") };
    assert_eq!((&login["server"], &login["url"]), (&"docs".into(), &url.into()), "{login}");
    assert_eq!(login["issuer"], "http://127.0.0.1:44009");
    assert_eq!(login["client_id"], "client-o_CBoVL5plFF4exPm4fso278bDTzKH9Q");
    assert_eq!((&login["refreshable"], &login["by"]), (&true.into(), &"login".into()), "{login}");
    assert_eq!(login["logged_in_at"], "2026-11-16T04:12:34.375Z");
    // Neither a missing server nor a missing authorization server deletes the login.
    let shown = context.run(context.bowline(["call", "docs", "echo", "message=ahoy"]));
    assert!(shown.starts_with("exit: 3\n"), "{shown}");
    let after = logins();
    for member in ["client_id", "refreshable", "logged_in_at", "expires_at"] {
        assert_eq!(after[0][member], before[0][member], "{member}");
    }
}
