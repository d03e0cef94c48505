//! [`HostRoots`]: the folders that a host works in, as far as they are known.

use std::sync::Arc;
use std::time::Duration;

use bowline::Json;
use bowline_transport::percent_decode_lossy;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// The folders of one host.
#[derive(Debug, Default)]
pub(crate) struct HostRoots {
    state: watch::Sender<State>,
    /// Held while the host is asked.
    asking: tokio::sync::Mutex<()>,
    /// When the host left a question unanswered.
    silent_since: Mutex<Option<Instant>>,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// `None` while they are not known.
    folders: Option<Arc<[Box<str>]>>,
    /// Whether the host has said that they are others by now.
    is_outdated: bool,
}

impl HostRoots {
    /// The folders of a host that has none, and need not be asked.
    pub(crate) fn none() -> Self {
        let roots = Self::default();
        roots.set(Vec::new());
        roots
    }

    /// The folders, in the order of the host. `None` while they are not known.
    pub(crate) fn folders(&self) -> Option<Arc<[Box<str>]>> {
        self.state.borrow().folders.clone()
    }

    pub(crate) fn set(&self, folders: Vec<Box<str>>) {
        self.state.send_replace(State { folders: Some(folders.into()), is_outdated: false });
    }

    /// Takes note that the folders are others by now. Those that are known count until the host has
    /// said which.
    pub(crate) fn mark_outdated(&self) {
        self.state.send_modify(|state| state.is_outdated = true);
    }

    /// Whether the host has to be asked.
    pub(crate) fn is_wanted(&self) -> bool {
        let state = self.state.borrow();
        state.is_outdated || state.folders.is_none()
    }

    /// Whether the host may be asked: not soon after it left a question unanswered, so that its requests do
    /// not all wait.
    pub(crate) fn may_ask(&self) -> bool {
        self.silent_since.lock().is_none_or(|since| since.elapsed() >= SILENT_TIME)
    }

    /// Takes note that the host left a question unanswered.
    pub(crate) fn record_silence(&self) {
        *self.silent_since.lock() = Some(Instant::now());
    }

    /// Waits until the folders are known.
    pub(crate) async fn wait_until_known(&self) {
        // The sender lives as long as `self`.
        let _ = self.state.subscribe().wait_for(|state| state.folders.is_some()).await;
    }

    /// Asks the host, one request at a time. `ask` sends `roots/list` and returns the result, if the host
    /// answers. Dropping the future asks again at the next time.
    pub(crate) async fn ask(&self, ask: impl Future<Output = Option<Json>>) {
        let _asking = self.asking.lock().await;
        if self.is_wanted()
            && let Some(result) = ask.await
        {
            self.set(folders_of(&result));
        }
    }
}

/// The folders in the result of `roots/list`. What is no folder of this machine is left out.
fn folders_of(result: &Json) -> Vec<Box<str>> {
    #[derive(serde::Deserialize)]
    struct Roots {
        #[serde(default)]
        roots: Vec<Root>,
    }
    #[derive(serde::Deserialize)]
    struct Root {
        uri: String,
    }
    let Ok(Roots { roots }) = result.decode() else { return Vec::new() };
    roots.iter().take(MAX_ROOTS).filter_map(|root| folder_of(&root.uri)).collect()
}

/// The path of a URI such as `file:///home/me/work`, in whatever spelling: that of the folder to which it leads.
fn folder_of(uri: &str) -> Option<Box<str>> {
    let (scheme, rest) = uri.split_once(':')?;
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/')?),
        None => ("", rest),
    };
    let is_here = authority.is_empty() || authority.eq_ignore_ascii_case("localhost");
    let is_folder = scheme.eq_ignore_ascii_case("file") && is_here && path.starts_with('/');
    is_folder.then(|| without_dot_segments(&percent_decode_lossy(path)))
}

/// The path with the meaning of `.` and `..` in it, and without empty names.
fn without_dot_segments(path: &str) -> Box<str> {
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/")).into()
}

/// How long a host that left a question unanswered is not asked again.
const SILENT_TIME: Duration = Duration::from_secs(30);
/// Most roots of a host that are looked at.
const MAX_ROOTS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    /// Its requests do not all wait.
    #[tokio::test(start_paused = true)]
    async fn a_host_that_does_not_answer_is_asked_again_later() {
        let roots = HostRoots::default();
        assert!(roots.may_ask());
        roots.record_silence();
        assert!(!roots.may_ask() && roots.is_wanted());
        tokio::time::advance(SILENT_TIME).await;
        assert!(roots.may_ask());
    }

    #[test]
    fn folders_are_read_from_file_uris() {
        for (uri, folder) in [
            ("file:///home/me/a%20b", Some("/home/me/a b")),
            ("file://localhost/home", Some("/home")),
            ("file:///C:/x", Some("/C:/x")),
            ("FILE:///home", Some("/home")),
            ("File://LocalHost/home", Some("/home")),
            ("file:/home", Some("/home")),
            ("file:///home/me/", Some("/home/me")),
            ("file:////home//me", Some("/home/me")),
            ("file:///%68ome/m%65", Some("/home/me")),
            ("file:///home/./me/../you", Some("/home/you")),
            ("file:///home/me/%2e%2E/you", Some("/home/you")),
            ("file:///home/me%2f..%2fyou", Some("/home/you")),
            ("file:///home/../../etc", Some("/etc")),
            ("file:///", Some("/")),
            ("file://", None),
            ("file://elsewhere/home", None),
            ("file://localhost.example/home", None),
            ("https://example.com/home", None),
            ("file:home", None),
        ] {
            assert_eq!(folder_of(uri).as_deref(), folder, "{uri}");
        }
        let result = Json::try_from(r#"{"roots":[{"uri":"file:///a"},{"uri":"x:"},{"uri":"file:///b"}]}"#);
        assert_eq!(folders_of(&result.unwrap()), [Box::from("/a"), Box::from("/b")]);
        assert!(folders_of(&Json::empty_object()).is_empty());
    }
}
