//! [`Host`]: the programs whose configuration files are known.

/// A program that uses MCP servers and has a configuration file for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// opencode.
    Opencode,
    /// Codex.
    Codex,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    VsCode,
    /// Gemini CLI.
    GeminiCli,
    /// Qwen Code, which has the format of Gemini CLI.
    QwenCode,
    /// goose.
    Goose,
    /// Hermes.
    Hermes,
    /// Zed.
    Zed,
    /// Windsurf.
    Windsurf,
    /// Copilot CLI.
    CopilotCli,
    /// mcporter.
    Mcporter,
}

/// The syntax of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// JSON, in which comments and trailing commas are accepted.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

impl Host {
    /// All hosts, in the order in which they are shown.
    pub const ALL: [Self; 14] = [
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Opencode,
        Self::Codex,
        Self::Cursor,
        Self::VsCode,
        Self::GeminiCli,
        Self::QwenCode,
        Self::Goose,
        Self::Hermes,
        Self::Zed,
        Self::Windsurf,
        Self::CopilotCli,
        Self::Mcporter,
    ];

    /// The name of the host on the command line.
    pub fn id(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Opencode => "opencode",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::GeminiCli => "gemini",
            Self::QwenCode => "qwen",
            Self::Goose => "goose",
            Self::Hermes => "hermes",
            Self::Zed => "zed",
            Self::Windsurf => "windsurf",
            Self::CopilotCli => "copilot",
            Self::Mcporter => "mcporter",
        }
    }

    /// The name of the host for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Opencode => "opencode",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::GeminiCli => "Gemini CLI",
            Self::QwenCode => "Qwen Code",
            Self::Goose => "goose",
            Self::Hermes => "Hermes",
            Self::Zed => "Zed",
            Self::Windsurf => "Windsurf",
            Self::CopilotCli => "Copilot CLI",
            Self::Mcporter => "mcporter",
        }
    }

    /// Finds a host by its name on the command line.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.id() == id)
    }

    /// The syntax of its configuration files.
    pub fn file_format(self) -> FileFormat {
        match self {
            Self::Codex => FileFormat::Toml,
            Self::Goose | Self::Hermes => FileFormat::Yaml,
            _ => FileFormat::Json,
        }
    }
}
