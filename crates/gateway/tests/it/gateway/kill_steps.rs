//! The gateway is killed at each step of a call that is recorded. The host comes back to the next gateway with its session
//! and, if it got one, the id of the last event that it read. It gets one response to the call, and the call is executed
//! once at most.
//!
//! | killed when the call | the host has an event id | response | executions |
//! |---|---|---|---|
//! | was accepted | no | none; nothing is known of it | 0 |
//! | was recorded | no | `unknown`, for nobody | 0 |
//! | waits for its server | yes | `unknown` | 0 |
//! | was sent | yes | `unknown` | 1 |
//! | has a result | yes | `unknown` | 1 |
//! | has a recorded result | yes | the result | 1 |
//! | has a result that the host has read | yes | the result | 1 |
//!
//! An entry of the journal of which only a part was written counts as none.

mod killed_gateway;

use std::ops::Range;
use std::path::{Path, PathBuf};

use bowline_gateway::UNREACHABLE;
use bowline_testkit::{self as testkit, HttpServer};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::http_host::{RawSession, Reply};
use crate::support::{TEST_TIMEOUT, result_text};
use killed_gateway::{KillPoint, KilledGateway};

/// The entries of a call in the journal, in their order.
const REQUEST: usize = 0;
const RESPONSE: usize = 1;
/// The id of the call that the kill interrupts.
const CALL: u64 = 7;

/// A server, the folder in which sessions are recorded, and a host in front of a gateway that will be killed.
struct Scene {
    server: HttpServer,
    folder: TempDir,
    gateway: KilledGateway,
    host: RawSession,
}

impl Scene {
    /// Begins a session of a host that knows the tools of the server.
    async fn begin(kill_point: KillPoint) -> Self {
        let server = testkit::server().legacy().tool("counter").tool("slow").run().await;
        let folder = tempfile::tempdir().expect("a folder");
        let gateway = KilledGateway::start(folder.path(), &server, kill_point).await;
        let host = RawSession::begin(gateway.address(), json!({})).await;
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let listed = host.post(&list).await.message().await;
        assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(2), "{listed}");
        Self { server, folder, gateway, host }
    }

    /// Calls a tool, and returns the response as it begins, with the id of its first event.
    async fn call(&self, tool: &str) -> (Reply, String) {
        let mut reply = self.host.begin_call(CALL, tool, json!({"ms": 600_000})).await;
        let begin = reply.event_id().await;
        (reply, begin)
    }

    /// Kills the gateway.
    async fn kill(self) -> KilledScene {
        let Self { server, folder, gateway, host } = self;
        gateway.kill().await;
        KilledScene { server, folder, host }
    }

    /// Waits until the gateway has reached the point at which it is to be killed, and kills it.
    async fn kill_at_its_point(self) -> KilledScene {
        self.gateway.wait_for_kill_point().await;
        self.kill().await
    }
}

/// What a gateway that was killed leaves behind.
struct KilledScene {
    server: HttpServer,
    folder: TempDir,
    host: RawSession,
}

impl KilledScene {
    /// Starts the next gateway, and returns it with the host, which is in front of it now.
    async fn restart(&self, kill_point: KillPoint) -> (KilledGateway, RawSession) {
        let gateway = KilledGateway::start(self.folder.path(), &self.server, kill_point).await;
        let host = self.host.at(gateway.address());
        (gateway, host)
    }

    /// Has the host come back to the next gateway and to the one after that, three times to each, and returns the
    /// response to its call, which is the same each time. The session goes on, and nothing is executed again.
    async fn expect_one_answer(&self, last_event: &str, executions: u64) -> Value {
        let tools = ["counter", "slow"];
        let executed = || tools.iter().map(|tool| self.server.executions(tool)).sum::<u64>();
        let mut answers = Vec::new();
        for _ in 0..2 {
            let (gateway, host) = self.restart(KillPoint::Never).await;
            for _ in 0..3 {
                answers.push(host.resume(last_event).await.answer().await);
            }
            gateway.kill().await;
        }
        for answer in &answers {
            assert_eq!((&answer["id"], answer), (&json!(CALL), &answers[0]));
        }
        assert_eq!(executed(), executions);
        self.expect_session_goes_on().await;
        assert_eq!(executed(), executions + 1);
        answers.swap_remove(0)
    }

