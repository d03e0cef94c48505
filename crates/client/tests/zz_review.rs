#![allow(missing_docs, clippy::all, clippy::pedantic, dead_code)]
#[path = "it/support.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bowline::auth::store::{
    Doing, Entry, Expect, Key, Lease, Memory, Safe, SealKey, Store, StoreError, Version,
};
use bowline::auth::{Asked, Auth, DeviceCode, LoginOptions, LoginPage, LoginPrompt, PageReply};
use bowline::config::Protocol;
use bowline::{Client, Server, Status};
use bowline_testkit::{
    Answer, AuthScript, AuthServer, Browser, Fault, HttpServer, Protected, RefreshTokens, Script,
};
use serde_json::json;
use support::{SOON, http};

#[derive(Clone, Default)]
struct Person {
    asked: Arc<AtomicUsize>,
    gate: Arc<tokio::sync::Mutex<()>>,
}
impl Person {
    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}
impl LoginPrompt for Person {
    fn page(&self, page: LoginPage) -> Asked<'_, PageReply> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let _gate = self.gate.lock().await;
            PageReply::Pasted(Browser::new().follow(page.url.as_str()).await)
        })
    }
    fn device(&self, _: DeviceCode) -> Asked<'_, ()> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }
}

async fn protected(
    auth: AuthScript,
    era: Protocol,
    how: impl FnOnce(Protected) -> Protected,
) -> (AuthServer, HttpServer, Server) {
    let auth = auth.start().await;
    let script = Script::default().tool("echo").tool("counter").protected(how(Protected::by(&auth)));
    let script = match era {
        Protocol::Modern => script.modern(),
        _ => script.legacy(),
    };
    let web = script.run().await;
    let server = http(&web).with_protocol(era);
    (auth, web, server)
}
async fn logged_in(server: &Server, person: &Person) -> (Client, Auth) {
    let auth = Auth::in_memory().prompt(person.clone());
    let client = Client::builder(server.clone()).auth(auth.clone()).connect().await.expect("a login");
    (client, auth)
}

#[derive(Debug, Default)]
struct Flaky {
    inner: Memory,
    get: AtomicBool,
    put: AtomicBool,
    acquire: AtomicBool,
    put_login: AtomicBool,
    gets: AtomicUsize,
}
fn away<'a, T: Send + 'a>() -> Doing<'a, T> {
    Box::pin(async { Err(StoreError::Unavailable("the store is busy".into())) })
}
impl Store for Flaky {
    fn get<'a>(&'a self, key: &'a Key) -> Doing<'a, Option<Entry>> {
        if key.kind == "login"
            && self.gets.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
        {
            return away();
        }
        if self.get.load(Ordering::SeqCst) { away() } else { self.inner.get(key) }
    }
    fn put<'a>(&'a self, key: &'a Key, value: &'a [u8], expect: Expect) -> Doing<'a, Option<Version>> {
        if self.put.load(Ordering::SeqCst) || (key.kind == "login" && self.put_login.load(Ordering::SeqCst)) {
            away()
        } else {
            self.inner.put(key, value, expect)
        }
    }
    fn remove<'a>(&'a self, key: &'a Key, expect: Expect) -> Doing<'a, bool> {
        self.inner.remove(key, expect)
    }
    fn list(&self, kind: &'static str) -> Doing<'_, Vec<(Key, Entry)>> {
        self.inner.list(kind)
    }
    fn acquire<'a>(&'a self, name: &'a str, ttl: Duration) -> Doing<'a, Option<Lease>> {
        if self.acquire.load(Ordering::SeqCst) { away() } else { self.inner.acquire(name, ttl) }
    }
    fn renew<'a>(&'a self, lease: &'a Lease, ttl: Duration) -> Doing<'a, bool> {
        if self.acquire.load(Ordering::SeqCst) { away() } else { self.inner.renew(lease, ttl) }
    }
    fn release(&self, lease: Lease) -> Doing<'_, ()> {
        self.inner.release(lease)
    }
    fn place(&self) -> String {
        "flaky".into()
    }
}
fn flaky() -> (Arc<Flaky>, Safe) {
    let store = Arc::new(Flaky::default());
    let safe = Safe::new(Arc::clone(&store) as Arc<dyn Store>, SealKey::generate().unwrap());
    (store, safe)
}

