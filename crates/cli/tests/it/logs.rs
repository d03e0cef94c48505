//! Logs hold what servers say. Nothing of it reaches a terminal as more than text.

use crate::context::Context;

#[test]
fn a_server_cannot_forge_a_line_or_drive_the_terminal() {
    // Not a message, so it is logged; then the end.
    let evil = r"printf 'x\033]0;title\007\302\2332J\r  0.1s ERROR forged\n'; exit 1";
    for way in ["-v", "BOWLINE_LOG"] {
        let context = Context::new();
        let mut command = context.bowline(if way == "-v" { &["tools", "-v"][..] } else { &["tools"] });
        command.args(["--", "/bin/sh", "-c", evil]);
        if way != "-v" {
            command.env(way, "trace");
        }
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let hostile = |c: char| c != '\n' && c.is_control();
        assert!(!stderr.contains(hostile), "{stderr:?}");
        // The precondition: it was logged, in the line of its event.
        let line = stderr.lines().find(|line| line.contains("forged")).unwrap_or_else(|| panic!("{stderr}"));
        assert!(line.contains("what is no message") && line.contains(r"title"), "{stderr}");
        assert!(!stderr.lines().any(|line| line.starts_with("  0.1s")), "{stderr}");
    }
}
