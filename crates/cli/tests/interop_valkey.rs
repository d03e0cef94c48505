//! Machines that share their logins in a real Valkey: each has its own home, lock folder and clock,
//! and all use one server.
//!
//! The server's program is named by `BOWLINE_REDIS_SERVER`; the default is a Valkey or Redis on the
//! `PATH`.

#![cfg(target_os = "linux")]

#[expect(dead_code, reason = "shared with tests that need more of it")]
#[path = "it/browser.rs"]
mod browser;
#[path = "it/clock.rs"]
mod clock;
#[expect(dead_code, unused_imports, unused_macros, reason = "shared with tests that need more of it")]
#[path = "it/context.rs"]
mod context;
#[expect(dead_code, reason = "shared with tests that need more of it")]
#[path = "it/pty.rs"]
mod pty;
#[path = "interop_valkey/server.rs"]
mod server;
#[path = "interop_valkey/valkey_proxy.rs"]
mod valkey_proxy;

use std::process::Stdio;
use std::time::Duration;

use bowline_testkit::{self as testkit, AuthServer, HttpServer, Protection};
use rustix::process::{Signal, kill_process};

use clock::Clock;
use context::{Command, Context, to_pid};
use server::{PASSWORD, Server};
use valkey_proxy::ValkeyProxy;

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// How far the clocks advance while the machine is stopped: a lease lasts 30 seconds.
const STANDSTILL_SECONDS: i64 = 33;

/// A machine: its own home, with the store key that all machines share.
struct Machine {
    context: Context,
    clock: Clock,
}

impl Machine {
    /// Returns `None` where there is no C compiler.
    fn new(docs: &HttpServer, valkey: std::net::SocketAddr) -> Option<Self> {
        let context = Context::new();
        let clock = Clock::new(&context)?;
        context.user_config(&format!(
            "[store]\nkey = 'file'\nbackend = 'valkey'\nurl = 'redis://:{PASSWORD}@{valkey}'\n\n\
             [servers.docs]\nurl = '{}'\n",
            docs.url()
        ));
        Some(Self { context, clock })
    }

    fn key(&self) -> std::path::PathBuf {
        self.context.path("home/.local/state/bowline/store.key")
    }

    /// Copies the store key of another machine.
    fn copy_key_from(&self, other: &Self) {
        use std::os::unix::fs::PermissionsExt as _;

        let (from, to) = (other.key(), self.key());
        let folder = to.parent().expect("a folder");
        std::fs::create_dir_all(folder).unwrap();
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::copy(from, &to).unwrap();
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn bowline(&self, args: &[&str]) -> Command {
        let mut command = self.context.bowline(args);
        self.clock.set_for(&mut command);
        command
    }

    async fn logs_in(&self) {
        let browser = browser::Browser::new(&self.context);
        let mut command = self.bowline(&["login", "docs"]);
        command.env("BROWSER", &browser.program);
        let person = pty::Person::sits_at(command);
        let opened = browser.opened();
        let page = testkit::Browser::new().login(opened.strip_prefix("1|").expect("one argument")).await;
        assert_eq!((page.status, person.leaves().code), (200, 0));
    }

    fn start_call(&self) -> tokio::process::Child {
        let mut command = self.bowline(&["call", "docs", "echo", "message=ahoy", "--timeout", "120"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn_async().expect("bowline starts")
    }
}

async fn assert_success(child: tokio::process::Child) {
    let output =
        tokio::time::timeout(TEST_TIMEOUT * 3, child.wait_with_output()).await.expect("it ends").unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("ahoy"), "{:?}: {said}", output.status);
}

/// Stops a machine at the last moment at which it can notice the pause itself: its lease is
/// confirmed, and the request is ready on an open connection. Machines share no lock, so only the
/// clocks keep it from sending the old token.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_paused_after_confirming_its_lease_sends_no_used_token() {
    let auth = AuthServer::start().await;
    let docs = testkit::server().tool("echo").protected(Protection::with_auth_server(&auth)).run().await;
    let valkey = Server::start();
    let relay = ValkeyProxy::start(valkey.addr()).await;
    let machines = (Machine::new(&docs, relay.addr()), Machine::new(&docs, valkey.addr()));
    let (Some(first), Some(second)) = machines else {
        eprintln!("not checked: it needs a C compiler");
        return;
    };
    first.logs_in().await;
    second.copy_key_from(&first);
    auth.revoke_all_access();

    // The proxy holds the reply that confirms the lease until its receiver is stopped.
    relay.hold_next_confirmation();
    let stopped = first.start_call();
    let pid = to_pid(stopped.id().expect("it runs"));
    relay.stop_at_confirmation(pid).await;
    assert_eq!(auth.count("refresh_token"), 0);
    // The lease has expired by the clocks of the machines and of the server.
    first.clock.advance(STANDSTILL_SECONDS);
    valkey.end_lease();

    assert_success(second.start_call()).await;
    assert_eq!((auth.count("refresh_token"), auth.refreshes()), (1, 1));

    kill_process(pid, Signal::CONT).expect("it is there");
    assert_success(stopped).await;
    let uses: Vec<_> =
        auth.received().iter().filter_map(|seen| seen.field("refresh_token").map(str::to_owned)).collect();
    assert_eq!(uses.len(), 1, "each refresh token is used once");
    let counts = auth.counts();
    assert_eq!((counts.refreshes, counts.reuse_detected, counts.families_revoked), (1, 0, 0));
    assert_eq!(counts.authorizations, 1);
    // Both machines have the new token.
    for machine in [&first, &second] {
        assert_success(machine.start_call()).await;
    }
    assert_eq!(auth.count("refresh_token"), 1);
    valkey.assert_no_credential();
}
