//! A headless Chromium and a scripted person who uses it.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::script::{Script, TEST_TIMEOUT, lines, required_variable};

pub(crate) struct Chromium {
    person: Script,
    _browser: ProcessGroup,
    _profile: TempDir,
}

/// A process group that is killed on drop.
struct ProcessGroup(Child);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// The last page of a visit.
#[derive(Debug, Deserialize)]
pub(crate) struct Page {
    /// `None` if there was no response.
    pub(crate) status: Option<u16>,
    /// The final URL of the browser.
    pub(crate) sent: String,
    pub(crate) title: String,
    pub(crate) text: String,
    /// The pages on which the person acted.
    pub(crate) steps: Vec<String>,
    /// Dialogs that a script opened.
    pub(crate) dialogs: Vec<String>,
    /// Complaints in the browser's console.
    pub(crate) said: Vec<String>,
    pub(crate) elements: Vec<String>,
    /// Resources loaded from other origins.
    pub(crate) loaded: Vec<String>,
    pub(crate) looks: PageStyles,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PageStyles {
    pub(crate) light: PageStyle,
    pub(crate) dark: PageStyle,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageStyle {
    pub(crate) ink: String,
    pub(crate) paper: String,
    pub(crate) mark: String,
    /// Whether the page has to be scrolled.
    pub(crate) overflows: bool,
    /// In pixels.
    pub(crate) text_size: f64,
    pub(crate) width: u32,
}

impl Chromium {
    pub(crate) fn start() -> Self {
        let profile = TempDir::new().expect("a folder");
        let mut browser = Command::new(required_variable("BOWLINE_CHROMIUM"));
        browser
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            // Third-party pages name external hosts, which must not be resolved.
            .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost")
            .arg("--remote-debugging-port=0")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut browser = ProcessGroup(browser.spawn().expect("Chromium starts"));
        let said = lines(browser.0.stderr.take().expect("a pipe"));
        let begun = Instant::now();
        let endpoint = loop {
            let line = said.recv_timeout(TEST_TIMEOUT.saturating_sub(begun.elapsed()));
            let line = line.expect("Chromium says where it listens");
            if let Some(endpoint) = line.strip_prefix("DevTools listening on ") {
                break endpoint.to_owned();
            }
        };
        let argument = json!({ "endpoint": endpoint, "pictures": pictures() });
        let (person, _) = Script::node("node/person.mjs", &argument);
        Self { person, _browser: browser, _profile: profile }
    }

    /// Follows the login pages from `url` in a fresh browser profile. `account` in `how` is who
    /// logs in.
    pub(crate) fn visit(&mut self, url: &str, how: Value) -> Page {
        let mut how = how;
        how["url"] = json!(url);
        how["account"] = how.get("account").cloned().unwrap_or_else(|| json!("ada"));
        serde_json::from_value(self.person.ask("visit", how)).expect("a page")
    }
}

/// Returns the folder for screenshots, which is not committed.
fn pictures() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interop-login");
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}
