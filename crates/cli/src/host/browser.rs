//! Owns the opening of a page in the system's browser, where neither we nor a model can look on (EL-09), and
//! whether there is one to be opened. The address is one argument of a program; no shell sees it.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use bowline::config::Environment;
use tokio::sync::oneshot;

use crate::env;

/// Whether a browser that is opened here is one that the person sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It is.
    Here,
    /// The person sits at another machine.
    Ssh,
    /// Nothing is shown here.
    NoDisplay,
    /// The person wants none to be opened.
    Unwanted,
}

impl Reach {
    /// What the environment says. Whoever names a browser has one, with or without a display; but not at the other
    /// end of SSH, where the same profile may be in use.
    pub(crate) fn of(env: &dyn Environment) -> Self {
        let given = |name: &&str| env::given(env, name).is_some();
        if env::SSH.iter().any(given) {
            return Self::Ssh;
        }
        let elsewhere = cfg!(any(windows, target_os = "macos"));
        if elsewhere || given(&env::BROWSER) || env::DISPLAYS.iter().any(given) {
            Self::Here
        } else {
            Self::NoDisplay
        }
    }
}

/// The programs to try, in order, each with what comes before the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Browser(Vec<Vec<String>>);

/// Stands for the address in `BROWSER`.
const ADDRESS: &str = "%s";

impl Browser {
    /// Those of the variable `BROWSER`, which are parted by colons, or the system's.
    pub(super) fn new(variable: Option<&str>) -> Self {
        let words = |entry: &str| entry.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
        // A path on Windows has a colon of its own.
        let entries =
            variable.map(|entry| if cfg!(windows) { vec![entry] } else { entry.split(':').collect() });
        let own: Vec<Vec<String>> = entries.unwrap_or_default().into_iter().map(words).collect();
        let own: Vec<Vec<String>> = own.into_iter().filter(|words| !words.is_empty()).collect();
        if own.is_empty() { Self(SYSTEM.iter().map(|entry| words(entry)).collect()) } else { Self(own) }
    }

    /// Starts the first that works. One that does not fail soon is taken to: it may run as long as the browser
    /// does. The error says why the last did not.
    pub(super) async fn open(&self, url: &str) -> Result<(), String> {
        let mut failed = String::new();
        for entry in &self.0 {
            match start(&arguments(entry, url)).await {
                Ok(()) => return Ok(()),
                Err(why) => failed = format!("{}: {why}", entry[0]),
            }
        }
        Err(failed)
    }
}

#[cfg(target_os = "macos")]
const SYSTEM: [&str; 1] = ["/usr/bin/open"];
// `start` is a word of the shell, which would read the address as commands.
#[cfg(windows)]
const SYSTEM: [&str; 1] = ["rundll32 url.dll,FileProtocolHandler"];
#[cfg(not(any(target_os = "macos", windows)))]
const SYSTEM: [&str; 4] = ["xdg-open", "gio open", "wslview", "sensible-browser"];

fn arguments(entry: &[String], url: &str) -> Vec<String> {
    let mut words: Vec<String> = entry.iter().map(|word| word.replace(ADDRESS, url)).collect();
    if !entry.iter().any(|word| word.contains(ADDRESS)) {
        words.push(url.to_owned());
    }
    words
}

/// As long as those take that hand an address on, and find nobody to.
const SOON: Duration = Duration::from_secs(2);

async fn start(words: &[String]) -> io::Result<()> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C is for us, and not for a browser that happens to be new.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn()?;
    let (ended, end) = oneshot::channel();
    // A thread, as neither the runtime nor its end is to wait for a browser.
    std::thread::spawn(move || ended.send(child.wait()));
    match tokio::time::timeout(SOON, end).await {
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
            let env = bowline::config::Fixed::default();
            Reach::of(&names.iter().fold(env, |env, name| env.with_var(*name, "x")))
        };
        assert_eq!(of(&[]), Reach::NoDisplay);
        for name in ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER"] {
            assert_eq!(of(&[name]), Reach::Here);
            assert_eq!(of(&[name, "SSH_CONNECTION"]), Reach::Ssh);
            assert_eq!(of(&[name, "SSH_TTY"]), Reach::Ssh);
        }
    }

    #[test]
    #[cfg(unix)]
    fn the_address_is_one_argument() {
        let url = "https://h/?a=b&c=$(touch x);'\"";
        let of = |variable| {
            let Browser(entries) = Browser::new(Some(variable));
            entries.iter().map(|entry| arguments(entry, url)).collect::<Vec<_>>()
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
    async fn one_that_fails_is_not_one_that_opened() {
        let open = async |browser| Browser::new(Some(browser)).open("https://h/").await;
        assert!(open("/nowhere/browser").await.unwrap_err().starts_with("/nowhere/browser: "));
        assert_eq!(open("false").await.unwrap_err(), "false: exit status: 1");
        assert_eq!(open("true").await, Ok(()));
        // The next one is tried.
        assert_eq!(open("false:true").await, Ok(()));
    }
}
