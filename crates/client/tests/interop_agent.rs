//! The example agent with real servers: the reference server of the TypeScript SDK, a server of the
//! Python SDK that is killed in between, and one that is down.
#![cfg(unix)]

#[expect(dead_code, reason = "its main is not run")]
#[path = "../../../examples/agent.rs"]
mod agent;
#[path = "support_interop/limit.rs"]
mod limit;

use std::collections::VecDeque;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use bowline::host::Root;
use limit::within;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use tokio::sync::watch;

/// What the agent has shown so far.
type Lines = watch::Sender<Vec<String>>;

/// A step of the model.
enum Step {
    /// It asks for a call.
    Call(Value),
    /// It thinks until this line is shown.
    WaitFor(&'static str),
    /// The process whose id is the last result is killed.
    KillLastResult,
}

fn required_variable(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `cargo xtask test --only interop`, which installs the peers")
    })
}

/// Writes the `mcpServers` file. The reference server writes its process id to `pid_file`.
fn write_servers(path: &Path, pid_file: &Path) {
    let script = format!("{}/tests/servers/python_sdk_server.py", env!("CARGO_MANIFEST_DIR"));
    let write_pid = "data:text/javascript,import fs from 'node:fs';\
        fs.writeFileSync(process.env.PID_FILE, String(process.pid))";
    // The port was free a moment ago and is closed now.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let servers = json!({ "mcpServers": {
        "everything": {
            "command": required_variable("BOWLINE_NODE"),
            "args": ["--import", write_pid, required_variable("BOWLINE_EVERYTHING"), "stdio"],
            "env": { "PID_FILE": pid_file },
        },
        "blocks": { "command": required_variable("BOWLINE_FASTMCP_PYTHON"), "args": [script, "stdio"] },
        "down": { "url": format!("http://127.0.0.1:{port}/mcp") },
    } });
    std::fs::write(path, servers.to_string()).unwrap();
}

fn call(name: &str, input: Value) -> Step {
    Step::Call(json!({ "type": "tool_use", "id": name, "name": name, "input": input }))
}

