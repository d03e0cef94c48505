//! `bowline call`: arguments, results, errors and timeouts.

use bowline_testkit::{self as testkit, Fault, Script, Tool};
use serde_json::{Value, json};

use crate::context::{Context, snapshot};

fn script() -> Script {
    testkit::server().tool("echo").tool("add").tool("fail").tool("structured").tool("slow")
}

#[tokio::test]
async fn words_are_typed_by_the_schema() {
    let context = Context::new();
    let schema = json!({
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer"},
            "deep": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    });
    let server = testkit::server().tool(Tool::named("echo").schema(schema)).run().await;
    let words = [
        "call",
        &server.url(),
        "echo",
        "text=5",
        "count=5",
        "deep=true",
        "tags=a",
        "tags=b",
        "any:={\"x\":[1]}",
    ];
    snapshot!(context.run(context.bowline(words)), @r#"
    exit: 0
    --- stdout
    {"any":{"x":[1]},"count":5,"deep":true,"tags":["a","b"],"text":"5"}
    --- stderr
    note: `echo` has no parameter `any`; it is sent all the same
    ---
    "#);
}

#[tokio::test]
async fn arguments_can_be_one_json_object() {
    let context = Context::new();
    let server = script().run().await;
    let url = server.url();
    let object = r#"{"a": 1, "b": 2}"#;
    for given in [
        vec!["call", &url, "add", "--json", object],
        vec!["call", "--json", object, &url, "add"],
        vec!["call", &url, "add", "--args", object],
        vec!["call", &url, "add", "--args", r#"{"a": 1, "b": 9}"#, "b=2"],
    ] {
        let shown = context.run(context.bowline(&given));
        assert_eq!(shown, "exit: 0\n--- stdout\n3\n--- stderr\n---", "{given:?}");
    }
    let from_stdin = context.run_with_input(context.bowline(["call", &url, "add", "--file", "-"]), object);
    assert_eq!(from_stdin, "exit: 0\n--- stdout\n3\n--- stderr\n---");
    std::fs::write(context.path("args.json"), object).unwrap();
    let file = context.path("args.json").display().to_string();
    let from_file = context.run(context.bowline(["call", &url, "add", "--file", &file]));
    assert_eq!(from_file, "exit: 0\n--- stdout\n3\n--- stderr\n---");
}

#[tokio::test]
async fn bare_json_flag_selects_the_output_format() {
    let context = Context::new();
    let server = script().run().await;
    let url = server.url();
    for given in [
        vec!["call", &url, "add", "a=1", "b=2", "--json"],
        vec!["call", "--json", &url, "add", "a=1", "b=2"],
        vec!["--json", "call", &url, "add", "--json", r#"{"a": 1, "b": 2}"#],
        vec!["call", &url, "add", "a=1", "b=2", "--output", "json"],
    ] {
        let output = context.bowline(&given).output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{given:?}"));
        assert_eq!(result["content"][0]["text"], "3", "{given:?}");
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_not_sent() {
    let context = Context::new();
    let server = script().run().await;
    let url = server.url();
    snapshot!(context.run(context.bowline(["call", &url, "add", "a=one"])), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: the arguments do not fit `add` of `127.0.0.1:[PORT]`
      because:
        "b" is a required property
        a: "one" is not of type "number"

    hint: it takes: a=<number> b=<number>; --unchecked sends them anyway
    ---
    "#);
    snapshot!(context.run(context.bowline(["call", "--json", &url, "add", "a=one"])), @r#"
    exit: 2
    --- stdout
    --- stderr
    {"error":{"exit_code":2,"hint":"it takes: a=<number> b=<number>; --unchecked sends them anyway","kind":"usage","message":"the arguments do not fit `add` of `127.0.0.1:[PORT]`","misfits":["\"b\" is a required property","a: \"one\" is not of type \"number\""]}}
    ---
    "#);
    assert_eq!(server.executions("add"), 0);
    let unchecked = context.run(context.bowline(["call", &url, "echo", "--unchecked", "a=1"]));
    assert!(unchecked.starts_with("exit: 0\n"), "{unchecked}");
}

#[tokio::test]
async fn a_misspelled_required_argument_gets_the_name_that_is_meant() {
    let context = Context::new();
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["path"],
    });
    let server = testkit::server().tool(Tool::named("read_file").schema(schema)).run().await;
    snapshot!(context.run(context.bowline(["call", &server.url(), "read_file", "pth=x"])), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: the arguments do not fit `read_file` of `127.0.0.1:[PORT]`
      because: "path" is a required property

    hint: did you mean `path`? it takes: path=<text> [n=<integer>]; --unchecked sends them anyway
    ---
    "#);
    let shown = context.run(context.bowline(["call", &server.url(), "read_file", "PATH=x", "n=1"]));
    assert!(shown.contains("hint: did you mean `path`? it takes: "), "{shown}");
    let shown = context.run(context.bowline(["call", &server.url(), "read_file", "zzz=x"]));
    assert!(shown.contains("hint: it takes: path=<text>"), "{shown}");
    assert_eq!(server.count("tools/call"), 0);
}

#[tokio::test]
async fn an_unusable_schema_does_not_block_the_call() {
    let context = Context::new();
    let schema = json!({"type": "object", "$ref": "http://127.0.0.1:9/elsewhere"});
    let server = testkit::server().tool(Tool::named("echo").schema(schema)).run().await;
    snapshot!(context.run(context.bowline(["call", &server.url(), "echo", "a=1"])), @r#"
    exit: 0
    --- stdout
    {"a":"1"}
    --- stderr
    note: the input schema of `echo` cannot be used: the schema refers to http://127.0.0.1:[PORT]/elsewhere, which is not within it; nothing is fetched
    ---
    "#);
}

#[tokio::test]
async fn a_failed_tool_is_shown_with_its_exit_code() {
    let context = Context::new();
    let server = script().run().await;
    snapshot!(context.run(context.bowline(["call", &server.url(), "fail", "message=out of rope"])), @"
    exit: 1
    --- stdout
    out of rope
    --- stderr
    error: the tool `fail` reported an error
    ---
    ");
}

#[tokio::test]
async fn structured_content_is_shown_once() {
    let context = Context::new();
    let server = script().run().await;
    snapshot!(context.run(context.bowline(["call", &server.url(), "structured"])), @r#"
    exit: 0
    --- stdout
    {
      "arguments": {},
      "size": 0
    }
    --- stderr
    ---
    "#);
}

#[tokio::test]
async fn an_unknown_tool_is_found_out_before_the_call() {
    let context = Context::new();
    let server = script().run().await;
    snapshot!(context.run(context.bowline(["call", &server.url(), "ehco"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `127.0.0.1:[PORT]` has no tool named `ehco`

    hint: did you mean `echo`?
    ---
    ");
    snapshot!(context.run(context.bowline(["call", &server.url(), "zzz"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `127.0.0.1:[PORT]` has no tool named `zzz`

    hint: there are: echo, add, fail, structured, slow
    ---
    ");
    assert_eq!(server.count("tools/call"), 0);
}

#[tokio::test]
async fn an_argument_that_is_given_twice_gets_a_next_step() {
    let context = Context::new();
    let server = script().prompt("greet", "Hello {who}").run().await;
    let url = server.url();
    snapshot!(context.run(context.bowline(["call", &url, "add", "a=1", "a=2"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `a` is given twice

    hint: write a=… once; for a list, write a:='[…]'
    ---
    ");
    snapshot!(context.run(context.bowline(["prompt", &url, "greet", "who=1", "who=2"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `who` is given twice

    hint: write who=… once; it has one value, which is text
    ---
    ");
    assert_eq!(server.count("tools/call") + server.count("prompts/get"), 0);
}

/// A name that begins with `-` comes after `--`, which is no command then.
#[tokio::test]
async fn names_that_begin_with_a_hyphen_come_after_the_separator() {
    let context = Context::new();
    let script = testkit::server().tool("--help").tool("echo").prompt("-greet", "Hello");
    let (server, started) = (script.clone().run().await, script.stdio().await);
    let url = server.url();
    let called = "exit: 0\n--- stdout\n{\"a\":\"1\"}\n--- stderr\n---";
    assert_eq!(context.run(context.bowline(["call", "--quiet", &url, "--", "--help", "a=1"])), called);
    let shown =
        context.run_with_input(context.bowline(["call", &url, "-q", "--", "--help", "-"]), r#"{"a": "1"}"#);
    assert_eq!(shown, called);
    let command = started.command();
    let mut words = vec!["call".to_owned(), "-q".to_owned()];
    words.extend(command.env.iter().flat_map(|(key, value)| ["-e".to_owned(), format!("{key}={value}")]));
    words.extend(["--", "--help", "a=1", "--"].map(String::from));
    words.push(command.program.display().to_string());
    assert_eq!(context.run(context.bowline(words.iter().chain(&command.args))), called);
    let shown = context.run(context.bowline(["prompt", &url, "--", "-greet"]));
    assert_eq!(shown, "exit: 0\n--- stdout\nuser:\nHello\n--- stderr\n---");
    // Without a server there is nothing that the name could be of.
    let shown = context.run(context.bowline(["call", "--", "--help"]));
    assert!(shown.starts_with("exit: 2\n") && shown.contains("error: TOOL is missing: "), "{shown}");
    // The command of a server is still one.
    assert_eq!(context.run(context.bowline_with(&["call", "-q", "echo", "a=1"], &command)), called);
}

#[tokio::test]
async fn a_server_error_is_reported() {
    let context = Context::new();
    let fault = Fault::error_with_data(-32000, "no rope left", &json!({"rope": 0})).on("tools/call").always();
    let server = script().fault(fault).run().await;
    snapshot!(context.run(context.bowline(["call", &server.url(), "echo"])), @r#"
    exit: 6
    --- stdout
    --- stderr
    error: `127.0.0.1:[PORT]` answered tools/call with an error: no rope left (code -32000)
      data: {"rope":0}
    ---
    "#);
    snapshot!(context.run(context.bowline(["call", "--json", &server.url(), "echo"])), @r#"
    exit: 6
    --- stdout
    --- stderr
    {"error":{"code":-32000,"data":{"rope":0},"executed":null,"exit_code":6,"hint":null,"kind":"server","message":"`127.0.0.1:[PORT]` answered tools/call with an error: no rope left (code -32000)","method":"tools/call","server":"127.0.0.1:[PORT]"}}
    ---
    "#);
}

#[tokio::test]
async fn progress_extends_the_time_and_silence_does_not() {
    let context = Context::new();
    let server = script().run().await;
    let url = server.url();
    let going = ["call", &url, "slow", "ms=4000", "steps=40", "--timeout", "3s"];
    let shown = context.run(context.bowline(going));
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    server.arm(Fault::silent().on("tools/call"));
    let silent = ["call", &url, "echo", "--timeout", "2s"];
    snapshot!(context.run(context.bowline(silent)), @"
    exit: 4
    --- stdout
    --- stderr
    error: tools/call on `127.0.0.1:[PORT]` failed: no answer in time
      phase: tools/call
      transport: http
      executed: unknown; the server may have acted on it

    hint: allow longer silence with --timeout
    ---
    ");
}

#[tokio::test]
async fn a_tool_of_a_command_is_called() {
    let context = Context::new();
    let server = script().stdio().await;
    let shown = context.run(context.bowline_with(&["call", "add", "a=1", "b=2"], &server.command()));
    assert_eq!(shown, "exit: 0\n--- stdout\n3\n--- stderr\n---");
    assert_eq!(server.executions("add"), 1);
}

#[tokio::test]
async fn no_terminal_no_progress_bar() {
    let context = Context::new();
    let server = script().run().await;
    let shown = context.run(context.bowline(["call", &server.url(), "slow", "ms=200"]));
    assert!(shown.ends_with("--- stderr\n---"), "{shown}");
}

/// ST-02: log records on stdout with their own ids and errors, but without `jsonrpc`, are not
/// responses.
#[tokio::test(flavor = "multi_thread")]
async fn st_02_log_records_on_stdout_do_not_end_a_call() {
    let context = Context::new();
    let server = script().legacy().stdio().await;
    // The call's id is among these.
    let records: Vec<String> = (0..32)
        .flat_map(|id| {
            [
                json!({"id": id, "level": "info", "msg": "x"}).to_string(),
                json!({"id": id, "level": "error", "error": "no such file"}).to_string(),
            ]
        })
        .chain([json!({"level": "error", "error": {"code": 14, "message": "unavailable"}}).to_string()])
        .collect();
    server.arm(Fault::noise(&records.join("\n")).on_tool("echo"));
    snapshot!(context.run(context.bowline_with(&["call", "echo", "a=1"], &server.command())), @r#"
    exit: 0
    --- stdout
    {"a":"1"}
    --- stderr
    ---
    "#);
    assert!(server.armed_faults().is_empty(), "nothing was printed");
    assert_eq!(server.executions("echo"), 1);
}
