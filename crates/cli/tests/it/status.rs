//! `bowline status`: all servers at once, whatever state some of them are in.

use bowline_testkit::{self as testkit, CannedResponse, Fault, HttpServer, StdioCommand};
use serde_json::Value;

use crate::context::{Context, toml_path};

/// Compares with the text in the test, without values that depend on the clock.
macro_rules! snapshot {
    ($shown:expr, @$expected:literal) => {
        let mut filters = crate::context::filters();
        filters.insert(0, (r"\b\d+s\b", "[SPAN]"));
        filters.insert(0, (r"\d+(\.\d+)? (ms|s)\b", "[TIME]"));
        insta::with_settings!({ filters => filters }, {
            insta::assert_snapshot!($shown, @$expected);
        });
    };
}

pub(crate) fn http_entry(name: &str, server: &HttpServer) -> String {
    format!("[servers.{name}]\nurl = '{}'\n", server.url())
}

pub(crate) fn stdio_entry(name: &str, command: &StdioCommand) -> String {
    let env: Vec<String> = command.env.iter().map(|(key, value)| format!("{key} = '{value}'")).collect();
    let args: Vec<String> = command.args.iter().map(|arg| format!("'{arg}'")).collect();
    format!(
        "[servers.{name}]\ncommand = {}\nargs = [{}]\nenv = {{ {} }}\n",
        toml_path(&command.program),
        args.join(", "),
        env.join(", ")
    )
}

fn json(context: &Context, args: &[&str]) -> (Option<i32>, Value) {
    let output = context.bowline(args).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")))
}

