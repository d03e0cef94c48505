//! Owns the names that the servers of hosts get here: hosts allow characters that no name of ours can have.

use std::collections::{HashMap, HashSet};

use crate::check;

/// Returns a name that a server of a [`Config`](crate::Config) can have, as close to `text` as possible.
/// `None` if nothing of it can be kept.
pub fn valid_server_name(text: &str) -> Option<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let name: String = text.chars().map(|c| if is_allowed(c) { c } else { '-' }).take(MAX_NAME).collect();
    Some(name.trim_matches(['-', '.']).to_owned()).filter(|name| !name.is_empty())
}

/// Lists the names that keep a server apart from others of the same name: `name` with `suffix` at its end, and
/// then with a number after it. None is longer than a name can be.
pub fn numbered_server_names(name: &str, suffix: &str) -> impl Iterator<Item = String> {
    let with_end = move |end: String| {
        let kept: String = name.chars().take(MAX_NAME.saturating_sub(end.len())).collect();
        format!("{kept}{end}")
    };
    let numbers = (2..=MAX_NUMBER).map(move |number| format!("{suffix}-{number}"));
    std::iter::once(suffix.to_owned()).chain(numbers).map(with_end)
}

/// The names under which the servers of a host's file are used, by the names that are written there.
pub(crate) struct ServerNames(HashMap<String, String>);

impl ServerNames {
    /// Chooses the names. A valid name stays, whatever the others are. Of another one, what can be kept is
    /// kept, with a number if that is taken. If too many are, it stays as it is, and is refused later.
    pub(crate) fn choose<'a>(written: impl Iterator<Item = &'a str>) -> Self {
        let (valid, others): (Vec<&str>, Vec<&str>) = written.partition(|name| check::name(name).is_ok());
        let mut taken: HashSet<String> = valid.into_iter().map(str::to_owned).collect();
        let mut chosen = HashMap::new();
        // Nothing is looked for again where nothing was free: anybody may have written the file.
        let mut exhausted = HashSet::new();
        for name in others {
            let base = valid_server_name(name).unwrap_or_else(|| UNNAMED_SERVER.to_owned());
            if chosen.contains_key(name) || exhausted.contains(&base) {
                continue;
            }
            let free = numbered_server_names(&base, "").find(|candidate| !taken.contains(candidate));
            match free {
                Some(free) => {
                    taken.insert(free.clone());
                    chosen.insert(name.to_owned(), free);
                }
                None => drop(exhausted.insert(base)),
            }
        }
        Self(chosen)
    }

    /// Returns the name under which a server is used.
    pub(crate) fn used_name(&self, written: &str) -> String {
        self.0.get(written).map_or(written, String::as_str).to_owned()
    }
}

/// The longest name of a server.
const MAX_NAME: usize = 64;

/// The highest number that is added to a name.
const MAX_NUMBER: usize = 99;

/// The name of a server of whose own name nothing can be kept.
const UNNAMED_SERVER: &str = "server";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_as_close_as_possible() {
        for (text, name) in [
            ("github", Some("github")),
            ("My Server/v2", Some("My-Server-v2")),
            ("io.github.user/server", Some("io.github.user-server")),
            ("日本語", None),
            ("", None),
            ("a日b", Some("a-b")),
        ] {
            assert_eq!(valid_server_name(text).as_deref(), name, "{text}");
        }
        assert_eq!(valid_server_name(&"x".repeat(99)).unwrap().len(), 64);
    }

    #[test]
    fn numbered_names_are_never_too_long() {
        let names: Vec<String> = numbered_server_names(&"x".repeat(64), "").collect();
        assert!(names.iter().all(|name| name.len() == 64), "{names:?}");
        assert_eq!((names.len(), &names[98][60..]), (99, "x-99"));
        let names: Vec<String> = numbered_server_names("a", "-zed").take(3).collect();
        assert_eq!(names, ["a-zed", "a-zed-2", "a-zed-3"]);
    }

    #[test]
    fn a_valid_name_stays_whatever_comes_before_it() {
        let names = ServerNames::choose(["a b", "a/b", "a-b", "-", "a b", "server"].into_iter());
        let used = ["a b", "a/b", "a-b", "-", "server"].map(|name| names.used_name(name));
        assert_eq!(used, ["a-b-2", "a-b-3", "a-b", "-", "server"]);
        let names = ServerNames::choose(["é", "日本"].into_iter());
        assert_eq!(["é", "日本"].map(|name| names.used_name(name)), ["server", "server-2"]);
    }

    #[test]
    fn a_name_that_cannot_be_kept_apart_stays_as_it_is() {
        let written: Vec<String> = (0..102).map(|number| format!("a{}", " ".repeat(number + 1))).collect();
        let names = ServerNames::choose(written.iter().map(String::as_str));
        let used: Vec<String> = written.iter().map(|name| names.used_name(name)).collect();
        assert_eq!((&*used[0], &*used[1], &*used[98]), ("a", "a-2", "a-99"));
        assert_eq!(used[99..], written[99..]);
    }
}
