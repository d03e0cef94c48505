//! Installs what tests and benchmarks need beyond cargo: pinned packages, in ignored folders.
//!
//! Each set of packages is a folder under `interop/` with a manifest and every version locked. An
//! installation is made once per content of that folder; its stamp records which.

mod browser;
mod cargo_tool;
mod hosts;
mod node;
mod python;
mod redis;
mod stamp;

use std::path::{Path, PathBuf};

use anyhow::Result;

pub(crate) use browser::Browser;
pub(crate) use hosts::Hosts;

use crate::workspace::Workspace;
use cargo_tool::CargoTool;

/// Versions of the suite that `conformance` can run; each is also the npm alias it is installed
/// under.
pub(crate) const CONFORMANCE_SUITES: &[&str] = &["0.1.16", "0.2.0-alpha.12"];

/// Node 22 and the packages that run on it.
pub(crate) struct NodePeers {
    pub(crate) node: PathBuf,
    /// The `node_modules` of `interop/node`, which include `oidc-provider`.
    pub(crate) modules: PathBuf,
}

impl NodePeers {
    pub(crate) fn ensure(workspace: &Workspace) -> Result<Self> {
        let modules = node::ensure(workspace, "node")?;
        Ok(Self { node: node::find_runtime(&modules)?, modules })
    }

    /// Returns the script of one version of the conformance suite.
    pub(crate) fn conformance(&self, version: &str) -> PathBuf {
        self.modules.join(format!("conformance-{version}/dist/index.js"))
    }

    /// Returns the script of the reference server.
    pub(crate) fn everything(&self) -> PathBuf {
        self.modules.join("@modelcontextprotocol/server-everything/dist/index.js")
    }
}

/// Returns a Python that can import FastMCP.
pub(crate) fn ensure_fastmcp_python(workspace: &Workspace) -> Result<PathBuf> {
    python::ensure(workspace, "python", "fastmcp")
}

/// Returns a Valkey or Redis server, if there is one.
pub(crate) fn ensure_redis_server(workspace: &Workspace) -> Result<Option<PathBuf>> {
    redis::ensure(workspace)
}

/// Returns cargo-mutants. The list of survivors was made with this version: another one makes other
/// mutants.
pub(crate) fn ensure_cargo_mutants(workspace: &Workspace) -> Result<PathBuf> {
    CargoTool { name: "cargo-mutants", version: "27.1.0" }.ensure(workspace)
}

/// Returns cargo-deny.
pub(crate) fn ensure_cargo_deny(workspace: &Workspace) -> Result<PathBuf> {
    CargoTool { name: "cargo-deny", version: "0.20.2" }.ensure(workspace)
}

/// Returns cargo-auditable.
pub(crate) fn ensure_cargo_auditable(workspace: &Workspace) -> Result<PathBuf> {
    CargoTool { name: "cargo-auditable", version: "0.7.7" }.ensure(workspace)
}

/// Returns rust-audit-info.
pub(crate) fn ensure_rust_audit_info(workspace: &Workspace) -> Result<PathBuf> {
    CargoTool { name: "rust-audit-info", version: "0.5.4" }.ensure(workspace)
}

/// Returns cargo-cyclonedx.
pub(crate) fn ensure_cargo_cyclonedx(workspace: &Workspace) -> Result<PathBuf> {
    CargoTool { name: "cargo-cyclonedx", version: "0.5.9" }.ensure(workspace)
}

/// The clients that benchmarks compare ours with.
pub(crate) struct BenchPeers {
    pub(crate) node_modules: PathBuf,
    pub(crate) python: PathBuf,
}

impl BenchPeers {
    pub(crate) fn ensure(workspace: &Workspace) -> Result<Self> {
        Ok(Self {
            node_modules: node::ensure(workspace, "bench-node")?,
            python: python::ensure(workspace, "bench-python", "mcp")?,
        })
    }
}

/// Installs everything that `cargo xtask test` talks to or checks with.
pub(crate) fn install_test_peers(workspace: &Workspace) -> Result<()> {
    let node = NodePeers::ensure(workspace)?;
    let python = ensure_fastmcp_python(workspace)?;
    let hosts = Hosts::ensure(workspace)?;
    let redis = ensure_redis_server(workspace)?;
    let browser = Browser::ensure(workspace, &node.node)?;
    let deny = ensure_cargo_deny(workspace)?;
    println!("node        {}", workspace.show(&node.node));
    for version in CONFORMANCE_SUITES {
        println!("conformance {}", workspace.show(&node.conformance(version)));
    }
    println!("everything  {}", workspace.show(&node.everything()));
    println!("fastmcp     {}", workspace.show(&python));
    println!("cargo-deny  {}", workspace.show(&deny));
    if let Some(hosts) = hosts {
        println!("claude      {}", workspace.show(&hosts.claude));
        println!("opencode    {}", workspace.show(&hosts.opencode));
    }
    if let Some(redis) = redis {
        println!("redis       {}", workspace.show(&redis));
    }
    if let Some(browser) = browser {
        println!("chromium    {}", workspace.show(&browser.chromium));
    }
    Ok(())
}

#[cfg(unix)]
fn make_executable(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755))?)
}

/// Does nothing: what is written or unpacked here is for Unix only.
#[cfg(not(unix))]
fn make_executable(_file: &Path) -> Result<()> {
    Ok(())
}
