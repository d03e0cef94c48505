use proptest::prelude::*;

use super::*;
use crate::revision::Revision;
use crate::wire::Json;
use crate::wire::view::Capabilities;

const INTERVAL: Duration = Duration::from_secs(180);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A server that offers the capabilities named.
fn peer(offers: &[&str]) -> Peer {
    let members: Vec<String> = offers.iter().map(|name| format!("\"{name}\":{{}}")).collect();
    let json = Json::parse(format!("{{{}}}", members.join(","))).unwrap();
    Peer {
        revision: Revision::NEWEST_LEGACY,
        capabilities: Capabilities::decode(&json).unwrap(),
        server: None,
        instructions: None,
    }
}

fn modern(offers: &[&str]) -> Peer {
    Peer { revision: Revision::NEWEST_MODERN, ..peer(offers) }
}

fn connected(interval: Duration, peer: &Peer, now: Instant) -> Keepalive {
    let mut keepalive = Keepalive::new(Some(interval));
    keepalive.connected(now, peer);
    keepalive
}

/// Waits until a probe is due and answers it. Gives the probe, what the answer proves, and the time.
fn round(keepalive: &mut Keepalive, heard: Heard) -> (Probe, Proof, Instant) {
    let now = keepalive.poll_timeout().expect("a probe is due some time");
    let probe = keepalive.handle_timeout(now, false).expect("it is time");
    (probe, keepalive.answered(now, heard), now)
}

/// "Per server `keepalive_interval`, floor 5 s, off with 0."
#[test]
fn the_interval_has_a_floor_and_can_be_off() {
    let now = Instant::now();
    assert_eq!(Keepalive::new(Some(INTERVAL)).interval(), Some(INTERVAL));
    assert_eq!(Keepalive::new(Some(secs(1))).interval(), Some(FLOOR));
    for off in [None, Some(Duration::ZERO)] {
        let mut keepalive = Keepalive::new(off);
        keepalive.connected(now, &peer(&["tools"]));
        keepalive.traffic(now + secs(1));
        keepalive.hurry();
        assert_eq!(keepalive.interval(), None);
        assert_eq!(keepalive.poll_timeout(), None);
        assert_eq!(keepalive.handle_timeout(now + secs(100_000), false), None);
    }
    // More than any clock can count is no reason to fail.
    assert_eq!(connected(Duration::MAX, &peer(&[]), now).poll_timeout(), None);
}

/// PG-02: "Probe with `ping`", whatever else there is to ask, and once at a time.
#[test]
fn pg_02_an_idle_server_is_pinged_at_the_interval() {
    let start = Instant::now();
    let mut keepalive = connected(INTERVAL, &peer(&["tools", "prompts", "resources"]), start);
    assert_eq!(keepalive.poll_timeout(), Some(start + INTERVAL));
    assert_eq!(keepalive.handle_timeout(start + secs(179), false), None);
    assert_eq!(keepalive.handle_timeout(start + INTERVAL, false), Some(Probe::Ping));
    assert_eq!(keepalive.poll_timeout(), None);
    assert_eq!(keepalive.handle_timeout(start + 3 * INTERVAL, false), None);
    let answer = start + INTERVAL + secs(2);
    assert_eq!(keepalive.answered(answer, Heard::Alive), Proof::Alive);
    assert_eq!(keepalive.poll_timeout(), Some(answer + INTERVAL));
    // However often it is answered, the list is not asked for.
    for _ in 0..10 {
        assert_eq!(round(&mut keepalive, Heard::Alive).0, Probe::Ping);
    }
}

/// LC-05: "The first `-32601` latches for this connection and the probe becomes a list the server advertises."
#[test]
fn lc_05_without_ping_a_list_that_is_advertised_is_asked_for() {
    for (offers, list) in [
        (&["resources", "prompts", "tools"][..], "tools/list"),
        (&["resources", "prompts"], "prompts/list"),
        (&["prompts"], "prompts/list"),
        (&["resources", "logging"], "resources/list"),
    ] {
        let mut keepalive = connected(INTERVAL, &peer(offers), Instant::now());
        let (probe, proof, now) = round(&mut keepalive, Heard::Unsupported);
        assert_eq!((probe, proof), (Probe::Ping, Proof::Alive), "{list}");
        // Not at once: the answer was a sign of life.
        assert_eq!(keepalive.poll_timeout(), Some(now + INTERVAL));
        for heard in [Heard::Alive, Heard::Alive, Heard::Unsupported, Heard::Alive] {
            let (probe, proof, _) = round(&mut keepalive, heard);
            // -32601 for the list is proof of life too.
            assert_eq!((probe, proof), (Probe::List(list), Proof::Alive));
        }
    }
}

