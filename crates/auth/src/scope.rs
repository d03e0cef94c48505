//! Owns which scopes are requested.

use bowline_config::{AuthSettings, Grant};

use crate::challenge::Challenge;
use crate::discovery::Discovery;

/// The scope that requests a refresh token (OpenID Connect Core §11).
const OFFLINE_ACCESS: &str = "offline_access";

/// The scopes of a first login (SC-01): the configured ones, verbatim; else those of the challenge;
/// else those that the server's metadata lists. If empty, the authorization server decides.
pub(crate) fn initial(auth: &AuthSettings, challenge: &Challenge, discovery: &Discovery) -> Vec<String> {
    if let Some(configured) = &auth.scope {
        return configured.clone();
    }
    let found = challenge.scope.as_ref().or(discovery.scopes.as_ref()).cloned().unwrap_or_default();
    add_offline_access(auth, discovery, found)
}

/// The scopes of a login that follows a demand for more (SC-03): all requested so far plus those of
/// the challenge, each once. They need not appear in any metadata (SC-02).
pub(crate) fn step_up(earlier: &[String], challenge: &Challenge) -> Vec<String> {
    union(earlier, challenge.scope.as_deref().unwrap_or_default())
}

/// The union of both lists, in order and without duplicates.
pub(crate) fn union(earlier: &[String], more: &[String]) -> Vec<String> {
    let mut scopes: Vec<String> = Vec::with_capacity(earlier.len() + more.len());
    for scope in earlier.iter().chain(more) {
        if !scopes.contains(scope) {
            scopes.push(scope.clone());
        }
    }
    scopes
}

/// Adds `offline_access` where a person logs in and the authorization server lists it (SC-05). It
/// is never requested alone: an empty request yields the default scopes, which would be lost.
fn add_offline_access(auth: &AuthSettings, discovery: &Discovery, mut scopes: Vec<String>) -> Vec<String> {
    let lists = |list: &Option<Vec<String>>, what: &str| {
        list.as_ref().is_some_and(|list| list.iter().any(|it| it == what))
    };
    let metadata = &discovery.metadata;
    let renews =
        metadata.grant_types_supported.is_none() || lists(&metadata.grant_types_supported, "refresh_token");
    let wanted = match auth.grant {
        Grant::Person | Grant::Device => {
            renews && lists(&metadata.scopes_supported, OFFLINE_ACCESS) && !scopes.is_empty()
        }
        Grant::ClientCredentials | Grant::Enterprise(_) | Grant::Workload(_) | Grant::Off => false,
    };
    if wanted && !scopes.iter().any(|scope| scope == OFFLINE_ACCESS) {
        scopes.push(OFFLINE_ACCESS.to_owned());
    }
    scopes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::tests::bare_discovery;
    use bowline_testkit::with;

    fn list(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn challenge(scope: &str) -> Challenge {
        Challenge { scope: Some(list(scope)).filter(|scope| !scope.is_empty()), ..Challenge::default() }
    }

    #[test]
    fn sc_01_challenge_then_metadata_then_nothing() {
        let auth = AuthSettings::default();
        let mut discovery = bare_discovery();
        assert_eq!(initial(&auth, &challenge(""), &discovery), list(""));
        discovery.scopes = Some(list("a b c"));
        assert_eq!(initial(&auth, &challenge(""), &discovery), list("a b c"));
        // SC-02: the challenge wins, even with scopes that no metadata lists.
        assert_eq!(initial(&auth, &challenge("z"), &discovery), list("z"));
    }

    #[test]
    fn what_is_configured_is_asked_for_to_the_letter() {
        let mut discovery = bare_discovery();
        discovery.scopes = Some(list("a"));
        discovery.metadata.scopes_supported = Some(list("a offline_access"));
        let auth = with!(AuthSettings::default(), scope: Some(list("mine")));
        assert_eq!(initial(&auth, &challenge("z"), &discovery), list("mine"));
        let auth = with!(AuthSettings::default(), scope: Some(Vec::new()));
        assert_eq!(initial(&auth, &challenge("z"), &discovery), list(""));
    }

    #[test]
    fn sc_05_offline_access_only_where_the_authorization_server_lists_it() {
        let auth = AuthSettings::default();
        let mut discovery = bare_discovery();
        assert_eq!(initial(&auth, &challenge("a"), &discovery), list("a"));
        // Only the authorization server's list counts.
        discovery.scopes = Some(list("offline_access_like a"));
        assert_eq!(initial(&auth, &challenge(""), &discovery), list("offline_access_like a"));
        discovery.metadata.scopes_supported = Some(list("a offline_access"));
        assert_eq!(initial(&auth, &challenge("a"), &discovery), list("a offline_access"));
        assert_eq!(initial(&auth, &challenge("offline_access a"), &discovery), list("offline_access a"));
        discovery.scopes = None;
        assert_eq!(initial(&auth, &challenge(""), &discovery), list(""), "never alone");
        discovery.metadata.grant_types_supported = Some(list("authorization_code"));
        assert_eq!(initial(&auth, &challenge("a"), &discovery), list("a"), "nothing would come of it");
        discovery.metadata.grant_types_supported = None;
        let machine = with!(AuthSettings::default(), grant: Grant::ClientCredentials);
        assert_eq!(initial(&machine, &challenge("a"), &discovery), list("a"));
    }

    #[test]
    fn sc_03_a_step_up_asks_for_both() {
        assert_eq!(step_up(&list("old both"), &challenge("new both")), list("old both new"));
        assert_eq!(step_up(&list("old"), &challenge("")), list("old"));
    }
}
