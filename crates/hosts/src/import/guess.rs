//! Guesses the host of a file that a person names.

use std::path::Path;

use crate::host::Host;

/// Guesses whose format a file has: from its name if only one host has such a file, else from its place, else from the
/// keys in it. A folder that is only called like a host says nothing about other files.
pub fn guess_host(path: &Path, text: &str) -> Option<Host> {
    let parts: Vec<String> =
        path.components().map(|part| part.as_os_str().to_string_lossy().to_ascii_lowercase()).collect();
    let ends_with = |place: &&str| parts.ends_with(&place.split('/').map(str::to_owned).collect::<Vec<_>>());
    let known = PLACES.iter().find(|(_, places)| places.iter().any(&ends_with));
    if let Some((host, _)) = known {
        return Some(*host);
    }
    // The folder of a profile has a name that VS Code makes up.
    if let [.., build, user, profiles, _, "mcp.json"] =
        parts.iter().map(String::as_str).collect::<Vec<_>>()[..]
        && matches!(build, "code" | "code - insiders" | "vscodium")
        && (user, profiles) == ("user", "profiles")
    {
        return Some(Host::VsCode);
    }
    let name = parts.last().map(String::as_str).unwrap_or_default();
    let has_key = |key: &str| text.contains(&format!("\"{key}\""));
    match name.rsplit('.').next() {
        Some("toml") => text.contains("mcp_servers").then_some(Host::Codex),
        Some("yaml" | "yml") if text.contains("mcp_servers:") => Some(Host::Hermes),
        Some("yaml" | "yml") => text.contains("extensions:").then_some(Host::Goose),
        _ if has_key("mcpServers") && has_key("httpUrl") => Some(Host::GeminiCli),
        _ if has_key("mcpServers") => Some(Host::ClaudeCode),
        _ if has_key("context_servers") => Some(Host::Zed),
        _ if has_key("servers") => Some(Host::VsCode),
        _ if has_key("mcp") => Some(Host::Opencode),
        _ => None,
    }
}

/// The files that only one host has, by the end of their path in lower case.
const PLACES: [(Host, &[&str]); 14] = [
    (Host::ClaudeCode, &[".mcp.json", ".claude.json", "managed-mcp.json", ".claude-plugin/plugin.json"]),
    (Host::ClaudeDesktop, &["claude_desktop_config.json"]),
    (Host::Opencode, &["opencode.json", "opencode.jsonc", "opencode/config.json"]),
    (Host::Mcporter, &["mcporter.json", "mcporter.jsonc"]),
    (Host::Codex, &[".codex/config.toml"]),
    (Host::Cursor, &[".cursor/mcp.json"]),
    (
        Host::VsCode,
        &[
            ".vscode/mcp.json",
            ".vscode/settings.json",
            "code/user/mcp.json",
            "code/user/settings.json",
            "code - insiders/user/mcp.json",
            "code - insiders/user/settings.json",
            "vscodium/user/mcp.json",
            "vscodium/user/settings.json",
        ],
    ),
    (Host::GeminiCli, &[".gemini/settings.json", "gemini-extension.json"]),
    (Host::QwenCode, &[".qwen/settings.json", "qwen-extension.json"]),
    // The second is that of Windows, as with Hermes.
    (Host::Goose, &["goose/config.yaml", "goose/config/config.yaml"]),
    (Host::Hermes, &[".hermes/config.yaml", "hermes/config.yaml"]),
    (Host::Zed, &["zed/settings.json", ".zed/settings.json"]),
    (Host::Windsurf, &["windsurf/mcp_config.json"]),
    (Host::CopilotCli, &[".copilot/mcp-config.json"]),
];

#[cfg(test)]
mod tests {
    use bowline_config::FixedEnvironment;

    use super::*;
    use crate::locations::host_files;

