//! What of this machine keeps logins from working: its clock, its keyring, and the store of logins.

use std::time::{Duration, SystemTime};

use bowline_testkit::{self as testkit, CannedResponse, Fault};

use super::{Examined, configure_url, verdict};
use crate::context::Context;

/// Examines a server whose clock is this far from ours.
async fn examine_with_date(date: SystemTime) -> Examined {
    let context = Context::new();
    let answer = CannedResponse::new(204).header("Date", &httpdate::fmt_http_date(date));
    let server =
        testkit::server().tool("echo").fault(Fault::response(answer).on("OPTIONS").always()).run().await;
    configure_url(&context, &server.url());
    Examined::of(&context, &["docs"])
}

#[tokio::test]
async fn clock_that_is_an_hour_off_is_named() {
    // Half a minute more, so that the time that the test takes does not count.
    let hour = Duration::from_secs(60 * 60 + 30);
    let now = SystemTime::now();
    for (date, word) in [(now - hour, "ahead of"), (now + hour, "behind")] {
        let examined = examine_with_date(date).await;
        let check = examined.check("clock");
        assert_eq!((&check["status"], &check["blame"]), (&"warning".into(), &"machine".into()), "{check}");
        let seen = format!("the clock of this machine is 1h 00m {word} that of the server");
        assert_eq!(check["seen"], seen, "{check}");
        let advice = "set the clock: tokens and certificates seem invalid otherwise";
        assert_eq!(check["remedy"]["text"], advice);
        assert_eq!(examined.code, 0, "the server works: {:#}", examined.json);
    }
}

#[tokio::test]
async fn clock_that_agrees_is_no_fault() {
    let examined = examine_with_date(SystemTime::now()).await;
    assert_eq!(examined.verdict(), "exit 0");
    assert_eq!(examined.check("clock")["seen"], "it agrees with that of the server");
}

/// Stores on Linux, where the keyring is reached over the session bus.
#[cfg(target_os = "linux")]
mod stores {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::login::LoginSite;

    /// Examines the installation with this session bus.
    fn examine_with_bus(context: &Context, bus: &str) -> Examined {
        let mut doctor = context.bowline(["doctor"]);
        doctor.env("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}", context.path(bus).display()));
        Examined::run(doctor)
    }

    /// Checks that the store failed because of this machine, and returns what was seen.
    fn failed_store(context: &Context, examined: &Examined) -> String {
        let check = examined.check("store");
        assert_eq!((&check["status"], &check["blame"]), (&"failed".into(), &"machine".into()), "{check}");
        assert_eq!((examined.code, examined.status("logins")), (2, "skipped"));
        assert_eq!(check["remedy"]["command"], "bowline auth");
        context.hide_paths(check["seen"].as_str().expect("a text"))
    }

    /// Makes a store whose key is in a file, and replaces the configuration by this one.
    async fn site_with_store(config: &str) -> LoginSite {
        let site = LoginSite::new().await;
        site.logs_in().await;
        site.context.user_config(config);
        site
    }

    /// A machine without a session bus, such as a server.
    #[tokio::test]
    async fn keyring_without_a_session_bus_is_named() {
        let site = site_with_store("[store]\nkey = 'keyring'\n").await;
        let seen = failed_store(&site.context, &examine_with_bus(&site.context, "no-bus"));
        let start = "logins cannot be read: the key is to be in the system's keyring, and the keyring does not answer: ";
        assert!(seen.starts_with(start), "{seen}");
        assert!(seen.ends_with(". Unlock it, or set `key = \"file\"` under [store]"), "{seen}");
        // By default the key stays in its file, and the keyring is not needed.
        site.context.user_config("");
        let examined = examine_with_bus(&site.context, "no-bus");
        verdict!(examined.verdict(), @"exit 0");
        let seen = site.context.hide_paths(examined.check("store")["seen"].as_str().unwrap());
        assert!(seen.contains("[TMP]/home/.local/state/bowline/store.key"), "{seen}");
    }

    /// A keyring that waits for its password does not answer.
    #[tokio::test]
    async fn keyring_that_does_not_answer_is_named() {
        let site = site_with_store("[store]\nkey = 'keyring'\n").await;
        // Connections are accepted by the system, and nobody reads them.
        let _bus = UnixListener::bind(site.context.path("silent-bus")).unwrap();
        let seen = failed_store(&site.context, &examine_with_bus(&site.context, "silent-bus"));
        assert_eq!(seen, "no answer within 10 s: is the keyring locked?");
    }

    #[tokio::test]
    async fn missing_key_of_the_store_is_named() {
        let site = site_with_store("[store]\nkey = 'file'\n").await;
        std::fs::remove_file(site.context.path("home/.local/state/bowline/store.key")).unwrap();
        let seen = failed_store(&site.context, &Examined::of(&site.context, &[]));
        assert_eq!(
            seen,
            "logins cannot be read: [TMP]/home/.local/state/bowline/store.db is encrypted with a key file, and \
             [TMP]/home/.local/state/bowline/store.key is not there. Put it there, or move the store away and log in \
             again"
        );
    }

    #[test]
    fn folder_in_place_of_the_store_is_named() {
        let context = Context::new();
        context.user_config("[store]\nkey = 'file'\npath = '/'\n");
        let seen = failed_store(&context, &Examined::of(&context, &[]));
        assert_eq!(seen, "logins cannot be read: / is not a file");
    }

    #[test]
    fn store_server_that_is_not_there_is_named() {
        let context = Context::new();
        context.user_config("[store]\nkey = 'file'\nbackend = 'valkey'\nurl = 'redis://127.0.0.1:9'\n");
        let seen = failed_store(&context, &Examined::of(&context, &[]));
        let start = "logins cannot be read: the Valkey server 127.0.0.1:9: Connection refused";
        assert!(seen.starts_with(start), "{seen}");
    }
}
