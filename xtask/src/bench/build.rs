//! `cargo xtask bench build`: what it costs to compile a minimal client, with the library and with
//! the official SDK, one after the other on the same machine.

use std::{fs, path::Path, process::Command, time::Instant};

use anyhow::{Context, Result, ensure};

use crate::{
    minimal_client::{self, Program},
    shell,
    workspace::Workspace,
};

pub(crate) fn run(workspace: &Workspace, release: bool) -> Result<()> {
    let folder = workspace.root().join("target/bench-build");
    println!("{:<28} {:>6} {:>9} {:>9}", "minimal client", "crates", "seconds", "MB");
    for program in programs(workspace) {
        let package = program.write(workspace, &folder)?;
        let crates = minimal_client::count_crates(workspace, &package)?;
        let (seconds, size) = build(workspace, &package, program.name, release)?;
        println!("{:<28} {crates:>6} {seconds:>9.0} {size:>9.1}", program.name);
    }
    Ok(())
}

/// Programs that connect to a URL and call a tool.
fn programs(workspace: &Workspace) -> [Program; 3] {
    [
        Program {
            name: "bowline-http",
            dependency: minimal_client::feature_dependency(workspace, "http"),
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
        Program {
            name: "bowline-default",
            dependency: minimal_client::default_dependency(workspace),
            source: BOWLINE,
        },
    ]
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
