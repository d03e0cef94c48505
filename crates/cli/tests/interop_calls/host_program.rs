//! Host programs: how each is set up for a server and a model, and one that runs.

use std::path::Path;
use std::process::Stdio;

use bowline_testkit::{ScriptedModel, ToolOutcome};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::lab::{Lab, LabCall, Target, confine, required_variable};
use crate::limit::within;
use crate::tally::Caller;

/// A host program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostProgram {
    Claude,
    Codex,
    Opencode,
    Qwen,
}

/// A host in the middle of a conversation with a scripted model.
pub(crate) struct RunningHost {
    model: ScriptedModel,
    child: Child,
    log: std::path::PathBuf,
}

impl HostProgram {
    pub(crate) const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Opencode, Self::Qwen];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Opencode => "opencode",
            Self::Qwen => "Qwen Code",
        }
    }

    /// Writes the configuration of one MCP server and of the model, and returns the command that begins a
    /// conversation.
    fn command(self, home: &Path, target: &Target, model: &str) -> Command {
        let write = |path: &str, text: String| {
            let path = home.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        let mut command = match self {
            Self::Qwen => Command::new(required_variable("BOWLINE_NODE")),
            Self::Claude => Command::new(required_variable("BOWLINE_CLAUDE")),
            Self::Codex => Command::new(required_variable("BOWLINE_CODEX")),
            Self::Opencode => Command::new(required_variable("BOWLINE_OPENCODE")),
        };
        confine(&mut command, home);
        match self {
            Self::Claude => {
                let config = json!({"mcpServers": {SERVER: self.server_entry(target)}});
                write("mcp.json", config.to_string());
                command.args(["--print", PROMPT, "--mcp-config", "mcp.json", "--strict-mcp-config"]);
                command.args(["--allowedTools", &format!("mcp__{SERVER}")]);
                command.env("ANTHROPIC_BASE_URL", model).env("ANTHROPIC_API_KEY", "none");
                // The model is offered all tools, and need not search for them.
                command.env("ENABLE_TOOL_SEARCH", "false");
                // A loaded machine starts servers slowly. In milliseconds.
                command.env("MCP_TIMEOUT", "60000");
                command.env("DISABLE_AUTOUPDATER", "1").env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
            }
            Self::Codex => {
                write(".codex/config.toml", codex_config(target, model));
                command.args(["exec", "--skip-git-repo-check", PROMPT]).env("KNOTS_API_KEY", "none");
            }
            Self::Opencode => {
                let options = json!({"baseURL": format!("{model}/v1"), "apiKey": "none"});
                let models =
                    json!({"knots": {"tool_call": true, "limit": {"context": 200_000, "output": 8_000}}});
                let provider =
                    json!({"npm": "@ai-sdk/openai-compatible", "options": options, "models": models});
                let config = json!({
                    "mcp": {SERVER: self.server_entry(target)},
                    "provider": {"knots": provider},
                    "model": "knots/knots",
                    "small_model": "knots/knots",
                    "permission": "allow",
                });
                write("opencode.json", config.to_string());
                command.args(["run", PROMPT]);
                command.env("OPENCODE_DISABLE_AUTOUPDATE", "1").env("OPENCODE_DISABLE_MODELS_FETCH", "1");
            }
            Self::Qwen => {
                let config = json!({
                    "mcpServers": {SERVER: self.server_entry(target)},
                    "security": {"auth": {"selectedType": "openai"}},
                    "privacy": {"usageStatisticsEnabled": false},
                    "general": {"disableAutoUpdate": true},
                });
                write(".qwen/settings.json", config.to_string());
                command.arg(required_variable("BOWLINE_QWEN")).args(["--yolo", "--prompt", PROMPT]);
                command.env("OPENAI_BASE_URL", format!("{model}/v1")).env("OPENAI_API_KEY", "none");
                command.env("OPENAI_MODEL", "knots");
            }
        }
        command
    }

    /// Returns the entry of the server in a configuration that is JSON.
    fn server_entry(self, target: &Target) -> Value {
        let headers = |token: &Option<String>| {
            let header = token.as_ref().map(|token| json!({"Authorization": format!("Bearer {token}")}));
            header.unwrap_or_else(|| json!({}))
        };
        match (self, target) {
            (Self::Opencode, Target::Command { program, args }) => {
                let command = std::iter::once(program).chain(args).collect::<Vec<_>>();
                json!({"type": "local", "command": command, "timeout": 60_000})
            }
            (Self::Opencode, Target::Url { url, token }) => {
                json!({"type": "remote", "url": url, "headers": headers(token), "oauth": false})
            }
            // The model is offered all tools of the server, and need not search for them.
            (Self::Qwen, Target::Command { program, args }) => {
                json!({"command": program, "args": args, "trust": true, "alwaysLoadTools": true})
            }
            (Self::Qwen, Target::Url { url, token }) => {
                json!({"httpUrl": url, "headers": headers(token), "trust": true, "alwaysLoadTools": true})
            }
            (_, Target::Command { program, args }) => json!({"command": program, "args": args}),
            (_, Target::Url { url, token }) => {
                json!({"type": "http", "url": url, "headers": headers(token)})
            }
        }
    }
}

