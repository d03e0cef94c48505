//! The command line of MCP Inspector: a process for each call.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use crate::lab::{Lab, LabCall, Target, confine, required_variable};
use crate::tally::Caller;

/// How MCP Inspector is started.
pub(crate) struct Inspector {
    home: PathBuf,
    target: Target,
}

impl Inspector {
    pub(crate) fn new(lab: &Lab, target: Target) -> Self {
        Self { home: lab.home().to_owned(), target }
    }
}

impl Caller for Inspector {
    async fn call(&mut self, call: &LabCall) -> Result<String, String> {
        let mut command = Command::new(required_variable("BOWLINE_NODE"));
        confine(&mut command, &self.home);
        let script = Path::new(&required_variable("BOWLINE_CLIENTS"))
            .join("@modelcontextprotocol/inspector/clients/launcher/build/index.js");
        command.arg(script).arg("--cli");
        match &self.target {
            Target::Command { program, args } => {
                command.arg(program).args(args);
            }
            Target::Url { url, token } => {
                command.args(["--transport", "http", "--server-url", url]);
                if let Some(token) = token {
                    command.args(["--header", &format!("Authorization: Bearer {token}")]);
                }
            }
        }
        command.args(["--method", "tools/call", "--tool-name", call.tool]);
        for (name, value) in call.arguments.as_object().into_iter().flatten() {
            let value = value.as_str().expect("the calls have texts");
            command.args(["--tool-arg", &format!("{name}={value}")]);
        }
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output().await.expect("it starts");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let result: Value = serde_json::from_str(&stdout).unwrap_or_default();
        match result["content"][0]["text"].as_str() {
            Some(text) if output.status.success() => Ok(text.to_owned()),
            _ => Err(format!("{}: {stdout}{}", output.status, String::from_utf8_lossy(&output.stderr))),
        }
    }
}
