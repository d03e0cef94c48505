//! Hosts written by others reach servers through `bowline connect` and `bowline serve`. They run
//! without an account, in their own home, and with no way to leave this machine.

#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use bowline_testkit::{self as testkit, HttpServer};
use serde_json::json;
use tempfile::TempDir;

const BOWLINE: &str = env!("CARGO_BIN_EXE_bowline");
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the path of a host that the test command has installed. Without it the test fails: a
/// missing host must not look like a working one.
fn required_variable(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run `cargo xtask test --only interop`, which installs the hosts")
    })
}

/// Runs a host in `home`, which succeeds.
async fn run(program: &str, home: &Path, args: &[&str]) -> String {
    let Output { status, stdout, stderr } = output(program, home, args).await;
    let shown = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{status}: {shown}");
    shown
}

/// Runs a host in `home`. The proxy variables lead to a closed port.
async fn output(program: &str, home: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(home).env_clear().env("HOME", home).stdin(Stdio::null());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "npm_config_registry"] {
        command.env(name, "http://127.0.0.1:9");
    }
    command.env("NO_PROXY", "127.0.0.1,localhost").env("NO_COLOR", "1");
    command.env("DISABLE_AUTOUPDATER", "1").env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    command.env("OPENCODE_DISABLE_AUTOUPDATE", "1").env("OPENCODE_DISABLE_MODELS_FETCH", "1");
    let running = tokio::task::spawn_blocking(move || command.output().expect("the host starts"));
    running.await.expect("no panic")
}

/// Returns the output line about one server.
fn line<'a>(shown: &'a str, name: &str) -> &'a str {
    shown.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("no {name} in:\n{shown}"))
}

async fn server() -> HttpServer {
    testkit::server().legacy().tool("echo").resource("file:///a", "x").prompt("p", "x").run().await
}

/// Checks that the server knows which host it is connected to.
fn assert_introduced(server: &HttpServer, host: &str) {
    let hello = server.received_with_method("initialize").pop().expect("it came");
    let name = hello.params()["clientInfo"]["name"].as_str().expect("a name").to_owned();
    assert!(name.contains(host), "{name}");
}

/// Checks that the host initialized under its own name and closed its session.
async fn assert_connected(server: &HttpServer, host: &str) {
    assert_introduced(server, host);
    server
        .wait_until(|server| server.count("DELETE") > 0 && server.sessions().is_empty(), TEST_TIMEOUT)
        .await;
}

#[tokio::test]
async fn claude_code_is_connected() {
    let claude = required_variable("BOWLINE_CLAUDE");
    let home = TempDir::new().expect("a folder");
    let server = server().await;
    let add = ["mcp", "add", "--scope", "user"];
    let url = server.url();
    run(&claude, home.path(), &[&add[..], &["knots", "--", BOWLINE, "connect", &url]].concat()).await;
    let missing = ["missing", "--", BOWLINE, "connect", "--", "no-such-program-anywhere"];
    run(&claude, home.path(), &[&add[..], &missing].concat()).await;
    let shown = run(&claude, home.path(), &["mcp", "list"]).await;
    assert!(line(&shown, "knots:").contains("Connected"), "{shown}");
    assert!(!line(&shown, "missing:").contains("Connected"), "{shown}");
    assert_connected(&server, "claude").await;
}

#[tokio::test]
async fn opencode_is_connected() {
    let opencode = required_variable("BOWLINE_OPENCODE");
    let home = TempDir::new().expect("a folder");
    let server = server().await;
    let local = |args: &[&str]| {
        let command = [&[BOWLINE, "connect"], args].concat();
        json!({"type": "local", "command": command})
    };
    let url = server.url();
    let config = json!({"mcp": {
        "knots": local(&[&url]),
        "missing": local(&["--", "no-such-program-anywhere"]),
    }});
    std::fs::write(home.path().join("opencode.json"), config.to_string()).expect("a file");
    let shown = run(&opencode, home.path(), &["mcp", "list"]).await;
    assert!(line(&shown, " knots ").contains("connected"), "{shown}");
    assert!(!line(&shown, " missing ").contains("connected"), "{shown}");
    assert_connected(&server, "opencode").await;
}

