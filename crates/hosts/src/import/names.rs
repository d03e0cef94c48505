//! The names of imported servers.

use crate::host::Host;

/// Returns a name that an entry of our configuration can have, as close to `text` as possible. `None` if
/// nothing of it can be kept.
pub fn valid_server_name(text: &str) -> Option<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let name: String = text.chars().map(|c| if is_allowed(c) { c } else { '-' }).take(MAX_NAME).collect();
    Some(name.trim_matches(['-', '.']).to_owned()).filter(|name| !name.is_empty())
}

/// The names that a server of a host can get, the preferred one first: its own, then with the host's
/// name, then with a number.
pub(super) fn candidates(base: &str, host: Host) -> impl Iterator<Item = String> {
    let with_end = |end: String| {
        let kept = &base[..base.len().min(MAX_NAME - end.len())];
        format!("{kept}{end}")
    };
    let with_host = with_end(format!("-{}", host.id()));
    let numbered: Vec<String> = (2..=MAX_NUMBER).map(|n| with_end(format!("-{}-{n}", host.id()))).collect();
    [base.to_owned(), with_host].into_iter().chain(numbered)
}

/// The longest name of a server.
const MAX_NAME: usize = 64;

/// The highest number that is added to a name.
const MAX_NUMBER: usize = 99;

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
    fn candidates_are_never_too_long() {
        let long = "x".repeat(64);
        let names: Vec<String> = candidates(&long, Host::ClaudeDesktop).take(3).collect();
        assert!(names.iter().all(|name| name.len() == 64), "{names:?}");
        let names: Vec<String> = candidates("a", Host::Zed).take(3).collect();
        assert_eq!(names, ["a", "a-zed", "a-zed-2"]);
    }
}