/// Returns the configuration of Codex, which is TOML. JSON texts and lists of texts are valid there too. Codex waits for
/// a server that is required, however long it takes to start; otherwise the first turn can be without its tools.
fn codex_config(target: &Target, model: &str) -> String {
    let server = match target {
        Target::Command { program, args } => {
            format!("command = {}\nargs = {}\n", json!(program), json!(args))
        }
        Target::Url { url, token } => {
            let header = token.as_ref().map(|token| {
                format!("http_headers = {{ Authorization = {} }}\n", json!(format!("Bearer {token}")))
            });
            format!("url = {}\n{}", json!(url), header.unwrap_or_default())
        }
    };
    format!(
        // A loaded machine starts servers slowly.
        "model = 'knots'\nmodel_provider = 'knots'\napproval_policy = 'never'\n\
         sandbox_mode = 'danger-full-access'\ncheck_for_update_on_startup = false\n\
         [analytics]\nenabled = false\n\
         [model_providers.knots]\nname = 'knots'\nbase_url = '{model}/v1'\nwire_api = 'responses'\n\
         env_key = 'KNOTS_API_KEY'\n\
         [mcp_servers.{SERVER}]\nstartup_timeout_sec = 60\nrequired = true\n{server}"
    )
}

impl RunningHost {
    /// Begins a conversation.
    pub(crate) async fn start(host: HostProgram, lab: &Lab, target: &Target) -> Self {
        let model = ScriptedModel::start().await;
        let mut command = host.command(lab.home(), target, &model.origin());
        let log = lab.home().join("host.log");
        let output = std::fs::File::create(&log).expect("a file");
        command.stdout(output.try_clone().expect("a file")).stderr(output);
        let child = command.stdin(Stdio::null()).kill_on_drop(true).spawn().expect("the host starts");
        Self { model, child, log }
    }

    /// Ends the conversation, and waits for the host to end.
    pub(crate) async fn finish(mut self) {
        self.model.finish();
        let status = within("the host ends", self.child.wait()).await.expect("it ends");
        assert!(status.success(), "{status}:\n{}", self.log());
    }

    /// Returns what the host has printed.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Caller for RunningHost {
    async fn call(&mut self, call: &LabCall) -> Result<String, String> {
        let outcome = tokio::select! {
            outcome = self.model.call(call.tool, &call.arguments) => outcome,
            status = self.child.wait() => return Err(format!("the host has ended: {status:?}: {}", self.log())),
        };
        match outcome {
            // Codex puts the time that the tool took before its text.
            ToolOutcome::Result(text) => match text.split_once("\nOutput:") {
                Some((head, text)) if head.starts_with("Wall time:") => Ok(text.to_owned()),
                _ => Ok(text),
            },
            ToolOutcome::Error(text) => Err(text),
            ToolOutcome::NotOffered(tools) => Err(format!("only {tools:?} are offered")),
        }
    }
}

/// The name of the server in the configuration of every host.
const SERVER: &str = "knots";
const PROMPT: &str = "Tie knots.";
