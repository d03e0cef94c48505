//! `bowline repl`: a prompt that stays connected, and commands from stdin.

use std::time::Duration;

use bowline_testkit::{self as testkit, Completion, Fault, HttpServer, Script, ScriptedRequest, Tool};
use serde_json::json;

use crate::context::{Context, snapshot};
use crate::pty::{CTRL_C, DOWN, ENTER, Person, UP};

const TEST_TIMEOUT: Duration = Duration::from_secs(20);
const TAB: &str = "\t";
const CTRL_D: &str = "\x04";

fn script() -> Script {
    testkit::server()
        .legacy()
        .tool("add")
        .tool("echo")
        .tool("slow")
        .tool("fail")
        .tool(Tool::named("search").schema(json!({"type": "object", "required": ["query"], "properties": {
            "query": {"type": "string"}, "mode": {"enum": ["exact", "sheet bend"]}, "deep": {"type": "boolean"},
        }})))
        .prompt_json(json!({"name": "visit", "arguments": [{"name": "city"}]}), json!([]))
        .completes(Completion::prompt("visit", "city", &["Oslo"]))
        .resource("file:///knots.txt", "over, under")
}

async fn configured(script: Script) -> (Context, HttpServer) {
    let context = Context::new();
    let server = script.run().await;
    context.user_config(&format!("[servers.rope]\nurl = '{}'\n", server.url()));
    (context, server)
}

/// Starts a prompt for the server, and waits for it.
fn at_prompt(context: &Context) -> Person {
    let mut command = context.bowline(["repl", "rope"]);
    command.env("XDG_STATE_HOME", context.path("state"));
    let person = Person::sits_at(command);
    person.sees("rope>");
    person
}