#[tokio::test]
async fn all_are_ready() {
    let context = Context::new();
    let modern = testkit::server().modern().tool("echo").run().await;
    let legacy = testkit::server().legacy().tool("echo").stdio().await;
    let off = "[servers.off]\ncommand = 'nothing'\nenabled = false\n";
    context.user_config(&format!(
        "{}{}{off}",
        http_entry("web", &modern),
        stdio_entry("child", &legacy.command())
    ));
    snapshot!(context.run(context.bowline(["status"])), @"
    exit: 0
    --- stdout
    child	ready	legacy 2025-11-25	stdio	[SPAN]	0
    off	disabled		stdio		0
    web	ready	modern 2026-07-28	http	[SPAN]	0
    --- stderr
    ---
    ");
    // No process is left behind.
    legacy.expect_all_exited().await;
}

#[tokio::test]
async fn the_worst_decides_the_exit_code() {
    let context = Context::new();
    let good = testkit::server().tool("echo").run().await;
    let dead = testkit::server().run().await;
    dead.stop().await;
    let silent = testkit::server().fault(Fault::silent().always()).run().await;
    let challenge = CannedResponse::new(401).header("www-authenticate", "Bearer");
    let closed = testkit::server().fault(Fault::response(challenge).always()).run().await;
    let (good, dead, silent, closed) = (
        http_entry("good", &good),
        http_entry("dead", &dead),
        http_entry("silent", &silent),
        http_entry("closed", &closed),
    );
    let broken = "[servers.broken]\nurl = '${NOWHERE}'\n";

    context.user_config(&format!("{good}{dead}{closed}{broken}"));
    snapshot!(context.run(context.bowline(["status"])), @"
    exit: 3
    --- stdout
    broken	unusable				0		environment variable `NOWHERE` is not set
    closed	needs login		http		0		the server requires a login: not logged in yet
    dead	backing off		http		0	[TIME]	connection refused: tcp connect error: Connection refused
    good	ready	modern 2026-07-28	http	[SPAN]	0
    --- stderr
    note: 1 of 3 enabled servers ready
    note: log in with `bowline login closed`
    ---
    ");
    for (config, exit) in [
        (format!("{good}{dead}{silent}{closed}{broken}"), 3),
        (format!("{good}{silent}{closed}"), 4),
        (format!("{good}{closed}{broken}"), 5),
        (format!("{good}{broken}"), 2),
    ] {
        context.user_config(&config);
        let (code, _) = json(&context, &["status", "--json", "--timeout", "5s"]);
        assert_eq!(code, Some(exit), "{config}");
    }
}

#[tokio::test]
async fn status_as_json() {
    let context = Context::new();
    let good = testkit::server().modern().tool("echo").run().await;
    let dead = testkit::server().run().await;
    dead.stop().await;
    context.user_config(&format!("{}{}", http_entry("good", &good), http_entry("dead", &dead)));
    let (code, value) = json(&context, &["status", "--json"]);
    assert_eq!(code, Some(3));
    assert_eq!((value["ready"].as_u64(), value["enabled"].as_u64()), (Some(1), Some(2)));
    let [down, up] = [&value["servers"][0], &value["servers"][1]];
    assert_eq!((down["name"].as_str(), down["state"].as_str()), (Some("dead"), Some("backing_off")));
    assert_eq!(down["last_error"]["kind"], "refused");
    assert!(down["next_attempt_ms"].is_u64() && down["since"].is_null(), "{down}");
    assert_eq!((up["era"].as_str(), up["revision"].as_str()), (Some("modern"), Some("2026-07-28")));
    assert!(up["since"].as_str().unwrap().ends_with('Z') && up["last_error"].is_null(), "{up}");
}

/// A daemon says which lists its hosts get from the catalog, since when and why, and of no other ones.
#[cfg(unix)]
mod in_front_of_a_daemon {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::connect::host::Host;
    use crate::serve_front::daemons::Daemons;

    /// Requests the tools until the stale servers are these.
    async fn wait_for_stale_servers(host: &mut Host, expected: &Value) {
        loop {
            let answer = host.request("tools/list", json!({})).await;
            let stale = &answer["result"]["_meta"]["bowline/stale-servers"];
            if stale == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What `status` says of the stale lists of each server.
    fn stale_lists(context: &Context) -> (Option<i32>, Vec<Value>) {
        let (code, value) = json(context, &["status", "--json"]);
        let servers = value["servers"].as_array().unwrap_or_else(|| panic!("{value}"));
        (code, servers.iter().map(|server| server["stale_lists"].clone()).collect())
    }

    #[tokio::test]
    async fn lists_that_come_from_the_catalog_are_named() {
        let context = Context::new();
        let one = testkit::server().legacy().tool("echo").prompt("greet", "Hello").run().await;
        let two = testkit::server().legacy().tool("add").run().await;
        context.user_config(&format!("{}{}", http_entry("one", &one), http_entry("two", &two)));
        assert_eq!(stale_lists(&context), (Some(0), vec![json!([]), json!([])]), "there is no daemon");
        let daemons = Daemons::of(&context);
        let mut host = Host::start_initialized(context.bowline(["serve", "--stdio"])).await;
        wait_for_stale_servers(&mut host, &Value::Null).await;
        assert_eq!(stale_lists(&context), (Some(0), vec![json!([]), json!([])]), "both are there");

        one.stop().await;
        // The daemon finds out at the next call, which waits for the server.
        host.send_request("tools/call", json!({"name": "echo", "arguments": {}})).await;
        wait_for_stale_servers(&mut host, &json!({"one": "connection refused"})).await;
        let (code, lists) = stale_lists(&context);
        assert_eq!((code, &lists[1]), (Some(3), &json!([])));
        let since = lists[0][0]["since"].as_str().unwrap_or_else(|| panic!("{lists:?}")).to_owned();
        let expected = json!([{
            "lists": ["tools", "prompts"],
            "since": since,
            "reason": "connection refused",
            "daemon": daemons.all()[0],
        }]);
        assert_eq!(lists[0], expected);
        // It is the time of the change, and not that of the question.
        assert_eq!(stale_lists(&context).1[0], expected);
        snapshot!(context.run(context.bowline(["status"])), @"
        exit: 3
        --- stdout
        one	backing off		http		0	[TIME]	connection refused: tcp connect error: Connection refused	hosts get tools, prompts from the catalog for [SPAN]: connection refused
        two	ready	legacy 2025-11-25	http	[SPAN]	0
        --- stderr
        note: 1 of 2 enabled servers ready
        ---
        ");

        one.start().await;
        wait_for_stale_servers(&mut host, &Value::Null).await;
        assert_eq!(stale_lists(&context), (Some(0), vec![json!([]), json!([])]), "it is back");
        assert_eq!(host.close().await.status.code(), Some(0));
    }

    /// A server of which nothing is known has no lists that could be old.
    #[tokio::test]
    async fn a_server_that_was_never_there_has_no_lists() {
        let context = Context::new();
        let one = testkit::server().legacy().tool("echo").run().await;
        one.stop().await;
        context.user_config(&http_entry("one", &one));
        let daemons = Daemons::of(&context);
        let mut host = Host::start_initialized(context.bowline(["serve", "--stdio"])).await;
        wait_for_stale_servers(&mut host, &json!({"one": "connection refused"})).await;
        let (_, lists) = stale_lists(&context);
        let found = &lists[0][0];
        assert_eq!((&found["lists"], &found["reason"]), (&json!([]), &json!("connection refused")));
        assert_eq!(found["daemon"], daemons.all()[0]);
        assert_eq!(host.close().await.status.code(), Some(0));
    }
}

#[tokio::test]
async fn some_can_be_named_and_urls_too() {
    let context = Context::new();
    let server = testkit::server().modern().tool("echo").run().await;
    context.user_config(&format!("{}[servers.other]\ncommand = 'nothing'\n", http_entry("good", &server)));
    let (code, value) = json(&context, &["status", "good", &server.url(), "good", "--json"]);
    assert_eq!((code, value["servers"].as_array().unwrap().len()), (Some(0), 2));
    let unknown = context.run(context.bowline(["status", "goood"]));
    assert!(unknown.contains("did you mean `good`?"), "{unknown}");
    let none = Context::new();
    snapshot!(none.run(none.bowline(["status"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: no servers are configured

    hint: `bowline import` takes over those of your hosts, `bowline add NAME URL` adds one
    ---
    ");
}

/// Servers of an untrusted project are listed but not started; its hooks are not run.
#[cfg(unix)]
#[tokio::test]
async fn a_project_is_not_trusted_by_itself() {
    let context = Context::new();
    let server = testkit::server().modern().tool("echo").run().await;
    let mark = context.path("mark");
    context.user_config(&http_entry("good", &server));
    context.project_config(&format!(
        "[[hooks]]\ncommand = 'touch'\nargs = [{0}]\n[servers.evil]\ncommand = 'touch'\nargs = [{0}]\n",
        toml_path(&mark)
    ));
    snapshot!(context.run(context.bowline(["status"])), @"
    exit: 0
    --- stdout
    evil	not trusted				0
    good	ready	modern 2026-07-28	http	[SPAN]	0
    --- stderr
    note: [TMP]/project/bowline.toml is not used: it is not trusted; it can run programs and send out your environment variables: `bowline trust [TMP]/project/bowline.toml` shows what it would do, and asks you
    ---
    ");
    assert!(!mark.exists());
}

#[cfg(unix)]
mod on_a_terminal {
    use std::io::Read as _;
    use std::process::Stdio;

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;
    use crate::pty::Pty;

    /// Runs in a terminal of eighty columns, and sends Ctrl-C once `until` is shown.
    fn on_terminal(context: &Context, args: &[&str], until: &str) -> (Option<i32>, String) {
        let pty = Pty::open(24, 80);
        let slave = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
        let mut command = context.bowline(args);
        command.env("TERM", "xterm").stdout(slave()).stderr(slave());
        let mut child = command.spawn().expect("bowline starts");
        let terminal = command.capture("terminal");
        drop((command, pty.slave));
        let (mut seen, mut told) = (Vec::new(), false);
        let mut buffer = [0; 4096];
        let mut master = pty.master;
        while let Ok(count @ 1..) = master.read(&mut buffer) {
            seen.extend_from_slice(&buffer[..count]);
            if !told && !until.is_empty() && String::from_utf8_lossy(&seen).contains(until) {
                told = true;
                kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            }
        }
        terminal.add(&seen);
        terminal.end();
        let code = child.wait().expect("bowline ends").code();
        (code, String::from_utf8_lossy(&seen).replace("\r\n", "\n"))
    }

    #[tokio::test]
    async fn a_table_that_fits() {
        let context = Context::new();
        let good = testkit::server().legacy().tool("echo").run().await;
        let bad = testkit::server().fault(Fault::status(503).always()).run().await;
        let name = "a-name-that-is-longer-than-anybody-would-want-it-to-be";
        context.user_config(&format!("{}{}", http_entry("good", &good), http_entry(name, &bad)));
        let (code, seen) = on_terminal(&context, &["status", "-q", "--color", "never"], "");
        assert_eq!(code, Some(3));
        assert!(seen.lines().all(|line| line.chars().count() <= 80), "{seen}");
        snapshot!(seen, @"
        SERVER                STATE        PROTOCOL           VIA    UP       RECOVERED
        a-name-that-is-long…  backing off                     http
            next attempt in [SPAN]; [SPAN] ago: HTTP status 503
        good                  ready        legacy 2025-11-25  http   [SPAN]       0
        ");
    }

    /// The view uses the alternate screen, which is left at the end; the last state stays visible.
    #[tokio::test]
    async fn a_live_view_leaves_the_terminal_as_it_was() {
        let context = Context::new();
        let server = testkit::server().legacy().tool("echo").run().await;
        context.user_config(&http_entry("rope", &server));
        let (code, seen) = on_terminal(&context, &["status", "--watch", "--color", "never"], "ready ");
        assert_eq!(code, Some(0));
        let (enter, leave) = ("\u{1b}[?1049h\u{1b}[?25l", "\u{1b}[?25h\u{1b}[?1049l");
        assert_eq!((seen.matches(enter).count(), seen.matches(leave).count()), (1, 1), "{seen:?}");
        let (drawn, after) = seen.split_once(leave).unwrap();
        assert!(drawn.starts_with(enter), "{drawn:?}");
        assert!(
            after.starts_with("SERVER") && after.contains("rope") && !after.contains('\u{1b}'),
            "{after:?}"
        );
        // The session was closed too.
        assert_eq!(server.count("DELETE"), 1);
    }
}

#[test]
fn help_of_status() {
    let context = Context::new();
    for (verb, taught) in [
        ("status", "bowline status --watch"),
        ("watch", "session_lost   the server forgot the session"),
        ("ps", "bowline ps --clean"),
    ] {
        let help = context.run(context.bowline([verb, "--help"]));
        assert!(
            help.starts_with("exit: 0\n") && help.contains("Examples:") && help.contains(taught),
            "{help}"
        );
    }
    // The options that all verbs share are in the test of the grammar.
    let own = |verb: &str| {
        let help = context.run(context.bowline([verb, "-h"]));
        help.split("\n\nGlobal options").next().unwrap_or_default().to_owned()
    };
    snapshot!(own("status"), @"
    exit: 0
    --- stdout
    Show the connection status of all servers

    Usage: bowline status [OPTIONS] [SERVER]...

    Arguments:
      [SERVER]...  Configured names, or URLs [default: all that are configured]

    Options:
      -w, --watch           Stay connected, show status changes, and run their hooks
          --timeout <TIME>  Print what is known after this long, whether all have answered or not
                            [default: [SPAN]]
      -h, --help            Print help (see more with '--help')

    Connection options:
          --transport <WHICH>  Which transport to use for a server with a URL [possible values: auto,
                               http, sse]
          --ca-file <PATH>     Trust the certificate authorities in this PEM file as well, for a server
                               with a URL
    ");
    snapshot!(own("watch"), @"
    exit: 0
    --- stdout
    Print events of servers as they happen, and run their hooks

    Usage: bowline watch [OPTIONS] [SERVER]...

    Arguments:
      [SERVER]...  Configured names, or URLs [default: all that are configured]

    Options:
          --notifications  Print notifications of the servers as well
      -h, --help           Print help (see more with '--help')

    Connection options:
          --transport <WHICH>  Which transport to use for a server with a URL [possible values: auto,
                               http, sse]
          --ca-file <PATH>     Trust the certificate authorities in this PEM file as well, for a server
                               with a URL
    ");
    snapshot!(own("ps"), @"
    exit: 0
    --- stdout
    List the processes of started servers, with their memory

    Usage: bowline ps [OPTIONS]

    Options:
          --clean  End servers whose bowline process is gone
      -h, --help   Print help (see more with '--help')
    ");
}
