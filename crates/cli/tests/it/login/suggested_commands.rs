//! Suggested commands work as they are printed.

use bowline_testkit as testkit;

use super::LoginSite;

/// Returns the command that a hint suggests after `before`.
fn suggested_command<'a>(shown: &'a str, before: &str) -> &'a str {
    let line = shown.lines().find_map(|line| line.split_once(before));
    line.unwrap_or_else(|| panic!("no {before} in\n{shown}")).1.trim_end_matches('`')
}

impl LoginSite {
    /// Runs a line in a shell, in another folder and without a terminal. Nothing is filtered.
    fn run_in_shell(&self, line: &str) -> String {
        let bowline = std::path::Path::new(env!("CARGO_BIN_EXE_bowline")).parent().expect("a folder");
        let path = format!("{}:{}", bowline.display(), std::env::var("PATH").expect("a path"));
        let mut shell = self.context.command("sh");
        shell.args(["-c", line]).current_dir("/").env_clear().stdin(std::process::Stdio::null());
        shell.env("HOME", self.context.path("home")).env("PATH", path);
        let output = shell.output().expect("a shell");
        let shown = format!(
            "exit: {:?}\n{}{}",
            output.status.code(),
            super::text(&output.stdout),
            super::text(&output.stderr)
        );
        shown
    }

    /// Writes a configuration that only `--config` finds, in a folder whose name needs quoting in a
    /// shell.
    fn write_separate_config(&self) -> String {
        let folder = self.context.path("it's here");
        std::fs::create_dir(&folder).unwrap();
        let config = format!("[store]\nkey = 'file'\n[servers.hidden]\nurl = '{}'\n", self.server.url());
        std::fs::write(folder.join("c.toml"), config).unwrap();
        folder.join("c.toml").display().to_string()
    }
}

/// A hint must lead to the same tenant, or following it would be useless.
#[tokio::test]
async fn a_hint_leads_to_the_same_tenant() {
    let site = LoginSite::new().await;
    let url = format!("{}?tenant=x&plan=a", site.server.url());
    let shown = site.run_args(&["tools", &url]);
    assert_eq!(suggested_command(&shown, "log in with `"), format!("bowline login '{url}'"), "{shown}");
    let begun = site.run_in_shell(suggested_command(&shown, "log in with `"));
    let back = testkit::follow_authorize_url(suggested_command(&begun, "log in at: ")).await;
    let finish = suggested_command(&begun, "then run: ").replace("THE URL YOU WERE REDIRECTED TO", &back);
    let finished = site.run_in_shell(&finish);
    assert!(finished.starts_with("exit: Some(0)\n"), "{finished}");
    assert!(site.run_args(&["tools", &url]).contains("echo"));
    let other = site.run_args(&["tools", &site.server.url()]);
    assert!(other.starts_with("exit: 5\n"), "{other}");
}

/// A URL from a file is not repeated with its query, which may contain keys.
#[tokio::test]
async fn a_query_from_a_file_is_not_printed() {
    let site = LoginSite::new().await;
    let url = site.server.url();
    site.context
        .user_config(&format!("[store]\nkey = 'file'\n[servers.docs]\nurl = '{url}?key=tk-secret-key'\n"));
    let shown = site.run_args(&["tools", "docs"]);
    assert!(
        shown.contains("log in with `bowline login docs`") && !shown.contains("tk-secret-key"),
        "{shown}"
    );
}

/// The suggested command reads the same file from any folder.
#[tokio::test]
async fn the_printed_command_finishes_the_login() {
    let site = LoginSite::new().await;
    let config = site.write_separate_config();
    let called =
        super::text(&site.bowline(&["tools", "hidden", "--config", &config]).output().unwrap().stderr);
    let begun = site.run_in_shell(suggested_command(&called, "log in with `"));
    let back = testkit::follow_authorize_url(suggested_command(&begun, "log in at: ")).await;
    let finish = suggested_command(&begun, "then run: ").replace("THE URL YOU WERE REDIRECTED TO", &back);
    assert!(finish.contains("--config"), "{finish}");
    let finished = site.run_in_shell(&finish);
    assert!(finished.contains("logged in to hidden"), "{finish}\n{finished}");
    assert!(site.run_args(&["tools", "hidden", "--config", &config]).contains("echo"));
}

#[tokio::test]
async fn suggested_commands_repeat_the_flags() {
    let site = LoginSite::new().await;
    site.context.project_config(&format!("[servers.ours]\nurl = '{}'\n", site.server.url()));
    let shown = site.run_args(&["login", "ours", "--trust-project", "-H", "X-Key: tk-secret-header"]);
    assert_eq!(
        suggested_command(&shown, "then run: "),
        "bowline login ours -H 'X-Key: THE SAME AS NOW' --finish 'THE URL YOU WERE REDIRECTED TO' --trust-project"
    );
    // Others may read the output, so the value of a header is left out.
    assert!(!shown.contains("tk-secret-header"), "{shown}");
}