/// Writes the configuration of two servers: one of the test kit, and a real one.
fn write_config(home: &Path, server: &HttpServer) {
    let folder = home.join(".config/bowline");
    std::fs::create_dir_all(&folder).expect("a folder");
    let (node, everything) = (required_variable("BOWLINE_NODE"), required_variable("BOWLINE_EVERYTHING"));
    let config = format!(
        "[servers.knots]\nurl = '{}'\n[servers.everything]\ncommand = '{node}'\nargs = ['{everything}']\n",
        server.url()
    );
    std::fs::write(folder.join("config.toml"), config).expect("a file");
}

/// The daemons that `bowline serve --stdio` has started in this home, killed when this is dropped.
struct DaemonOf<'a>(&'a Path);

impl Drop for DaemonOf<'_> {
    fn drop(&mut self) {
        let files =
            std::fs::read_dir(self.0.join(".local/state/bowline/run")).into_iter().flatten().flatten();
        let files = files.map(|file| file.path());
        for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "pid")) {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let id = text.split_whitespace().next().unwrap_or_default();
            let _ = Command::new("kill").args(["-9", id]).status();
        }
    }
}

#[tokio::test]
async fn hosts_are_served_all_servers_as_one() {
    let (claude, opencode) = (required_variable("BOWLINE_CLAUDE"), required_variable("BOWLINE_OPENCODE"));
    let home = TempDir::new().expect("a folder");
    let server = server().await;
    write_config(home.path(), &server);
    let _daemon = DaemonOf(home.path());
    let config = json!({"mcp": {"bowline": {"type": "local", "command": [BOWLINE, "serve", "--stdio"]}}});
    std::fs::write(home.path().join("opencode.json"), config.to_string()).expect("a file");
    let shown = run(&opencode, home.path(), &["mcp", "list"]).await;
    assert!(line(&shown, " bowline ").contains("connected"), "{shown}");
    assert_connected(&server, "opencode").await;
    let add = ["mcp", "add", "--scope", "user", "bowline", "--", BOWLINE, "serve", "--stdio"];
    run(&claude, home.path(), &add).await;
    let shown = run(&claude, home.path(), &["mcp", "list"]).await;
    assert!(line(&shown, "bowline:").contains("Connected"), "{shown}");
    // It speaks 2026-07-28 here: there is no session that ends with it.
    assert_introduced(&server, "claude");
}

/// Runs `bowline` in `home`, as a person would who has it in a folder that is not on `PATH`.
fn run_bowline(home: &Path, args: &[&str]) {
    let mut command = Command::new(BOWLINE);
    command.args(args).current_dir(home).env_clear().env("HOME", home).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().expect("bowline starts");
    let shown = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{status}: {shown}");
}

/// The file that Claude Code made itself gets an entry, and is rewritten by Claude Code afterwards.
#[tokio::test]
async fn claude_code_finds_what_was_installed() {
    let claude = required_variable("BOWLINE_CLAUDE");
    let home = TempDir::new().expect("a folder");
    let server = server().await;
    write_config(home.path(), &server);
    let _daemon = DaemonOf(home.path());
    let other = ["mcp", "add", "--scope", "user", "other", "--", BOWLINE, "connect", "--", "no-such-program"];
    run(&claude, home.path(), &other).await;
    let file = home.path().join(".claude.json");
    let before = std::fs::read_to_string(&file).expect("the file of Claude Code");
    run_bowline(home.path(), &["install", "claude-code", "--yes"]);
    // Nothing has read it yet, so that it is restored exactly.
    let installed = std::fs::read_to_string(&file).expect("a file");
    run_bowline(home.path(), &["uninstall", "claude-code", "--yes"]);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), before);
    run_bowline(home.path(), &["install", "claude-code", "--yes"]);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), installed);
    let shown = run(&claude, home.path(), &["mcp", "list"]).await;
    assert!(line(&shown, "bowline:").contains("Connected"), "{shown}");
    assert_introduced(&server, "claude");
    run_bowline(home.path(), &["uninstall", "claude-code", "--yes"]);
    let shown = run(&claude, home.path(), &["mcp", "list"]).await;
    let has = |name: &str| shown.lines().any(|line| line.starts_with(name));
    assert!(has("other:") && !has("bowline:"), "{shown}");
}

