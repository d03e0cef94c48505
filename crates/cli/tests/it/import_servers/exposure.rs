//! Files of a project that others can write.

use super::write;
use crate::context::{Context, snapshot};

/// `bowline trust` refuses such a file.
#[test]
fn a_project_file_that_others_can_write_is_added_disabled() {
    let context = Context::new();
    write(&context, "project/.mcp.json", r#"{"mcpServers": {"a": {"command": "a"}}}"#);
    for mode in [0o644, 0o666] {
        context.set_mode("project/.mcp.json", mode);
        let shown = context.run(context.bowline(["import", "--dry-run"]));
        if mode == 0o644 {
            assert!(shown.contains("claude-code (project)\ta\tadd\ta (in [TMP]/project)\n"), "{shown}");
            assert!(!shown.contains("others can write"), "{shown}");
            continue;
        }
        snapshot!(shown, @"
        exit: 0
        --- stdout
        claude-code (project)	a	add, disabled	a (in [TMP]/project)
        --- stderr
        note: `a` of claude-code: others can write to [TMP]/project/.mcp.json (mode 666), so look at what it runs; `bowline enable a` enables it
        note: 1 server would be imported into [TMP]/home/.config/bowline/config.toml; nothing was changed
        ---
        ");
    }
}
