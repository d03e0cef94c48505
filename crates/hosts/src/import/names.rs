//! The names of imported servers.

use bowline_config::numbered_server_names;

use crate::host::Host;

/// The names that a server of a host can get, the preferred one first: its own, then with the host's
/// name, then with a number.
pub(super) fn candidates(base: &str, host: Host) -> impl Iterator<Item = String> {
    let with_host: Vec<String> = numbered_server_names(base, &format!("-{}", host.id())).collect();
    std::iter::once(base.to_owned()).chain(with_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_never_too_long() {
        let long = "x".repeat(64);
        let names: Vec<String> = candidates(&long, Host::ClaudeDesktop).take(3).collect();
        assert!(names.iter().all(|name| name.len() == 64), "{names:?}");
        let names: Vec<String> = candidates("a", Host::Zed).take(3).collect();
        assert_eq!(names, ["a", "a-zed", "a-zed-2"]);
    }
}
