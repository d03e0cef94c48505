//! A session outlives the process that began it, if it is recorded.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bowline_server::{
    HttpSettings, RecordCheck, SessionIdKey, SessionStore, SessionStoreFuture, StoredSession,
};
use parking_lot::Mutex;
use serde_json::json;

use crate::http_client::{EventReader, HttpClient, TestEvent, soon};
use crate::test_server::{Report, TestServer, initialize, notification, request, result};

/// Remembers sessions in memory, for several listeners in turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    sessions: Arc<Mutex<HashMap<String, StoredSession>>>,
    /// Counts renewals of a lifetime.
    touches: Arc<AtomicUsize>,
    /// Whether appending fails.
    is_full: Arc<AtomicBool>,
    /// Whether loading fails.
    pub(crate) is_unreadable: Arc<AtomicBool>,
    /// Whether a session without a record has no journal, as in a folder of files.
    needs_record: bool,
    /// Held while records are neither saved nor removed, as if by a slow disk.
    disk: Arc<tokio::sync::Mutex<()>>,
    /// How long it takes to load a session.
    load_time: Duration,
    /// Held while no session is loaded, as if by a slow disk.
    pub(crate) load_gate: Arc<tokio::sync::RwLock<()>>,
    /// Counts attempts to load a session.
    pub(crate) loads: Arc<AtomicUsize>,
    /// The failures that were reported.
    reports: Arc<Mutex<Vec<String>>>,
    /// The key of the ids of sessions.
    id_key: [u8; 32],
}

impl SessionStore for Memory {
    fn id_key(&self) -> SessionIdKey {
        SessionIdKey::new(&self.id_key)
    }

    fn save(&self, session: &str, record: Vec<u8>, _: Duration) -> SessionStoreFuture<()> {
        let session = session.to_owned();
        self.change(move |sessions| sessions.entry(session).or_default().record = record)
    }

    fn append(&self, session: &str, entry: Vec<u8>, _: Duration) -> SessionStoreFuture<()> {
        if self.is_full.load(Ordering::Relaxed) {
            return Box::pin(ready(Err("the disk is full".to_owned())));
        }
        let mut sessions = self.sessions.lock();
        if self.needs_record && !sessions.contains_key(session) {
            return Box::pin(ready(Err("the session has no file".to_owned())));
        }
        sessions.entry(session.to_owned()).or_default().journal.push(entry);
        Box::pin(ready(Ok(())))
    }

    fn touch(&self, _: &str, _: Duration) {
        self.touches.fetch_add(1, Ordering::Relaxed);
    }

    fn remove(&self, session: &str) -> SessionStoreFuture<()> {
        let session = session.to_owned();
        self.change(move |sessions| drop(sessions.remove(&session)))
    }

    fn load(&self, session: &str, accepts: RecordCheck) -> SessionStoreFuture<Option<StoredSession>> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        if self.is_unreadable.load(Ordering::Relaxed) {
            return Box::pin(ready(Err("the disk does not answer".to_owned())));
        }
        let found = self.sessions.lock().get(session).cloned();
        let (load_time, gate) = (self.load_time, Arc::clone(&self.load_gate));
        Box::pin(async move {
            let _gate = gate.read().await;
            tokio::time::sleep(load_time).await;
            Ok(found.filter(|session| accepts(&session.record)))
        })
    }

    fn flush(&self) -> SessionStoreFuture<()> {
        Box::pin(ready(Ok(())))
    }

    fn report_failure(&self, cause: &str) {
        self.reports.lock().push(cause.to_owned());
    }
}

impl Memory {
    /// Changes something as soon as the disk is not held, whether it is waited for or not.
    fn change(
        &self,
        work: impl FnOnce(&mut HashMap<String, StoredSession>) + Send + 'static,
    ) -> SessionStoreFuture<()> {
        let Ok(_disk) = self.disk.try_lock() else {
            let (disk, sessions) = (Arc::clone(&self.disk), Arc::clone(&self.sessions));
            let changed = tokio::spawn(async move {
                let _disk = disk.lock().await;
                work(&mut sessions.lock());
            });
            return Box::pin(async { changed.await.map_err(|error| error.to_string()) });
        };
        work(&mut self.sessions.lock());
        Box::pin(ready(Ok(())))
    }

    pub(crate) async fn start(&self) -> TestServer {
        TestServer::start_with(HttpSettings::new().with_session_store(Arc::new(self.clone()))).await
    }

