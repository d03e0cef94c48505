//! URIs that more than one server has.
//!
//! A URI that one server alone lists is exposed as it is. One that several list is exposed below
//! the name of its server: `bowline://SERVER/URI`, or `ui://bowline.SERVER/REST` where the scheme
//! tells hosts that it is an app.

/// The URI by which hosts reach a URI of a server that another server has as well. It works for
/// URI templates too.
pub(super) fn qualify(server: &str, uri: &str) -> String {
    match uri.strip_prefix(APP_SCHEME) {
        Some(rest) => format!("{APP_SCHEME}{APP_AUTHORITY}{server}/{rest}"),
        None => format!("{PREFIX}{server}/{uri}"),
    }
}

/// Splits a URI that [`qualify`] made into its server and the server's own URI.
pub(super) fn split(exposed: &str) -> Option<(&str, String)> {
    if let Some(rest) = exposed.strip_prefix(APP_SCHEME) {
        let (server, rest) = rest.strip_prefix(APP_AUTHORITY)?.split_once('/')?;
        return Some((server, format!("{APP_SCHEME}{rest}")));
    }
    let (server, uri) = exposed.strip_prefix(PREFIX)?.split_once('/')?;
    Some((server, uri.to_owned()))
}

/// Whether a URI begins like this URI template, up to its first variable.
pub(super) fn begins_like(uri: &str, template: &str) -> bool {
    template.split_once('{').is_some_and(|(literal, _)| !literal.is_empty() && uri.starts_with(literal))
}

const PREFIX: &str = "bowline://";
const APP_SCHEME: &str = "ui://";
const APP_AUTHORITY: &str = "bowline.";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// AP-01: the scheme of an app stays.
    #[test]
    fn ap_01_apps_keep_their_scheme() {
        assert_eq!(qualify("a", "ui://shop/cart.html"), "ui://bowline.a/shop/cart.html");
        assert_eq!(qualify("a", "file:///x/{path}"), "bowline://a/file:///x/{path}");
        assert_eq!(split("ui://shop/cart.html"), None);
        assert_eq!(split("file:///x"), None);
    }

    proptest! {
        #[test]
        fn qualified_uris_lead_back(server in "[A-Za-z0-9_.-]{1,64}", uri in "(ui://)?.{0,60}") {
            let exposed = qualify(&server, &uri);
            prop_assert_eq!(split(&exposed), Some((&*server, uri)));
        }
    }
}
