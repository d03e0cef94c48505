//! Commands that use the processes which `bowline serve` keeps running.

mod attacks;
mod failures;
mod selection;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bowline_testkit::{self as testkit, Completion, Script, ScriptedRequest, StdioServer, TaskPlan, Tool};
use serde_json::{Value, json};
use tokio::process::Child;

use crate::context::Context;
use crate::serve::Gateway;
use crate::status::stdio_entry;

const TEST_TIMEOUT: Duration = Duration::from_secs(30);
const RUN_FOLDER: &str = "home/.local/state/bowline/run";

/// A server that is configured as `knots`, and a `bowline serve` that has it. The context comes last, since dropping it
/// waits for the end of what writes to the pipes of the test.
struct Pool {
    gateway: Gateway,
    server: StdioServer,
    context: Context,
}

impl Pool {
    async fn of(script: Script) -> Self {
        Self::with_entry(script, "").await
    }

    /// With more lines in the entry of the server.
    async fn with_entry(script: Script, more: &str) -> Self {
        let server = script.stdio().await;
        let context = Context::new();
        context.user_config(&format!("{}{more}", stdio_entry("knots", &server.command())));
        let gateway = Self::serve(&context).await;
        Self { gateway, server, context }
    }

    async fn serve(context: &Context) -> Gateway {
        let socket = context.path("socket");
        let mut gateway = Gateway::start(context, &["--socket", socket.to_str().expect("a path")]);
        assert!(gateway.note().await.starts_with("serving 1 server on the socket"));
        gateway
    }

    fn run(&self, words: &[&str]) -> String {
        self.context.run(self.context.bowline(words))
    }

    /// How often the server was started.
    fn starts(&self) -> usize {
        self.server.processes().len()
    }

    fn running(&self) -> usize {
        self.server.processes().iter().filter(|process| process.is_running()).count()
    }

    async fn wait_until_running(&self, count: usize) {
        self.server.wait_until(|_| self.running() == count, TEST_TIMEOUT).await;
    }

    /// The sockets of pools.
    fn sockets(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.context.path(RUN_FOLDER)).into_iter().flatten().flatten();
        let paths = files.map(|file| file.path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "pool")).collect()
    }
}

