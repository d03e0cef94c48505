//! Opens URLs in the system's browser, which neither we nor a model can observe, and detects
//! whether there is one. The URL is a single argument of a program; no shell sees it.
// EL-09.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use bowline::config::Environment;
use tokio::sync::oneshot;

use crate::env;

/// Whether the person can see a browser that is opened here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrowserAccess {
    /// Yes.
    Local,
    /// No: the person sits at another machine.
    Ssh,
    /// No: there is no display.
    NoDisplay,
    /// The person wants none to be opened.
    Disabled,
}

impl BrowserAccess {
    /// Detects the access from the environment. A named browser counts without a display, but not
    /// over SSH, where the same profile may be in use.
    pub(crate) fn detect(env: &dyn Environment) -> Self {
        let given = |name: &&str| env::non_empty_var(env, name).is_some();
        if env::SSH_VARS.iter().any(given) {
            return Self::Ssh;
        }
        let elsewhere = cfg!(any(windows, target_os = "macos"));
        if elsewhere || given(&env::BROWSER) || env::DISPLAY_VARS.iter().any(given) {
            Self::Local
        } else {
            Self::NoDisplay
        }
    }
}

/// The programs to try in order, each with the arguments before the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Browser(Vec<Vec<String>>);

/// Placeholder for the URL in `BROWSER`.
const URL_PLACEHOLDER: &str = "%s";

impl Browser {
    /// Parses `BROWSER`, which is separated by colons, or uses the system's programs.
    pub(super) fn new(variable: Option<&str>) -> Self {
        let words = |entry: &str| entry.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
        // A Windows path contains a colon itself.
        let entries =
            variable.map(|entry| if cfg!(windows) { vec![entry] } else { entry.split(':').collect() });
        let own: Vec<Vec<String>> = entries.unwrap_or_default().into_iter().map(words).collect();
        let own: Vec<Vec<String>> = own.into_iter().filter(|words| !words.is_empty()).collect();
        if own.is_empty() { Self(SYSTEM.iter().map(|entry| words(entry)).collect()) } else { Self(own) }
    }

    /// Starts the first program that works. One that does not fail within [`START_TIMEOUT`] counts
    /// as working: it may run as long as the browser does. The error is that of the last program.
    pub(super) async fn open(&self, url: &str) -> Result<(), String> {
        let mut failed = String::new();
        for entry in &self.0 {
            match start_program(&build_arguments(entry, url)).await {
                Ok(()) => return Ok(()),
                Err(why) => failed = format!("{}: {why}", entry[0]),
            }
        }
        Err(failed)
    }
}

#[cfg(target_os = "macos")]
const SYSTEM: [&str; 1] = ["/usr/bin/open"];
// `start` is a shell builtin, and the shell would interpret the URL.
#[cfg(windows)]
const SYSTEM: [&str; 1] = ["rundll32 url.dll,FileProtocolHandler"];
#[cfg(not(any(target_os = "macos", windows)))]
const SYSTEM: [&str; 4] = ["xdg-open", "gio open", "wslview", "sensible-browser"];

fn build_arguments(entry: &[String], url: &str) -> Vec<String> {
    let mut words: Vec<String> = entry.iter().map(|word| word.replace(URL_PLACEHOLDER, url)).collect();
    if !entry.iter().any(|word| word.contains(URL_PLACEHOLDER)) {
        words.push(url.to_owned());
    }
    words
}

/// How long a launcher may take to fail because there is no browser.
const START_TIMEOUT: Duration = Duration::from_secs(2);

async fn start_program(words: &[String]) -> io::Result<()> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C must not reach a browser that was just started.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn()?;
    let (ended, end) = oneshot::channel();
    // A thread, so that neither the runtime nor its shutdown waits for the browser.
    std::thread::spawn(move || ended.send(child.wait()));
    match tokio::time::timeout(START_TIMEOUT, end).await {
        Ok(Ok(Ok(status))) if !status.success() => Err(io::Error::other(status.to_string())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_browser_is_opened_where_it_is_seen() {
        let of = |names: &[&str]| {
            let env = bowline::config::FixedEnvironment::default();
            BrowserAccess::detect(&names.iter().fold(env, |env, name| env.with_var(*name, "x")))
        };
        assert_eq!(of(&[]), BrowserAccess::NoDisplay);
        for name in ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER"] {
            assert_eq!(of(&[name]), BrowserAccess::Local);
            assert_eq!(of(&[name, "SSH_CONNECTION"]), BrowserAccess::Ssh);
            assert_eq!(of(&[name, "SSH_TTY"]), BrowserAccess::Ssh);
        }
    }

    #[test]
    #[cfg(unix)]
    fn the_address_is_one_argument() {
        let url = "https://h/?a=b&c=$(touch x);'\"";
        let of = |variable| {
            let Browser(entries) = Browser::new(Some(variable));
            entries.iter().map(|entry| build_arguments(entry, url)).collect::<Vec<_>>()
        };
        assert_eq!(of("firefox"), [["firefox", url]]);
        assert_eq!(of("w3m -o x:lynx"), [vec!["w3m", "-o", "x", url], vec!["lynx", url]]);
        assert_eq!(of("b --new=%s"), [["b".to_owned(), format!("--new={url}")]]);
        for none in ["", ":", "  "] {
            assert_eq!(Browser::new(Some(none)), Browser::new(None));
        }
    }

    #[tokio::test]
    #[cfg(unix)]
    async fn failing_browser_does_not_count_as_opened() {
        let open = async |browser| Browser::new(Some(browser)).open("https://h/").await;
        assert!(open("/nowhere/browser").await.unwrap_err().starts_with("/nowhere/browser: "));
        assert_eq!(open("false").await.unwrap_err(), "false: exit status: 1");
        assert_eq!(open("true").await, Ok(()));
        // The next program is tried.
        assert_eq!(open("false:true").await, Ok(()));
    }
}