    /// Has the host make another call, which is executed once.
    async fn expect_session_goes_on(&self) {
        let before = self.server.executions("counter");
        let (gateway, host) = self.restart(KillPoint::Never).await;
        let answer = host.call(CALL + 1, "counter", json!({})).await;
        assert_eq!(
            (answer["id"].as_u64(), result_text(&answer)),
            (Some(CALL + 1), &*(before + 1).to_string())
        );
        assert_eq!(self.server.executions("counter"), before + 1);
        gateway.kill().await;
    }

    /// Cuts the file of the session, which is the only one, after this many bytes of its last frame.
    fn cut_last_frame(&self, kept: impl FnOnce(u64) -> u64) {
        let path = self.session_file();
        let frame = last_frame(&std::fs::read(&path).expect("a file"));
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("a file");
        file.set_len(frame.start + kept(frame.end - frame.start)).expect("it can be cut");
    }

    fn session_file(&self) -> PathBuf {
        // It is named by a hash; there is the key of the folder as well.
        let is_session = |path: &Path| path.file_name().is_some_and(|name| name.len() == 64);
        let files = std::fs::read_dir(self.folder.path()).expect("a folder").flatten();
        let mut files = files.map(|file| file.path()).filter(|path| is_session(path));
        let (Some(file), None) = (files.next(), files.next()) else { panic!("there is one session") };
        file
    }
}

/// Where the last frame of a file is. Each begins with the length of the rest of it.
fn last_frame(file: &[u8]) -> Range<u64> {
    let (mut last, mut at) = (0, HEADER_LENGTH);
    while let Some((length, _)) = file[at..].split_first_chunk() {
        (last, at) = (at, at + size_of::<u32>() + u32::from_le_bytes(*length) as usize);
    }
    assert_eq!(at, file.len(), "the last frame is whole");
    last as u64..at as u64
}

/// The length of what is before the frames of a file: how each file begins, and the time at which it may be removed.
const HEADER_LENGTH: usize = 16 + 8;

/// How much of a frame a kill may leave behind: a part of its length, its length, a part of the rest, all but a byte.
const PARTS: [fn(u64) -> u64; 5] =
    [|_| 1, |_| 3, |_| size_of::<u32>() as u64, |length| length / 2, |length| length - 1];

#[track_caller]
fn assert_unknown(answer: &Value) {
    assert_eq!(answer["error"]["code"], UNREACHABLE, "{answer}");
    assert_eq!(answer["error"]["data"]["bowline"], json!({"cause": "closed", "execution": "unknown"}));
}

/// Calls a tool and kills the gateway before the host has an id to come back with. Checks that nothing was executed.
async fn kill_before_the_first_event(kill_point: KillPoint) -> KilledScene {
    let scene = Scene::begin(kill_point).await;
    let host = scene.host.clone();
    let calling = tokio::spawn(async move { host.begin_call(CALL, "counter", json!({})).await });
    scene.gateway.wait_for_kill_point().await;
    assert!(!calling.is_finished(), "the host was told nothing yet");
    let killed = scene.kill().await;
    calling.abort();
    assert_eq!(killed.server.executions("counter"), 0);
    killed
}

#[tokio::test]
async fn a_call_that_was_accepted_is_not_executed_and_not_known() {
    let killed = kill_before_the_first_event(KillPoint::Before(REQUEST)).await;
    let (gateway, host) = killed.restart(KillPoint::Never).await;
    // A host that got nothing makes the call again.
    assert_eq!(result_text(&host.call(CALL, "counter", json!({})).await), "1");
    assert_eq!(gateway.wait_for_entries(2).await, [format!("o{CALL}"), format!("r{CALL}")]);
    gateway.kill().await;
    assert_eq!(killed.server.executions("counter"), 1);
}

#[tokio::test]
async fn a_call_that_was_recorded_is_answered_and_never_executed() {
    let killed = kill_before_the_first_event(KillPoint::After(REQUEST)).await;
    let (gateway, host) = killed.restart(KillPoint::Never).await;
    // What the host does next brings its session back.
    let ping = json!({"jsonrpc": "2.0", "id": "back", "method": "ping"});
    assert_eq!(host.post(&ping).await.message().await["result"], json!({}));
    assert_eq!(gateway.wait_for_entries(1).await, [format!("r{CALL}")]);
    assert_unknown(&gateway.recorded_answer(CALL));
    gateway.kill().await;
    assert_eq!(killed.server.executions("counter"), 0);
    killed.expect_session_goes_on().await;
}

