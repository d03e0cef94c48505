//! [`HostEntry`]: the entry of one server, in the shape that a host expects; and whether an entry
//! starts bowline.

use serde_json::{Value, json};

use crate::host::Host;

/// A command that starts a server on stdin and stdout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCommand {
    /// The program: a name that is found on `PATH`, or an absolute path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// The entry of one server, as a host expects it: its keys in the order in which they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostEntry {
    pub(crate) fields: Vec<(&'static str, FieldValue)>,
}

/// The value of a key of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldValue {
    Text(String),
    List(Vec<String>),
    Flag(bool),
    Number(u32),
}

/// How the file of a host names its servers, where a host has had more than one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The usual one.
    Usual,
    /// opencode: `mcp.servers`, with `disabled` in place of `enabled`.
    OpencodeServers,
}

/// How long goose waits for a call, in seconds. Its own default is the same.
const GOOSE_TIMEOUT: u32 = 300;

impl HostEntry {
    /// Builds the entry named `name` that starts `command`.
    pub(crate) fn new(host: Host, layout: Layout, name: &str, command: &ServerCommand) -> Self {
        let program = || FieldValue::Text(command.program.clone());
        let args = || FieldValue::List(command.args.clone());
        let text = |text: &str| FieldValue::Text(text.to_owned());
        let fields = match host {
            Host::ClaudeCode | Host::VsCode => {
                vec![("type", text("stdio")), ("command", program()), ("args", args())]
            }
            Host::Opencode => {
                let mut words = vec![command.program.clone()];
                words.extend(command.args.iter().cloned());
                let mut fields = vec![("type", text("local")), ("command", FieldValue::List(words))];
                if layout == Layout::Usual {
                    fields.push(("enabled", FieldValue::Flag(true)));
                }
                fields
            }
            // Copilot CLI offers only the tools that are listed.
            Host::CopilotCli => vec![
                ("type", text("local")),
                ("command", program()),
                ("args", args()),
                ("tools", FieldValue::List(vec!["*".to_owned()])),
            ],
            Host::Goose => vec![
                ("enabled", FieldValue::Flag(true)),
                ("type", text("stdio")),
                ("name", text(name)),
                ("description", text("MCP servers, through bowline")),
                ("cmd", program()),
                ("args", args()),
                ("timeout", FieldValue::Number(GOOSE_TIMEOUT)),
            ],
            Host::ClaudeDesktop
            | Host::Codex
            | Host::Cursor
            | Host::GeminiCli
            | Host::QwenCode
            | Host::Hermes
            | Host::Zed
            | Host::Windsurf
            | Host::Mcporter => vec![("command", program()), ("args", args())],
        };
        Self { fields }
    }

    /// The entry as it is read back from a file.
    pub(crate) fn to_value(&self) -> Value {
        let fields = self.fields.iter().map(|(key, value)| {
            let value = match value {
                FieldValue::Text(text) => json!(text),
                FieldValue::List(texts) => json!(texts),
                FieldValue::Flag(flag) => json!(flag),
                FieldValue::Number(number) => json!(number),
            };
            ((*key).to_owned(), value)
        });
        Value::Object(fields.collect())
    }
}

/// Whether an entry of a host starts bowline for that host: `bowline serve --stdio` or
/// `bowline connect`, by whatever path or package runner.
pub fn starts_bowline(entry: &Value) -> bool {
    let words = command_words(entry);
    let Some(at) = words.iter().position(|word| PROGRAM_NAMES.contains(&file_stem(word))) else {
        return false;
    };
    if !words[..at].iter().all(|word| LAUNCHER_WORDS.contains(&file_stem(word))) {
        return false;
    }
    let args = &words[at + 1..];
    let has = |wanted: &str| args.contains(&wanted);
    has("connect") || (has("serve") && has("--stdio"))
}

/// What may come before `bowline` in a command that runs it from a package.
const LAUNCHER_WORDS: [&str; 8] = ["npx", "-y", "--yes", "cmd", "/c", "c", "uvx", "--from"];
/// What the program is called in packages.
const PROGRAM_NAMES: [&str; 2] = ["bowline", "bowline-mcp"];

/// The command of an entry, in the shape of any host: `command` with `args`, `command` as a list, or
/// goose's `cmd`.
fn command_words(entry: &Value) -> Vec<&str> {
    fn texts(value: &Value) -> Vec<&str> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }
    let program = entry.get("command").or_else(|| entry.get("cmd"));
    let mut words = match program {
        Some(Value::String(program)) => vec![program.as_str()],
        Some(Value::Array(_)) => program.map(texts).unwrap_or_default(),
        _ => Vec::new(),
    };
    words.extend(entry.get("args").map(texts).unwrap_or_default());
    words
}

/// The last part of a path of any system, without `.exe` or `.cmd`.
fn file_stem(word: &str) -> &str {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    name.strip_suffix(".exe").or_else(|| name.strip_suffix(".cmd")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_start_bowline_are_recognized() {
        for (entry, ours) in [
            (json!({"command": "bowline", "args": ["serve", "--stdio"]}), true),
            (json!({"command": "/opt/bin/bowline", "args": ["connect", "docs"]}), true),
            (json!({"command": r"C:\bin\bowline.exe", "args": ["serve", "--stdio", "--view", "a"]}), true),
            (json!({"type": "local", "command": ["npx", "-y", "bowline", "serve", "--stdio"]}), true),
            (json!({"command": "cmd", "args": ["/c", "npx", "-y", "bowline", "serve", "--stdio"]}), true),
            (
                json!({"command": "uvx", "args": ["--from", "bowline-mcp", "bowline", "serve", "--stdio"]}),
                true,
            ),
            (json!({"command": "uvx", "args": ["bowline-mcp", "connect", "https://example.com/mcp"]}), true),
            (json!({"cmd": "bowline", "args": ["serve", "--stdio"]}), true),
            (json!({"command": "bowline", "args": ["serve"]}), false),
            (json!({"command": "bowline", "args": ["tools"]}), false),
            (json!({"command": "mcp-server", "args": ["/src/bowline", "serve", "--stdio"]}), false),
            (json!({"url": "http://127.0.0.1:7355/mcp"}), false),
            (json!("bowline"), false),
            (json!(null), false),
        ] {
            assert_eq!(starts_bowline(&entry), ours, "{entry}");
        }
    }

    #[test]
    fn every_host_reads_back_what_starts_bowline() {
        let args = ["serve", "--stdio"].map(String::from).to_vec();
        let command = ServerCommand { program: "bowline".into(), args };
        for host in Host::ALL {
            for layout in [Layout::Usual, Layout::OpencodeServers] {
                let entry = HostEntry::new(host, layout, "bowline", &command);
                assert!(starts_bowline(&entry.to_value()), "{}", host.id());
            }
        }
    }
}
