//! Owns the `resource` parameter (RFC 8707), and whether a resource covers a server.

use bowline_config::{AuthSettings, ResourceIndicator};
use url::Url;

use crate::discovery::Discovery;

/// The `resource` of every token request (AF-02): as configured, else verbatim from the server's
/// checked metadata.
pub(crate) fn parameter(auth: &AuthSettings, discovery: &Discovery, server: &Url) -> Option<String> {
    match &auth.resource {
        ResourceIndicator::Off => None,
        ResourceIndicator::Fixed(resource) => Some(resource.clone()),
        ResourceIndicator::Discovered => {
            Some(discovery.resource.clone().unwrap_or_else(|| canonical(server)))
        }
    }
}

/// Whether a resource is the server itself, or a parent path on the same origin (AD-03).
///
/// Otherwise a token for one server could be obtained for another.
pub(crate) fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    if resource.origin() != server.origin() || !resource.origin().is_tuple() {
        return false;
    }
    let personal = !resource.username().is_empty() || resource.password().is_some();
    let narrower = resource.query().is_some() && resource.query() != server.query();
    if personal || narrower || resource.fragment().is_some() {
        return false;
    }
    let trimmed = |url: &Url| url.path().strip_suffix('/').unwrap_or(url.path()).to_owned();
    let (parent, path) = (trimmed(&resource), trimmed(server));
    path.strip_prefix(&parent).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// The resource of a server without metadata: its URL without secrets.
pub(crate) fn canonical(server: &Url) -> String {
    let text = String::from(without_secrets(server.clone()));
    match text.strip_suffix('/') {
        // The slash of `https://host/` is meaningless. In longer paths it is significant.
        Some(origin) if server.path() == "/" => origin.to_owned(),
        _ => text,
    }
}

/// A URL without query, fragment and user information, which may hold secrets.
pub(crate) fn without_secrets(mut url: Url) -> Url {
    url.set_query(None);
    url.set_fragment(None);
    // These only fail for URLs without a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

#[cfg(test)]
mod tests {
    use bowline_testkit::with;
    use proptest::prelude::*;

    use super::*;
    use crate::discovery::tests::bare_discovery;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn af_02_the_value_is_taken_from_the_metadata_to_the_letter() {
        let mut discovery = bare_discovery();
        let server = url("https://H.example:443/a/mcp?key=1#x");
        let found = |resource: ResourceIndicator, discovery: &Discovery| {
            let auth = with!(AuthSettings::default(), resource: resource);
            parameter(&auth, discovery, &server)
        };
        assert_eq!(
            found(ResourceIndicator::Discovered, &discovery).as_deref(),
            Some("https://h.example/a/mcp")
        );
        for resource in ["https://h.example", "https://h.example/", "HTTPS://h.example:443/a/mcp"] {
            discovery.resource = Some(resource.to_owned());
            assert_eq!(found(ResourceIndicator::Discovered, &discovery).as_deref(), Some(resource));
        }
        assert_eq!(found(ResourceIndicator::Fixed("api://x".into()), &discovery).as_deref(), Some("api://x"));
        assert_eq!(found(ResourceIndicator::Off, &discovery), None);
    }

    #[test]
    fn af_02_the_canonical_form_has_no_secret_and_no_idle_slash() {
        assert_eq!(canonical(&url("https://me:pw@H.example/?token=s#f")), "https://h.example");
        assert_eq!(canonical(&url("https://h.example/mcp/")), "https://h.example/mcp/");
        assert_eq!(canonical(&url("http://127.0.0.1:8080/mcp")), "http://127.0.0.1:8080/mcp");
    }

    #[test]
    fn ad_03_the_server_or_a_parent_of_it() {
        let server = url("https://h.example/a/mcp?x=1");
        for resource in [
            "https://h.example/a/mcp",
            "https://h.example/a/mcp/",
            "https://H.EXAMPLE:443/a/mcp?x=1",
            "https://h.example/a",
            "https://h.example/a/",
            "https://h.example",
            "https://h.example/",
        ] {
            assert!(covers(resource, &server), "{resource}");
        }
        for resource in [
            "https://evil.example/a/mcp",
            "https://h.example.evil.example/a/mcp",
            "https://h.example@evil.example/a/mcp",
            "http://h.example/a/mcp",
            "https://h.example:8443/a/mcp",
            "https://h.example/a/mc",
            "https://h.example/a/mcp2",
            "https://h.example/b",
            "https://h.example/a/mcp/child",
            "https://h.example/a/../b/mcp",
            "https://h.example/a/mcp#x",
            "https://h.example/a/mcp?x=2",
            "https://me@h.example/a/mcp",
            "/a/mcp",
            "urn:x",
            "",
        ] {
            assert!(!covers(resource, &server), "{resource}");
        }
    }

    proptest! {
        // AD-03: every accepted resource has the server's origin.
        #[test]
        fn only_the_same_origin_is_accepted(resource in "(https?:)?//?(h[.]example)?[@:/.?#a-z0-9%-]{0,30}") {
            let server = url("https://h.example/a/mcp");
            if covers(&resource, &server) {
                prop_assert_eq!(url(&resource).origin(), server.origin());
            }
        }

        #[test]
        fn every_parent_is_accepted_and_no_child(path in prop::collection::vec("[a-z]{1,4}", 0..5), more in "[a-z]{1,4}") {
            let server = url(&format!("https://h.example/{}", path.join("/")));
            for cut in 0..=path.len() {
                let parent = format!("https://h.example/{}", path[..cut].join("/"));
                prop_assert!(covers(&parent, &server), "{}", parent);
            }
            let child = format!("{}/{more}", server.as_str().trim_end_matches('/'));
            prop_assert!(!covers(&child, &server), "{}", child);
        }
    }
}
