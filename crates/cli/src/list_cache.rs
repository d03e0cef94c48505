//! [`ListCache`]: the lists of servers as they were last fetched, by a command or by `bowline serve`.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bowline::negotiation::ServerKey;
use bowline::{Json, Registry, Server};
use bowline_gateway::{
    CatalogCache as _, CatalogKey, FolderCatalog, ListKind, Profile, SavedLists, ServerLists,
};
use bowline_store::private;
use futures_util::future::join_all;
use tokio::time::timeout_at;

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::print::progress::Bar;
use crate::print::{clock, units};
use crate::search_index::{ServerTexts, Source};
use crate::session;
use crate::settings::Settings;

/// The lists of servers as they were last fetched. Without a folder nothing is remembered.
pub(crate) struct ListCache {
    catalog: Option<FolderCatalog>,
    folder: Option<PathBuf>,
}

/// The lists of one server, in some form.
#[derive(Debug)]
pub(crate) struct Known<L> {
    pub(crate) server: Server,
    pub(crate) lists: L,
    /// When they were fetched, if that was not just now.
    pub(crate) fetched: Option<SystemTime>,
    /// Why they could not be fetched now.
    pub(crate) failure: Option<String>,
}

pub(crate) type KnownLists = Known<ServerLists>;

impl<L> Known<L> {
    /// Whether it is known what the server offers, now or at some time.
    pub(crate) fn is_known(&self) -> bool {
        self.failure.is_none() || self.fetched.is_some()
    }

    /// When the lists were fetched, for machines, if that was not just now.
    pub(crate) fn fetched_text(&self) -> Option<String> {
        self.fetched.map(clock::utc)
    }

    /// Says that a server could not be asked, or that what it listed is old.
    pub(crate) fn notes(&self) -> Vec<String> {
        let name = &self.server.name;
        let age = self.fetched.map(|fetched| clock::since(SystemTime::now(), fetched));
        let aged = age.map(|age| format!("this is what it listed {} ago", clock::format_span(age)));
        match (&self.failure, aged) {
            (Some(failure), Some(aged)) => vec![format!("`{name}` could not be asked: {failure}; {aged}")],
            (Some(failure), None) => vec![format!("`{name}` could not be asked: {failure}")],
            (None, Some(_)) if age.is_some_and(|age| age > OLD) => {
                let span = clock::format_span(age.unwrap_or_default());
                vec![format!("`{name}` was asked {span} ago; `--refresh` asks it again")]
            }
            _ => Vec::new(),
        }
    }
}

/// From when on lists are called old.
const OLD: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What was saved of a server, in some form.
struct Loaded<L> {
    lists: L,
    saved: SystemTime,
    coverage: Coverage,
}

/// How many of the wanted lists are known. `bowline serve` also saves what it has of a server of which it could not
/// fetch some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coverage {
    /// All of them.
    Whole,
    /// Some were never fetched.
    Partial,
}

/// When the lists of servers are fetched anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// If one of them was never fetched, and the server has not just failed to answer in time.
    Missing,
    /// In any case.
    All,
}

/// How long servers get to connect and list.
const FETCH_TIME: Duration = Duration::from_secs(20);

/// How long a server that did not list in [`FETCH_TIME`] is not asked again, unless `--refresh` is given. The
/// other servers are remembered, and would have to wait for it each time.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// How many threads load what was saved, at most.
const MAX_LOADING_THREADS: usize = 4;
/// How many servers are worth a thread.
const MIN_LOADED_SERVERS: usize = 8;

impl ListCache {
    pub(crate) fn open(settings: &Settings) -> Self {
        Self::new(settings.folders().catalog)
    }

    fn new(folder: Option<PathBuf>) -> Self {
        Self { catalog: folder.clone().map(FolderCatalog::new), folder }
    }

    /// Remembers all lists of a server. The time of their file says when they were fetched.
    pub(crate) fn save(&self, server: &Server, lists: &ServerLists) {
        if let Some(catalog) = &self.catalog {
            catalog.save(&key(server), lists);
        }
        let _ = self.timeout_path(server).map(fs::remove_file);
    }

