//! `cargo xtask bench hosts`: whole hosts make calls while their server is restarted, directly, through mcp-remote and
//! through bowline.
//!
//! The measurement is a benchmark of the command, which shares its hosts with the tests that check the same for bowline
//! alone. It is built as they are, without optimization: what it counts does not depend on speed.

use anyhow::Result;

use crate::{shell, tools, workspace::Workspace};

pub(super) fn run(workspace: &Workspace) -> Result<()> {
    let mut cargo = shell::cargo(workspace);
    cargo
        .args(["bench", "--profile", "dev", "--package", "bowline-cli", "--bench", "hosts"])
        .envs(tools::ensure_interop_peers(workspace)?)
        .env("BOWLINE_GATEWAY_NODE_MODULES", tools::ensure_gateway_node_modules(workspace)?);
    shell::run(&mut cargo)
}