fn script() -> VecDeque<Step> {
    let long = "everything__trigger-long-running-operation";
    let stopped = json!({ "name": long, "input": { "duration": 60, "steps": 60 }, "stop_at": 1 });
    VecDeque::from([
        call("everything__get-sum", json!({ "a": 40, "b": 2 })),
        call("everything__get-sum", json!({ "a": 40 })),
        call(long, json!({ "duration": 0.2, "steps": 2 })),
        Step::Call(stopped),
        call("everything__trigger-elicitation-request", json!({})),
        call("everything__trigger-sampling-request", json!({ "prompt": "Which knot?", "maxTokens": 17 })),
        call("everything__get-roots-list", json!({})),
        call("blocks__rig", json!({ "name": "tackle" })),
        Step::WaitFor(r#"event: blocks tools: added ["tackle"], removed []"#),
        call("everything__echo", json!({ "message": "ready" })),
        call("blocks__tackle", json!({})),
        call("blocks__process_id", json!({})),
        Step::KillLastResult,
        call("blocks__process_id", json!({})),
        Step::WaitFor(r#"event: blocks tools: added [], removed ["tackle"]"#),
        call("everything__echo", json!({ "message": "done" })),
    ])
}

async fn run_agent(servers: &Path, lines: Lines) {
    let (mut script, shown) = (script(), lines.clone());
    let model = async |request: &Value| {
        assert!(request["tools"].as_array().is_some_and(|tools| tools.len() > 10), "{request}");
        loop {
            match script.pop_front()? {
                Step::Call(block) => return Some(block),
                Step::WaitFor(line) => {
                    let seen = |lines: &Vec<String>| lines.iter().any(|shown| shown == line);
                    shown.subscribe().wait_for(seen).await.unwrap();
                }
                Step::KillLastResult => {
                    let pid = process_ids(&shown.borrow()).pop().expect("a process id");
                    kill_process(pid, Signal::KILL).unwrap();
                }
            }
        }
    };
    let screen = Arc::new(move |line| lines.send_modify(|lines| lines.push(line)));
    agent::run(servers, model, screen).await.unwrap();
}

/// The results that are numbers.
fn process_ids(lines: &[String]) -> Vec<Pid> {
    let numbers = lines.iter().filter_map(|line| line.strip_prefix("result: ")?.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

#[tokio::test]
async fn the_example_agent_works_with_real_servers() {
    let folder = tempfile::tempdir().unwrap();
    let (servers, pid_file) = (folder.path().join("mcp.json"), folder.path().join("pid"));
    write_servers(&servers, &pid_file);
    let lines = Lines::default();
    within("the agent", run_agent(&servers, lines.clone())).await;
    let lines = lines.borrow().clone();
    let of_kind = |events: bool| {
        // A server that is down is connecting for a moment now and then.
        let said = lines.iter().map(|line| line.replace("connecting", "backing off"));
        said.filter(|line| line.starts_with("event: ") == events).collect::<Vec<_>>()
    };

    let pids = process_ids(&lines);
    let [killed, restarted] = &*pids else { panic!("{lines:#?}") };
    assert_ne!(killed, restarted);
    let mut expected = EXPECTED.replace("{killed}", &killed.as_raw_nonzero().to_string());
    expected = expected.replace("{restarted}", &restarted.as_raw_nonzero().to_string());
    // The words of the operating system are its own.
    let shorten = |line: &String| {
        line.lines().next()?.trim_end().split(": tcp connect error").next().map(str::to_owned)
    };
    let first_lines: Vec<_> = of_kind(false).iter().filter_map(shorten).collect();
    assert_eq!(first_lines.join("\n"), expected.trim());

    // The answers of the person, the model and the host have reached the server.
    let root = Root::folder(std::env::current_dir().unwrap()).unwrap();
    for answer in ["- Name: Ada", r#""text": "A bowline.""#, &format!("1. project\n   URI: {}", root.uri())] {
        assert_eq!(lines.iter().filter(|line| line.contains(answer)).count(), 1, "{answer}: {lines:#?}");
    }

    // Events are in order for each server.
    let events = of_kind(true);
    let of = |server: &str| {
        let prefix = format!("event: {server} ");
        events.iter().filter_map(|line| line.strip_prefix(&prefix)).collect::<Vec<_>>()
    };
    assert_eq!(of("everything"), ["connected"]);
    assert_eq!(of("down"), ["disconnected"]);
    assert_eq!(
        of("blocks"),
        [
            "connected",
            r#"tools: added ["tackle"], removed []"#,
            "disconnected",
            "recovered",
            r#"tools: added [], removed ["tackle"]"#,
        ]
    );

    let everything = Pid::from_raw(std::fs::read_to_string(pid_file).unwrap().parse().unwrap()).unwrap();
    for pid in [everything, *killed, *restarted] {
        assert_eq!(test_kill_process(pid), Err(Errno::SRCH), "a server outlived the agent");
    }
}

/// The first line of all that is shown besides events.
const EXPECTED: &str = r#"
19 tools
left out: down: the server is backing off: connection refused
call: everything__get-sum {"a":40,"b":2}
result: The sum of 40 and 2 is 42.
call: everything__get-sum {"a":40}
failed: the arguments do not fit; "b" is a required property
call: everything__trigger-long-running-operation {"duration":0.2,"steps":2}
progress: 1 of 2
progress: 2 of 2
result: Long running operation completed. Duration: 0.2 seconds, Steps: 2.
call: everything__trigger-long-running-operation {"duration":60,"steps":60}
progress: 1 of 60
failed: the person stopped this call
call: everything__trigger-elicitation-request {}
form: everything asks: Please provide inputs for the following fields:
result: ✅ User provided the requested information!
call: everything__trigger-sampling-request {"maxTokens":17,"prompt":"Which knot?"}
sampling: everything asks for 17 tokens
result: LLM sampling result:
call: everything__get-roots-list {}
result: Current MCP Roots (1 total):
call: blocks__rig {"name":"tackle"}
result: rigged
call: everything__echo {"message":"ready"}
result: Echo: ready
call: blocks__tackle {}
result: tackle
call: blocks__process_id {}
result: {killed}
call: blocks__process_id {}
result: {restarted}
call: everything__echo {"message":"done"}
result: Echo: done
blocks: ready, recovered 1 times
down: backing off, recovered 0 times
everything: ready, recovered 0 times
"#;
