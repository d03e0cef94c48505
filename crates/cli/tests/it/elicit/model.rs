//! A server that samples the person's model.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};

use bowline_testkit::{ScriptedRequest, StdioServer, canary};
use serde_json::{Value, json};

use super::{TEST_TIMEOUT, configure, server_asking, tool_reply};
use crate::context::{Command, Context, snapshot};
use crate::pty::{ENTER, ESCAPE, Person};

/// A model endpoint with a fixed reply, which records its requests.
struct ModelServer {
    url: String,
    requests: Receiver<Value>,
}

impl ModelServer {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let (tell, asked) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
                let (mut length, mut authorization) = (0, String::new());
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).expect("a line");
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().expect("a number");
                    }
                    if let Some((name, value)) = line.split_once(": ")
                        && name.eq_ignore_ascii_case("authorization")
                    {
                        value.trim().clone_into(&mut authorization);
                    }
                    if line.trim().is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).expect("a body");
                let message = json!({"role": "assistant", "content": "A bowline\u{1b}[2J."});
                let answer = json!({
                    "model": "small-1",
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 3},
                })
                .to_string();
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
                write!(stream, "{head}Content-Length: {}\r\n\r\n{answer}", answer.len()).expect("written");
                let mut asked: Value = serde_json::from_slice(&body).expect("JSON");
                asked["authorization"] = json!(authorization);
                if tell.send(asked).is_err() {
                    break;
                }
            }
        });
        Self { url, requests: asked }
    }

    fn configure(&self, context: &Context, server: &StdioServer) {
        let (url, model) = (&self.url, "small");
        let table = format!(
            "[sampling]\nprovider = 'openai'\nbase_url = '{url}'\nmodel = '{model}'\nkey_env = 'MODEL_KEY'"
        );
        configure(context, server, &table);
    }
}

async fn start_server() -> StdioServer {
    server_asking(ScriptedRequest::sampling("knot", "Which knot?\u{1b}[2J", 100)).modern().stdio().await
}

/// Makes the call, with the model's key in the variable that the configuration names.
fn book_command(context: &Context, more: &[&str]) -> Command {
    let mut command = context.bowline([&["call", "hotel", "book"], more].concat());
    command.env("MODEL_KEY", canary::test_secret("model"));
    command
}

fn start_call(context: &Context) -> Person {
    Person::sits_at(book_command(context, &["--json"]))
}

/// SA-02: the request is shown before it is sent and can be edited, and so is the result.
#[tokio::test]
async fn sa_02_a_person_approves_request_and_result() {
    let (server, model, context) = (start_server().await, ModelServer::new(), Context::new());
    model.configure(&context, &server);
    let mut person = start_call(&context);
    let asked = person.sees("> Decline");
    assert!(asked.contains("hotel wants to ask your model, during tools/call book"), "{asked}");
    assert!(asked.contains("small at http://127.0.0.1") && asked.contains("at most 100 tokens"), "{asked}");
    assert!(asked.contains("Which knot?\\u{1b}[2J"), "{asked}");
    assert!(model.requests.try_recv().is_err(), "asked before anybody agreed");
    person.answers("e", "> Edit the system prompt");
    person.answers(ENTER, "System prompt");
    person.answers("Be brief\r", "system prompt: Be brief");
    person.answers("a", "> Ask the model");
    let said = person.answers(ENTER, "> Keep it back");
    assert!(said.contains("small-1 answers hotel") && said.contains("A bowline\\u{1b}[2J."), "{said}");
    let request = model.requests.recv_timeout(TEST_TIMEOUT).expect("it was asked");
    assert_eq!(request["authorization"], format!("Bearer {}", canary::test_secret("model")));
    assert_eq!(request["messages"][0], json!({"role": "system", "content": "Be brief"}));
    person.answers("s", "> Send it to hotel");
    person.presses(ENTER);
    let answer = tool_reply(&person.leaves(), "knot");
    assert_eq!((&answer["model"], &answer["role"]), (&json!("small-1"), &json!("assistant")));
}

/// SA-02, SA-07: a refusal is final, before and after the model is asked.
#[tokio::test]
async fn sa_07_a_refusal_is_final() {
    let (server, model, context) = (start_server().await, ModelServer::new(), Context::new());
    model.configure(&context, &server);
    let mut person = start_call(&context);
    person.sees("> Decline");
    person.presses(ENTER);
    assert_ne!(person.leaves().code, 0);
    assert!(model.requests.try_recv().is_err(), "asked after a no");
    let mut person = start_call(&context);
    person.sees("> Decline");
    person.answers("a", "> Ask the model");
    person.answers(ENTER, "> Keep it back");
    person.presses(ESCAPE);
    let end = person.leaves();
    assert_ne!(end.code, 0);
    assert!(!end.stdout.contains("bowline"), "{}", end.stdout);
}

/// Without a terminal a model is used only if the configuration allows it.
#[tokio::test]
async fn sa_02_without_a_terminal_a_model_is_not_asked() {
    let (server, model, context) = (start_server().await, ModelServer::new(), Context::new());
    model.configure(&context, &server);
    snapshot!(context.run(book_command(&context, &[])), @r#"
    exit: 6
    --- stdout
    --- stderr
    note: `hotel`, during tools/call book, wanted to ask your model small
        it was refused, as there is no terminal to ask you on
        to let it, use --sampling allow
    error: tools/call on `hotel` was not finished: User rejected sampling request

    hint: the server requested input that was not provided
    ---
    "#);
    assert!(model.requests.try_recv().is_err());
    let allowed = context.run(book_command(&context, &["-vvv", "--sampling", "allow"]));
    assert!(allowed.starts_with("exit: 0") && allowed.contains("A bowline"), "{allowed}");
    // SA-01: without permission sampling is not declared.
    let denied = context.run(book_command(&context, &["--sampling", "deny"]));
    assert!(denied.contains("sampling"), "{denied}");
}
