//! `bowline doctor`: each fault of the test kit is named, with whose fault it is and what fixes it.
//!
//! A verdict is the exit code and every check that is not well, one line each.

mod aged_logins;
#[cfg(unix)]
mod auth_options;
mod authorization;
mod certificates;
#[cfg(unix)]
mod dpop;
#[cfg(unix)]
mod every_fault;
mod fault_proxy;
mod faults;
mod fixed_settings;
mod installation;
#[cfg(unix)]
mod interpreters;
mod machine;
#[cfg(unix)]
mod processes;
mod proxies;
mod report;
#[cfg(unix)]
mod shown;

use bowline_testkit::{HttpServer, StdioCommand};
use serde_json::Value;

use crate::context::{Command, Context};
use crate::status::stdio_entry;

/// What `bowline doctor --json` printed, and its exit code.
pub(crate) struct Examined {
    pub(crate) code: i32,
    pub(crate) json: Value,
}

impl Examined {
    pub(crate) fn run(mut command: Command) -> Self {
        let output = command.arg("--json").output().expect("bowline starts");
        let text = String::from_utf8_lossy(&output.stdout);
        let json = serde_json::from_str(&text)
            .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
        Self { code: output.status.code().expect("no signal ended it"), json }
    }

    /// Runs `bowline doctor` with these words.
    pub(crate) fn of(context: &Context, words: &[&str]) -> Self {
        Self::run(context.bowline([&["doctor"], words].concat()))
    }

    /// Returns all checks, of the installation and of servers.
    pub(crate) fn checks(&self) -> Vec<&Value> {
        let servers = self.json["servers"].as_array().expect("servers");
        let of_servers = servers.iter().flat_map(|server| server["checks"].as_array().expect("checks"));
        self.json["checks"].as_array().expect("checks").iter().chain(of_servers).collect()
    }

    /// Returns the check of this name.
    pub(crate) fn check(&self, name: &str) -> &Value {
        let checks = self.checks();
        let found = checks.iter().find(|check| check["name"] == name);
        found.unwrap_or_else(|| panic!("no check {name} in {:#}", self.json))
    }

    /// Returns the status of the check of this name.
    pub(crate) fn status(&self, name: &str) -> &str {
        self.check(name)["status"].as_str().expect("a status")
    }

    /// Formats the exit code and every check that is not well.
    pub(crate) fn verdict(&self) -> String {
        let mut lines = vec![format!("exit {}", self.code)];
        for check in self.checks() {
            let status = check["status"].as_str().expect("a status");
            if status == "ok" || status == "skipped" {
                assert_eq!((&check["blame"], &check["remedy"]), (&Value::Null, &Value::Null), "{check}");
                continue;
            }
            let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            lines.push(format!(
                "{} {status}, {}: {}\n  {}\n  $ {}",
                text(&check["name"]),
                text(&check["blame"]),
                text(&check["seen"]),
                text(&check["remedy"]["text"]),
                text(&check["remedy"]["command"]),
            ));
        }
        lines.join("\n")
    }
}

/// Configures a server with a URL as `docs`.
pub(crate) fn configure_url(context: &Context, url: &str) {
    context.user_config(&format!("[store]\nkey = 'file'\n\n[servers.docs]\nurl = '{url}'\n"));
}

/// Examines a server with a URL that is configured as `docs`.
pub(crate) fn verdict_of_url(url: &str) -> String {
    let context = Context::new();
    configure_url(&context, url);
    let examined = Examined::of(&context, &["docs", "--connect-timeout", "5s"]);
    context.hide_paths(&examined.verdict())
}

pub(crate) fn verdict_of(server: &HttpServer) -> String {
    verdict_of_url(&server.url())
}

/// Examines a command that is configured as `rope`.
pub(crate) fn examine_command(context: &Context, command: &StdioCommand) -> Examined {
    context.user_config(&stdio_entry("rope", command));
    Examined::of(context, &["rope", "--connect-timeout", "10s"])
}

/// Compares a verdict with the text in the test.
macro_rules! verdict {
    ($shown:expr, @$expected:literal) => {
        let shown = $shown;
        insta::with_settings!({ filters => crate::doctor::filters() }, {
            insta::assert_snapshot!(shown, @$expected);
        });
    };
}
pub(crate) use verdict;

/// Filters for what differs from run to run.
pub(crate) fn filters() -> Vec<(&'static str, &'static str)> {
    let mut filters = crate::context::filters();
    filters.retain(|(pattern, _)| !pattern.contains("(ms|s)"));
    filters.push((r"localhost:\d+", "localhost:[PORT]"));
    filters
}

/// Checks the verdict about a server that resets connections as soon as they are made. Whether that is
/// seen while the connection is made or after it depends on the system.
pub(crate) fn assert_reset_is_named(verdict: &str) {
    let lines: Vec<&str> = verdict.lines().collect();
    assert_eq!((lines.len(), lines[0]), (4, "exit 3"), "{verdict}");
    let starts = ["tcp failed, server: ", "connection failed, server: "];
    assert!(starts.iter().any(|start| lines[1].starts_with(start)), "{verdict}");
    let advice = "  the server, or something in front of it, closes connections: ask who runs it";
    assert_eq!(lines[2..], [advice, "  $ bowline doctor docs"]);
}

/// A healthy server passes every check, and the checks are in the order in which they were made.
#[tokio::test]
async fn healthy_server_passes_every_check() {
    let context = Context::new();
    let server = bowline_testkit::server().legacy().tool("echo").run().await;
    configure_url(&context, &server.url());
    let examined = Examined::of(&context, &["docs"]);
    assert_eq!(examined.verdict(), "exit 0");
    let names: Vec<&str> = examined.checks().iter().map(|check| check["name"].as_str().unwrap()).collect();
    let expected = [
        "configuration",
        "proxy",
        "dns",
        "tcp",
        "login",
        "connection",
        "era",
        "requests",
        "keepalive",
        "session",
        "clock",
    ];
    assert_eq!(names, expected);
    assert_eq!(examined.json["ok"], true);
    let server = &examined.json["servers"][0];
    assert_eq!((&server["name"], &server["transport"]), (&"docs".into(), &"http".into()));
    assert!(examined.checks().iter().all(|check| check["duration_ms"].is_number()));
}

/// Neither a tool nor anything else with an effect is requested.
#[tokio::test]
async fn doctor_only_looks() {
    let context = Context::new();
    for script in [bowline_testkit::server().legacy(), bowline_testkit::server().modern()] {
        let server = script.tool("echo").resource("file:///a", "a").run().await;
        configure_url(&context, &server.url());
        assert_eq!(Examined::of(&context, &["docs"]).verdict(), "exit 0");
        let harmless = [
            "initialize",
            "notifications/initialized",
            "server/discover",
            "tools/list",
            "ping",
            "GET",
            "DELETE",
            "OPTIONS",
        ];
        for received in server.received() {
            assert!(harmless.contains(&&*received.method), "{}", received.method);
        }
    }
}
