//! Clients of SDKs: scripts that read calls from stdin and print what came of each.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::lab::{Lab, LabCall, Target, confine, required_variable};
use crate::limit::within;
use crate::tally::Caller;

/// A library that clients are made with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sdk {
    TypeScript1,
    TypeScript2,
    Python1,
    Python2,
    FastMcp,
}

/// A running script.
pub(crate) struct ScriptClient {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// The revision that was negotiated, if the library tells.
    pub(crate) revision: Option<String>,
    pub(crate) tools: Vec<String>,
}

impl Sdk {
    pub(crate) const ALL: [Self; 5] =
        [Self::TypeScript1, Self::TypeScript2, Self::Python1, Self::Python2, Self::FastMcp];

    fn command(self) -> Command {
        let script = |name: &str| format!("{}/tests/interop_calls/{name}", env!("CARGO_MANIFEST_DIR"));
        let node = |generation: &str| {
            let mut command = Command::new(required_variable("BOWLINE_NODE"));
            command.args([&script("typescript.mjs"), generation]).arg(required_variable("BOWLINE_CLIENTS"));
            command
        };
        let python = |variable: &str, library: &str| {
            let mut command = Command::new(required_variable(variable));
            command.args([&script("python.py"), library]);
            command
        };
        match self {
            Self::TypeScript1 => node("1"),
            Self::TypeScript2 => node("2"),
            Self::Python1 => python("BOWLINE_PYTHON_SDK_1", "1"),
            Self::Python2 => python("BOWLINE_FASTMCP_PYTHON", "2"),
            Self::FastMcp => python("BOWLINE_FASTMCP_PYTHON", "fastmcp"),
        }
    }
}

impl ScriptClient {
    /// Starts the script, and waits until it is connected and has listed the tools.
    pub(crate) async fn start(sdk: Sdk, lab: &Lab, target: &Target) -> Self {
        let mut command = sdk.command();
        confine(&mut command, lab.home());
        let target = match target {
            Target::Command { program, args } => json!({ "command": program, "args": args }),
            Target::Url { url, token } => {
                let headers = token.as_ref().map(|token| json!({"Authorization": format!("Bearer {token}")}));
                json!({ "url": url, "headers": headers.unwrap_or_else(|| json!({})) })
            }
        };
        command.arg(target.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the client starts");
        let stdin = child.stdin.take().expect("piped");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut client = Self { child, stdin, lines, revision: None, tools: Vec::new() };
        let hello = within("the client connects", client.next_line()).await;
        client.revision = hello["revision"].as_str().map(str::to_owned);
        client.tools = serde_json::from_value(hello["tools"].clone()).expect("names");
        client
    }

    /// Ends the client, which closes its connection.
    pub(crate) async fn close(mut self) {
        drop(self.stdin);
        let status = within("the client ends", self.child.wait()).await.expect("it ends");
        assert!(status.success(), "{status}");
    }

    async fn next_line(&mut self) -> Value {
        let line = self.lines.next_line().await.expect("text").expect("the client still runs");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"))
    }
}

impl Caller for ScriptClient {
    async fn call(&mut self, call: &LabCall) -> Result<String, String> {
        let line = json!({ "tool": call.tool, "arguments": call.arguments });
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.expect("it reads");
        let outcome = self.next_line().await;
        match outcome["text"].as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(outcome["error"].to_string()),
        }
    }
}
