//! Responses without a person, and the capabilities that are declared.

use bowline_testkit::{self as testkit, Control, ScriptedRequest, Tool};
use serde_json::{Value, json};

use super::{configure, context_with_server, form_server, server_asking, start_call, tool_reply};
use crate::context::{Command, Context, snapshot, toml_path};
use crate::pty::{ENTER, Person, TerminalExit, UP};

fn call_without_terminal(context: &Context, more: &[&str]) -> Command {
    context.bowline(["call", "hotel", "book"].iter().chain(more))
}

#[tokio::test]
async fn without_a_terminal_an_elicitation_is_declined() {
    let server = form_server().modern().stdio().await;
    let context = context_with_server(&server);
    snapshot!(context.run(call_without_terminal(&context, &[])), @r#"
    exit: 0
    --- stdout
    {"stay":{"action":"decline"}}
    --- stderr
    note: `hotel`, during tools/call book, asked: Who comes?\u{1b}[2J
        it was declined, as there is no terminal to ask you on
        to answer, run it in a terminal, or give --answer age=… --answer extras=… --answer guest=… --answer room=…
    ---
    "#);
}

#[tokio::test]
async fn a_policy_answers_for_the_person() {
    let server = form_server().modern().stdio().await;
    let context = context_with_server(&server);
    snapshot!(context.run(call_without_terminal(&context, &["--elicit", "cancel"])), @r#"
    exit: 0
    --- stdout
    {"stay":{"action":"cancel"}}
    --- stderr
    note: `hotel`, during tools/call book, asked: Who comes?\u{1b}[2J
        it was canceled, as you wanted
        to answer, use --elicit ask in a terminal, or give --answer age=… --answer extras=… --answer guest=… --answer room=…
    ---
    "#);
    // The policy of the file applies at a terminal too.
    configure(&context, &server, "[elicitation]\npolicy = 'decline'");
    let end = start_call(&context).leaves();
    assert_eq!(tool_reply(&end, "stay"), json!({"action": "decline"}));
}

#[tokio::test]
async fn prepared_answers_are_used_if_they_fit() {
    let server = form_server().modern().stdio().await;
    let context = context_with_server(&server);
    let answers = |age: &str| {
        let age = format!("age={age}");
        let mut args = Vec::new();
        for answer in ["guest=Ada", &age, "room=Double room", "extras=b,Dog"] {
            args.extend(["--answer".to_owned(), answer.to_owned()]);
        }
        args
    };
    let run = |age: &str| {
        let args = answers(age);
        context.run(call_without_terminal(&context, &args.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    snapshot!(run("42"), @r#"
    exit: 0
    --- stdout
    {"stay":{"action":"accept","content":{"age":42,"extras":["b","d"],"guest":"Ada","news":false,"note":"none","room":"d2"}}}
    --- stderr
    note: `hotel`, during tools/call book, asked: Who comes?\u{1b}[2J
        your --answer was sent
    ---
    "#);
    snapshot!(run("17"), @r#"
    exit: 0
    --- stdout
    {"stay":{"action":"decline"}}
    --- stderr
    note: `hotel`, during tools/call book, asked: Who comes?\u{1b}[2J
        it was declined, as there is no terminal to ask you on
        --answer does not fit: age must be at least 18
    ---
    "#);
    // At a terminal prepared answers are shown first.
    let mut args: Vec<String> = ["call", "--json", "hotel", "book"].map(Into::into).into();
    args.extend(answers("42"));
    let mut person = Person::sits_at(context.bowline(args));
    let review = person.sees("> Send");
    assert!(review.contains("room: Double room"), "{review}");
    person.answers(UP, "> Cancel");
    person.presses(ENTER);
    assert_eq!(tool_reply(&person.leaves(), "stay"), json!({"action": "cancel"}));
}

/// RT-01, RT-02: no roots by default; the most specific setting wins.
#[tokio::test]
async fn rt_01_roots_are_those_that_were_named() {
    let server = server_asking(ScriptedRequest::roots("files")).modern().stdio().await;
    let context = context_with_server(&server);
    let roots = |more: &[&str]| {
        let output =
            context.bowline(["call", "--json", "hotel", "book"].iter().chain(more)).output().unwrap();
        let end = TerminalExit {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            screen: String::from_utf8(output.stderr).unwrap(),
        };
        let roots = tool_reply(&end, "files")["roots"].clone();
        let uris = roots.as_array().unwrap().iter().map(|root| root["uri"].as_str().unwrap().to_owned());
        uris.collect::<Vec<_>>()
    };
    let uri =
        |below: &str| format!("file://{}", std::fs::canonicalize(context.path(below)).unwrap().display());
    assert_eq!(declared_capabilities(&server, &context, &[]).get("roots"), None);
    let home = context.path("home");
    assert_eq!(roots(&["--root", home.to_str().unwrap(), "--root", ".."]).last(), Some(&uri("project")));
    configure(&context, &server, &format!("[roots]\nfolders = [{}]", toml_path(&home)));
    assert_eq!(roots(&[]), [format!("file://{}", home.display())]);
    assert_eq!(roots(&["--root", ".."]), [uri("project")]);
    let all = std::fs::read_to_string(context.path("home/.config/bowline/config.toml")).unwrap();
    let project = toml_path(&context.path("project"));
    context.user_config(&all.replacen(
        "[servers.hotel]\n",
        &format!("[servers.hotel]\nroots = [{project}]\n"),
        1,
    ));
    assert_eq!(roots(&[]), [format!("file://{}", context.path("project").display())]);
    // A server that requests roots which were not declared is refused.
    assert_eq!(declared_capabilities(&server, &context, &["--no-roots"]).get("roots"), None);
}

/// Returns the capabilities that the last call declared.
fn declared_capabilities(server: &Control, context: &Context, more: &[&str]) -> Value {
    context.bowline(["call", "hotel", "book"].iter().chain(more)).output().expect("it runs");
    let calls = server.received();
    let call = calls.iter().rev().find(|received| received.tool() == Some("book")).expect("a call");
    call.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone()
}

/// SA-01, EL-01: without a model sampling is not declared; elicitation is.
#[tokio::test]
async fn sa_01_sampling_is_declared_only_with_a_model() {
    let server = testkit::server().tool(Tool::like("book", "echo")).modern().stdio().await;
    let context = context_with_server(&server);
    let capabilities = declared_capabilities(&server, &context, &[]);
    assert_eq!(capabilities["elicitation"], json!({"form": {}, "url": {}}));
    assert!(capabilities.get("roots").is_none() && capabilities.get("sampling").is_none(), "{capabilities}");
}

/// A script gets the notes as well, one JSON object per line, unless it is quiet.
#[tokio::test]
async fn declined_requests_are_reported_as_json() {
    let server = form_server().modern().stdio().await;
    let context = context_with_server(&server);
    let noted = |more: &[&str]| {
        let output =
            context.bowline(["call", "--json", "hotel", "book"].iter().chain(more)).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let lines = String::from_utf8(output.stderr).unwrap();
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    let declined = &noted(&[])[0]["note"];
    assert_eq!((&declined["kind"], &declined["server"]), (&json!("declined"), &json!("hotel")));
    assert_eq!(declined["during"], "tools/call book");
    assert_eq!(declined["asked"], "Who comes?\u{1b}[2J");
    assert!(declined["hint"].as_str().unwrap().contains("--answer guest=…"), "{declined}");
    assert_eq!(noted(&["--elicit", "cancel"])[0]["note"]["kind"], "cancelled");
    assert_eq!(noted(&["-q"]), [Value::Null; 0]);
}

#[tokio::test]
async fn a_dumb_terminal_is_named_as_the_reason() {
    let server = form_server().modern().stdio().await;
    let context = context_with_server(&server);
    let mut command = context.bowline(["call", "hotel", "book"]);
    command.env("TERM", "dumb");
    let end = Person::sits_at(command).leaves();
    assert!(
        end.screen.contains("TERM is `dumb`") && end.screen.contains("with another TERM"),
        "{}",
        end.screen
    );
}

/// RT-02: a folder given on the command line must exist; a configured one may be missing for a
/// while.
#[tokio::test]
async fn rt_02_a_missing_folder_is_an_error() {
    let server = server_asking(ScriptedRequest::roots("files")).modern().stdio().await;
    let context = context_with_server(&server);
    std::fs::write(context.path("file"), "").unwrap();
    let (nowhere, file) = (context.path("nowhere"), context.path("file"));
    for (path, why) in [(&nowhere, "there is no such folder"), (&file, "it is not a folder")] {
        let shown = context.run(call_without_terminal(&context, &["--root", path.to_str().unwrap()]));
        assert!(shown.starts_with("exit: 2") && shown.contains(why), "{shown}");
        configure(&context, &server, &format!("[roots]\nfolders = [{}]", toml_path(path)));
        let shown = context.run(call_without_terminal(&context, &[]));
        assert!(shown.starts_with("exit: 0") && shown.contains(why), "{shown}");
        configure(&context, &server, "");
    }
    assert_eq!(server.count("initialize") + server.count("server/discover"), 2);
}

/// A flag without effect is an error.
#[tokio::test]
async fn sampling_needs_a_model() {
    let server = testkit::server().tool(Tool::like("book", "echo")).modern().stdio().await;
    let context = context_with_server(&server);
    for policy in ["allow", "ask"] {
        let shown = context.run(call_without_terminal(&context, &["--sampling", policy]));
        assert!(shown.starts_with("exit: 2") && shown.contains("[sampling]"), "{shown}");
    }
    let denied = context.run(call_without_terminal(&context, &["--sampling", "deny"]));
    assert!(denied.starts_with("exit: 0"), "{denied}");
}
