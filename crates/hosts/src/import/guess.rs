//! Guesses the host of a file that a person names.

use std::path::Path;

use crate::host::Host;

/// Guesses whose format a file has, from its place, its name and the keys in it.
pub fn guess_host(path: &Path, text: &str) -> Option<Host> {
    let parts: Vec<String> =
        path.components().map(|part| part.as_os_str().to_string_lossy().to_ascii_lowercase()).collect();
    let is_in = |folder: &str| parts.iter().any(|part| part == folder);
    let name = parts.last().map(String::as_str).unwrap_or_default();
    let by_place = [
        (Host::Cursor, is_in(".cursor")),
        (Host::VsCode, is_in(".vscode") || is_in("code") || is_in("vscodium")),
        (Host::GeminiCli, is_in(".gemini")),
        (Host::QwenCode, is_in(".qwen")),
        (Host::Codex, is_in(".codex")),
        (Host::Windsurf, is_in("windsurf")),
        (Host::CopilotCli, is_in(".copilot")),
        (Host::Goose, is_in("goose")),
        (Host::Hermes, is_in(".hermes") || is_in("hermes")),
        (Host::Zed, is_in("zed") || is_in(".zed")),
        (Host::ClaudeDesktop, name == "claude_desktop_config.json"),
        (Host::ClaudeCode, matches!(name, ".mcp.json" | ".claude.json" | "managed-mcp.json")),
        (Host::Opencode, matches!(name, "opencode.json" | "opencode.jsonc")),
        (Host::Mcporter, matches!(name, "mcporter.json" | "mcporter.jsonc")),
    ];
    if let Some((host, _)) = by_place.into_iter().find(|(_, is_there)| *is_there) {
        return Some(host);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_guessed_by_place_and_by_keys() {
        for (path, text, host) in [
            ("/p/.vscode/mcp.json", "", Some(Host::VsCode)),
            ("/p/.cursor/mcp.json", "", Some(Host::Cursor)),
            ("/p/.mcp.json", "", Some(Host::ClaudeCode)),
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
}
