//! Stores that cannot be read, and servers that need no login.

use bowline_testkit as testkit;

use super::LoginSite;

/// The store is damaged. A server without a login is not affected; the others report the error.
#[tokio::test]
async fn a_damaged_store_affects_only_servers_that_need_it() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    let state = site.context.path("home/.local/state/bowline");
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        let _ = std::fs::remove_file(state.join(name));
    }
    std::fs::write(state.join("store.db"), "this is no database, and never was one").unwrap();

    let open = testkit::server().tool("echo").run().await;
    let shown = site.run_args(&["call", &open.url(), "echo", "message=ahoy"]);
    assert!(shown.starts_with("exit: 0\n") && shown.contains("ahoy"), "{shown}");

    let wanted = site.calls();
    assert!(wanted.starts_with("exit: 2\n") && wanted.contains("store.db"), "{wanted}");
    assert!(!wanted.contains("bowline login"), "a login is not what is missing: {wanted}");
    for verb in [&["auth"][..], &["login", "docs"], &["logout", "docs"]] {
        let shown = site.run_args(verb);
        assert!(shown.starts_with("exit: 2\n") && shown.contains("store.db"), "{shown}");
    }
    // Nothing was deleted.
    let left = std::fs::read_to_string(state.join("store.db")).unwrap();
    assert!(left.starts_with("this is no database"));
}

/// An unreachable authorization server is reported, and the login is kept.
#[tokio::test]
async fn an_unreachable_authorization_server_deletes_no_login() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    site.auth.revoke_all_access();
    site.auth.stop().await;
    let shown = site.calls();
    assert!(shown.starts_with("exit: 3\n"), "{shown}");
    assert!(shown.contains("the stored login is unchanged"), "{shown}");
    site.auth.listen().await;
    let shown = site.calls();
    assert!(shown.contains("ahoy"), "{shown}");
    assert_eq!((site.auth.authorizations(), site.auth.refreshes()), (1, 1));
}

/// Item 8: a server without a login creates no store.
#[tokio::test]
async fn a_server_without_a_login_needs_no_store() {
    let site = LoginSite::new().await;
    let open = testkit::server().tool("echo").run().await;
    site.context.user_config("[store]\nkey = 'keyring'\n");
    let shown = site.run_args(&["call", &open.url(), "echo", "message=ahoy"]);
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    assert!(!site.context.path("home/.local/state/bowline/store.db").exists());
}

/// A login is refused where the configuration or the transport rules it out.
#[tokio::test]
async fn a_login_is_refused_where_there_is_none() {
    let site = LoginSite::new().await;
    site.configure("auth = false\n\n[servers.files]\ncommand = 'true'\n");
    let off = site.run_args(&["login", "docs"]);
    assert!(off.starts_with("exit: 2\n") && off.contains("auth = false"), "{off}");
    let process = site.run_args(&["login", "files"]);
    assert!(process.starts_with("exit: 2\n") && process.contains("is a local command"), "{process}");
    let called = site.calls();
    assert!(called.starts_with("exit: 5\n") && called.contains("`auth = false`"), "{called}");
    assert_eq!(site.auth.received().len(), 0);
}
