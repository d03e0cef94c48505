//! [`HostView`]: the part of the servers that a host sees, and [`Views`], from which it is selected.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use bowline::config::View;
use tokio::sync::watch;

use crate::host_roots::HostRoots;

/// The part of the servers that a host sees, with the name of that part.
#[derive(Debug, Default)]
pub(crate) struct HostView {
    /// Empty for the view of everything, which has no name.
    name: Box<str>,
    view: View,
}

/// The views of a gateway, which can be replaced by others while hosts are served.
#[derive(Debug)]
pub(crate) struct Views(watch::Sender<Arc<ViewSet>>);

/// The views at one moment.
#[derive(Debug)]
pub(crate) struct ViewSet {
    by_name: BTreeMap<Box<str>, Arc<HostView>>,
    /// For hosts without a view.
    everything: Arc<HostView>,
    /// For hosts whose view does not exist, or is not known yet.
    nothing: Arc<HostView>,
}

/// How the view of a host is chosen.
#[derive(Debug)]
pub(crate) enum ViewChoice {
    /// The host sees everything.
    Everything,
    /// The host, or whoever started it, has selected a view by its name.
    Named(Box<str>),
    /// The roots of the host decide.
    ByRoots(HostRoots),
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
    pub(crate) fn new(views: impl IntoIterator<Item = (Box<str>, View)>) -> Self {
        Self(watch::Sender::new(Arc::new(ViewSet::default().replaced_by(views))))
    }

    /// Takes over other views. A view that is as before stays the same object.
    pub(crate) fn replace(&self, views: impl IntoIterator<Item = (Box<str>, View)>) {
        let next = self.current().replaced_by(views);
        self.0.send_replace(Arc::new(next));
    }

    /// The views at this moment.
    pub(crate) fn current(&self) -> Arc<ViewSet> {
        Arc::clone(&self.0.borrow())
    }

    /// Tells when the views are replaced.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<ViewSet>> {
        self.0.subscribe()
    }

    /// The view that a host has at this moment.
    pub(crate) fn resolve(&self, choice: &ViewChoice) -> Arc<HostView> {
        self.0.borrow().resolve(choice)
    }
}

impl ViewSet {
    fn replaced_by(&self, views: impl IntoIterator<Item = (Box<str>, View)>) -> Self {
        let by_name = views.into_iter().map(|(name, view)| {
            let before = self.by_name.get(&name).filter(|before| before.view == view);
            let host_view =
                before.map_or_else(|| Arc::new(HostView { name: name.clone(), view }), Arc::clone);
            (name, host_view)
        });
        Self {
            by_name: by_name.collect(),
            everything: Arc::clone(&self.everything),
            nothing: Arc::clone(&self.nothing),
        }
    }

    /// Whether a host has selected a view that does not exist.
    pub(crate) fn is_missing(&self, choice: &ViewChoice) -> bool {
        matches!(choice, ViewChoice::Named(name) if !self.by_name.contains_key(name))
    }

    /// Whether the roots of a host can decide its view.
    pub(crate) fn has_roots(&self) -> bool {
        self.by_name.values().any(|view| !view.roots.is_empty())
    }

    /// The view of a host. A view that does not exist shows nothing.
    fn resolve(&self, choice: &ViewChoice) -> Arc<HostView> {
        match choice {
            ViewChoice::Everything => Arc::clone(&self.everything),
            ViewChoice::Named(name) => Arc::clone(self.by_name.get(name).unwrap_or(&self.nothing)),
            ViewChoice::ByRoots(_) if !self.has_roots() => Arc::clone(&self.everything),
            ViewChoice::ByRoots(roots) => match roots.folders() {
                None => Arc::clone(&self.nothing),
                Some(folders) => self.find_by_roots(&folders),
            },
        }
    }