/// Of the lists that are advertised, tools are asked for last: they are the largest.
#[test]
fn smallest_list_is_one_that_is_advertised() {
    assert_eq!(smallest_list(&peer(&["tools", "resources", "prompts"])), Some(method::PROMPTS_LIST));
    assert_eq!(smallest_list(&peer(&["tools", "resources"])), Some(method::RESOURCES_LIST));
    assert_eq!(smallest_list(&peer(&["tools"])), Some(method::TOOLS_LIST));
    assert_eq!(smallest_list(&peer(&[])), None);
}

/// "Where it advertises none, the `-32601` itself is proof of life": no reconnect loop, and `ping` again.
#[test]
fn where_nothing_is_advertised_a_refusal_is_life() {
    let mut keepalive = connected(INTERVAL, &peer(&["logging"]), Instant::now());
    for _ in 0..10 {
        let (probe, proof, _) = round(&mut keepalive, Heard::Unsupported);
        assert_eq!((probe, proof), (Probe::Ping, Proof::Alive));
    }
}

/// "The latch is forgotten on a new connection."
#[test]
fn a_new_connection_is_pinged_again() {
    let mut keepalive = connected(INTERVAL, &peer(&["tools"]), Instant::now());
    let (_, _, now) = round(&mut keepalive, Heard::Unsupported);
    keepalive.disconnected();
    keepalive.connected(now, &peer(&["tools"]));
    assert_eq!(round(&mut keepalive, Heard::Alive).0, Probe::Ping);
}

/// PG-02: "Any other failure is a liveness failure."
#[test]
fn pg_02_any_other_failure_is_death() {
    let start = Instant::now();
    let mut keepalive = connected(INTERVAL, &peer(&["tools"]), start);
    let (probe, proof, now) = round(&mut keepalive, Heard::Failed);
    assert_eq!((probe, proof), (Probe::Ping, Proof::Dead));
    // Should nobody act on it, it is asked again in time, and not at once.
    assert_eq!(keepalive.poll_timeout(), Some(now + INTERVAL));
    round(&mut keepalive, Heard::Unsupported);
    let (probe, proof, _) = round(&mut keepalive, Heard::Failed);
    assert_eq!((probe, proof), (Probe::List("tools/list"), Proof::Dead));
}

/// An answer after the end of its connection decides nothing about the next one.
#[test]
fn a_late_answer_latches_nothing() {
    let start = Instant::now();
    let mut keepalive = connected(INTERVAL, &peer(&["tools"]), start);
    let now = start + INTERVAL;
    keepalive.handle_timeout(now, false).unwrap();
    keepalive.disconnected();
    keepalive.connected(now, &peer(&["tools"]));
    keepalive.answered(now + secs(1), Heard::Unsupported);
    assert_eq!(round(&mut keepalive, Heard::Alive).0, Probe::Ping);
}

/// "Traffic counts as life: no probe while calls flow."
#[test]
fn traffic_puts_the_probe_off() {
    let start = Instant::now();
    let mut keepalive = connected(INTERVAL, &peer(&[]), start);
    keepalive.traffic(start + secs(100));
    // Old news changes nothing.
    keepalive.traffic(start + secs(50));
    assert_eq!(keepalive.poll_timeout(), Some(start + secs(280)));
    assert_eq!(keepalive.handle_timeout(start + INTERVAL, false), None);
    // An open call is watched by its own deadline.
    assert_eq!(keepalive.handle_timeout(start + secs(280), true), None);
    assert_eq!(keepalive.poll_timeout(), Some(start + secs(280) + INTERVAL));
}

/// Where nobody needs to know, nothing is asked, and the time is set anew.
#[test]
fn what_nobody_needs_to_know_is_not_asked() {
    let start = Instant::now();
    for peer in [peer(&["tools"]), modern(&["tools"])] {
        let mut keepalive = Keepalive::new(Some(INTERVAL));
        keepalive.connected(start, &peer);
        assert_eq!(keepalive.handle_timeout(start + INTERVAL, true), None);
        assert_eq!(keepalive.poll_timeout(), Some(start + 2 * INTERVAL));
        assert_eq!(keepalive.handle_timeout(start + 2 * INTERVAL, false), Some(Probe::Ping));
    }
}

/// A modern process can hang too, whatever it offers.
#[test]
fn a_modern_process_is_asked_too() {
    for offers in [&["prompts"][..], &[]] {
        let mut keepalive = connected(INTERVAL, &modern(offers), Instant::now());
        assert_eq!(round(&mut keepalive, Heard::Alive).0, Probe::Ping);
    }
}