    /// The file whose time says when the server did not list in time.
    fn timeout_path(&self, server: &Server) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{}.timeout", ServerKey::from_server(server))))
    }

    /// Remembers that a server did not list in time.
    fn save_timeout(&self, server: &Server) {
        let (Some(folder), Some(path)) = (&self.folder, self.timeout_path(server)) else { return };
        if let Err(error) = private::create_folder(folder).and_then(|()| private::replace_file(&path, b"")) {
            tracing::debug!(%error, "the failure of a server could not be saved");
        }
    }

    /// Returns why a server is not asked now: less than [`RETRY_DELAY`] ago it did not list in time.
    fn recent_timeout(&self, server: &Server) -> Option<String> {
        let failed = fs::metadata(self.timeout_path(server)?).and_then(|file| file.modified()).ok()?;
        let age = SystemTime::now().duration_since(failed).ok().filter(|age| *age < RETRY_DELAY)?;
        let (limit, age) = (units::time(FETCH_TIME), clock::format_span(age));
        Some(format!(
            "it gave no answer within {limit} when it was last asked, {age} ago; `--refresh` asks it again"
        ))
    }

    /// Remembers the tools of a server whose lists are remembered; the other lists stay as they are.
    /// Tools alone are not remembered: the server would seem to have no prompts and no resources.
    pub(crate) fn update_tools(&self, server: &Server, tools: Vec<Json>) {
        let Some(catalog) = &self.catalog else { return };
        let key = key(server);
        if let Some(mut lists) = catalog.load(&key) {
            lists.tools = tools;
            lists.unfetched.retain(|kind| *kind != ListKind::Tools);
            catalog.save(&key, &lists);
        }
    }

    /// Counts the tools of these servers, as far as they are known.
    pub(crate) fn count_tools(&self, servers: Vec<Server>) -> Vec<(Server, Option<usize>)> {
        let count = |server: &Server, saved: &SavedLists| {
            let loaded = self.load_lists(server, saved, &[ListKind::Tools])?;
            Some(loaded.lists.tools.len())
        };
        let count = |(server, saved): (Server, Option<SavedLists>)| {
            let tools = saved.and_then(|saved| count(&server, &saved));
            (server, tools)
        };
        self.find(servers).into_iter().map(count).collect()
    }

    /// Finds what was saved last of these servers.
    fn find(&self, servers: Vec<Server>) -> Vec<(Server, Option<SavedLists>)> {
        let keys: Vec<_> = servers.iter().map(ServerKey::from_server).collect();
        let mut known = self.catalog.as_ref().map(|catalog| catalog.latest(&keys)).unwrap_or_default();
        known.resize_with(servers.len(), || None);
        servers.into_iter().zip(known).collect()
    }

    /// Loads lists of these kinds. If the last ones lack some, those that a command has fetched before are complete.
    /// `None` if nothing is known of these kinds.
    fn load_lists(
        &self,
        server: &Server,
        saved: &SavedLists,
        kinds: &[ListKind],
    ) -> Option<Loaded<ServerLists>> {
        let last = saved.load()?;
        if find_missing(&last, kinds).next().is_none() {
            return Some(Loaded { lists: last, saved: saved.saved(), coverage: Coverage::Whole });
        }
        self.load_own(server, kinds).or_else(|| {
            let is_any_known = find_missing(&last, kinds).count() < kinds.len();
            is_any_known.then(|| Loaded { lists: last, saved: saved.saved(), coverage: Coverage::Partial })
        })
    }

    /// Loads the lists of a server that a command has fetched, if they include all of these kinds.
    fn load_own(&self, server: &Server, kinds: &[ListKind]) -> Option<Loaded<ServerLists>> {
        let key = key(server);
        let path = self.folder.as_ref()?.join(format!("{}-{}.json", key.server, key.profile));
        let saved = fs::metadata(path).and_then(|file| file.modified()).ok()?;
        let lists = self.catalog.as_ref()?.load(&key)?;
        let is_whole = find_missing(&lists, kinds).next().is_none();
        is_whole.then_some(Loaded { lists, saved, coverage: Coverage::Whole })
    }

    /// Loads what a search needs of the lists of a server. Of complete lists it is made when they are searched for the
    /// first time, and kept.
    fn load_search_texts(&self, server: &Server, saved: &SavedLists) -> Option<Loaded<ServerTexts>> {
        if let Some(lists) = ServerTexts::read(saved) {
            return Some(Loaded { lists, saved: saved.saved(), coverage: Coverage::Whole });
        }
        let source = Source::of(saved)?;
        let loaded = self.load_lists(server, saved, &ALL_KINDS)?;
        let texts = ServerTexts::new(&loaded.lists);
        if loaded.coverage == Coverage::Whole
            && loaded.saved == saved.saved()
            && let Err(error) = private::replace_file(&saved.search_path(), &texts.to_file(source))
        {
            tracing::debug!(%error, "the texts of a server could not be saved");
        }
        Some(Loaded { lists: texts, saved: loaded.saved, coverage: loaded.coverage })
    }

    /// Returns the tools of these servers, and what else is known of them. Those of a server that cannot be reached
    /// are the last ones.
    pub(crate) async fn tools(
        &self,
        servers: Vec<Server>,
        refresh: Refresh,
        settings: &Settings,
    ) -> Outcome<Vec<KnownLists>> {
        let load = |server: &Server, saved: &SavedLists| self.load_lists(server, saved, &[ListKind::Tools]);
        self.known(servers, (refresh, settings), load, |lists| lists).await
    }

    /// Returns what a search needs of the lists of these servers.
    pub(crate) async fn search_texts(
        &self,
        servers: Vec<Server>,
        refresh: Refresh,
        settings: &Settings,
    ) -> Outcome<Vec<Known<ServerTexts>>> {
        let convert = |lists| ServerTexts::new(&lists);
        let load = |server: &Server, saved: &SavedLists| self.load_search_texts(server, saved);
        self.known(servers, (refresh, settings), load, convert).await
    }

    /// Returns the lists of these servers in the form that `load` and `convert` make.
    async fn known<L: Default + Send>(
        &self,
        servers: Vec<Server>,
        (refresh, settings): (Refresh, &Settings),
        load: impl Fn(&Server, &SavedLists) -> Option<Loaded<L>> + Sync,
        convert: impl Fn(ServerLists) -> L,
    ) -> Outcome<Vec<Known<L>>> {
        let found = self.find(servers.into_iter().filter(|server| server.enabled).collect());
        let known = load_all(found, &load);
        let plan = |(server, known): (Server, Option<_>)| {
            let is_whole = known.as_ref().is_some_and(|known: &Loaded<L>| known.coverage == Coverage::Whole);
            let is_missing = refresh == Refresh::Missing && !is_whole;
            let timeout = if is_missing { self.recent_timeout(&server) } else { None };
            let is_wanted = (refresh == Refresh::All || is_missing) && timeout.is_none();
            (server, known, timeout, is_wanted)
        };
        let known: Vec<_> = known.into_iter().map(plan).collect();
        let wanted = known.iter().filter(|(.., is_wanted)| *is_wanted).map(|(server, ..)| server.clone());
        let mut fetched = self.fetch(wanted.collect(), settings).await?.into_iter();
        let lists = known.into_iter().map(|(server, known, timeout, is_wanted)| {
            let (earlier, time) = known.map(|known| (known.lists, known.saved)).unzip();
            match is_wanted.then(|| fetched.next()).flatten() {
                Some(Ok(lists)) => Known { server, lists: convert(lists), fetched: None, failure: None },
                failed => {
                    let failure = failed.and_then(Result::err).or(timeout);
                    Known { server, lists: earlier.unwrap_or_default(), fetched: time, failure }
                }
            }
        });
        Ok(lists.collect())
    }

    /// Fetches the lists of these servers, all at the same time.
    async fn fetch(
        &self,
        servers: Vec<Server>,
        settings: &Settings,
    ) -> Outcome<Vec<Result<ServerLists, String>>> {
        if servers.is_empty() {
            return Ok(Vec::new());
        }
        let mut interrupt = Interrupt::listen();
        let bar = Bar::start(&settings.printer, &format!("asking {}", units::count(servers.len(), "server")));
        let mut quiet = servers.clone();
        for server in &mut quiet {
            server.hooks.clear();
        }
        let registry = session::registry_builder(settings).open(quiet);
        let outcome = tokio::select! {
            fetched = self.fetch_all(&registry, &servers) => Ok(fetched),
            exit = interrupt.next() => Err(Failure::Signal(exit)),
        };
        bar.finish();
        tokio::select! {
            () = registry.close() => {}
            _ = interrupt.next() => {}
        }
        let fetched = outcome?;
        for (server, lists) in servers.iter().zip(&fetched) {
            if let Ok(lists) = lists {
                self.save(server, lists);
            }
        }
        Ok(fetched)
    }

    async fn fetch_all(&self, registry: &Registry, servers: &[Server]) -> Vec<Result<ServerLists, String>> {
        let until = tokio::time::Instant::now() + FETCH_TIME;
        let each = servers.iter().map(async |server| {
            let Some(client) = registry.get(&server.name) else { return Err("it was not opened".to_owned()) };
            if let Ok(fetched) = timeout_at(until, ServerLists::fetch(&client)).await {
                return fetched.map_err(|error| error.to_string());
            }
            self.save_timeout(server);
            Err(format!("it has not answered within {}", units::time(FETCH_TIME)))
        });
        join_all(each).await
    }
}