    /// Waits until something is stored.
    async fn wait_until(&self, holds: impl Fn(&HashMap<String, StoredSession>) -> bool) {
        soon(async {
            while !holds(&self.sessions.lock()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    /// Waits until this many attempts to load a session were made.
    pub(crate) async fn wait_for_loads(&self, count: usize) {
        self.wait_until(|_| self.loads.load(Ordering::Relaxed) == count).await;
    }

    /// Waits until this many entries are in the journal of the only session.
    pub(crate) async fn wait_for_entries(&self, count: usize) {
        self.wait_until(|sessions| sessions.values().any(|session| session.journal.len() == count)).await;
    }

    pub(crate) async fn wait_for_record(&self, part: &str) {
        self.wait_until(|sessions| {
            sessions.values().any(|session| String::from_utf8_lossy(&session.record).contains(part))
        })
        .await;
    }
}

impl Memory {
    /// The record of the only session.
    pub(crate) fn only_record(&self) -> serde_json::Value {
        let sessions = self.sessions.lock();
        let mut records = sessions.values().map(|session| &session.record);
        let (Some(record), None) = (records.next(), records.next()) else { panic!("there is one session") };
        serde_json::from_slice(record).expect("JSON")
    }
}

/// Begins the session of a host, which is recorded when this returns.
pub(crate) async fn begin(memory: &Memory, server: &TestServer) -> HttpClient {
    let host = server.initialize("2025-11-25").await;
    memory.wait_for_record("2025-11-25").await;
    host
}

/// Begins a session with a recorded request that stays open, while others are served. Returns the host and
/// the stream of that request.
async fn begin_with_open_request(memory: &Memory, server: &TestServer) -> (HttpClient, EventReader) {
    let host = begin(memory, server).await;
    let mut events = host.post(&request("open", "record_and_hang", json!({}))).await.expect_events();
    events.next().await.unwrap();
    memory.wait_for_entries(1).await;
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    (host, events)
}

#[tokio::test]
async fn a_session_goes_on_in_the_next_process() {
    let memory = Memory::default();
    let first = memory.start().await;
    let host = begin(&memory, &first).await;
    for (id, method, params) in [
        (1, "logging/setLevel", json!({"level": "error"})),
        (2, "resources/subscribe", json!({"uri": "x://a"})),
        (3, "resources/subscribe", json!({"uri": "x://b"})),
        (4, "resources/unsubscribe", json!({"uri": "x://a"})),
    ] {
        host.post(&request(id, method, params)).await.expect_json(200).await;
    }
    memory.wait_for_record("x://b").await;
    first.kill().await;
    let mut second = memory.start().await;
    let host = host.at(second.client.addr());
    let echoed = host.post(&request(5, "echo", json!({"a": 1}))).await.expect_json(200).await;
    assert_eq!(echoed, result(5, json!({"a": 1})));
    // What the host has set was set again, before anything else, and nobody heard of it.
    for method in ["logging/setLevel", "resources/subscribe", "echo"] {
        second.expect_next_arrival(method).await;
    }
    let mut events = host.get().await.expect_events();
    host.post(&notification("notifications/announce")).await.expect_empty(202).await;
    assert_eq!(events.message().await["method"], serde_json::Value::Null, "the stream begins with an id");
    assert_eq!(events.message().await["method"], "notifications/tools/list_changed");
    // The version is still checked.
    host.with("mcp-protocol-version", "2025-06-18").get().await.expect_json(400).await;
}

/// A forged id takes no lock and no look-up: only an id that was issued with the key of the store does.
#[tokio::test]
async fn se_08_a_forged_session_id_is_not_looked_up() {
    let memory = Memory::default();
    let first = memory.start().await;
    let reply = first.client.post(&initialize("2025-11-25")).await;
    let id = reply.header("mcp-session-id").expect("a session").to_owned();
    let host = first.client.with("mcp-session-id", &id);
    memory.wait_for_record("2025-11-25").await;
    first.kill().await;
    let second = memory.start().await;
    let host = host.at(second.client.addr());
    let flipped = |at: usize| {
        let digit = if &id[at..=at] == "0" { "1" } else { "0" };
        format!("{}{digit}{}", &id[..at], &id[at + 1..])
    };
    // Random ids, also as earlier versions made them, and ones that are wrong in their first and last digits.
    let forged = ["5".repeat(64), "5".repeat(48), flipped(0), flipped(31), flipped(32), flipped(63)];
    for id in &forged {
        let stranger = host.with("mcp-session-id", id);
        stranger.post(&request(1, "echo", json!({}))).await.expect_json(404).await;
        stranger.get().await.expect_json(404).await;
        stranger.delete().await.expect_json(404).await;
    }
    // Nor is one that another store has issued, whose sessions are the same.
    let foreign = Memory { id_key: [1; 32], ..memory.clone() };
    let third = foreign.start().await;
    host.at(third.client.addr()).get().await.expect_json(404).await;
    assert_eq!(memory.loads.load(Ordering::Relaxed), 0);
    host.post(&request(2, "echo", json!({}))).await.expect_json(200).await;
    assert_eq!(memory.loads.load(Ordering::Relaxed), 1);
    // One that was issued and has ended is looked up, and refused in the same words.
    let words = host.with("mcp-session-id", &forged[0]).get().await.expect_json(404).await;
    host.delete().await.expect_empty(204).await;
    assert_eq!(host.get().await.expect_json(404).await, words);
    assert_eq!(memory.loads.load(Ordering::Relaxed), 2);
}

/// To record something may not take that long, but a session that is not loaded is lost.
#[tokio::test]
async fn a_session_that_takes_long_to_load_goes_on() {
    let memory = Memory { load_time: Duration::from_secs(4), ..Memory::default() };
    let first = memory.start().await;
    let host = begin(&memory, &first).await;
    first.kill().await;
    let second = memory.start().await;
    let host = host.at(second.client.addr());
    let echoed = host.post(&request(1, "echo", json!({"a": 1}))).await.expect_json(200).await;
    assert_eq!(echoed, result(1, json!({"a": 1})));
}

#[tokio::test]
async fn a_recorded_request_is_answered_by_the_next_process() {
    let memory = Memory::default();
    let first = memory.start().await;
    let host = begin(&memory, &first).await;
    let mut events = host.post(&request(7, "record", json!({}))).await.expect_events();
    let begun = events.next().await.unwrap();
    memory.wait_for_entries(1).await;
    first.kill().await;
    drop(events);
    let second = memory.start().await;
    let host = host.at(second.client.addr());
    let mut resumed = host.with("last-event-id", &begun.id).get().await.expect_events();
    let TestEvent { id, message } = resumed.next().await.unwrap();
    assert_eq!(message, result(7, json!({"repeated": true})));
    resumed.expect_end().await;
    // Again, in this process and in the next: it is the same response, and nothing is served twice.
    memory.wait_for_entries(2).await;
    let mut again = host.with("last-event-id", &begun.id).get().await.expect_events();
    assert_eq!(again.next().await.unwrap(), TestEvent { id: id.clone(), message: message.clone() });
    second.kill().await;
    let mut third = memory.start().await;
    let host = host.at(third.client.addr());
    let mut again = host.with("last-event-id", &begun.id).get().await.expect_events();
    let last = again.next().await.unwrap();
    assert_eq!(last.message, message);
    assert_ne!(last.id, id, "an id is that of one event");
    // The host comes back with an id of the second process as well.
    let mut again = host.with("last-event-id", &id).get().await.expect_events();
    assert_eq!(again.next().await.unwrap(), last);
    host.post(&request(8, "echo", json!({}))).await.expect_json(200).await;
    third.expect_next_arrival("echo").await;
}

#[tokio::test]
async fn a_response_that_was_not_read_is_kept_for_the_host() {
    let memory = Memory::default();
    let first = memory.start().await;
    let host = begin(&memory, &first).await;
    let mut events = host.post(&request("r", "record", json!({}))).await.expect_events();
    let begun = events.next().await.unwrap();
    drop(events);
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    memory.wait_for_entries(2).await;
    first.kill().await;
    let mut second = memory.start().await;
    let host = host.at(second.client.addr());
    let mut resumed = host.with("last-event-id", &begun.id).get().await.expect_events();
    assert_eq!(resumed.message().await, result("r", json!({"repeated": false})));
    resumed.expect_end().await;
    host.post(&request(8, "echo", json!({}))).await.expect_json(200).await;
    second.expect_next_arrival("echo").await;
}

#[tokio::test]
async fn a_canceled_request_is_not_served_again() {
    let memory = Memory::default();
    let first = memory.start().await;
    let host = begin(&memory, &first).await;
    let mut events = host.post(&request(1, "record", json!({}))).await.expect_events();
    events.next().await.unwrap();
    memory.wait_for_entries(1).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    host.post(&cancel).await.expect_empty(202).await;
    memory.wait_for_entries(2).await;
    first.kill().await;
    let mut second = memory.start().await;
    let host = host.at(second.client.addr());
    host.post(&request(2, "echo", json!({}))).await.expect_json(200).await;
    second.expect_next_arrival("echo").await;
}

#[tokio::test]
async fn a_session_that_its_host_has_ended_is_over() {
    let memory = Memory::default();
    let first = memory.start().await;
    let host = begin(&memory, &first).await;
    host.delete().await.expect_empty(204).await;
    memory.wait_until(HashMap::is_empty).await;
    let idle = HttpSettings::new()
        .with_session_store(Arc::new(memory.clone()))
        .with_idle_timeout(Duration::from_secs(1));
    let second = TestServer::start_with(idle).await;
    host.at(second.client.addr()).get().await.expect_json(404).await;
    // So is one that was idle for too long.
    second.initialize("2025-11-25").await;
    memory.wait_for_record("2025-11-25").await;
    memory.wait_until(HashMap::is_empty).await;
}

/// Makes a request with effects, whose response is JSON and no event stream.
async fn expect_json_response(server: &mut TestServer, host: &HttpClient) {
    let call = request(1, "record", json!({}));
    let posting = tokio::spawn({
        let host = host.clone();
        async move { host.post(&call).await.expect_json(200).await }
    });
    server.expect(Report::Arrived("record".into())).await;
    host.post(&notification("notifications/go")).await.expect_empty(202).await;
    assert_eq!(posting.await.unwrap(), result(1, json!({"repeated": false})));
}

/// Hosts that accept no event stream cannot come back, so they get JSON as ever.
#[tokio::test]
async fn a_request_that_cannot_be_resumed_is_answered_with_json() {
    let memory = Memory::default();
    let mut server = memory.start().await;
    let host = begin(&memory, &server).await.with("accept", "application/json");
    expect_json_response(&mut server, &host).await;
    assert!(memory.sessions.lock().values().all(|session| session.journal.is_empty()));
}

/// A host gets an event id only for a call that is recorded, since it can come back only for that.
#[tokio::test]
async fn a_request_that_cannot_be_recorded_promises_nothing() {
    let memory = Memory::default();
    let mut server = memory.start().await;
    let host = begin(&memory, &server).await;
    memory.is_full.store(true, Ordering::Relaxed);
    expect_json_response(&mut server, &host).await;
}

/// Whoever operates the listener learns why nothing is recorded, once and not for each call.
#[tokio::test]
async fn a_store_that_fails_is_reported_once() {
    let memory = Memory::default();
    let mut server = memory.start().await;
    let host = begin(&memory, &server).await;
    memory.is_full.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        expect_json_response(&mut server, &host).await;
    }
    assert_eq!(*memory.reports.lock(), ["the disk is full"]);
}

/// The store drops the oldest entries of a journal. That must not be a request that is still open.
#[tokio::test]
async fn an_open_request_is_recorded_again_after_many_others() {
    let memory = Memory::default();
    let server = memory.start().await;
    let (host, _open) = begin_with_open_request(&memory, &server).await;
    for id in 0..128 {
        let mut events = host.post(&request(id, "record", json!({}))).await.expect_events();
        events.next().await.unwrap();
        assert_eq!(events.message().await, result(id, json!({"repeated": false})));
    }
    // Two entries for each of the others, and a second one for the request that is open.
    memory.wait_for_entries(1 + 2 * 128 + 1).await;
    let sessions = memory.sessions.lock();
    let journal = &sessions.values().next().unwrap().journal;
    let is_open = |entry: &&Vec<u8>| String::from_utf8_lossy(entry).contains("record_and_hang");
    assert_eq!(journal.iter().filter(is_open).count(), 2);
}

/// What is stored of a session lives as long as the session, whether a request is open or not.
#[tokio::test]
async fn a_session_that_has_not_ended_is_kept() {
    let memory = Memory::default();
    let settings = HttpSettings::new()
        .with_session_store(Arc::new(memory.clone()))
        .with_idle_timeout(Duration::from_millis(800));
    let server = TestServer::start_with(settings).await;
    begin(&memory, &server).await;
    memory.wait_until(|_| memory.touches.load(Ordering::Relaxed) > 0).await;
}

/// A host that has the answer to `initialize` can rely on its session, and one that has the answer to
/// DELETE on its end, however suddenly the process ends after that.
#[tokio::test]
async fn answers_about_a_session_wait_until_they_are_recorded() {
    let memory = Memory::default();
    let server = memory.start().await;
    let disk = Arc::clone(&memory.disk).lock_owned().await;
    let client = server.client.clone();
    let mut beginning = tokio::spawn(async move { client.post(&initialize("2025-11-25")).await });
    // Another exchange with the listener shows that the answer would have come by now.
    for _ in 0..20 {
        server.client.send("GET", "/healthz", "").await;
    }
    assert!(!beginning.is_finished(), "the record is not saved yet");
    drop(disk);
    let reply = soon(&mut beginning).await.unwrap();
    assert_eq!(memory.only_record()["revision"], "2025-11-25");
    let host = server.client.with("mcp-session-id", reply.header("mcp-session-id").unwrap());
    let disk = Arc::clone(&memory.disk).lock_owned().await;
    let ending = tokio::spawn(async move { host.delete().await.status });
    for _ in 0..20 {
        server.client.send("GET", "/healthz", "").await;
    }
    assert!(!ending.is_finished(), "the record is not removed yet");
    drop(disk);
    assert_eq!(soon(ending).await.unwrap(), 204);
    assert!(memory.sessions.lock().is_empty());
}

/// Of a call with much data its id and method are recorded, which is all that the next process needs.
#[tokio::test]
async fn a_large_request_is_recorded_too() {
    let memory = Memory::default();
    let first = memory.start().await;
    let host = begin(&memory, &first).await;
    let call = request(7, "record", json!({"data": "x".repeat(2 * 1024 * 1024)}));
    let mut events = host.post(&call).await.expect_events();
    let begun = events.next().await.unwrap();
    memory.wait_for_entries(1).await;
    assert!(memory.sessions.lock().values().all(|session| session.journal[0].len() < 100));
    first.kill().await;
    let second = memory.start().await;
    let host = host.at(second.client.addr());
    let mut resumed = host.with("last-event-id", &begun.id).get().await.expect_events();
    assert_eq!(resumed.message().await, result(7, json!({"repeated": true})));
}

/// Somebody may clean up the folder of the sessions while they are in use.
#[tokio::test]
async fn a_session_whose_record_was_removed_is_recorded_again() {
    let memory = Memory { needs_record: true, ..Memory::default() };
    let server = memory.start().await;
    let host = begin(&memory, &server).await;
    let mut events = host.post(&request("open", "record_and_hang", json!({}))).await.expect_events();
    events.next().await.unwrap();
    memory.sessions.lock().clear();
    let mut events = host.post(&request("next", "record_and_hang", json!({}))).await.expect_events();
    events.next().await.unwrap();
    assert_eq!(memory.only_record()["revision"], "2025-11-25");
    let sessions = memory.sessions.lock();
    let journal = &sessions.values().next().unwrap().journal;
    for id in ["open", "next"] {
        assert!(journal.iter().any(|entry| String::from_utf8_lossy(entry).contains(id)), "{id}");
    }
}

/// The store drops the oldest entries also when they are few and large.
#[tokio::test]
async fn an_open_request_is_recorded_again_after_a_mebibyte() {
    let memory = Memory::default();
    let server = memory.start().await;
    let (host, _open) = begin_with_open_request(&memory, &server).await;
    let data = "x".repeat(600 * 1024);
    for (id, entries) in [(0, 1 + 2), (1, 1 + 4 + 1)] {
        let mut events = host.post(&request(id, "record", json!({"data": data}))).await.expect_events();
        events.next().await.unwrap();
        assert_eq!(events.message().await, result(id, json!({"repeated": false})));
        // The second one is 1,200 KiB after the request that is open.
        memory.wait_for_entries(entries).await;
    }
    let sessions = memory.sessions.lock();
    let journal = &sessions.values().next().unwrap().journal;
    let is_open = |entry: &&Vec<u8>| String::from_utf8_lossy(entry).contains("record_and_hang");
    assert_eq!(journal.iter().filter(is_open).count(), 2);
}