/// A request that nobody answered is asked about when its time has come, also where the keepalive is off, and
/// while others come; but not in a storm, and not while the server is at work.
#[test]
fn a_doubt_is_asked_about() {
    let start = Instant::now();
    for interval in [None, Some(INTERVAL)] {
        let mut keepalive = Keepalive::new(interval);
        keepalive.connected(start, &peer(&["tools"]));
        keepalive.doubt(start + secs(3));
        keepalive.doubt(start + secs(9));
        keepalive.traffic(start + secs(1));
        assert_eq!(keepalive.handle_timeout(start + secs(2), false), None);
        assert_eq!(keepalive.handle_timeout(start + secs(3), true), None);
        assert_eq!(keepalive.poll_timeout(), Some(start + secs(3) + FLOOR));
        assert_eq!(keepalive.handle_timeout(start + secs(8), false), Some(Probe::Ping));
        // What is doubted meanwhile is not settled by it.
        keepalive.doubt(start + secs(9));
        assert_eq!(keepalive.poll_timeout(), None);
        assert_eq!(keepalive.answered(start + secs(10), Heard::Alive), Proof::Alive);
        assert_eq!(keepalive.poll_timeout(), Some(start + secs(8) + FLOOR));
        keepalive.trust();
        assert_eq!(keepalive.poll_timeout(), interval.map(|interval| start + secs(10) + interval));
    }
}

/// "The interval adapts downward when a server is seen to drop sessions sooner", and stays there.
#[test]
fn a_server_that_forgets_soon_is_asked_sooner() {
    let start = Instant::now();
    let mut keepalive = connected(INTERVAL, &peer(&["tools"]), start);
    keepalive.session_dropped(start + secs(15));
    assert_eq!(keepalive.interval(), Some(secs(10)));
    keepalive.disconnected();
    keepalive.connected(start + secs(16), &peer(&["tools"]));
    assert_eq!(keepalive.poll_timeout(), Some(start + secs(26)));
    // A longer silence does not take it back.
    keepalive.session_dropped(start + secs(100));
    assert_eq!(keepalive.interval(), Some(secs(10)));
}

/// Never above what was configured, and what is below the floor teaches nothing.
#[test]
fn only_a_silence_that_could_be_broken_teaches() {
    let start = Instant::now();
    for (silence, interval) in [(0, 20), (7, 20), (9, 6), (29, 58 / 3), (3_600, 20)] {
        let mut keepalive = connected(secs(20), &peer(&[]), start);
        keepalive.session_dropped(start + secs(silence));
        let found = keepalive.interval().unwrap();
        assert_eq!(found.as_secs(), interval, "{silence}");
        assert!(found >= FLOOR && found <= secs(20));
    }
    let mut off = Keepalive::new(None);
    off.connected(start, &peer(&[]));
    off.session_dropped(start + secs(15));
    assert_eq!(off.interval(), None);
}

/// A server that collects sessions after 15 s is found out, whatever was configured, by the probes themselves.
#[test]
fn the_interval_comes_down_to_what_keeps_a_session() {
    let collected_after = secs(15);
    let mut keepalive = connected(INTERVAL, &peer(&["tools"]), Instant::now());
    let mut losses = 0;
    for _ in 0..50 {
        let before = keepalive.last.unwrap();
        let now = keepalive.poll_timeout().unwrap();
        keepalive.handle_timeout(now, false).unwrap();
        if now - before < collected_after {
            assert_eq!(keepalive.answered(now, Heard::Alive), Proof::Alive);
        } else {
            losses += 1;
            assert_eq!(keepalive.answered(now, Heard::Failed), Proof::Dead);
            keepalive.session_dropped(now);
            keepalive.disconnected();
            keepalive.connected(now, &peer(&["tools"]));
        }
    }
    assert_eq!(losses, 7, "180, 120, 80, 53, 36, 24 and 16 seconds were too long");
    assert!(keepalive.interval().unwrap() < collected_after);
}

/// After a sleep nothing is taken for granted, but a network that comes and goes causes no storm.
#[test]
fn a_wake_up_asks_at_once() {
    let start = Instant::now();
    let mut keepalive = connected(INTERVAL, &peer(&[]), start);
    keepalive.hurry();
    // Told again of what was known: the hurry stands.
    keepalive.traffic(start);
    assert_eq!(keepalive.handle_timeout(start + secs(1), false), Some(Probe::Ping));
    keepalive.answered(start + secs(2), Heard::Alive);
    keepalive.hurry();
    assert_eq!(keepalive.poll_timeout(), Some(start + secs(1) + FLOOR));
}