/// The four commands of the README: a machine with the files of two hosts has all of their servers behind one entry.
#[tokio::test]
async fn two_hosts_are_taken_over() {
    let claude = required_variable("BOWLINE_CLAUDE");
    let home = TempDir::new().expect("a folder");
    let (docs, issues) = (server().await, server().await);
    let add = ["mcp", "add", "--scope", "user", "docs", "--", BOWLINE, "connect"];
    run(&claude, home.path(), &[&add[..], &[&docs.url()]].concat()).await;
    let cursor = home.path().join(".cursor");
    std::fs::create_dir(&cursor).expect("a folder");
    let config = json!({"mcpServers": {"issues": {"url": issues.url()}}});
    std::fs::write(cursor.join("mcp.json"), config.to_string()).expect("a file");
    let _daemon = DaemonOf(home.path());
    run_bowline(home.path(), &["import", "--yes"]);
    let imported = std::fs::read_to_string(home.path().join(".config/bowline/config.toml")).expect("a file");
    assert_eq!(
        imported,
        format!("[servers.docs]\nurl = \"{}\"\n\n[servers.issues]\nurl = \"{}\"\n", docs.url(), issues.url())
    );
    run_bowline(home.path(), &["install", "claude-code", "--yes"]);
    assert_eq!((docs.received().len(), issues.received().len()), (0, 0), "nothing was connected to so far");
    let shown = run(&claude, home.path(), &["mcp", "list"]).await;
    let bowline = line(&shown, "bowline:");
    let entry = format!("bowline: {BOWLINE} serve --stdio - ");
    assert!(bowline.starts_with(&entry) && bowline.ends_with(" Connected"), "{shown}");
    // Only bowline knows the server of Cursor. That of Claude Code is reached by its own entry as well.
    for (server, least) in [(&issues, 1), (&docs, 2)] {
        server.wait_until(|server| server.count("initialize") >= least, TEST_TIMEOUT).await;
        assert_introduced(server, "claude");
    }
}

#[tokio::test]
async fn opencode_finds_what_was_installed() {
    let opencode = required_variable("BOWLINE_OPENCODE");
    let home = TempDir::new().expect("a folder");
    let server = server().await;
    write_config(home.path(), &server);
    let _daemon = DaemonOf(home.path());
    let folder = home.path().join(".config/opencode");
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("opencode.jsonc");
    // opencode writes the schema into a file that has none.
    let before = "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  // Mine.\n  \"mcp\": {\n    \"other\": { \"type\": \"remote\", \"url\": \"http://127.0.0.1:9/\" }, // down\n  },\n}\n";
    std::fs::write(&file, before).expect("a file");
    run_bowline(home.path(), &["install", "opencode", "--yes"]);
    let shown = run(&opencode, home.path(), &["mcp", "list"]).await;
    assert!(line(&shown, " bowline ").contains("connected"), "{shown}");
    assert_introduced(&server, "opencode");
    run_bowline(home.path(), &["uninstall", "opencode", "--yes"]);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), before);
    let shown = run(&opencode, home.path(), &["mcp", "list"]).await;
    assert!(shown.contains(" other ") && !shown.contains(" bowline "), "{shown}");
}

#[tokio::test]
async fn qwen_code_finds_what_was_installed() {
    let (node, qwen) = (required_variable("BOWLINE_NODE"), required_variable("BOWLINE_QWEN"));
    let home = TempDir::new().expect("a folder");
    let server = server().await;
    write_config(home.path(), &server);
    let _daemon = DaemonOf(home.path());
    let folder = home.path().join(".qwen");
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("settings.json");
    // Qwen Code writes the version of its format into a file that has none.
    let before = "{\n  \"$version\": 4,\n  // Mine.\n  \"mcpServers\": {\n    \"other\": { \"command\": \"no-such-program\" } // gone\n  }\n}\n";
    std::fs::write(&file, before).expect("a file");
    run_bowline(home.path(), &["install", "qwen", "--yes"]);
    let shown = run(&node, home.path(), &[&qwen, "mcp", "list"]).await;
    assert!(line(&shown, " bowline: ").ends_with(" - Connected"), "{shown}");
    assert!(line(&shown, " other: ").ends_with(" - Disconnected"), "{shown}");
    // The name that its list of servers connects with.
    assert_introduced(&server, "mcp-test-client");
    run_bowline(home.path(), &["uninstall", "qwen", "--yes"]);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), before);
    let shown = run(&node, home.path(), &[&qwen, "mcp", "list"]).await;
    assert!(shown.contains(" other: ") && !shown.contains(" bowline: "), "{shown}");
}