#[tokio::test]
async fn t01_sse_revoked_access_is_refreshed() {
    let auth = AuthScript::default().start().await;
    let web = Script::default().tool("echo").protected(Protected::by(&auth)).http_sse().run().await;
    let server = Server::sse("test", web.url()).unwrap();
    let person = Person::default();
    let (client, memory) = logged_in(&server, &person).await;
    client.call_tool("echo", &json!({})).await.unwrap();
    client.close().await;
    println!("asked after first: {}", person.asked());
    auth.revoke_all_access();
    // A new process, nobody to ask, refresh token good.
    let quiet = Auth::new(memory.safe().clone());
    let again = Client::builder(server).auth(quiet).connect().await;
    println!(
        "again: {:?} refreshes {}",
        again.as_ref().map(|_| ()).map_err(|e| e.to_string()),
        auth.refreshes()
    );
    assert!(again.is_ok());
}

#[tokio::test]
async fn t02_close_ends_a_call_that_waits_for_a_person() {
    let how = |it: Protected| it.tool_requires("counter", "write");
    let (_auth, _web, server) = protected(AuthScript::default(), Protocol::Modern, how).await;
    let person = Person::default();
    let (client, _) = logged_in(&server, &person).await;
    let held = person.gate.clone().lock_owned().await;
    let call = {
        let client = client.clone();
        tokio::spawn(async move { client.call_tool("counter", &json!({})).await })
    };
    while person.asked() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::timeout(SOON, client.close()).await.expect("close");
    let ended = tokio::time::timeout(Duration::from_secs(15), call).await;
    println!("call ended within 15 s of close: {}", ended.is_ok());
    drop(held);
    assert!(ended.is_ok());
}

#[tokio::test]
async fn t03_background_look_opens_a_page() {
    let never = AuthScript::default().refresh_tokens(RefreshTokens::Never);
    let (auth, web, server) = protected(never, Protocol::Legacy, |it| it).await;
    let person = Person::default();
    let (client, _) = logged_in(&server, &person).await;
    client.track_tools();
    client.call_tool("echo", &json!({})).await.unwrap();
    web.wait_until(|web| web.open_streams(bowline_testkit::Via::Get) == 1, SOON).await;
    auth.revoke_all_access();
    web.announce_tools();
    tokio::time::sleep(Duration::from_secs(5)).await;
    println!("asked: {} (1 was the login)", person.asked());
    assert_eq!(person.asked(), 1);
}

#[tokio::test]
async fn t04_a_call_right_after_needs_login_asks() {
    let never = AuthScript::default().refresh_tokens(RefreshTokens::Never);
    let (auth, web, server) = protected(never, Protocol::Legacy, |it| it).await;
    let server = server.with_keepalive(Some(Duration::from_secs(5)));
    let person = Person::default();
    let (client, _) = logged_in(&server, &person).await;
    client.call_tool("echo", &json!({})).await.unwrap();
    auth.revoke_all_access();
    let _ = &web;
    let mut status = client.status();
    tokio::time::timeout(SOON, status.wait_for(|s| matches!(s, Status::NeedsLogin(_))))
        .await
        .unwrap()
        .unwrap();
    let called = client.call_tool("echo", &json!({})).await;
    println!("call: {:?}; asked {}", called.as_ref().map(|_| ()).map_err(|e| e.to_string()), person.asked());
    assert!(called.is_ok());
}