#[tokio::test]
async fn a_call_that_waits_for_its_server_is_answered_with_unknown() {
    let scene = Scene::begin(KillPoint::Never).await;
    scene.server.stop().await;
    let (_reply, begin) = scene.call("counter").await;
    let killed = scene.kill().await;
    killed.server.start().await;
    // That it was not sent is recorded nowhere: that would cost each call a second entry.
    assert_unknown(&killed.expect_one_answer(&begin, 0).await);
}

#[tokio::test]
async fn a_call_that_was_sent_is_answered_with_unknown() {
    let scene = Scene::begin(KillPoint::Never).await;
    let (_reply, begin) = scene.call("slow").await;
    scene.server.wait_for(|received| received.tool() == Some("slow"), TEST_TIMEOUT).await;
    let killed = scene.kill().await;
    assert_unknown(&killed.expect_one_answer(&begin, 1).await);
}

#[tokio::test]
async fn a_result_that_was_not_recorded_is_answered_with_unknown() {
    let scene = Scene::begin(KillPoint::Before(RESPONSE)).await;
    let (_reply, begin) = scene.call("counter").await;
    let killed = scene.kill_at_its_point().await;
    assert_unknown(&killed.expect_one_answer(&begin, 1).await);
}

#[tokio::test]
async fn a_result_that_was_recorded_is_the_answer() {
    let scene = Scene::begin(KillPoint::After(RESPONSE)).await;
    let (_reply, begin) = scene.call("counter").await;
    let killed = scene.kill_at_its_point().await;
    assert_eq!(result_text(&killed.expect_one_answer(&begin, 1).await), "1");
}

#[tokio::test]
async fn a_result_that_was_read_is_the_answer_again() {
    let scene = Scene::begin(KillPoint::Never).await;
    let (reply, begin) = scene.call("counter").await;
    let answer = reply.answer().await;
    assert_eq!(result_text(&answer), "1");
    let killed = scene.kill().await;
    assert_eq!(killed.expect_one_answer(&begin, 1).await, answer);
}

/// The gateway that comes next is killed too, while it answers what the first one left open.
#[tokio::test]
async fn a_second_kill_changes_nothing_of_the_answer() {
    for kill_point in [KillPoint::Before(0), KillPoint::After(0)] {
        let scene = Scene::begin(KillPoint::Before(RESPONSE)).await;
        let (_reply, begin) = scene.call("counter").await;
        let killed = scene.kill_at_its_point().await;
        let (second, host) = killed.restart(kill_point).await;
        let last_event = begin.clone();
        let resuming = tokio::spawn(async move { host.resume(&last_event).await });
        second.wait_for_kill_point().await;
        second.kill().await;
        resuming.abort();
        assert_unknown(&killed.expect_one_answer(&begin, 1).await);
    }
}

#[tokio::test]
async fn a_half_written_result_is_answered_with_unknown() {
    for part in PARTS {
        let scene = Scene::begin(KillPoint::After(RESPONSE)).await;
        let (_reply, begin) = scene.call("counter").await;
        let killed = scene.kill_at_its_point().await;
        killed.cut_last_frame(part);
        assert_unknown(&killed.expect_one_answer(&begin, 1).await);
    }
}

#[tokio::test]
async fn a_half_written_request_is_not_executed_and_not_known() {
    for part in PARTS {
        let killed = kill_before_the_first_event(KillPoint::After(REQUEST)).await;
        killed.cut_last_frame(part);
        let (gateway, host) = killed.restart(KillPoint::Never).await;
        assert_eq!(result_text(&host.call(CALL, "counter", json!({})).await), "1");
        assert_eq!(gateway.wait_for_entries(2).await, [format!("o{CALL}"), format!("r{CALL}")]);
        gateway.kill().await;
        assert_eq!(killed.server.executions("counter"), 1);
        killed.expect_session_goes_on().await;
    }
}
