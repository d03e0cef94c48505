//! Output at a terminal: tables, color, a progress bar, and no control sequences from a server.

use std::io::Read as _;
use std::process::Stdio;

use bowline_testkit::{self as testkit, Fault, Script, Tool};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::context::{Command, Context, snapshot};
use crate::pty::{Person, Pty};

/// Returns what a terminal of sixty columns receives on stdout and stderr together.
fn on_terminal(command: Command) -> String {
    on_terminal_of(60, command).replace("\r\n", "\n")
}

/// Returns what a terminal of this many columns receives, with its line endings.
pub(crate) fn on_terminal_of(columns: u16, mut command: Command) -> String {
    let pty = Pty::open(24, columns);
    let slave = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
    let mut child =
        command.env("TERM", "xterm").stdout(slave()).stderr(slave()).spawn().expect("bowline starts");
    let terminal = command.capture("terminal");
    // Our ends must be closed, or the terminal would never reach its end.
    drop((command, pty.slave));
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    let mut master = pty.master;
    // Linux ends a terminal with an error, other systems with an empty read.
    while let Ok(count @ 1..) = master.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..count]);
    }
    terminal.add(&seen);
    terminal.end();
    child.wait().expect("bowline ends");
    String::from_utf8_lossy(&seen).into_owned()
}

fn script() -> Script {
    testkit::server()
        .tool(Tool::named("echo").read_only().member(
            "description",
            json!("Gives back whatever it is given, word for word, and nothing else\n\nA second paragraph"),
        ))
        .tool_json(json!({
            "name": "evil\u{1b}[2J",
            "description": "\u{1b}]0;owned\u{7}\u{202e}txt.exe",
            "inputSchema": {"type": "object"},
        }))
}

#[tokio::test]
async fn a_list_fits_and_is_harmless() {
    let context = Context::new();
    let server = script().run().await;
    let shown = on_terminal(context.bowline(["tools", "--color", "never", "-q", &server.url()]));
    snapshot!(shown, @r"
    echo
        read-only · Gives back whatever it is given, word for
        word, and nothing else
    evil\u{1b}[2J
        invisible text · \u{1b}]0;owned\u{7}\u{202e}txt.exe
    ");
}

/// SE-11: the terminal shows what a server says, and does nothing of it.
#[tokio::test]
async fn servers_cannot_set_colors() {
    let context = Context::new();
    let server = script().run().await;
    let colored = on_terminal(context.bowline(["tools", "-q", &server.url()]));
    assert!(colored.contains("\u{1b}[36mecho"), "{colored:?}");
    assert!(!colored.contains("\u{1b}[2J") && !colored.contains("\u{1b}]"), "{colored:?}");
    let mut command = context.bowline(["tools", "-q", &server.url()]);
    command.env("NO_COLOR", "1");
    assert!(!on_terminal(command).contains('\u{1b}'));
}

#[tokio::test]
async fn results_are_harmless_too() {
    let context = Context::new();
    let server = testkit::server()
        .tool_fn("say", json!({"type": "object"}), |_| json!("a\u{1b}[2Jb\u{9b}c\nd"))
        .resource("file:///x", "\u{1b}c")
        .run()
        .await;
    let said = on_terminal(context.bowline(["call", "-q", &server.url(), "say"]));
    assert_eq!(said, "a\\u{1b}[2Jb\\u{9b}c\nd\n");
    let json = on_terminal(context.bowline(["read", "--json", &server.url(), "file:///x"]));
    assert!(json.contains("\"text\": \"\\u001bc\"") && !json.contains('\u{1b}'), "{json:?}");
}

#[tokio::test]
async fn progress_moves_a_bar() {
    let context = Context::new();
    let server = testkit::server().tool("slow").run().await;
    let command = || context.bowline(["call", &server.url(), "slow", "ms=600", "steps=3"]);
    let seen = on_terminal(command());
    assert!(seen.contains('%'), "{seen:?}");
    let mut quiet = command();
    quiet.arg("-q");
    assert!(!on_terminal(quiet).contains('%'));
}

/// An error as JSON that a person looks at.
#[tokio::test]
async fn errors_are_harmless_in_json_too() {
    let context = Context::new();
    let server = script().fault(Fault::error(-32603, "a\u{9b}2J\u{202e}b").on("tools/list")).run().await;
    let shown = on_terminal(context.bowline(["tools", "--json", &server.url()]));
    assert!(shown.contains("a\\u009b2J\\u202eb"), "{shown:?}");
    assert!(!shown.contains(['\u{9b}', '\u{202e}']), "{shown:?}");
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["error"]["code"], -32603);
}

/// Returns the screen after this output.
fn screen_after(output: &str) -> Vec<String> {
    let mut parser = vt100::Parser::new(24, 60, 0);
    parser.process(output.as_bytes());
    parser.screen().contents().lines().map(ToOwned::to_owned).collect()
}

/// Nothing of the bar is left on the screen, and the cursor is where the shell expects it.
#[tokio::test]
async fn ctrl_c_erases_the_progress_bar() {
    let context = Context::new();
    let slow = testkit::server().tool("slow").run().await;
    let silent = testkit::server().fault(Fault::silent().always()).run().await;
    let (call, doctor) = (["call", &slow.url(), "slow", "ms=60000"], ["doctor", &silent.url()]);
    for (words, shown, left) in [(&call[..], "slow", "note: interrupted"), (&doctor, "examining", "")] {
        let mut command = context.bowline(words);
        command.arg("--color=never");
        let person = Person::sits_at(command);
        let screen = person.sees(shown);
        assert!(screen.starts_with(['|', '/', '-', '\\']), "precondition, it is the bar: {screen:?}");
        // Ctrl-C at a terminal sends this signal.
        kill_process(person.pid(), Signal::INT).expect("it runs");
        let end = person.leaves();
        assert_eq!((end.code, &*end.screen, &*end.stdout), (130, left, ""), "{words:?}");
    }
}

/// Lines are written in place of the progress bar, which leaves nothing behind.
#[tokio::test]
async fn log_lines_and_the_result_displace_the_progress_bar() {
    let context = Context::new();
    let server = testkit::server()
        .legacy()
        .tool(Tool::logs("work", [("info", json!("begun")), ("warning", json!("a knot"))]))
        .run()
        .await;
    let call = context.bowline(["call", "--color", "never", &server.url(), "work", "--log-level", "debug"]);
    let seen = on_terminal_of(60, call);
    assert!(seen.contains("| work"), "precondition, a bar was drawn: {seen:?}");
    let screen = screen_after(&seen);
    assert_eq!(screen.len(), 3, "{screen:?}");
    assert!(screen[0].ends_with("  info       work  begun"), "{screen:?}");
    assert!(screen[1].ends_with("  warning    work  a knot"), "{screen:?}");
    assert_eq!(screen[2], "done");
}
