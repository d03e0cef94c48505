//! `cargo xtask bench hosts`: whole hosts make calls while their server is restarted, directly, through mcp-remote and
//! through bowline.
//!
//! The measurement is an ignored test beside those that check the same for bowline alone.

use anyhow::Result;

use crate::{shell, tools, workspace::Workspace};

pub(super) fn run(workspace: &Workspace) -> Result<()> {
    let mut cargo = shell::cargo(workspace);
    cargo
        .args(["test", "--package", "bowline-cli", "--test", "interop_calls", "--"])
        .args(["--ignored", "--exact", "table::table", "--nocapture"])
        .envs(tools::ensure_interop_peers(workspace)?)
        .env("BOWLINE_GATEWAY_NODE_MODULES", tools::ensure_gateway_node_modules(workspace)?);
    shell::run(&mut cargo)
}
