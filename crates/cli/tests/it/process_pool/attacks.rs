//! Processes that say what nobody asked for, and programs that want what is not theirs.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;

use super::*;

const COUNTER: [&str; 3] = ["call", "knots", "counter"];

fn counted(count: usize) -> String {
    format!("exit: 0\n--- stdout\n{count}\n--- stderr\n---")
}

/// What a server writes between two commands is for neither: late responses, requests, changes and plain text.
#[tokio::test]
async fn what_a_server_says_between_commands_is_not_seen_by_the_next() {
    let pool = Pool::of(testkit::server().legacy().tool("counter")).await;
    assert_eq!(pool.run(&COUNTER), counted(1));
    let late = (0..20).map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#));
    let lines: Vec<_> = late.chain([r#"{"jsonrpc":"2.0","id":"q","method":"ping"}"#.to_owned()]).collect();
    pool.server.write_stdout(format!("{}\nplain text\n", lines.join("\n")));
    pool.server.write_stderr("between commands\n");
    // The answer to the request means that all of it was read.
    pool.server.wait_for(|received| received.body["id"] == json!("q"), TEST_TIMEOUT).await;
    assert_eq!(pool.server.announce_tools(), 1);
    assert_eq!(pool.run(&COUNTER), counted(2));
    assert_eq!((pool.starts(), pool.running(), pool.server.initialize_count()), (1, 1, 1));
}

/// A server that asks while no command uses it is told that there is no client, which it may remember: no other command
/// gets it.
#[tokio::test]
async fn a_server_that_asked_between_commands_is_not_used_again() {
    let pool = Pool::of(testkit::server().legacy().tool("counter")).await;
    assert_eq!(pool.run(&COUNTER), counted(1));
    pool.server.write_stdout("{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}\n");
    let answer = pool.server.wait_for(|received| received.body["id"] == json!("q"), TEST_TIMEOUT).await;
    assert_eq!(answer.body["error"]["code"], json!(-32603));
    assert!(pool.run(&COUNTER).starts_with("exit: 0\n"));
    assert_eq!((pool.starts(), pool.server.initialize_count()), (2, 2));
    pool.wait_until_running(1).await;
}

/// A list that changed between two commands is the new one for the second.
#[tokio::test]
async fn a_list_is_asked_for_by_each_command() {
    for script in both_eras(|| testkit::server().tool("counter")) {
        let pool = Pool::of(script).await;
        for asked in 1..=2 {
            assert!(pool.run(&["tools", "knots"]).starts_with("exit: 0\n"));
            assert_eq!(pool.server.count("tools/list"), asked);
            pool.server.announce_tools();
        }
        assert_eq!(pool.starts(), 1);
    }
}

/// Two commands at once that find one process get one each, and neither sees the result of the other.
#[tokio::test]
async fn commands_at_once_get_their_own_results() {
    let pool = Pool::of(testkit::server().legacy().tool("echo")).await;
    pool.run(&["call", "knots", "echo"]);
    let children: Vec<_> = (0..6)
        .map(|number| {
            let mut command = pool.context.bowline(["call", "knots", "echo", &format!("n={number}")]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bowline starts")
        })
        .collect();
    for (number, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        assert_eq!(text.trim(), format!(r#"{{"n":"{number}"}}"#));
    }
    assert_eq!(pool.server.executions("echo"), 7);
    assert_eq!(pool.server.violations(), Vec::<String>::new());
}

/// A program that speaks nonsense on the socket gets nothing, and is in nobody's way.
#[tokio::test]
async fn nonsense_on_the_socket_starts_nothing() {
    let pool = Pool::of(testkit::server().legacy().tool("counter")).await;
    let [socket] = &*pool.sockets() else { panic!("one socket") };
    let wrong_key = json!({"key": "0".repeat(64), "folder": "/", "files": "", "roots": ""}).to_string();
    for line in ["", "hello", "{}", "[]", r#"{"key":1}"#, &wrong_key] {
        let mut stream = UnixStream::connect(socket).expect("it listens");
        stream.write_all(format!("{line}\n").as_bytes()).expect("it reads");
        stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("text");
        assert!(!reply.contains("true"), "{line}: {reply}");
    }
    // One that says nothing at all stays connected meanwhile.
    let _silent = UnixStream::connect(socket).expect("it listens");
    assert_eq!(pool.starts(), 0);
    assert_eq!(pool.run(&COUNTER), counted(1));
    assert_eq!(pool.starts(), 1);
}

/// Another user can connect neither as the files are, nor if somebody has opened them to all.
#[tokio::test]
async fn another_user_gets_no_process() {
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let pool = Pool::of(testkit::server().legacy().tool("counter")).await;
    let [socket] = &*pool.sockets() else { panic!("one socket") };
    let folder = socket.parent().expect("a folder");
    assert_eq!(folder.metadata().expect("a folder").permissions().mode() & 0o777, 0o700);
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ntry:\n s.connect(sys.argv[1])\nexcept PermissionError:\n \
                  print('refused');sys.exit()\ntry:\n s.sendall(b'{}\\n')\n print(len(s.recv(99)))\nexcept OSError:\n print(0)\n";
    let connect = || {
        let mut command = std::process::Command::new("python3");
        let output = command.args(["-c", script]).arg(socket).uid(NOBODY).current_dir("/").output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Ok(closed) = connect() else { return };
    assert_eq!(closed, "refused");
    for opened in socket.ancestors().skip(1).filter(|folder| folder.starts_with(pool.context.path(""))) {
        std::fs::set_permissions(opened, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let open = connect().expect("it has run before");
    assert_eq!(open, "0", "it can connect, and gets no byte");
    assert_eq!(pool.starts(), 0);
}

/// A prompt keeps its own process, and `doctor` and `logs` look at one that they start.
#[tokio::test]
async fn verbs_with_a_process_of_their_own_leave_the_pool_alone() {
    let pool = Pool::of(testkit::server().legacy().tool("counter")).await;
    assert_eq!(pool.run(&COUNTER), counted(1));
    let [kept] = &*pool.server.processes() else { panic!("one process") };
    let prompt = pool.context.bowline(["repl", "knots"]);
    let shown = pool.context.run_with_input(prompt, "counter\ncounter\n");
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    assert_eq!(pool.starts(), 2, "one for both lines of the prompt");
    pool.run(&["doctor", "knots"]);
    assert!(pool.starts() > 2);
    pool.wait_until_running(1).await;
    let running: Vec<_> =
        pool.server.processes().iter().filter(|it| it.is_running()).map(|it| it.pid).collect();
    assert_eq!(running, [kept.pid]);
}
