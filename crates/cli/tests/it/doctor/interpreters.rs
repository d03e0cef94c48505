//! The version of what runs a server: which programs are run for it, and within which bounds.

use std::fmt::Write as _;

use bowline_testkit::{self as testkit, StdioServer};

use super::Examined;
use crate::context::Context;

/// An interpreter of a test, which runs a scripted server whatever it is given.
struct TestInterpreter {
    context: Context,
    server: StdioServer,
}

impl TestInterpreter {
    /// Makes a program with this name, which runs `on_version` in a shell if it is asked for its version.
    async fn new(name: &str, on_version: &str) -> Self {
        let context = Context::new();
        let server = testkit::server().legacy().tool("echo").stdio().await;
        std::fs::create_dir(context.path("home/bin")).unwrap();
        let program = server.command().program;
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then\n{on_version}\nfi\nexec '{}'\n",
            program.display()
        );
        let interpreter = Self { context, server };
        interpreter.write_program(&format!("home/bin/{name}"), &script);
        interpreter
    }

    fn write_program(&self, path: &str, text: &str) {
        self.context.write(path, text);
        self.context.set_mode(path, 0o755);
    }

    /// Configures `rope` with this command. Programs of `home/bin` are on its PATH.
    fn entry(&self, command: &str) -> String {
        let mut env = String::new();
        for (name, value) in self.server.command().env {
            write!(env, "{name} = '{value}', ").unwrap();
        }
        let path = self.context.path("home/bin");
        format!(
            "[servers.rope]\ncommand = '{command}'\nargs = ['server.js']\nenv = {{ {env}PATH = '{}:/usr/bin:/bin' }}\n",
            path.display()
        )
    }

    /// Examines `rope` with this command. It works, whatever the version is.
    async fn examine(&self, command: &str) -> String {
        self.context.user_config(&self.entry(command));
        let examined = Examined::of(&self.context, &["rope"]);
        assert_eq!(examined.verdict(), "exit 0");
        self.server.expect_all_exited().await;
        self.context.hide_paths(examined.check("program")["seen"].as_str().unwrap())
    }
}

#[tokio::test]
async fn version_of_an_interpreter_is_shown() {
    for name in ["node", "python3", "python3.12", "uvx"] {
        let interpreter = TestInterpreter::new(name, "echo v99.1.0; exit").await;
        assert_eq!(
            interpreter.examine(name).await,
            format!("[TMP]/home/bin/{name} (v99.1.0), a script for /bin/sh")
        );
    }
}

/// A launcher that is a script has two versions: its own, and that of its interpreter.
#[tokio::test]
async fn versions_of_a_script_and_its_interpreter_are_shown() {
    let node = TestInterpreter::new("node", "[ $# -gt 1 ] && exit 1; echo v99.1.0; exit").await;
    node.write_program("home/bin/server", "#!/usr/bin/env node\n");
    let shown = node.examine("server").await;
    assert_eq!(shown, "[TMP]/home/bin/server, a script for [TMP]/home/bin/node (v99.1.0)");
    let npx = "#!/bin/sh\n[ \"$1\" = --version ] && echo 10.1 && exit\nexec node \"$@\"\n";
    node.write_program("home/bin/npx", npx);
    assert_eq!(node.examine("npx").await, "[TMP]/home/bin/npx (10.1), a script for /bin/sh");
}

/// A version manager without a version fails, and the server may work all the same.
#[tokio::test]
async fn version_of_a_program_that_fails_is_left_out() {
    let node = TestInterpreter::new("node", "echo no version is set; exit 126").await;
    assert_eq!(node.examine("node").await, "[TMP]/home/bin/node, a script for /bin/sh");
}

/// It is killed, with what it started.
#[tokio::test]
async fn program_that_prints_no_version_in_time_is_killed() {
    for endless in ["sleep 1000", "while :; do echo v1; done"] {
        let node = TestInterpreter::new("node", &format!("echo $$ >>'started'; {endless}")).await;
        assert_eq!(node.examine("node").await, "[TMP]/home/bin/node, a script for /bin/sh", "{endless}");
        let ids = std::fs::read_to_string(node.context.path("project/below/started")).unwrap();
        let id: u32 = ids.trim().parse().expect("it was started once");
        assert!(testkit::wait_for_exit(id, std::time::Duration::from_secs(10)).await, "{endless}");
    }
}

#[tokio::test]
async fn long_version_is_cut() {
    let long = "x".repeat(100_000);
    let node = TestInterpreter::new("node", &format!("echo {long}; exit")).await;
    assert_eq!(
        node.examine("node").await,
        format!("[TMP]/home/bin/node ({}), a script for /bin/sh", &long[..60])
    );
}

/// Another program may be the server itself, which would start.
#[tokio::test]
async fn other_programs_are_not_asked_for_a_version() {
    let server = TestInterpreter::new("rope-server", "touch started; echo v1; exit").await;
    assert_eq!(server.examine("rope-server").await, "[TMP]/home/bin/rope-server, a script for /bin/sh");
    assert!(!server.context.path("project/below/started").exists());
}

#[tokio::test]
async fn interpreter_of_an_untrusted_project_is_not_run() {
    let node = TestInterpreter::new("node", "touch started; echo v1; exit").await;
    node.context.project_config(&node.entry("node"));
    let examined = Examined::of(&node.context, &["rope"]);
    assert_eq!((examined.code, examined.status("configuration")), (2, "failed"));
    assert!(!node.context.path("project/below/started").exists());
    assert!(!node.context.path("project/started").exists());
    assert_eq!(node.server.processes().len(), 0);
    // Precondition: a trusted one is.
    node.context.trust_project();
    assert_eq!(Examined::of(&node.context, &["rope"]).verdict(), "exit 0");
    assert!(node.context.path("project/started").exists());
}
