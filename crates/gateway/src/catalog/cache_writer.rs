//! [`CacheWriter`]: saves what servers offer in the background.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{CatalogCache, CatalogKey, NameOwners, ServerLists};

/// Saves lists and names, one after the other: a thread for each of many servers would take memory that
/// it does not give back.
#[derive(Debug)]
pub(super) struct CacheWriter {
    cache: Arc<dyn CatalogCache>,
    waiting: Arc<Mutex<WaitingSaves>>,
}

#[derive(Debug, Default)]
struct WaitingSaves {
    lists: VecDeque<(CatalogKey, Arc<ServerLists>)>,
    names: Option<NameOwners>,
    /// Whether a thread saves.
    is_saving: bool,
}

/// One thing to save.
enum Save {
    Lists(CatalogKey, Arc<ServerLists>),
    Names(NameOwners),
}

impl CacheWriter {
    pub(super) fn new(cache: Arc<dyn CatalogCache>) -> Self {
        Self { cache, waiting: Arc::default() }
    }

    /// Where it saves.
    pub(super) fn cache(&self) -> &dyn CatalogCache {
        &*self.cache
    }

    /// Saves lists, in place of those of the same key that wait.
    pub(super) fn save(&self, key: CatalogKey, lists: Arc<ServerLists>) {
        self.add(|waiting| match waiting.lists.iter_mut().find(|(waiting, _)| *waiting == key) {
            Some((_, older)) => *older = lists,
            None => waiting.lists.push_back((key, lists)),
        });
    }

    /// Saves which tool had which name.
    pub(super) fn save_names(&self, names: NameOwners) {
        self.add(|waiting| waiting.names = Some(names));
    }

    fn add(&self, add: impl FnOnce(&mut WaitingSaves)) {
        let mut waiting = self.waiting.lock();
        add(&mut waiting);
        if !waiting.is_saving {
            waiting.is_saving = true;
            let (cache, waiting) = (Arc::clone(&self.cache), Arc::clone(&self.waiting));
            tokio::task::spawn_blocking(move || save_all(&*cache, &waiting));
        }
    }
}

/// Saves until nothing is left.
fn save_all(cache: &dyn CatalogCache, waiting: &Mutex<WaitingSaves>) {
    loop {
        // Unlocked before anything is saved.
        let save = next(&mut waiting.lock());
        match save {
            Some(Save::Lists(key, lists)) => cache.save(&key, &lists),
            Some(Save::Names(names)) => cache.save_names(&names),
            None => return,
        }
    }
}

fn next(waiting: &mut WaitingSaves) -> Option<Save> {
    let lists = waiting.lists.pop_front().map(|(key, lists)| Save::Lists(key, lists));
    let save = lists.or_else(|| waiting.names.take().map(Save::Names));
    waiting.is_saving = save.is_some();
    save
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use bowline::Server;
    use bowline::negotiation::ServerKey;

    use super::super::Profile;
    use super::*;

    /// Says what is saved, and waits until it may go on.
    #[derive(Debug)]
    struct SlowCache {
        saved: Sender<String>,
        go_on: Mutex<Receiver<()>>,
    }

    impl SlowCache {
        fn note(&self, what: &str) {
            self.saved.send(what.to_owned()).unwrap();
            self.go_on.lock().recv().unwrap();
        }
    }

    impl CatalogCache for SlowCache {
        fn load(&self, _key: &CatalogKey) -> Option<ServerLists> {
            None
        }

        fn save(&self, _key: &CatalogKey, lists: &ServerLists) {
            self.note(lists.instructions.as_deref().unwrap_or_default());
        }

        fn load_names(&self) -> NameOwners {
            NameOwners::default()
        }

        fn save_names(&self, _names: &NameOwners) {
            self.note("names");
        }
    }

    #[tokio::test]
    async fn lists_are_saved_one_after_the_other_and_the_newest_last() {
        let (saved, reported) = channel();
        let (release, go_on) = channel();
        let writer = CacheWriter::new(Arc::new(SlowCache { saved, go_on: Mutex::new(go_on) }));
        let save = |server: &str, text: &str| {
            let server = Server::http(server, format!("http://h/{server}")).build().unwrap();
            let key = CatalogKey { server: ServerKey::from_server(&server), profile: Profile::default() };
            let lists = ServerLists { instructions: Some(text.into()), ..ServerLists::default() };
            writer.save(key, Arc::new(lists));
        };
        save("a", "a1");
        assert_eq!(reported.recv().unwrap(), "a1");
        save("a", "a2");
        save("b", "b1");
        writer.save_names(NameOwners::default());
        save("a", "a3");
        for expected in ["a3", "b1", "names"] {
            assert!(reported.try_recv().is_err(), "two are saved at the same time");
            release.send(()).unwrap();
            assert_eq!(reported.recv().unwrap(), expected);
        }
        release.send(()).unwrap();
        while writer.waiting.lock().is_saving {
            tokio::task::yield_now().await;
        }
        save("b", "b2");
        assert_eq!(reported.recv().unwrap(), "b2");
        release.send(()).unwrap();
    }
}
