//! Where the configuration files of hosts are on this machine.

use std::path::{Path, PathBuf};

use bowline_config::Environment;
use bowline_settings::{home_folder, non_empty_var, variable};

use crate::host::Host;

/// A place where a host looks for its servers. There need not be a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFile {
    /// The host that reads it.
    pub host: Host,
    /// For whom the file is.
    pub scope: Scope,
    /// Its absolute path.
    pub path: PathBuf,
}

/// For whom a configuration file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// For everything that the user does.
    User,
    /// For one project.
    Project,
    /// For all users of the machine, by an administrator.
    Managed,
}

/// Lists where hosts look for their servers: their own files first, in the order of [`Host::ALL`],
/// and those of the project in `project` where the host has any.
///
/// A host that reads one of several files has an entry for each, the one it prefers first.
pub fn host_files(env: &dyn Environment, project: Option<&Path>) -> Vec<HostFile> {
    host_files_on(Platform::CURRENT, env, project)
}

fn host_files_on(platform: Platform, env: &dyn Environment, project: Option<&Path>) -> Vec<HostFile> {
    let folders = Folders::of(platform, env);
    let mut files = Vec::new();
    for host in Host::ALL {
        let of_user = folders.iter().flat_map(|folders| user_paths(host, folders, env));
        files.extend(of_user.map(|path| HostFile { host, scope: Scope::User, path }));
        if host == Host::ClaudeCode {
            files.push(HostFile {
                host,
                scope: Scope::Managed,
                path: platform.claude_managed_folder().join("managed-mcp.json"),
            });
        }
        let of_project = project.into_iter().flat_map(|folder| project_paths(host, folder));
        files.extend(of_project.map(|path| HostFile { host, scope: Scope::Project, path }));
    }
    files
}

/// Lists the files in which the profiles of VS Code have their servers. A profile is a folder with a name that VS Code
/// makes up, so the folders are looked for on the disk.
///
/// They are not among [`host_files`]: nothing there says which profile is in use, so that an entry of bowline is
/// written to the file of the default one.
pub fn profile_files(env: &dyn Environment) -> Vec<HostFile> {
    let Some(folders) = Folders::of(Platform::CURRENT, env) else { return Vec::new() };
    let profiles = vscode_folders(&folders).map(|user| user.join("profiles"));
    let mut paths: Vec<PathBuf> = profiles
        .into_iter()
        .filter_map(|profiles| std::fs::read_dir(profiles).ok())
        .flat_map(|entries| entries.filter_map(Result::ok).map(|entry| entry.path().join("mcp.json")))
        .collect();
    paths.sort();
    let file = |path| HostFile { host: Host::VsCode, scope: Scope::User, path };
    paths.into_iter().map(file).collect()
}

/// The folders in which the builds of VS Code have the files of the user.
fn vscode_folders(folders: &Folders) -> [PathBuf; 3] {
    ["Code", "Code - Insiders", "VSCodium"].map(|build| folders.applications.join(build).join("User"))
}

/// A system on which hosts have their files in places of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Platform {
    /// Linux, and what is like it.
    Linux,
    MacOs,
    Windows,
}

/// The folders below which hosts have their files.
struct Folders {
    platform: Platform,
    home: PathBuf,
    /// Where command line programs have their configuration: `~/.config`, also on macOS.
    config: PathBuf,
    /// Where applications with windows have theirs.
    applications: PathBuf,
    /// `%LOCALAPPDATA%` on Windows; the home folder elsewhere.
    local: PathBuf,
}

impl Platform {
    const CURRENT: Self = if cfg!(target_os = "macos") {
        Self::MacOs
    } else if cfg!(windows) {
        Self::Windows
    } else {
        Self::Linux
    };

    /// Where administrators have their files for Claude Code.
    fn claude_managed_folder(self) -> &'static Path {
        Path::new(match self {
            Self::Linux => "/etc/claude-code",
            Self::MacOs => "/Library/Application Support/ClaudeCode",
            Self::Windows => r"C:\Program Files\ClaudeCode",
        })
    }
}