    #[test]
    fn a_host_is_guessed_by_place_and_by_keys() {
        for (path, text, host) in [
            ("/p/.vscode/mcp.json", "", Some(Host::VsCode)),
            ("/p/.vscode/settings.json", r#"{"mcp": {}}"#, Some(Host::VsCode)),
            ("/p/.cursor/mcp.json", "", Some(Host::Cursor)),
            ("/p/.mcp.json", "", Some(Host::ClaudeCode)),
            ("/p/.claude-plugin/plugin.json", "", Some(Host::ClaudeCode)),
            ("/AppData/Roaming/Block/goose/config/config.yaml", "", Some(Host::Goose)),
            ("/AppData/Local/hermes/config.yaml", "", Some(Host::Hermes)),
            ("/AppData/Roaming/Zed/settings.json", "", Some(Host::Zed)),
            ("/AppData/Roaming/Code/User/mcp.json", "", Some(Host::VsCode)),
            ("/h/VSCodium/User/profiles/-1a/mcp.json", r#"{"mcpServers": {}}"#, Some(Host::VsCode)),
            ("/h/User/profiles/-1a/mcp.json", r#"{"mcpServers": {}}"#, Some(Host::ClaudeCode)),
            ("/h/.gemini/extensions/x/gemini-extension.json", "", Some(Host::GeminiCli)),
            ("/h/.qwen/extensions/x/qwen-extension.json", "", Some(Host::QwenCode)),
            ("x.json", r#"{"mcpServers": {}}"#, Some(Host::ClaudeCode)),
            ("x.json", r#"{"mcpServers": {"a": {"httpUrl": "u"}}}"#, Some(Host::GeminiCli)),
            ("x.json", r#"{"servers": {}}"#, Some(Host::VsCode)),
            ("x.json", r#"{"context_servers": {}}"#, Some(Host::Zed)),
            ("x.json", r#"{"mcp": {}}"#, Some(Host::Opencode)),
            ("x.toml", "[mcp_servers.a]", Some(Host::Codex)),
            ("x.yaml", "extensions: {}", Some(Host::Goose)),
            ("x.yml", "mcp_servers: {}", Some(Host::Hermes)),
            ("x.json", "{}", None),
        ] {
            assert_eq!(guess_host(Path::new(path), text), host, "{path} {text}");
        }
    }

    #[test]
    fn the_name_of_a_file_counts_for_more_than_that_of_a_folder() {
        for (path, host) in [
            ("code/.mcp.json", Host::ClaudeCode),
            ("src/goose/.mcp.json", Host::ClaudeCode),
            ("/p/.cursor/.mcp.json", Host::ClaudeCode),
            ("/windsurf/home/.claude.json", Host::ClaudeCode),
            ("hermes/.claude-plugin/plugin.json", Host::ClaudeCode),
            ("/code/etc/managed-mcp.json", Host::ClaudeCode),
            ("zed/claude_desktop_config.json", Host::ClaudeDesktop),
            ("zed/opencode.json", Host::Opencode),
            ("zed/.opencode/opencode.jsonc", Host::Opencode),
            ("goose/config/mcporter.json", Host::Mcporter),
            ("code/.cursor/mcp.json", Host::Cursor),
            ("zed/.gemini/settings.json", Host::GeminiCli),
            ("code/zed/.qwen/settings.json", Host::QwenCode),
            ("goose/.codex/config.toml", Host::Codex),
            ("windsurf/.vscode/mcp.json", Host::VsCode),
            ("code/.zed/settings.json", Host::Zed),
        ] {
            assert_eq!(guess_host(Path::new(path), ""), Some(host), "{path}");
        }
    }

    #[test]
    fn a_folder_that_is_called_like_a_host_says_nothing() {
        for folder in ["code", "goose", "zed", "hermes", "windsurf", "vscodium", ".cursor", ".gemini"] {
            for (name, text, host) in [
                ("mine.json", r#"{"mcpServers": {}}"#, Some(Host::ClaudeCode)),
                ("x/mine.json", r#"{"context_servers": {}}"#, Some(Host::Zed)),
                ("x/settings.json", r#"{"mcp": {}}"#, Some(Host::Opencode)),
                ("x/config.yaml", "extensions: {}", Some(Host::Goose)),
                ("x/config.yaml", "mcp_servers: {}", Some(Host::Hermes)),
                ("package.json", "{}", None),
            ] {
                let path = Path::new(folder).join(name);
                assert_eq!(guess_host(&path, text), host, "{} {text}", path.display());
            }
        }
    }

    /// Whatever is in it, and whatever the folders above it are called.
    #[test]
    #[cfg(unix)]
    fn the_files_of_each_host_are_told_by_their_place() {
        let env = FixedEnvironment::default().with_var("HOME", "/code/goose/zed/hermes/windsurf");
        let files = host_files(&env, Some(Path::new("/code/goose/zed/hermes/windsurf/p")));
        for host in Host::ALL {
            assert!(files.iter().any(|file| file.host == host), "{host:?}");
        }
        for file in files {
            assert_eq!(guess_host(&file.path, ""), Some(file.host), "{}", file.path.display());
        }
    }
}
