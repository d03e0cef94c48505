//! `cargo xtask bench build`: what it costs to compile a minimal client, with the library and with
//! the official SDK, one after the other on the same machine.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result, ensure};

use crate::{shell, workspace::Workspace};

/// A program that connects to a URL and calls a tool.
struct Program {
    name: &'static str,
    /// Its dependency on the library that it is written with.
    dependency: String,
    source: &'static str,
}

pub(crate) fn run(workspace: &Workspace, release: bool) -> Result<()> {
    let folder = workspace.root().join("target/bench-build");
    println!("{:<28} {:>6} {:>9} {:>9}", "minimal client", "crates", "seconds", "MB");
    for program in programs(workspace) {
        let package = write_package(workspace, &folder, &program)?;
        let crates = count_crates(workspace, &package)?;
        let (seconds, size) = build(workspace, &package, program.name, release)?;
        println!("{:<28} {crates:>6} {seconds:>9.0} {size:>9.1}", program.name);
    }
    Ok(())
}

fn programs(workspace: &Workspace) -> [Program; 3] {
    let library = workspace.root().join("crates/client");
    // As TOML, with what Windows needs escaped.
    let library = serde_json::json!(library.to_string_lossy());
    let bowline = |features: &str| format!("bowline = {{ path = {library}, {features} }}");
    [
        Program {
            name: "bowline-http",
            dependency: bowline("default-features = false, features = [\"http\"]"),
            source: BOWLINE,
        },
        Program {
            name: "rmcp-http",
            // The smallest that speaks TLS. It panics when it starts unless a provider of cryptography is
            // installed; `ring` compiles fastest, and is what the library uses.
            dependency: format!(
                "rmcp = {{ version = {RMCP_VERSION:?}, default-features = false, features = [\"client\", \
                 \"reqwest-tls-no-provider\", \"transport-streamable-http-client-reqwest\"] }}\n\
                 rustls = {{ version = \"0.23\", default-features = false, features = [\"ring\", \"std\"] }}"
            ),
            source: RMCP,
        },
        Program { name: "bowline-default", dependency: bowline("default-features = true"), source: BOWLINE },
    ]
}

/// Writes the package of a program, with the versions of the workspace's lock file.
fn write_package(workspace: &Workspace, folder: &Path, program: &Program) -> Result<PathBuf> {
    let package = folder.join(program.name);
    fs::create_dir_all(package.join("src"))?;
    let Program { name, dependency, source } = program;
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         {dependency}\nserde_json = \"1\"\ntokio = {{ version = \"1\", features = [\"macros\", \"rt\"] }}\n"
    );
    fs::write(package.join("Cargo.toml"), manifest)?;
    fs::write(package.join("src/main.rs"), source)?;
    fs::copy(workspace.root().join("Cargo.lock"), package.join("Cargo.lock"))?;
    Ok(package)
}

/// Counts the packages that are compiled on this platform, the program itself aside.
fn count_crates(workspace: &Workspace, package: &Path) -> Result<usize> {
    let mut cargo = shell::cargo(workspace);
    cargo.args(["tree", "--edges", "normal,build", "--prefix", "none", "--no-dedupe", "--format", "{p}"]);
    let listed = shell::read(cargo.arg("--manifest-path").arg(package.join("Cargo.toml")))?;
    let mut crates: Vec<&str> = listed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    crates.sort_unstable();
    crates.dedup();
    Ok(crates.len() - 1)
}

/// Builds a program from nothing. Returns the seconds that it took, and the size of the binary.
fn build(workspace: &Workspace, package: &Path, name: &str, release: bool) -> Result<(f64, f64)> {
    let target = package.join("target");
    if target.exists() {
        fs::remove_dir_all(&target)?;
    }
    let mut fetch = shell::cargo(workspace);
    shell::run(fetch.arg("fetch").arg("--manifest-path").arg(package.join("Cargo.toml")))?;
    let mut cargo = shell::cargo(workspace);
    cargo.args(["build", "--quiet"]).arg("--manifest-path").arg(package.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(&target);
    if release {
        cargo.arg("--release");
    }
    let started = Instant::now();
    shell::run(&mut cargo)?;
    let seconds = started.elapsed().as_secs_f64();
    let folder = if release { "release" } else { "debug" };
    let program = target.join(folder).join(name);
    let binary = fs::metadata(&program).context("the binary was not built")?;
    // Nothing listens at the address of the programs, so each ends with an error of its own.
    let run = Command::new(&program).output()?;
    ensure!(run.status.code() == Some(1), "{name} does not work: {}", String::from_utf8_lossy(&run.stderr));
    #[expect(clippy::cast_precision_loss, reason = "a size in megabytes needs no more")]
    Ok((seconds, binary.len() as f64 / 1e6))
}

/// The version of the SDK that the workspace's tests use.
const RMCP_VERSION: &str = "3.8.0";

const BOWLINE: &str = r#"use bowline::{Client, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect(Server::http("server", "http://127.0.0.1:9/mcp")).await?;
    let result = client.call_tool("echo", &serde_json::json!({ "message": "hello" })).await?;
    println!("{}", result.text());
    client.close().await;
    Ok(())
}
"#;

const RMCP: &str = r#"use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::StreamableHttpClientTransport;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = ().serve(StreamableHttpClientTransport::from_uri("http://127.0.0.1:9/mcp")).await?;
    let arguments = serde_json::json!({ "message": "hello" }).as_object().cloned().unwrap_or_default();
    let result = client.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments)).await?;
    println!("{result:?}");
    client.cancel().await?;
    Ok(())
}
"#;
