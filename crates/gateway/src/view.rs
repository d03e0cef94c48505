//! [`HostView`]: the part of the servers that a host sees, and [`Views`], from which it is selected.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use bowline::config::View;

/// The part of the servers that a host sees, with the name of that part.
#[derive(Debug, Default)]
pub(crate) struct HostView {
    /// Empty for the view of everything, which has no name.
    name: Box<str>,
    view: View,
}

/// The views of a gateway.
#[derive(Debug, Default)]
pub(crate) struct Views {
    by_name: HashMap<Box<str>, Arc<HostView>>,
    /// For hosts without a view.
    everything: Arc<HostView>,
}

/// The name of the view of a host whose view does not exist. No view can be called so.
const UNKNOWN_VIEW: &str = "/";

impl HostView {
    /// The name of the view, which no other view of the gateway has.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Deref for HostView {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl Views {
    /// Adds a view, in place of an earlier one of the same name.
    pub(crate) fn insert(&mut self, name: &str, view: View) {
        self.by_name.insert(name.into(), Arc::new(HostView { name: name.into(), view }));
    }

    /// The view that a host selected, or everything if it selected none. A view that does not exist
    /// shows nothing.
    pub(crate) fn select(&self, name: Option<&str>) -> Arc<HostView> {
        let Some(name) = name else { return Arc::clone(&self.everything) };
        self.by_name.get(name).map_or_else(
            || {
                tracing::warn!(view = name, "a host has a view that does not exist, so it sees nothing");
                Arc::new(HostView { name: UNKNOWN_VIEW.into(), view: View::nothing() })
            },
            Arc::clone,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_testkit::with;

    #[test]
    fn a_host_gets_the_view_it_selected_and_nothing_if_there_is_none() {
        let mut views = Views::default();
        let docs = with!(View::default(), servers: Some(["docs".to_owned()].into()));
        views.insert("review", docs);
        let review = views.select(Some("review"));
        assert!(review.shows_server("docs") && !review.shows_server("files"));
        let all = views.select(None);
        assert!(all.shows_all_of("docs") && all.shows_all_of("files"));
        let unknown = views.select(Some("other"));
        assert!(!unknown.shows_server("docs") && !unknown.shows_resources("docs"));
        let names = [review.name(), all.name(), unknown.name()];
        assert_eq!(names, ["review", "", "/"], "what is cached by name is not mixed up");
    }
}
