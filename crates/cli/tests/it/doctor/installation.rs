//! The checks of the installation, and of all configured servers together.

use bowline_testkit as testkit;

use super::{Examined, verdict};
use crate::context::Context;
use crate::status::http_entry;

#[test]
fn empty_installation_is_well() {
    let context = Context::new();
    let examined = Examined::of(&context, &[]);
    assert_eq!(examined.verdict(), "exit 0");
    let names: Vec<&str> = examined.checks().iter().map(|check| check["name"].as_str().unwrap()).collect();
    let expected = ["version", "configuration", "trust", "state", "store", "clock", "processes"];
    assert_eq!(names[..7], expected);
    // Looking creates nothing.
    assert!(!context.path("home/.local/state/bowline").exists());
}

#[tokio::test]
async fn all_servers_are_examined_in_order() {
    let context = Context::new();
    let good = testkit::server().tool("echo").run().await;
    let dead = testkit::server().run().await;
    dead.stop().await;
    context.user_config(&format!(
        "{}{}[servers.off]\ncommand = 'nothing'\nenabled = false\n[servers.broken]\nurl = '${{NOWHERE}}'\n",
        http_entry("good", &good),
        http_entry("dead", &dead)
    ));
    let examined = Examined::of(&context, &[]);
    let servers = examined.json["servers"].as_array().unwrap();
    let summary: Vec<_> = servers.iter().map(|it| (it["name"].as_str().unwrap(), it["ok"] == true)).collect();
    assert_eq!(summary, [("broken", false), ("dead", false), ("good", true)]);
    assert_eq!(examined.code, 3);
    verdict!(context.hide_paths(&examined.verdict()), @"
    exit 3
    configuration failed, you: 1 problem, the first in [TMP]/home/.config/bowline/config.toml
      correct the file
      $ bowline config check
    configuration failed, you: its entry in [TMP]/home/.config/bowline/config.toml cannot be used: servers.broken.url: environment variable `NOWHERE` is not set
      set it, or give a default: `${NOWHERE:-value}`
      $ bowline config check
    tcp failed, server: 127.0.0.1:[PORT] refuses connections: nothing listens there
      start the server, or correct the port in the URL
      $ bowline doctor dead
    ");
}

#[test]
fn broken_configuration_is_named() {
    let context = Context::new();
    context.user_config("servers = 5\n");
    verdict!(context.hide_paths(&Examined::of(&context, &[]).verdict()), @"
    exit 2
    configuration failed, you: 1 problem, the first in [TMP]/home/.config/bowline/config.toml
      correct the file
      $ bowline config check
    ");
}

#[test]
fn unknown_name_is_a_usage_error() {
    let context = Context::new();
    context.user_config("[servers.docs]\nurl = 'http://127.0.0.1:9/mcp'\n");
    let output = context.bowline(["doctor", "dcos"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean `docs`?"));
}

/// A server of a project that is not trusted is not started.
#[cfg(unix)]
#[test]
fn untrusted_project_is_named_and_not_started() {
    let context = Context::new();
    let trace = context.path("started");
    context.project_config(&format!(
        "[servers.rope]\ncommand = 'sh'\nargs = ['-c', 'touch {}']\n",
        trace.display()
    ));
    verdict!(context.hide_paths(&Examined::of(&context, &[]).verdict()), @"
    exit 0
    trust warning, you: [TMP]/project/bowline.toml is not used: it is not trusted
      look at what it would do, and trust it if you agree
      $ bowline trust [TMP]/project/bowline.toml
    ");
    verdict!(context.hide_paths(&Examined::of(&context, &["rope"]).verdict()), @"
    exit 2
    configuration failed, you: [TMP]/project/bowline.toml is not used: it is not trusted
      look at what it would do, and trust it if you agree
      $ bowline trust [TMP]/project/bowline.toml
    ");
    assert!(!trace.exists());
}

#[cfg(unix)]
#[test]
fn shared_state_folder_is_named() {
    let context = Context::new();
    std::fs::create_dir_all(context.path("home/.local/state/bowline")).unwrap();
    context.set_mode("home/.local/state/bowline", 0o777);
    let examined = Examined::of(&context, &[]);
    let check = examined.check("state");
    assert_eq!((&check["status"], &check["blame"]), (&"failed".into(), &"machine".into()), "{check}");
    let command = context.hide_paths(check["remedy"]["command"].as_str().unwrap());
    assert_eq!((examined.code, &*command), (2, "chmod 700 [TMP]/home/.local/state/bowline"));
}

/// A login could not be kept there. That nothing is there yet is no proof that it can be.
#[test]
fn folder_that_cannot_be_created_is_named() {
    let context = Context::new();
    std::fs::write(context.path("home/.local"), "not a folder").unwrap();
    let examined = Examined::of(&context, &[]);
    let check = examined.check("state");
    assert_eq!((&check["status"], &check["blame"]), (&"failed".into(), &"machine".into()), "{check}");
    let seen = context.hide_paths(check["seen"].as_str().unwrap());
    assert_eq!(
        seen,
        "no state can be kept in [TMP]/home/.local/state/bowline: [TMP]/home/.local: it is not a folder"
    );
    let command = context.hide_paths(check["remedy"]["command"].as_str().unwrap());
    assert_eq!((examined.code, &*command), (2, "ls -ld [TMP]/home/.local"));
}

#[test]
fn options_of_a_server_need_one() {
    let context = Context::new();
    let output = context.bowline(["doctor", "--protocol", "legacy"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("these options are for one server: name it"));
}

/// A daemon that was started before an update may have another version.
#[cfg(unix)]
#[tokio::test]
async fn version_of_a_running_daemon_is_shown() {
    use crate::connect::host::Host;
    use crate::serve_front::daemons::Daemons;

    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    context.user_config(&http_entry("docs", &server));
    assert_eq!(Examined::of(&context, &[]).check("daemon")["seen"], "none is running");
    let daemons = Daemons::of(&context);
    let host = Host::start_initialized(context.bowline(["serve", "--stdio"])).await;
    let examined = Examined::of(&context, &[]);
    let [pid] = daemons.all()[..] else { panic!("one daemon runs: {:?}", daemons.all()) };
    let expected = format!("`bowline serve` (pid {pid}, version {}) answers", env!("CARGO_PKG_VERSION"));
    assert_eq!((examined.code, &examined.check("daemon")["seen"]), (0, &expected.into()));
    drop(host);
}

/// A daemon that was stopped listens and does not answer.
#[cfg(unix)]
#[test]
fn daemon_that_does_not_answer_is_named() {
    use std::os::unix::fs::DirBuilderExt as _;

    let context = Context::new();
    let folder = context.path("home/.local/state/bowline/run");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).unwrap();
    std::fs::write(folder.join("4.pid"), "4242 4 0.0.9\n").unwrap();
    let listener = std::os::unix::net::UnixListener::bind(folder.join("4.sock")).unwrap();
    verdict!(Examined::of(&context, &[]).verdict(), @"
    exit 4
    daemon failed, bowline: `bowline serve` (pid 4242, version 0.0.9) does not answer
      end it: hosts start another one, and keep their sessions
      $ kill -9 4242
    ");
    drop(listener);
    // A socket that a killed daemon left behind is no fault.
    assert_eq!(Examined::of(&context, &[]).verdict(), "exit 0");
}