#[tokio::test]
async fn t05_a_busy_store_is_not_a_login() {
    let (auth, _web, server) = protected(AuthScript::default(), Protocol::Legacy, |it| it).await;
    let server = server.with_keepalive(Some(Duration::from_secs(5)));
    let person = Person::default();
    let (store, safe) = flaky();
    Auth::new(safe.clone())
        .prompt(person.clone())
        .identity(&server)
        .unwrap()
        .login(&LoginOptions::default())
        .await
        .unwrap();
    let client = Client::builder(server).auth(Auth::new(safe)).connect().await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    auth.revoke_all_access();
    store.get.store(true, Ordering::SeqCst);
    store.acquire.store(true, Ordering::SeqCst);
    let first = client.call_tool("echo", &json!({})).await.unwrap_err();
    println!("while busy: {first} kind {:?}", first.fault().map(|f| f.cause.kind()));
    let mut status = client.status();
    let gone = tokio::time::timeout(
        SOON,
        status.wait_for(|s| matches!(s, Status::NeedsLogin(_) | Status::BackingOff { .. })),
    )
    .await;
    println!("status: {:?}", gone.map(|s| s.map(|s| format!("{:?}", *s))));
    store.get.store(false, Ordering::SeqCst);
    store.acquire.store(false, Ordering::SeqCst);
    let begun = std::time::Instant::now();
    let back =
        tokio::time::timeout(Duration::from_secs(45), status.wait_for(|s| matches!(s, Status::Ready(_))))
            .await;
    println!("ready again by itself: {} after {:?}", back.is_ok(), begun.elapsed());
    drop(back);
    let call = client.call_tool("echo", &json!({})).await;
    println!("then a call: {:?}", call.map(|_| ()).map_err(|e| e.to_string()));
    assert!(
        begun.elapsed() < Duration::from_secs(40) && first.fault().unwrap().cause.kind() != "login_required"
    );
}

#[tokio::test]
async fn t06_a_get_that_is_always_refused_does_not_renew_for_ever() {
    let (auth, web, server) = protected(AuthScript::default(), Protocol::Legacy, |it| it).await;
    web.arm(
        Fault::answer(Answer::new(401).header("www-authenticate", "Bearer").text("no")).on("GET").always(),
    );
    let person = Person::default();
    let (client, _) = logged_in(&server, &person).await;
    for n in 0..100 {
        client.call_tool("echo", &json!({})).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        if n % 25 == 24 {
            println!("{n}: refreshes {}", auth.refreshes());
        }
    }
    assert!(auth.refreshes() <= 2, "{}", auth.refreshes());
}

#[tokio::test]
async fn t07_a_login_that_could_not_be_written_stays() {
    let never = AuthScript::default().refresh_tokens(RefreshTokens::Never);
    let (auth, _web, server) = protected(never, Protocol::Modern, |it| it).await;
    let person = Person::default();
    let (store, safe) = flaky();
    let memory = Auth::new(safe).prompt(person.clone());
    let client = Client::builder(server).auth(memory).connect().await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    auth.revoke_all_access();
    store.put_login.store(true, Ordering::SeqCst);
    client.call_tool("echo", &json!({})).await.unwrap();
    println!("asked {} (second login, not written)", person.asked());
    tokio::time::sleep(Duration::from_secs(33)).await;
    client.call_tool("echo", &json!({})).await.unwrap();
    println!("asked {} after 33 s", person.asked());
    assert_eq!(person.asked(), 2);
}