#[tokio::test]
async fn gemini_cli_finds_what_was_installed() {
    let (node, gemini) = (required_variable("BOWLINE_NODE"), required_variable("BOWLINE_GEMINI"));
    let home = TempDir::new().expect("a folder");
    let server = server().await;
    write_config(home.path(), &server);
    let _daemon = DaemonOf(home.path());
    let folder = home.path().join(".gemini");
    std::fs::create_dir_all(&folder).expect("a folder");
    // It starts no server of anybody in a folder that its user does not trust.
    let trusted = json!({home.path().to_str().expect("UTF-8"): "TRUST_FOLDER"});
    std::fs::write(folder.join("trustedFolders.json"), trusted.to_string()).expect("a file");
    let file = folder.join("settings.json");
    let before = "{\n  // Mine.\n  \"mcpServers\": {\n    \"other\": { \"command\": \"no-such-program\" } // gone\n  }\n}\n";
    std::fs::write(&file, before).expect("a file");
    run_bowline(home.path(), &["install", "gemini", "--yes"]);
    let shown = run(&node, home.path(), &[&gemini, "mcp", "list"]).await;
    assert!(line(&shown, " bowline: ").ends_with(" - Connected"), "{shown}");
    assert!(line(&shown, " other: ").ends_with(" - Disconnected"), "{shown}");
    // The name that its list of servers connects with.
    assert_introduced(&server, "mcp-test-client");
    run_bowline(home.path(), &["uninstall", "gemini", "--yes"]);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), before);
    let shown = run(&node, home.path(), &[&gemini, "mcp", "list"]).await;
    assert!(shown.contains(" other: ") && !shown.contains(" bowline: "), "{shown}");
}

