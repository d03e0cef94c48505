//! Installs hosts that connect through our command: third-party programs, some hundred megabytes
//! each.
//!
//! They are pinned for one platform. Their tests show how a host handles what we send, which does
//! not depend on the platform.

use std::path::PathBuf;

use anyhow::Result;

use super::node;
use crate::workspace::Workspace;

/// Host programs that start MCP servers.
pub(crate) struct Hosts {
    pub(crate) claude: PathBuf,
    pub(crate) opencode: PathBuf,
}

impl Hosts {
    /// Installs them. `None` on a platform that they are not pinned for; their test is not built
    /// there either.
    pub(crate) fn ensure(workspace: &Workspace) -> Result<Option<Self>> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")) {
            return Ok(None);
        }
        let modules = node::ensure(workspace, "hosts")?;
        Ok(Some(Self {
            claude: modules.join("@anthropic-ai/claude-code-linux-x64/claude"),
            opencode: modules.join("opencode-linux-x64-baseline/bin/opencode"),
        }))
    }
}