#[tokio::test]
async fn t08_a_refusal_in_vain_does_not_end_the_command() {
    use std::os::unix::fs::PermissionsExt;
    let (auth, web, server) =
        protected(AuthScript::default(), Protocol::Modern, Protected::any_audience).await;
    let folder = tempfile::tempdir().unwrap();
    let (token, script, runs) =
        (folder.path().join("token"), folder.path().join("headers"), folder.path().join("runs"));
    let issue = || {
        std::fs::write(&token, &auth.issue("robot", "", &web.url()).access_token).unwrap();
    };
    issue();
    std::fs::write(
        &script,
        format!(
            "#!/bin/sh\necho run >> '{}'\nprintf '{{\"Authorization\": \"Bearer %s\"}}' \"$(cat '{}')\"\n",
            runs.display(),
            token.display()
        ),
    )
    .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    let command = bowline::config::HeadersCommand {
        program: bowline::config::Program {
            command: script.display().to_string(),
            args: Vec::new(),
            env: Default::default(),
            cwd: None,
        },
        timeout: Duration::from_secs(10),
        ttl: Duration::from_secs(600),
    };
    let client = Client::connect(server.with_headers_command(command).unwrap()).await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    // One tool that this account may not use.
    web.arm(
        Fault::answer(
            Answer::new(403).header("www-authenticate", "Bearer error=\"insufficient_scope\"").text("no"),
        )
        .on_tool("counter"),
    );
    println!("forbidden: {}", client.call_tool("counter", &json!({})).await.unwrap_err());
    client.call_tool("echo", &json!({})).await.unwrap();
    // Later, the token really ends, and the command has a new one.
    auth.revoke_all_access();
    issue();
    let call = client.call_tool("echo", &json!({})).await;
    println!(
        "runs {} call {:?}",
        std::fs::read_to_string(&runs).unwrap().lines().count(),
        call.as_ref().map(|_| ()).map_err(|e| e.to_string())
    );
    assert!(call.is_ok());
}

#[tokio::test]
async fn t09_a_login_elsewhere_ends_the_wait_for_our_own_page() {
    let never = AuthScript::default().refresh_tokens(RefreshTokens::Never);
    let (auth, _web, server) = protected(never, Protocol::Modern, |it| it).await;
    let person = Person::default();
    let (client, memory) = logged_in(&server, &person).await;
    let held = person.gate.clone().lock_owned().await;
    auth.revoke_all_access();
    let call = {
        let client = client.clone();
        tokio::spawn(async move { client.call_tool("echo", &json!({})).await })
    };
    while person.asked() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // `bowline login` in a terminal.
    let other = Person::default();
    Auth::new(memory.safe().clone())
        .prompt(other)
        .identity(&server)
        .unwrap()
        .login(&LoginOptions::default())
        .await
        .unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(50), call).await;
    println!("call ended within 50 s of the login elsewhere: {}", ended.is_ok());
    drop(held);
    assert!(ended.is_ok());
}

#[tokio::test]
async fn t11_a_store_that_was_busy_at_the_start_and_a_token_that_has_ended() {
    let short = AuthScript::default().lifetime(Duration::from_secs(2));
    let (auth, _web, server) = protected(short, Protocol::Modern, |it| it).await;
    let person = Person::default();
    let (store, safe) = flaky();
    Auth::new(safe.clone())
        .prompt(person.clone())
        .identity(&server)
        .unwrap()
        .login(&LoginOptions::default())
        .await
        .unwrap();
    auth.advance(Duration::from_secs(5));
    tokio::time::sleep(Duration::from_secs(3)).await;
    // Only the very first read fails.
    store.gets.store(1, Ordering::SeqCst);
    let opened = Client::builder(server).auth(Auth::new(safe)).open().unwrap();
    let ready = opened.ready().await;
    println!(
        "ready: {:?} refreshes {}",
        ready.as_ref().map(|_| ()).map_err(|e| e.to_string()),
        auth.refreshes()
    );
    assert!(ready.is_ok());
}

#[tokio::test]
async fn t12_a_resumed_session_survives_a_token_that_ended() {
    let (auth, web, server) = protected(AuthScript::default(), Protocol::Legacy, |it| it).await;
    let person = Person::default();
    let (client, memory) = logged_in(&server, &person).await;
    client.call_tool("echo", &json!({})).await.unwrap();
    let saved = client.leave().await.unwrap();
    let before = web.initialize_count();
    auth.revoke_all_access();
    let client =
        Client::builder(server).auth(Auth::new(memory.safe().clone())).resume(saved).connect().await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    println!("initialize {} -> {}", before, web.initialize_count());
    assert_eq!(web.initialize_count(), before);
}

