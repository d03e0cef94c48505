//! Logins of the command: how a person logs in, what is stored, and that no secret is shown. The
//! authorization server is a small real one; the person has a terminal and sometimes a browser.

mod adding;
mod auth_command;
mod connect;
mod full_disk;
mod guarded;
mod interactive;
mod interrupted_refresh;
mod logout;
mod remote_browser;
#[cfg(target_os = "linux")]
mod stepper;
#[cfg(target_os = "linux")]
mod steps;
mod stopped_refresh;
mod store_config;
mod store_failures;
mod suggested_commands;
mod transfer;
mod unattended;

use std::time::Duration;

use bowline_testkit::{self as testkit, AuthScript, AuthServer, HttpServer, Protection};
use serde_json::Value;

use crate::browser::Browser;
use crate::context::{Command, Context};
use crate::pty::{Person, TerminalExit};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A protected server, configured as `docs`, and its authorization server.
pub(crate) struct LoginSite {
    pub(crate) context: Context,
    pub(crate) auth: AuthServer,
    pub(crate) server: HttpServer,
}

impl LoginSite {
    pub(crate) async fn new() -> Self {
        Self::with_script(AuthServer::builder(), |protected| protected).await
    }

    pub(crate) async fn with_script(auth: AuthScript, how: impl FnOnce(Protection) -> Protection) -> Self {
        let auth = auth.start().await;
        let protected = how(Protection::with_auth_server(&auth));
        let server = testkit::server().tool("echo").tool("add").protected(protected).run().await;
        let site = Self { context: Context::new(), auth, server };
        site.configure("");
        site
    }

    /// Starts a server that requires one scope for everything and another for its tool `add`.
    async fn with_scopes() -> Self {
        let auth = AuthServer::builder().scopes(&["docs:read", "docs:write"]);
        Self::with_script(auth, |protected| {
            protected
                .challenge_scope("docs:read")
                .requires_scope("docs:read")
                .tool_requires_scope("add", "docs:write")
        })
        .await
    }

    /// Writes the configuration, with `more` in the entry and after it.
    pub(crate) fn configure(&self, more: &str) {
        let url = self.server.url();
        // No test touches the keyring of the user who runs it.
        self.context.user_config(&format!("[store]\nkey = 'file'\n\n[servers.docs]\nurl = '{url}'\n{more}"));
    }

    pub(crate) fn bowline(&self, args: &[&str]) -> Command {
        self.context.bowline(args)
    }

    /// Starts a person at a terminal whose browser reports the URLs it is given.
    fn person(&self, args: &[&str]) -> (Person, Browser) {
        let browser = Browser::new(&self.context);
        let mut command = self.bowline(args);
        command.env("BROWSER", &browser.program);
        (Person::sits_at(command), browser)
    }

    /// Runs a command and formats its exit code and output.
    fn run_args(&self, args: &[&str]) -> String {
        self.run(self.bowline(args))
    }

    fn run(&self, command: Command) -> String {
        self.context.run(command)
    }

    /// Runs a command that succeeds, and returns its JSON output.
    fn json(&self, args: &[&str]) -> Value {
        let output = self.bowline(args).output().expect("bowline starts");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{out}{err}");
        serde_json::from_str(&out).expect("JSON")
    }

    /// Logs in from start to finish, with a browser on this machine.
    pub(crate) async fn logs_in(&self) -> TerminalExit {
        self.logs_in_with(&[]).await
    }

    async fn logs_in_with(&self, more: &[&str]) -> TerminalExit {
        let (person, browser) = self.person(&[&["login", "docs"], more].concat());
        let page = testkit::Browser::new().login(&opened_url(&browser)).await;
        assert_eq!(page.status, 200, "{page:?}");
        wait_for_exit(person, 0)
    }

    fn calls(&self) -> String {
        self.run_args(&["call", "docs", "echo", "message=ahoy"])
    }
}

/// Returns the URL that the browser was given.
fn opened_url(browser: &Browser) -> String {
    let opened = browser.opened();
    opened.strip_prefix("1|").expect("one argument").to_owned()
}

/// Returns the URL on the screen, where it is on one line.
fn url_on_screen(screen: &str, path: &str) -> String {
    let found = screen.lines().find(|line| line.starts_with("http") && line.contains(path));
    found.unwrap_or_else(|| panic!("no address with {path} in\n{screen}")).trim().to_owned()
}

/// Waits for the exit, and checks the exit code.
fn wait_for_exit(person: Person, code: i32) -> TerminalExit {
    let end = person.leaves();
    assert_eq!(end.code, code, "{}{}", end.stdout, end.screen);
    end
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
