//! A headless Chromium, and a person who sits at it.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::script::{PATIENCE, Script, lines, required};

pub(crate) struct Chromium {
    person: Script,
    _browser: Group,
    _profile: TempDir,
}

/// A process and all that it has started, which end with this.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.0.id()) {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = self.0.wait();
    }
}

/// What the last page of a visit is like.
#[derive(Debug, Deserialize)]
pub(crate) struct Page {
    /// `None`: nobody answered.
    pub(crate) status: Option<u16>,
    /// The address that the browser was sent to in the end.
    pub(crate) sent: String,
    pub(crate) title: String,
    pub(crate) text: String,
    /// The pages on which something was to be done.
    pub(crate) steps: Vec<String>,
    /// What a script has brought up.
    pub(crate) dialogs: Vec<String>,
    /// What was not to the browser's liking.
    pub(crate) said: Vec<String>,
    pub(crate) elements: Vec<String>,
    /// What it has loaded from elsewhere.
    pub(crate) loaded: Vec<String>,
    pub(crate) looks: Looks,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Looks {
    pub(crate) light: Look,
    pub(crate) dark: Look,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Look {
    pub(crate) ink: String,
    pub(crate) paper: String,
    pub(crate) mark: String,
    /// Whether it has to be scrolled.
    pub(crate) overflows: bool,
    /// In pixels.
    pub(crate) text_size: f64,
    pub(crate) width: u32,
}

impl Chromium {
    pub(crate) fn start() -> Self {
        let profile = TempDir::new().expect("a folder");
        let mut browser = Command::new(required("BOWLINE_CHROMIUM"));
        browser
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            // The pages of others name hosts that are elsewhere.
            .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost")
            .arg("--remote-debugging-port=0")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut browser = Group(browser.spawn().expect("Chromium starts"));
        let said = lines(browser.0.stderr.take().expect("a pipe"));
        let begun = Instant::now();
        let endpoint = loop {
            let line = said.recv_timeout(PATIENCE.saturating_sub(begun.elapsed()));
            let line = line.expect("Chromium says where it listens");
            if let Some(endpoint) = line.strip_prefix("DevTools listening on ") {
                break endpoint.to_owned();
            }
        };
        let argument = json!({ "endpoint": endpoint, "pictures": pictures() });
        let (person, _) = Script::node("node/person.mjs", &argument);
        Self { person, _browser: browser, _profile: profile }
    }

    /// Does what the pages want from `url` on, in a browser that knows nobody: `account` is who logs in.
    pub(crate) fn visit(&mut self, url: &str, how: Value) -> Page {
        let mut how = how;
        how["url"] = json!(url);
        how["account"] = how.get("account").cloned().unwrap_or_else(|| json!("ada"));
        serde_json::from_value(self.person.ask("visit", how)).expect("a page")
    }
}

/// Where pictures are left: a folder that is not kept.
fn pictures() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interop-login");
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}