#[tokio::test]
async fn t13_what_could_not_be_written_is_written_when_it_can_be() {
    let (auth, _web, server) = protected(AuthScript::default(), Protocol::Modern, |it| it).await;
    let person = Person::default();
    let (store, safe) = flaky();
    let memory = Auth::new(safe.clone()).prompt(person.clone());
    let client = Client::builder(server.clone()).auth(memory).connect().await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    auth.revoke_all_access();
    store.put.store(true, Ordering::SeqCst);
    let begun = std::time::Instant::now();
    client.call_tool("echo", &json!({})).await.unwrap();
    println!("call took {:?}, refreshes {}", begun.elapsed(), auth.refreshes());
    store.put.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(35)).await;
    client.call_tool("echo", &json!({})).await.unwrap();
    client.close().await;
    // Another process, or the next one.
    auth.revoke_all_access();
    let next = Client::builder(server).auth(Auth::new(safe)).connect().await;
    println!(
        "next process: {:?}, reuse {}",
        next.as_ref().map(|_| ()).map_err(|e| e.to_string()),
        auth.reuse_detected()
    );
    assert_eq!(auth.reuse_detected(), 0);
}

#[tokio::test]
async fn t14_needs_login_heals_after_a_login_elsewhere() {
    let (_auth, _web, server) = protected(AuthScript::default(), Protocol::Modern, |it| it).await;
    let memory = Auth::in_memory();
    let client = Client::builder(server.clone()).auth(memory.clone()).open().unwrap();
    let mut status = client.status();
    status.wait_for(|s| matches!(s, Status::NeedsLogin(_))).await.unwrap();
    memory
        .prompt(Person::default())
        .identity(&server)
        .unwrap()
        .login(&LoginOptions::default())
        .await
        .unwrap();
    let begun = std::time::Instant::now();
    let ok =
        tokio::time::timeout(Duration::from_secs(40), status.wait_for(|s| matches!(s, Status::Ready(_))))
            .await
            .is_ok();
    println!("healed {ok} after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn t10_dpop_logout_and_login_elsewhere() {
    let (auth, _web, server) = protected(AuthScript::default(), Protocol::Modern, |it| it.dpop()).await;
    let person = Person::default();
    let memory = Auth::in_memory();
    let elsewhere = memory.clone().prompt(person.clone()).identity(&server).unwrap();
    elsewhere.login(&LoginOptions::default()).await.unwrap();
    let client = Client::builder(server.clone()).auth(memory.clone()).connect().await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    // bowline logout; bowline login
    println!("{:?}", elsewhere.logout().await);
    elsewhere.login(&LoginOptions::default()).await.unwrap();
    let call = client.call_tool("echo", &json!({})).await;
    println!(
        "call {:?} reuse {} refreshes {}",
        call.as_ref().map(|_| ()).map_err(|e| e.to_string()),
        auth.reuse_detected(),
        auth.refreshes()
    );
    for it in auth.seen_of("token") {
        println!("token: {:?} {:?} {:?}", it.field("grant_type"), it.status, it.error);
    }
    println!("account: {:?}", elsewhere.account().await.unwrap().map(|a| a.state));
    assert!(call.is_ok());
}

#[tokio::test]
async fn t15_the_clock_runs_while_nobody_is_asked() {
    for interactive in [true, false] {
        let (auth, _web, server) = protected(AuthScript::default(), Protocol::Modern, |it| it).await;
        let person = Person::default();
        let (client, memory) = logged_in(&server, &person).await;
        let client = if interactive {
            client
        } else {
            Client::builder(server).auth(Auth::new(memory.safe().clone())).connect().await.unwrap()
        };
        auth.revoke_all_access();
        auth.arm(bowline_testkit::Twist::silent().on("token").always());
        let limit = Duration::from_secs(1);
        let options = bowline::CallOptions::new().timeout(limit).max_timeout(limit);
        let begun = std::time::Instant::now();
        let call = client.call_tool_with("echo", &json!({}), &options).await;
        println!(
            "refused, interactive {interactive}: {:?} after {:?}",
            call.map(|_| ()).map_err(|e| e.to_string()),
            begun.elapsed()
        );
    }
}

#[tokio::test]
async fn t16_the_clock_runs_while_an_ended_token_is_renewed() {
    let short = AuthScript::default().lifetime(Duration::from_secs(3));
    let (auth, _web, server) = protected(short, Protocol::Modern, |it| it).await;
    let person = Person::default();
    let (client, _) = logged_in(&server, &person).await;
    auth.arm(bowline_testkit::Twist::silent().on("token").always());
    tokio::time::sleep(Duration::from_secs(4)).await;
    let limit = Duration::from_secs(1);
    let options = bowline::CallOptions::new().timeout(limit).max_timeout(limit);
    let begun = std::time::Instant::now();
    let call = client.call_tool_with("echo", &json!({}), &options).await;
    println!("ended token: {:?} after {:?}", call.map(|_| ()).map_err(|e| e.to_string()), begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn t17_a_person_is_asked_where_only_calls_want_a_login() {
    // initialize and lists are open; tools/call is not.
    let never = AuthScript::default().refresh_tokens(RefreshTokens::Never);
    let how = |it: Protected| {
        it.opens("initialize").opens("notifications/initialized").opens("tools/list").opens("GET")
    };
    let (auth, web, server) = protected(never, Protocol::Legacy, how).await;
    let person = Person::default();
    let memory = Auth::in_memory().prompt(person.clone());
    let client = Client::builder(server).auth(memory).connect().await.unwrap();
    client.call_tool("echo", &json!({})).await.unwrap();
    println!("asked {}", person.asked());
    auth.revoke_all_access();
    let call = client.call_tool("echo", &json!({})).await;
    println!(
        "call {:?} asked {} init {}",
        call.as_ref().map(|_| ()).map_err(|e| e.to_string()),
        person.asked(),
        web.initialize_count()
    );
    assert!(call.is_ok());
}

#[tokio::test]
async fn t18_a_store_file_that_was_moved_away() {
    use bowline::config::{Backend, Keeping, KeyPlace};
    let (_auth, _web, server) = protected(AuthScript::default(), Protocol::Modern, |it| it).await;
    let folder = tempfile::tempdir().unwrap();
    let keeping = Keeping { backend: Backend::default(), key: KeyPlace::File };
    let safe = bowline::auth::store::open(&keeping, folder.path()).await.unwrap().safe;
    let client = Client::builder(server.clone()).auth(Auth::new(safe)).open().unwrap();
    let mut status = client.status();
    status.wait_for(|s| matches!(s, Status::NeedsLogin(_))).await.unwrap();
    // "move it away to start anew"
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        let _ = std::fs::remove_file(folder.path().join(name));
    }
    let fresh = bowline::auth::store::open(&keeping, folder.path()).await.unwrap().safe;
    Auth::new(fresh)
        .prompt(Person::default())
        .identity(&server)
        .unwrap()
        .login(&LoginOptions::default())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(12)).await;
    let call = client.call_tool("echo", &json!({})).await;
    println!("call {:?}", call.as_ref().map(|_| ()).map_err(|e| e.to_string()));
    assert!(call.is_ok());
}

#[tokio::test]
async fn t19_sse_stream_cut_with_a_token_that_ended() {
    let auth = AuthScript::default().start().await;
    let web = Script::default().tool("echo").protected(Protected::by(&auth)).http_sse().run().await;
    let server = Server::sse("test", web.url()).unwrap();
    let person = Person::default();
    let (client, _memory) = logged_in(&server, &person).await;
    client.call_tool("echo", &json!({})).await.unwrap();
    auth.revoke_all_access();
    client.call_tool("echo", &json!({})).await.unwrap();
    println!("refreshes {}", auth.refreshes());
    auth.revoke_all_access();
    web.restart().await;
    let call = client.call_tool("echo", &json!({})).await;
    println!(
        "call {:?} refreshes {} asked {}",
        call.as_ref().map(|_| ()).map_err(|e| e.to_string()),
        auth.refreshes(),
        person.asked()
    );
    assert!(call.is_ok());
}