    /// The view of a host with these folders: the first folder that lies in one of a view decides, and
    /// of several views the one that describes it most closely, or else the first by name.
    fn find_by_roots(&self, folders: &[Box<str>]) -> Arc<HostView> {
        let find = |folder: &str| {
            let views = self.by_name.values().rev();
            let close = views.filter_map(|view| Some((view.root_closeness(folder)?, view)));
            close.max_by_key(|(closeness, _)| *closeness).map(|(_, view)| view)
        };
        Arc::clone(folders.iter().find_map(|folder| find(folder)).unwrap_or(&self.everything))
    }
}

impl Default for ViewSet {
    fn default() -> Self {
        let nothing = HostView { name: UNKNOWN_VIEW.into(), view: View::nothing() };
        Self { by_name: BTreeMap::new(), everything: Arc::default(), nothing: Arc::new(nothing) }
    }
}

impl ViewChoice {
    /// The choice of a host that may have selected a view.
    pub(crate) fn selected(name: Option<&str>) -> Self {
        name.map_or(Self::Everything, |name| Self::Named(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline::config::RootFolder;
    use bowline_testkit::with;

    fn view_of(server: &str) -> View {
        with!(View::default(), servers: Some([server.to_owned()].into()))
    }

    #[test]
    fn a_host_gets_the_view_it_selected_and_nothing_if_there_is_none() {
        let views = Views::new([("review".into(), view_of("docs"))]);
        let select = |name| views.resolve(&ViewChoice::selected(name));
        let review = select(Some("review"));
        assert!(review.shows_server("docs") && !review.shows_server("files"));
        let all = select(None);
        assert!(all.shows_all_of("docs") && all.shows_all_of("files"));
        let unknown = select(Some("other"));
        assert!(!unknown.shows_server("docs") && !unknown.shows_resources("docs"));
        let names = [review.name(), all.name(), unknown.name()];
        assert_eq!(names, ["review", "", "/"], "what is cached by name is not mixed up");
    }

    #[test]
    fn a_view_that_is_as_before_stays_the_same() {
        let views = Views::new([("a".into(), view_of("docs")), ("b".into(), view_of("docs"))]);
        let select = |name: &str| views.resolve(&ViewChoice::Named(name.into()));
        let (a, b) = (select("a"), select("b"));
        views.replace([("a".into(), view_of("docs")), ("b".into(), view_of("files"))]);
        assert!(Arc::ptr_eq(&a, &select("a")) && !Arc::ptr_eq(&b, &select("b")));
        assert!(select("b").shows_server("files"));
        views.replace([]);
        assert_eq!(select("a").name(), "/");
    }

    #[test]
    fn the_roots_of_a_host_decide_where_nothing_else_does() {
        let roots = |folders: &[&str], server: &str| with!(view_of(server), roots: folders.iter().map(RootFolder::new).collect());
        let views = Views::new([
            ("close".into(), roots(&["/w/a"], "x")),
            ("other".into(), roots(&["/o/*", "/w/*"], "x")),
            ("same".into(), roots(&["/w/a"], "x")),
            ("wide".into(), roots(&["/"], "x")),
            ("without".into(), view_of("x")),
        ]);
        let choice = ViewChoice::ByRoots(HostRoots::default());
        assert_eq!(views.resolve(&choice).name(), "/", "nothing is shown before they are known");
        let ViewChoice::ByRoots(known) = &choice else { unreachable!() };
        for (folders, expected) in [
            (&["/w/a/b"][..], "close"),
            (&["/w/b"], "other"),
            (&["/elsewhere"], "wide"),
            (&["/o/x", "/w/a"], "other"),
            (&[], ""),
        ] {
            known.set(folders.iter().map(|folder| (*folder).into()).collect());
            assert_eq!(views.resolve(&choice).name(), expected, "{folders:?}");
        }
        views.replace([("without".into(), view_of("x"))]);
        assert_eq!(views.resolve(&choice).name(), "", "no view has roots");
    }
}