/// Loads what was saved, on several threads if there is much of it.
fn load_all<L: Send>(
    found: Vec<(Server, Option<SavedLists>)>,
    load: &(impl Fn(&Server, &SavedLists) -> Option<Loaded<L>> + Sync),
) -> Vec<(Server, Option<Loaded<L>>)> {
    let load_one = |(server, saved): &(Server, Option<SavedLists>)| load(server, saved.as_ref()?);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_LOADING_THREADS);
    let share = found.len().div_ceil(threads).max(MIN_LOADED_SERVERS);
    let loaded: Vec<_> = std::thread::scope(|scope| {
        let mut shares = found.chunks(share);
        let first = shares.next().unwrap_or_default();
        let others: Vec<_> =
            shares.map(|share| scope.spawn(|| share.iter().map(load_one).collect::<Vec<_>>())).collect();
        let mut loaded: Vec<_> = first.iter().map(load_one).collect();
        loaded.extend(others.into_iter().flat_map(|other| other.join().expect("no panic")));
        loaded
    });
    found.into_iter().zip(loaded).map(|((server, _), loaded)| (server, loaded)).collect()
}

const ALL_KINDS: [ListKind; 4] =
    [ListKind::Tools, ListKind::Prompts, ListKind::Resources, ListKind::Templates];

