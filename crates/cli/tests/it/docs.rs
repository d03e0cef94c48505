//! `bowline completions` and `bowline man`.

use crate::context::Context;

#[test]
fn a_script_for_every_shell() {
    let context = Context::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = context.bowline(["completions", shell]).output().unwrap();
        assert!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout).unwrap();
        // Where the shell can call bowline, the script does so and does not contain the grammar.
        let asks = matches!(shell, "bash" | "zsh" | "fish");
        assert_eq!(script.contains("bowline __complete"), asks, "{shell}");
        assert_eq!(script.contains("trust-project"), !asks, "{shell}");
    }
}

#[test]
fn a_page_for_every_verb() {
    let context = Context::new();
    let output = context.bowline(["man"]).output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains(".TH bowline 1") && page.contains("Exit codes"), "{page}");
    let folder = context.path("man");
    let shown = context.run(context.bowline(["man", &folder.display().to_string()]));
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    for page in
        ["bowline.1", "bowline-auth-export.1", "bowline-call.1", "bowline-config-check.1", "bowline-login.1"]
    {
        assert!(folder.join(page).exists(), "{page}");
    }
}