/// The servers that its own command has written into a file that was not there.
#[tokio::test]
async fn what_qwen_code_has_written_is_imported() {
    let (node, qwen) = (required_variable("BOWLINE_NODE"), required_variable("BOWLINE_QWEN"));
    let home = TempDir::new().expect("a folder");
    let add = [&qwen, "mcp", "add", "--scope", "user"];
    let local = ["my docs", "docs-server", "a b", "-e", "MODE=${DOCS_MODE}"];
    run(&node, home.path(), &[&add[..], &local].concat()).await;
    let web =
        ["--transport", "http", "--timeout", "5000", "web", "http://127.0.0.1:9/mcp", "-H", "X-Team: a"];
    run(&node, home.path(), &[&add[..], &web].concat()).await;
    let old = ["--transport", "sse", "old", "http://127.0.0.1:9/sse"];
    run(&node, home.path(), &[&add[..], &old].concat()).await;
    let expected = "\
[servers.my-docs]
command = \"docs-server\"
args = [\"a b\"]
env = { MODE = \"${DOCS_MODE}\" }
enabled = false

[servers.web]
url = \"http://127.0.0.1:9/mcp\"
headers = { X-Team = \"a\" }
timeout = \"5s\"

[servers.old]
url = \"http://127.0.0.1:9/sse\"
transport = \"sse\"
";
    assert_imported_and_restored("qwen", &home.path().join(".qwen/settings.json"), home.path(), expected);
}

/// The servers that its own command has written into a file that was not there.
#[tokio::test]
async fn what_codex_has_written_is_imported() {
    let codex = required_variable("BOWLINE_CODEX");
    let home = TempDir::new().expect("a folder");
    std::fs::create_dir_all(home.path().join(".codex")).expect("a folder");
    let local = ["mcp", "add", "docs", "--env", "MODE=${fast}", "--", "docs-server", "a b"];
    run(&codex, home.path(), &local).await;
    let web =
        ["mcp", "add", "web", "--url", "http://127.0.0.1:9/mcp", "--bearer-token-env-var", "DOCS_TOKEN"];
    run(&codex, home.path(), &web).await;
    let expected = "\
[servers.docs]
command = \"docs-server\"
args = [\"a b\"]
env = { MODE = \"$${fast}\" }

[servers.web]
url = \"http://127.0.0.1:9/mcp\"
headers = { Authorization = \"Bearer ${DOCS_TOKEN}\" }
enabled = false
";
    assert_imported_and_restored("codex", &home.path().join(".codex/config.toml"), home.path(), expected);
}

/// Imports the servers of a host, and installs and uninstalls bowline in the file that the host has made.
fn assert_imported_and_restored(host: &str, file: &Path, home: &Path, expected: &str) {
    let before = std::fs::read_to_string(file).expect("the file of the host");
    run_bowline(home, &["import", host, "--yes"]);
    let config = home.join(".config/bowline/config.toml");
    assert_eq!(std::fs::read_to_string(config).expect("a file"), expected, "from {before}");
    run_bowline(home, &["install", host, "--yes"]);
    let installed = std::fs::read_to_string(file).expect("a file");
    assert!(installed.contains("bowline") && installed != before, "{installed}");
    run_bowline(home, &["uninstall", host, "--yes"]);
    assert_eq!(std::fs::read_to_string(file).expect("a file"), before);
}

/// Codex starts with no file that has a token in it, which is what a note of `bowline import` says.
#[tokio::test]
async fn codex_rejects_a_token_in_its_file() {
    let codex = required_variable("BOWLINE_CODEX");
    let home = TempDir::new().expect("a folder");
    std::fs::create_dir_all(home.path().join(".codex")).expect("a folder");
    let text = "[mcp_servers.web]\nurl = \"http://127.0.0.1:9/\"\nbearer_token = \"t\"\n";
    std::fs::write(home.path().join(".codex/config.toml"), text).expect("a file");
    let Output { status, stderr, .. } = output(&codex, home.path(), &["mcp", "list"]).await;
    let shown = String::from_utf8_lossy(&stderr);
    assert!(!status.success() && shown.contains("bearer_token is not supported"), "{shown}");
}

/// Codex lists what its file says, without connecting.
#[tokio::test]
async fn codex_reads_what_was_installed() {
    let codex = required_variable("BOWLINE_CODEX");
    let home = TempDir::new().expect("a folder");
    std::fs::create_dir_all(home.path().join(".codex")).expect("a folder");
    let file = home.path().join(".codex/config.toml");
    let before = "# Mine.\nmodel = \"m\"\n\n[mcp_servers.other]\nurl = \"http://127.0.0.1:9/\"\n";
    std::fs::write(&file, before).expect("a file");
    run_bowline(home.path(), &["install", "codex", "--yes"]);
    let listed = run(&codex, home.path(), &["mcp", "get", "bowline"]).await;
    assert!(listed.contains(BOWLINE) && listed.contains("serve --stdio"), "{listed}");
    run_bowline(home.path(), &["uninstall", "codex", "--yes"]);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), before);
}

/// `bowline serve` on a socket, ended when this is dropped.
struct Gateway {
    child: std::process::Child,
    url: String,
}

impl Gateway {
    fn start(home: &Path) -> Self {
        let mut command = Command::new(BOWLINE);
        command.args(["serve", "--listen", "127.0.0.1:0"]).env("HOME", home).stderr(Stdio::piped());
        let mut child = command.stdin(Stdio::null()).spawn().expect("bowline starts");
        let mut line = String::new();
        let stderr = child.stderr.take().expect("piped");
        BufReader::new(stderr).read_line(&mut line).expect("a note");
        let url = line.split([' ', ';']).find(|word| word.starts_with("http://")).expect("a URL").to_owned();
        Self { child, url }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn hosts_are_served_over_http() {
    let (claude, opencode) = (required_variable("BOWLINE_CLAUDE"), required_variable("BOWLINE_OPENCODE"));
    let home = TempDir::new().expect("a folder");
    let server = server().await;
    write_config(home.path(), &server);
    let gateway = Gateway::start(home.path());
    let token =
        std::fs::read_to_string(home.path().join(".local/state/bowline/serve-token")).expect("a token");
    let header = format!("Authorization: Bearer {}", token.trim());
    let add = [
        "mcp",
        "add",
        "--scope",
        "user",
        "--transport",
        "http",
        "bowline",
        &gateway.url,
        "--header",
        &header,
    ];
    run(&claude, home.path(), &add).await;
    let shown = run(&claude, home.path(), &["mcp", "list"]).await;
    assert!(line(&shown, "bowline:").contains("Connected"), "{shown}");
    let headers = json!({"Authorization": format!("Bearer {}", token.trim())});
    let remote = |headers| json!({"type": "remote", "url": gateway.url, "headers": headers, "oauth": false});
    let config = json!({"mcp": {"bowline": remote(headers), "stranger": remote(json!({}))}});
    std::fs::write(home.path().join("opencode.json"), config.to_string()).expect("a file");
    let shown = run(&opencode, home.path(), &["mcp", "list"]).await;
    assert!(line(&shown, " bowline ").contains("connected"), "{shown}");
    assert!(!line(&shown, " stranger ").contains("connected"), "{shown}");
}