/// Finds the kinds of which nothing is known: the list was never fetched, and the server has not said that it has none.
fn find_missing(lists: &ServerLists, kinds: &[ListKind]) -> impl Iterator<Item = ListKind> {
    let is_declared = |kind: ListKind| {
        let capability = match kind {
            ListKind::Tools => "tools",
            ListKind::Prompts => "prompts",
            ListKind::Resources | ListKind::Templates => "resources",
        };
        lists.capabilities.as_ref().is_none_or(|declared| declared.member(capability).is_some())
    };
    kinds.iter().copied().filter(move |kind| lists.unfetched.contains(kind) && is_declared(*kind))
}

/// Commands are one kind of host, whatever they can answer at the moment.
fn key(server: &Server) -> CatalogKey {
    let name = Json::parse(r#"{"name":"bowline"}"#).expect("it is JSON");
    CatalogKey { server: ServerKey::from_server(server), profile: Profile::new(&Json::empty_object(), &name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_did_not_answer_is_left_alone_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ListCache::new(Some(folder.path().join("new")));
        let [server, other] = ["sleep", "other"].map(|name| Server::stdio(name, name).build().unwrap());
        assert_eq!(cache.recent_timeout(&server), None);
        cache.save_timeout(&server);
        let expected =
            "it gave no answer within 20.00 s when it was last asked, 0s ago; `--refresh` asks it again";
        assert_eq!(cache.recent_timeout(&server).as_deref(), Some(expected));
        assert_eq!(cache.recent_timeout(&other), None);
        let file = fs::File::options().write(true).open(cache.timeout_path(&server).unwrap()).unwrap();
        file.set_modified(SystemTime::now() - RETRY_DELAY).unwrap();
        assert_eq!(cache.recent_timeout(&server), None, "it is asked again");
        cache.save_timeout(&server);
        cache.save(&server, &ServerLists::default());
        assert_eq!(cache.recent_timeout(&server), None, "it has answered");
    }
}