#[tokio::test]
async fn the_prompt_stays_connected() {
    let (context, server) = configured(script()).await;
    let mut person = at_prompt(&context);
    person.answers("add a=1 b=2\r", "add a=1 b=2\nrope>");
    person.answers("call echo text='x y' --json\r", "--json\nrope>");
    person.answers("read file:///knots.txt\r", "knots.txt\nrope>");
    person.answers("fail message=no\r", "the tool `fail` reported an error\nrope>");
    person.answers("ehco\r", "did you mean `echo`?\nrope>");
    person.answers("'half\r", "or with \\\nrope>");
    person.answers("tools --nope\r", "`help tools` has its options\nrope>");
    person.answers("help\r", "help\nrope>");
    person.presses(CTRL_D);
    let end = person.leaves();
    assert_eq!(end.code, 0, "{}", end.screen);
    let lines: Vec<&str> = end.stdout.lines().collect();
    assert_eq!(lines[0], "3");
    assert!(lines[1].contains(r#"{\"text\":\"x y\"}"#), "{}", lines[1]);
    assert_eq!(lines[2..4], ["over, under", "no"]);
    assert!(end.stdout.contains("TOOL [KEY=VALUE]...     call a tool"), "{}", end.stdout);
    assert_eq!(server.initialize_count(), 1);
}

/// A name that begins with `-` is a command of its own there, and no option.
#[tokio::test]
async fn a_tool_whose_name_begins_with_a_hyphen_is_called() {
    let (context, server) = configured(testkit::server().tool("-x")).await;
    let commands = "-x a=1\ncall -q -- -x a=2\ntools -- -x\n";
    let shown = context.run_with_input(context.bowline(["repl", "-q", "rope"]), commands);
    let results = "exit: 0\n--- stdout\n{\"a\":\"1\"}\n{\"a\":\"2\"}\n-x\n";
    assert!(shown.starts_with(results), "{shown}");
    assert!(shown.contains("\n  bowline call rope -- -x\n"), "{shown}");
    assert_eq!(server.executions("-x"), 2);
}

#[tokio::test]
async fn tab_completes_what_the_server_offers() {
    let (context, server) = configured(script()).await;
    let mut person = at_prompt(&context);
    let many = person.answers(&format!("s{TAB}"), "search");
    assert!(many.contains("slow") && many.contains("status") && many.contains("servers"), "{many}");
    person.answers(&format!("ea{TAB}"), "rope> search ");
    person.answers(&format!("m{TAB}"), "search mode=");
    // A value with a space is quoted.
    person.answers(&format!("s{TAB}"), "'mode=sheet bend'");
    person.answers(&format!("d{TAB}"), "deep=");
    person.answers(&format!("t{TAB}"), "deep=true");
    person.answers(&format!("q{TAB}"), "query=");
    person.answers("x\r", "query=x\nrope>");
    person.answers(&format!("read {TAB}"), "read file:///knots.txt");
    person.answers(ENTER, "knots.txt \nrope>");
    person.answers(&format!("prompt v{TAB}"), "prompt visit");
    person.answers(&format!("c{TAB}"), "prompt visit city=");
    person.answers(&format!("O{TAB}"), "prompt visit city=Oslo");
    person.presses(CTRL_C);
    person.sees_no("prompt visit");
    context.write("project/below/note.txt", "from a file");
    person.answers(&format!("echo text=@n{TAB}"), "text=@note.txt");
    person.answers(ENTER, "note.txt \nrope>");
    person.presses(CTRL_D);
    let end = person.leaves();
    assert!(end.stdout.contains(r#"{"text":"from a file"}"#), "{}", end.stdout);
    let call =
        server.received().into_iter().find(|received| received.tool() == Some("search")).expect("a call");
    assert_eq!(call.params()["arguments"], json!({"deep": true, "mode": "sheet bend", "query": "x"}));
}

#[tokio::test]
async fn missing_arguments_are_asked_for_at_the_prompt_too() {
    let (context, server) = configured(script()).await;
    let mut person = at_prompt(&context);
    person.answers("search\r", "1/1  query *");
    person.answers("\x1b", "`search` was not called: nothing was sent");
    person.sees("nothing was sent\nrope>");
    person.answers("search mode=exact\r", "1/1  query *");
    person.answers("knots\r", "> Call");
    person.presses(ENTER);
    server.wait_for(|received| received.tool() == Some("search"), TEST_TIMEOUT).await;
    person.sees("Gives its arguments back\nrope>");
    person.presses("exit\r");
    assert_eq!(person.leaves().code, 0);
    assert_eq!(server.count("tools/call"), 1);
}

/// CN-01: Ctrl-C cancels the call on the server, and the prompt stays.
#[tokio::test]
async fn ctrl_c_cancels_the_call_and_not_the_prompt() {
    let (context, server) = configured(script()).await;
    let mut person = at_prompt(&context);
    person.presses("slow ms=60000\r");
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    rustix::process::kill_process(person.pid(), rustix::process::Signal::INT).expect("it is there");
    person.sees("note: interrupted\nrope>");
    server.wait_until(|server| !server.cancellations().is_empty(), TEST_TIMEOUT).await;
    // At the prompt it is a key that clears the line.
    person.answers("half a line", "half a line");
    person.presses(CTRL_C);
    person.sees_no("half a line");
    person.answers("add a=1 b=1\r", "b=1\nrope>");
    person.presses(CTRL_D);
    let end = person.leaves();
    assert_eq!((end.code, &*end.stdout), (0, "2\n"), "{}", end.screen);
    assert_eq!(server.initialize_count(), 1);
    // No progress bar is left on the screen.
    assert!(!end.screen.contains("| slow") && !end.screen.contains("/ slow"), "{}", end.screen);
}

/// A form of the server, in which Ctrl-C is a key.
#[tokio::test]
async fn ctrl_c_in_a_form_cancels_the_call_alone() {
    let form = json!({"type": "object", "properties": {"who": {"type": "string"}}});
    let ask = || ScriptedRequest::form_elicitation("who", "Who?", form.clone());
    for script in [script().legacy(), script().modern()] {
        let (context, _server) = configured(script.tool(Tool::asks("book", [ask()]))).await;
        let mut person = at_prompt(&context);
        person.answers("book\r", "> Answer");
        person.presses(CTRL_C);
        person.sees("note: interrupted\nrope>");
        // The next form works.
        person.answers("book\r", "> Answer");
        person.answers(DOWN, "> Decline");
        person.presses(ENTER);
        person.sees("declined, for rope");
        person.sees("declined, for rope\nrope>");
        person.presses(CTRL_D);
        let end = person.leaves();
        assert_eq!(end.code, 0, "{}", end.screen);
        assert!(end.stdout.contains("decline"), "{}", end.stdout);
    }
}

#[tokio::test]
async fn news_of_the_server_appear_above_the_line() {
    let (context, server) = configured(script()).await;
    let mut person = at_prompt(&context);
    // A tool is new only to someone who has seen the list without it.
    person.answers(&format!("ec{TAB}"), "rope> echo ");
    person.answers("\x15half a li", "rope> half a li");
    server
        .wait_until(
            |server| server.send_log_message("warning", &json!("rope is wet\u{1b}[2J")) > 0,
            TEST_TIMEOUT,
        )
        .await;
    person.sees("rope is wet\\u{1b}[2J\nrope> half a li");
    server.edit(|script| script.tool("splice"));
    server.wait_until(|server| server.announce_tools() > 0, TEST_TIMEOUT).await;
    person.sees("note: `rope`: tools changed: +splice\nrope> half a li");
    // What was typed is still there.
    person.answers("ne\x15add a=2 b=2\r", "add a=2 b=2\nrope>");
    person.presses(CTRL_D);
    assert_eq!(person.leaves().stdout, "4\n");
}

/// Not every terminal says that something is pasted, and one read does not take all of it.
#[tokio::test]
async fn long_input_is_read_to_its_end() {
    let (context, server) = configured(script()).await;
    let mut person = at_prompt(&context);
    let text = "q".repeat(5_000);
    person.answers(&format!("echo text={text}\r"), "q\nrope>");
    person.presses(CTRL_D);
    assert_eq!(person.leaves().stdout, format!("{{\"text\":\"{text}\"}}\n"));
    assert_eq!(server.executions("echo"), 1);
}

#[tokio::test]
async fn a_session_survives_a_restart_of_the_server() {
    let (context, server) = configured(script()).await;
    let mut person = at_prompt(&context);
    person.answers("add a=1 b=2\r", "b=2\nrope>");
    server.arm(Fault::drop_sessions().on("tools/call"));
    person.presses("add a=3 b=4\r");
    // What is typed before the prompt is there is shown twice.
    let screen = person.sees_after("b=4\nsession lost; reconnected and retried after", "\nrope>");
    assert_eq!(screen.matches("reconnected").count(), 1, "one line: {screen}");
    person.answers("status\r", "status\nrope>");
    person.presses(CTRL_D);
    let end = person.leaves();
    assert!(end.stdout.starts_with("3\n7\n"), "{}", end.stdout);
    assert!(end.stdout.contains("rope\tready\t"), "{}", end.stdout);
    assert_eq!(server.executions("add"), 2);
}

#[tokio::test]
async fn lines_are_remembered_without_secrets() {
    let (context, _server) = configured(script()).await;
    let mut person = at_prompt(&context);
    person.answers("echo text=one\r", "text=one\nrope>");
    person.answers("echo password=hunter2hunter2\r", "hunter2hunter2\nrope>");
    person.answers(" echo text=unseen\r", "unseen\nrope>");
    person.answers("tools\r", "tools\nrope>");
    person.presses(CTRL_D);
    person.leaves();
    let file = context.path("state/bowline/repl/history");
    assert_eq!(std::fs::read_to_string(&file).expect("the history"), "echo text=one\ntools\n");
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let mut person = at_prompt(&context);
    person.answers(UP, "rope> tools");
    person.answers(UP, "rope> echo text=one");
    person.answers(DOWN, "rope> tools");
    person.answers("\x15ec", "rope> ec");
    person.answers(&format!("{UP}\r"), "text=one\nrope>");
    person.presses(CTRL_D);
    assert_eq!(person.leaves().stdout, "{\"text\":\"one\"}\n");
}

#[tokio::test]
async fn servers_are_chosen_by_name() {
    let (context, server) = configured(script()).await;
    let other = testkit::server().tool(Tool::named("echo").schema(json!({"type": "object"}))).run().await;
    context.user_config(&format!(
        "[servers.rope]\nurl = '{}'\n[servers.wire]\nurl = '{}'\n[servers.dead]\ncommand = '/nonexistent'\n",
        server.url(),
        other.url()
    ));
    let mut person = Person::sits_at(context.bowline(["repl"]));
    person.sees("bowline>");
    person.answers("nonsense\r", "`help` lists the others\nbowline>");
    person.answers("rope add a=1 b=2\r", "b=2\nbowline>");
    person.answers("use dead\r", "A full path works from anywhere\nbowline>");
    person.answers(&format!("use w{TAB}"), "use wire");
    person.answers(ENTER, "wire>");
    person.answers("echo a=1\r", "a=1\nwire>");
    person.answers("servers\r", "servers\nwire>");
    person.answers("use rope\r", "use rope\nrope>");
    person.answers("add a=2 b=2\r", "b=2\nrope>");
    person.presses("exit\r");
    let end = person.leaves();
    assert_eq!(
        end.stdout, "3\n{\"a\":\"1\"}\ndead\nrope\tconnected\nwire\tconnected, in use\n4\n",
        "{}",
        end.screen
    );
    assert_eq!(server.initialize_count(), 1);
}

#[tokio::test]
async fn commands_are_read_from_stdin_up_to_the_first_that_fails() {
    let (context, server) = configured(script()).await;
    let run = |args: &[&str], input: &str| context.run_with_input(context.bowline(args), input);
    let all = run(&["repl", "rope"], "# a comment\n\nadd a=1 b=2\nread file:///knots.txt");
    assert_eq!(all, "exit: 0\n--- stdout\n3\nover, under\n--- stderr\n---");
    let failed = run(&["repl", "rope"], "add a=1 b=2\nfail message=no\nadd a=3 b=4\n");
    assert_eq!(
        failed,
        "exit: 1\n--- stdout\n3\nno\n--- stderr\nerror: the tool `fail` reported an error\n---"
    );
    let left = run(&["repl"], "use rope\nadd a=1 b=1\nexit\nadd a=3 b=4\n");
    assert_eq!(left, "exit: 0\n--- stdout\n2\n--- stderr\n---");
    snapshot!(run(&["repl", "rope"], "add a=1\n"), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: the arguments do not fit `add` of `rope`
      because: "b" is a required property

    hint: it takes: a=<number> b=<number>; --unchecked sends them anyway
    ---
    "#);
    snapshot!(run(&["repl", "--json"], "rope add a=@- b=1\n"), @r#"
    exit: 2
    --- stdout
    --- stderr
    {"error":{"exit_code":2,"hint":null,"kind":"usage","message":"stdin is where the commands come from: name a file"}}
    ---
    "#);
    snapshot!(run(&["repl", "--timeout", "5s"], ""), @"
    exit: 2
    --- stdout
    --- stderr
    error: SERVER is missing: connection options apply to one server

    hint: write `bowline repl SERVER`
    ---
    ");
    let by_command = script().stdio().await;
    let mut command = context.bowline_with(&["repl"], &by_command.command());
    command.stdin(std::process::Stdio::null());
    assert_eq!(context.run(command), "exit: 0\n--- stdout\n--- stderr\n---");
    let shown = context
        .run_with_input(context.bowline_with(&["repl"], &by_command.command()), "add a=1 b=2\nadd a=1 b=3\n");
    assert_eq!(shown, "exit: 0\n--- stdout\n3\n4\n--- stderr\n---");
    assert_eq!(by_command.initialize_count(), 1);
    assert_eq!(server.executions("add"), 3);
}

/// A recovery in the middle of a call is one faint line, for people alone.
#[tokio::test]
async fn a_recovery_in_mid_call_is_one_line() {
    let context = Context::new();
    let server = script().run().await;
    let url = server.url();
    let run = |args: &[&str]| {
        server.arm(Fault::drop_sessions().on("tools/call"));
        context.run(context.bowline([&["call", &url, "add", "a=1", "b=2"], args].concat()))
    };
    snapshot!(run(&[]), @"
    exit: 0
    --- stdout
    3
    --- stderr
    session lost; reconnected and retried after [TIME]
    ---
    ");
    assert_eq!(run(&["-q"]), "exit: 0\n--- stdout\n3\n--- stderr\n---");
    let json = run(&["--json"]);
    assert!(json.starts_with("exit: 0\n") && json.ends_with("--- stderr\n---"), "{json}");
    assert_eq!(server.executions("add"), 3);
}

/// What is typed while a call runs is the next line, with its Enter.
#[tokio::test]
async fn a_line_typed_ahead_is_run() {
    let (context, server) = configured(script()).await;
    let mut person = at_prompt(&context);
    person.presses("slow ms=500\r");
    server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    person.presses("add a=1 b=2\r");
    server.wait_for(|received| received.tool() == Some("add"), TEST_TIMEOUT).await;
    person.sees("rope> add a=1 b=2\nrope>");
    person.presses(CTRL_D);
    assert!(person.leaves().stdout.ends_with("\n3\n"));
}