impl Folders {
    fn of(platform: Platform, env: &dyn Environment) -> Option<Self> {
        let home = home_folder(env)?;
        let given = |name| absolute_var(env, name);
        let config = given(variable::XDG_CONFIG_HOME).unwrap_or_else(|| home.join(".config"));
        let roaming = || given(variable::APPDATA).unwrap_or_else(|| home.join("AppData").join("Roaming"));
        let (applications, local) = match platform {
            Platform::Windows => {
                let local =
                    given(variable::LOCALAPPDATA).unwrap_or_else(|| home.join("AppData").join("Local"));
                (roaming(), local)
            }
            Platform::MacOs => (home.join("Library").join("Application Support"), home.clone()),
            Platform::Linux => (config.clone(), home.clone()),
        };
        Some(Self { platform, home, config, applications, local })
    }
}

fn absolute_var(env: &dyn Environment, name: &str) -> Option<PathBuf> {
    non_empty_var(env, name).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn user_paths(host: Host, folders: &Folders, env: &dyn Environment) -> Vec<PathBuf> {
    let Folders { platform, home, config, applications, local } = folders;
    let is_windows = *platform == Platform::Windows;
    let in_home = |path: &str| vec![home.join(path)];
    match host {
        Host::ClaudeCode => {
            let folder = absolute_var(env, CLAUDE_FOLDER).unwrap_or_else(|| home.clone());
            vec![folder.join(".claude.json")]
        }
        Host::ClaudeDesktop => vec![applications.join("Claude").join("claude_desktop_config.json")],
        Host::Opencode => {
            let folder = config.join("opencode");
            let given = absolute_var(env, "OPENCODE_CONFIG").into_iter();
            let names = ["opencode.json", "opencode.jsonc", "config.json"];
            given.chain(names.map(|name| folder.join(name))).collect()
        }
        Host::Codex => {
            let folder = absolute_var(env, "CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
            vec![folder.join("config.toml")]
        }
        Host::Cursor => in_home(".cursor/mcp.json"),
        Host::VsCode => vscode_folders(folders).map(|user| user.join("mcp.json")).to_vec(),
        Host::GeminiCli => in_home(".gemini/settings.json"),
        Host::QwenCode => in_home(".qwen/settings.json"),
        Host::Goose => {
            let windows = || applications.join("Block").join("goose").join("config");
            let folder = if is_windows { windows() } else { config.join("goose") };
            vec![folder.join("config.yaml")]
        }
        Host::Hermes => {
            let folder = if is_windows { local.join("hermes") } else { home.join(".hermes") };
            vec![folder.join("config.yaml")]
        }
        Host::Zed => {
            let folder = if is_windows { applications.join("Zed") } else { config.join("zed") };
            vec![folder.join("settings.json")]
        }
        Host::Windsurf => in_home(".codeium/windsurf/mcp_config.json"),
        Host::CopilotCli => in_home(".copilot/mcp-config.json"),
        Host::Mcporter => {
            let folder = home.join(".mcporter");
            ["mcporter.json", "mcporter.jsonc"].map(|name| folder.join(name)).to_vec()
        }
    }
}

/// The variable that moves the files of Claude Code.
const CLAUDE_FOLDER: &str = "CLAUDE_CONFIG_DIR";

/// Where Claude Code says which servers it does not use. There need not be a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaudeFiles {
    /// Its settings: those of the machine, of the user, and of the project if there is one.
    pub settings: Vec<PathBuf>,
    /// What it remembers of projects.
    pub state: Option<PathBuf>,
}

impl ClaudeFiles {
    /// Lists the files that count in a project, or outside of any.
    pub fn of(env: &dyn Environment, project: Option<&Path>) -> Self {
        let mut settings = vec![Platform::CURRENT.claude_managed_folder().join("managed-settings.json")];
        let home = home_folder(env);
        let given = absolute_var(env, CLAUDE_FOLDER);
        let folder = given.clone().or_else(|| home.as_ref().map(|home| home.join(".claude")));
        settings.extend(folder.map(|folder| folder.join("settings.json")));
        for name in ["settings.json", "settings.local.json"] {
            settings.extend(project.map(|project| project.join(".claude").join(name)));
        }
        Self { settings, state: given.or(home).map(|folder| folder.join(".claude.json")) }
    }
}

/// Returns the project that a file is for, by the place in which its host looks for it.
pub fn project_of_file(host: Host, path: &Path) -> Option<&Path> {
    // No host looks more than one folder deep. The outer folder comes first: `.opencode/opencode.json` is
    // not for a project `.opencode`.
    let folder = path.parent()?;
    folder
        .parent()
        .into_iter()
        .chain([folder])
        .find(|folder| project_paths(host, folder).iter().any(|known| known == path))
}

fn project_paths(host: Host, folder: &Path) -> Vec<PathBuf> {
    let names: &[&str] = match host {
        Host::ClaudeCode => &[".mcp.json"],
        Host::Opencode => {
            &["opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"]
        }
        Host::Codex => &[".codex/config.toml"],
        Host::Cursor => &[".cursor/mcp.json"],
        Host::VsCode => &[".vscode/mcp.json"],
        Host::GeminiCli => &[".gemini/settings.json"],
        Host::QwenCode => &[".qwen/settings.json"],
        Host::Zed => &[".zed/settings.json"],
        Host::Mcporter => &["config/mcporter.json"],
        Host::ClaudeDesktop | Host::Goose | Host::Hermes | Host::Windsurf | Host::CopilotCli => &[],
    };
    names.iter().map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use bowline_config::FixedEnvironment;

    use super::*;

    /// The user's files of the hosts that keep them elsewhere on macOS or Windows. The others are
    /// found in the home folder on every system.
    #[test]
    #[cfg(unix)]
    fn each_platform_has_its_places() {
        let env = FixedEnvironment::default()
            .with_var("HOME", "/home/me")
            .with_var("APPDATA", "/roaming")
            .with_var("LOCALAPPDATA", "/local");
        let paths_on = |platform| {
            let files = host_files_on(platform, &env, None).into_iter();
            files.map(|file| file.path.display().to_string()).collect::<Vec<_>>()
        };
        let linux = paths_on(Platform::Linux);
        let moved_on = |platform| {
            let paths = paths_on(platform).into_iter();
            paths.filter(|path| !linux.contains(path)).collect::<Vec<_>>()
        };
        let applications = "/home/me/Library/Application Support";
        let expected = [
            "/Library/Application Support/ClaudeCode/managed-mcp.json".to_owned(),
            format!("{applications}/Claude/claude_desktop_config.json"),
            format!("{applications}/Code/User/mcp.json"),
            format!("{applications}/Code - Insiders/User/mcp.json"),
            format!("{applications}/VSCodium/User/mcp.json"),
        ];
        assert_eq!(moved_on(Platform::MacOs), expected);
        let expected = [
            r"C:\Program Files\ClaudeCode/managed-mcp.json",
            "/roaming/Claude/claude_desktop_config.json",
            "/roaming/Code/User/mcp.json",
            "/roaming/Code - Insiders/User/mcp.json",
            "/roaming/VSCodium/User/mcp.json",
            "/roaming/Block/goose/config/config.yaml",
            "/local/hermes/config.yaml",
            "/roaming/Zed/settings.json",
        ];
        assert_eq!(moved_on(Platform::Windows), expected);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn each_host_has_its_files() {
        let env = FixedEnvironment::default().with_var("HOME", "/home/me");
        let files = host_files(&env, Some(Path::new("/work/p")));
        let shown: Vec<String> = files
            .iter()
            .map(|file| format!("{} {:?} {}", file.host.id(), file.scope, file.path.display()))
            .collect();
        assert_eq!(
            shown,
            [
                "claude-code User /home/me/.claude.json",
                "claude-code Managed /etc/claude-code/managed-mcp.json",
                "claude-code Project /work/p/.mcp.json",
                "claude-desktop User /home/me/.config/Claude/claude_desktop_config.json",
                "opencode User /home/me/.config/opencode/opencode.json",
                "opencode User /home/me/.config/opencode/opencode.jsonc",
                "opencode User /home/me/.config/opencode/config.json",
                "opencode Project /work/p/opencode.json",
                "opencode Project /work/p/opencode.jsonc",
                "opencode Project /work/p/.opencode/opencode.json",
                "opencode Project /work/p/.opencode/opencode.jsonc",
                "codex User /home/me/.codex/config.toml",
                "codex Project /work/p/.codex/config.toml",
                "cursor User /home/me/.cursor/mcp.json",
                "cursor Project /work/p/.cursor/mcp.json",
                "vscode User /home/me/.config/Code/User/mcp.json",
                "vscode User /home/me/.config/Code - Insiders/User/mcp.json",
                "vscode User /home/me/.config/VSCodium/User/mcp.json",
                "vscode Project /work/p/.vscode/mcp.json",
                "gemini User /home/me/.gemini/settings.json",
                "gemini Project /work/p/.gemini/settings.json",
                "qwen User /home/me/.qwen/settings.json",
                "qwen Project /work/p/.qwen/settings.json",
                "goose User /home/me/.config/goose/config.yaml",
                "hermes User /home/me/.hermes/config.yaml",
                "zed User /home/me/.config/zed/settings.json",
                "zed Project /work/p/.zed/settings.json",
                "windsurf User /home/me/.codeium/windsurf/mcp_config.json",
                "copilot User /home/me/.copilot/mcp-config.json",
                "mcporter User /home/me/.mcporter/mcporter.json",
                "mcporter User /home/me/.mcporter/mcporter.jsonc",
                "mcporter Project /work/p/config/mcporter.json",
            ]
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn variables_of_hosts_move_their_files() {
        let env = FixedEnvironment::default()
            .with_var("HOME", "/home/me")
            .with_var("XDG_CONFIG_HOME", "/etc/me")
            .with_var("CLAUDE_CONFIG_DIR", "/srv/claude")
            .with_var("CODEX_HOME", "/srv/codex");
        let path_of = |host| host_files(&env, None).into_iter().find(|file| file.host == host).unwrap().path;
        assert_eq!(path_of(Host::ClaudeCode), Path::new("/srv/claude/.claude.json"));
        assert_eq!(path_of(Host::Codex), Path::new("/srv/codex/config.toml"));
        assert_eq!(path_of(Host::Goose), Path::new("/etc/me/goose/config.yaml"));
        assert_eq!(path_of(Host::Opencode), Path::new("/etc/me/opencode/opencode.json"));
        assert_eq!(path_of(Host::Zed), Path::new("/etc/me/zed/settings.json"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn claude_code_has_settings_of_the_user_and_of_the_project() {
        let env = FixedEnvironment::default().with_var("HOME", "/home/me");
        let files = ClaudeFiles::of(&env, Some(Path::new("/work/p")));
        let settings = [
            "/etc/claude-code/managed-settings.json",
            "/home/me/.claude/settings.json",
            "/work/p/.claude/settings.json",
            "/work/p/.claude/settings.local.json",
        ];
        assert_eq!(files.settings, settings.map(PathBuf::from));
        assert_eq!(files.state, Some(PathBuf::from("/home/me/.claude.json")));
        let env = env.with_var("CLAUDE_CONFIG_DIR", "/srv/claude");
        let files = ClaudeFiles::of(&env, None);
        let settings = ["/etc/claude-code/managed-settings.json", "/srv/claude/settings.json"];
        assert_eq!(files.settings, settings.map(PathBuf::from));
        assert_eq!(files.state, Some(PathBuf::from("/srv/claude/.claude.json")));
    }

    #[test]
    #[cfg(unix)]
    fn the_project_of_a_file_follows_from_its_place() {
        for (host, path, project) in [
            (Host::VsCode, "/work/p/.vscode/mcp.json", Some("/work/p")),
            (Host::ClaudeCode, "/work/p/.mcp.json", Some("/work/p")),
            (Host::Opencode, "/work/p/.opencode/opencode.json", Some("/work/p")),
            (Host::Opencode, "/work/p/.opencode/opencode.jsonc", Some("/work/p")),
            (Host::VsCode, "/work/p/mcp.json", None),
            (Host::Goose, "/work/p/config.yaml", None),
        ] {
            assert_eq!(project_of_file(host, Path::new(path)), project.map(Path::new), "{path}");
        }
    }

    #[test]
    fn ids_are_unique_and_found_again() {
        for host in Host::ALL {
            assert_eq!(Host::from_id(host.id()), Some(host));
        }
        assert_eq!(Host::from_id("emacs"), None);
    }
}
