//! Owns the keys of `[views.NAME]`.

use crate::dialect::ToolLists;
use crate::keys::{Boolean, Strings, keys};

keys! {
    /// One view: a part of the servers for some hosts of `bowline serve`. What a view does not show
    /// cannot be called, read, subscribed to or completed through it either. Only the user's own file
    /// has views; in a project's file they have no effect.
    pub(crate) struct RawView {
        /// The servers of this file that the view shows; left out, all servers.
        #[meant_by("server")]
        servers: Strings,

        /// The tools that the view shows, by server: `tools = { github = ["get_*"] }`. They are the names
        /// that `bowline serve` exposes, without a prefix; `*` in a name stands for anything. A server
        /// that is not named here has all of its tools.
        #[meant_by("enabled_tools", "tool")]
        tools: ToolLists,

        /// Whether the view shows prompts.
        prompts: Boolean = true,

        /// Whether the view shows resources and resource templates.
        resources: Boolean = true,

        /// Folders whose hosts get the view, if they select no view by `--view`, by path or by token: those
        /// whose first root that lies in a folder of a view lies in one of these. `*` stands for anything
        /// within one name of the path. It is a convenience: a host can name any root, and only a token
        /// or `--view` limits it.
        #[meant_by("root", "folders")]
        roots: Strings,
    }
}