#[derive(Clone, Debug)]
enum Step {
    Connected { modern: bool, offers: usize },
    Disconnected,
    Traffic,
    Timeout { busy: bool },
    Answered(Heard),
    Dropped,
    Hurry,
    Doubt,
}

fn any_step() -> impl Strategy<Value = Step> {
    let heard = prop_oneof![
        Just(Heard::Alive),
        Just(Heard::Unsupported),
        Just(Heard::Unsupported),
        Just(Heard::Failed)
    ];
    prop_oneof![
        2 => (any::<bool>(), 0usize..4).prop_map(|(modern, offers)| Step::Connected { modern, offers }),
        1 => Just(Step::Disconnected),
        2 => Just(Step::Traffic),
        6 => proptest::bool::weighted(0.2).prop_map(|busy| Step::Timeout { busy }),
        4 => heard.prop_map(Step::Answered),
        1 => Just(Step::Dropped),
        1 => Just(Step::Hurry),
        1 => Just(Step::Doubt),
    ]
}

/// What the keepalive must have noticed, written down without it.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts of a test, independent of each other")]
struct Model {
    up: bool,
    latched: bool,
    list: bool,
    open: Option<Probe>,
    life: Option<Instant>,
    probed: Option<Instant>,
    hurried: bool,
    doubted: bool,
}

proptest! {
    #[test]
    fn whatever_happens(
        configured in proptest::option::of(0u64..300),
        steps in proptest::collection::vec((any_step(), 0u64..200_000), 1..80),
    ) {
        let mut keepalive = Keepalive::new(configured.map(secs));
        let on = configured.is_some_and(|interval| interval > 0);
        let mut now = Instant::now();
        let mut model = Model::default();
        for (step, wait) in steps {
            now += Duration::from_millis(wait);
            match step {
                Step::Connected { modern: is_modern, offers } => {
                    let offers = &["resources", "prompts", "tools"][..offers];
                    let peer = if is_modern { modern(offers) } else { peer(offers) };
                    keepalive.connected(now, &peer);
                    model = Model {
                        up: true,
                        list: !offers.is_empty(),
                        life: Some(now),
                        probed: model.probed,
                        ..Model::default()
                    };
                }
                Step::Disconnected => {
                    keepalive.disconnected();
                    model.up = false;
                    model.open = None;
                }
                Step::Traffic => {
                    keepalive.traffic(now);
                    model.life = Some(now);
                    model.hurried = false;
                }
                Step::Hurry => {
                    keepalive.hurry();
                    model.hurried = true;
                }
                Step::Doubt => {
                    keepalive.doubt(now);
                    model.doubted = true;
                }
                Step::Dropped => {
                    let before = keepalive.interval();
                    keepalive.session_dropped(now);
                    prop_assert!(keepalive.interval() <= before);
                }
                Step::Answered(heard) => {
                    let proof = keepalive.answered(now, heard);
                    prop_assert_eq!(proof == Proof::Dead, heard == Heard::Failed);
                    if model.open.take() == Some(Probe::Ping) && heard == Heard::Unsupported && model.list {
                        model.latched = true;
                    }
                    if heard != Heard::Failed {
                        model.life = Some(now);
                    }
                }
                Step::Timeout { busy } => {
                    let probe = keepalive.handle_timeout(now, busy);
                    if let Some(probe) = probe {
                        prop_assert!(model.up && model.open.is_none());
                        prop_assert!((model.doubted || on) && !busy);
                        let interval = keepalive.interval().unwrap_or(Duration::MAX);
                        let quiet = model.life.map_or(Duration::MAX, |life| now - life);
                        // The interval may have come down since the time was set, never gone up.
                        prop_assert!(model.hurried || model.doubted || quiet >= interval);
                        prop_assert!(model.probed.is_none_or(|probed| now - probed >= FLOOR));
                        prop_assert_eq!(probe == Probe::Ping, !model.latched);
                        model.open = Some(probe);
                        model.probed = Some(now);
                        model.hurried = false;
                        model.doubted = false;
                    }
                }
            }
            // It is off, down, asking, or has a time at which it will ask.
            let waits = (on || model.doubted) && model.up && model.open.is_none();
            prop_assert_eq!(keepalive.poll_timeout().is_some(), waits);
            if let Some(interval) = keepalive.interval() {
                prop_assert!(interval >= FLOOR && interval <= secs(configured.unwrap()).max(FLOOR));
            }
        }
    }
}