/// Starts a command, which is killed if the test ends before it.
fn spawn(context: &Context, words: &[&str]) -> Child {
    let mut command = context.bowline(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn_async().expect("bowline starts")
}

fn both_eras(script: impl Fn() -> Script) -> [Script; 2] {
    [script().legacy(), script().modern()]
}

#[tokio::test]
async fn five_commands_start_a_server_once() {
    for script in both_eras(|| testkit::server().tool("counter")) {
        let pool = Pool::of(script).await;
        assert_eq!(pool.starts(), 0, "nothing is started before a command comes");
        for count in 1..=5 {
            assert_eq!(
                pool.run(&["call", "knots", "counter"]),
                format!("exit: 0\n--- stdout\n{count}\n--- stderr\n---")
            );
        }
        assert_eq!((pool.starts(), pool.running()), (1, 1));
        let [socket] = &*pool.sockets() else { panic!("one socket") };
        assert_eq!(socket.metadata().expect("a socket").permissions().mode() & 0o777, 0o600);
        assert_eq!(pool.gateway.terminate().await.code(), Some(0));
        assert!(!socket.exists());
        pool.server
            .wait_until(|_| pool.server.processes().iter().all(|it| !it.is_running()), TEST_TIMEOUT)
            .await;
        assert_eq!(pool.server.violations(), Vec::<String>::new());
    }
}

/// A server of every feature, whose answers do not depend on what came before.
fn full_server() -> Script {
    let prompt = json!({"name": "greet", "arguments": [{"name": "who", "required": true}]});
    testkit::server()
        .info("knots", "1.2.3")
        .instructions("Tie them well.")
        .tool("echo")
        .tool("fail")
        .tool("structured")
        .tool(Tool::named("big").read_only())
        .resource("knot://bowline", "It neither slips nor jams.")
        .template("knot://{name}")
        .prompt_json(prompt, json!([{"role": "user", "content": {"type": "text", "text": "Hello"}}]))
        .completes(Completion::prompt("greet", "who", &["Ada", "Alan"]))
}

#[tokio::test]
async fn every_verb_prints_the_same_as_without_a_daemon_legacy() {
    assert_every_verb_prints_the_same(full_server().legacy()).await;
}

#[tokio::test]
async fn every_verb_prints_the_same_as_without_a_daemon_modern() {
    assert_every_verb_prints_the_same(full_server().modern()).await;
}

async fn assert_every_verb_prints_the_same(script: Script) {
    let pool = Pool::of(script).await;
    let commands: [&[&str]; 22] = [
        &["info", "knots"],
        &["info", "knots", "--json"],
        &["tools", "knots"],
        &["tools", "knots", "--json"],
        &["tools", "knots", "echo"],
        &["call", "knots", "echo", "a=1"],
        &["call", "knots", "echo", "a=1", "--json"],
        &["call", "knots", "structured", "--json"],
        &["call", "knots", "fail"],
        &["call", "knots", "nothing"],
        &["call", "knots", "echo", "--log-level", "debug"],
        &["call", "knots", "big", "bytes=2000000", "--unchecked"],
        &["prompts", "knots", "--json"],
        &["prompt", "knots", "greet", "who=you", "--json"],
        &["prompt", "knots", "greet"],
        &["resources", "knots", "--json"],
        &["templates", "knots", "--json"],
        &["read", "knots", "knot://bowline"],
        &["read", "knots", "knot://bowline", "--json"],
        &["read", "knots", "knot://granny"],
        &["complete", "knots", "prompt", "greet", "who", "A", "--json"],
        &["tasks", "knots"],
    ];
    // What a command learns of a server is kept for the next ones, which then ask less.
    pool.run(&["info", "knots", "--no-daemon"]);
    let mut starts = Vec::new();
    for words in commands {
        let direct = pool.run(&[words, &["--no-daemon"]].concat());
        let before = pool.starts();
        assert_eq!(pool.run(words), direct, "{words:?}");
        if pool.starts() > before {
            starts.push((words, pool.starts() - before));
        }
    }
    assert_eq!(starts, [(commands[0], 1)], "one process for all of them");
    let before = pool.starts();
    let pings = pool.run(&["ping", "knots", "--count", "2", "--interval", "0s"]);
    assert!(pings.starts_with("exit: 0\n"), "{pings}");
    assert_eq!(pool.starts(), before);
}

/// EL-03: what a server asks during a call reaches the command, and its answers reach the server.
#[tokio::test]
async fn a_server_can_ask_the_command() {
    let form = json!({"type": "object", "properties": {"guest": {"type": "string"}}, "required": ["guest"]});
    let questions = || [ScriptedRequest::form_elicitation("stay", "Who comes?", form.clone())];
    for script in both_eras(|| testkit::server().tool(Tool::asks("book", questions())).tool("counter")) {
        let pool = Pool::of(script).await;
        pool.run(&["call", "knots", "counter"]);
        for guest in ["Ada", "Alan"] {
            let answer = format!("guest={guest}");
            let output =
                pool.context.bowline(["call", "knots", "book", "--answer", &answer]).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let answers: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(answers["stay"], json!({"action": "accept", "content": {"guest": guest}}));
        }
        assert_eq!(pool.starts(), 1);
        assert_eq!(pool.server.violations(), Vec::<String>::new());
    }
}

/// RT-01: a server that knows the folders of one command is not given to another one with other folders.
#[tokio::test]
async fn a_server_is_not_shared_by_commands_with_other_roots() {
    let script = testkit::server().legacy().tool(Tool::asks("roots", [ScriptedRequest::roots("roots")]));
    let pool = Pool::of(script).await;
    let [one, other] = ["project", "home"].map(|folder| pool.context.path(folder).display().to_string());
    for (root, starts) in [(&one, 1), (&one, 1), (&other, 2), (&one, 2)] {
        let shown = pool.run(&["call", "knots", "roots", "--root", root]);
        assert!(shown.starts_with("exit: 0\n") && shown.contains("file://"), "{shown}");
        assert_eq!(pool.starts(), starts, "{root}");
    }
}

/// A task of a server that is a process outlives the command that has started it.
#[tokio::test]
async fn tn_09_a_task_of_a_process_outlives_its_command() {
    for script in both_eras(|| testkit::server().tool(Tool::named("work").task(TaskPlan::manual()))) {
        let pool = Pool::of(script).await;
        let begun = pool.run(&["call", "knots", "work", "n=1", "--task"]);
        let id = pool.server.tasks()[0].id.clone();
        assert_eq!(
            begun,
            format!(
                "exit: 0\n--- stdout\n{id}\n--- stderr\nnote: the task is running; `bowline tasks knots --wait {id}` waits \
                 for it. `bowline serve` ends `knots` five minutes after the last command: a task that it does not store \
                 is lost then\n---"
            )
        );
        pool.server.finish_task(&id);
        let shown = pool.run(&["tasks", "knots", "--wait", &id]);
        assert_eq!(shown, "exit: 0\n--- stdout\n{\"n\":\"1\"}\n--- stderr\n---");
        assert_eq!((pool.starts(), pool.server.executions("work")), (1, 1));
    }
}

/// LG-01: a level that one command has set is not that of the next.
#[tokio::test]
async fn log_messages_reach_the_command_that_wants_them() {
    let logs = [("debug", json!("a detail")), ("error", json!("a mishap"))];
    let pool = Pool::of(testkit::server().legacy().tool(Tool::logs("tie", logs))).await;
    let with_logs = pool.run(&["call", "knots", "tie", "--log-level", "debug"]);
    assert!(with_logs.contains("a detail") && with_logs.contains("a mishap"), "{with_logs}");
    // Each line begins with the time of day.
    let without_times = |shown: &str| {
        let is_time = |word: &str| word.len() == 8 && word.bytes().filter(|byte| *byte == b':').count() == 2;
        let words = shown.split_whitespace().filter(|word| !is_time(word));
        words.collect::<Vec<_>>().join(" ")
    };
    let direct = pool.run(&["call", "knots", "tie", "--log-level", "debug", "--no-daemon"]);
    assert_eq!(without_times(&with_logs), without_times(&direct));
    let without = pool.run(&["call", "knots", "tie"]);
    assert!(without.starts_with("exit: 0\n") && !without.contains("a mishap"), "{without}");
    assert_eq!(pool.starts(), 2, "one for both commands, and the direct one");
}

/// Each of two commands at the same time has a process for itself; those that follow start none.
#[tokio::test]
async fn commands_at_the_same_time_have_their_own_processes() {
    let pool = Pool::of(testkit::server().legacy().tool("slow").tool("counter")).await;
    let mut slow = spawn(&pool.context, &["call", "knots", "slow", "ms=60000"]);
    pool.server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    assert!(pool.run(&["call", "knots", "counter"]).starts_with("exit: 0\n"));
    assert_eq!(pool.starts(), 2);
    assert!(pool.run(&["call", "knots", "counter"]).starts_with("exit: 0\n"));
    assert_eq!(pool.starts(), 2);
    slow.kill().await.unwrap();
    pool.wait_until_running(1).await;
}
