//! Tests of the keepalive: intervals, probes, and what their results prove.

use proptest::prelude::*;

use super::*;
use crate::revision::Revision;
use crate::wire::Json;
use crate::wire::view::Capabilities;

const INTERVAL: Duration = Duration::from_secs(180);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A server with these capabilities.
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
    keepalive.handle_connected(now, peer);
    keepalive
}

/// Waits until a probe is due and answers it. Returns the probe, what its result proves, and the
/// time.
fn run_probe(keepalive: &mut Keepalive, heard: ProbeResult) -> (Probe, Liveness, Instant) {
    let now = keepalive.poll_timeout().expect("a probe is due some time");
    let probe = keepalive.handle_timeout(now, false).expect("it is time");
    (probe, keepalive.handle_probe_result(now, heard), now)
}

/// The interval is at least 5 s, and 0 turns the keepalive off.
#[test]
fn the_interval_has_a_floor_and_can_be_off() {
    let now = Instant::now();
    assert_eq!(Keepalive::new(Some(INTERVAL)).interval(), Some(INTERVAL));
    assert_eq!(Keepalive::new(Some(secs(1))).interval(), Some(MIN_PROBE_INTERVAL));
    for off in [None, Some(Duration::ZERO)] {
        let mut keepalive = Keepalive::new(off);
        keepalive.handle_connected(now, &peer(&["tools"]));
        keepalive.record_traffic(now + secs(1));
        keepalive.probe_soon();
        assert_eq!(keepalive.interval(), None);
        assert_eq!(keepalive.poll_timeout(), None);
        assert_eq!(keepalive.handle_timeout(now + secs(100_000), false), None);
    }
    // An interval that overflows the clock causes no panic.
    assert_eq!(connected(Duration::MAX, &peer(&[]), now).poll_timeout(), None);
}

/// PG-02: an idle server is probed with `ping`, whatever it advertises, and with one probe at a
/// time.
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
    assert_eq!(keepalive.handle_probe_result(answer, ProbeResult::Alive), Liveness::Alive);
    assert_eq!(keepalive.poll_timeout(), Some(answer + INTERVAL));
    // As long as `ping` is answered, no list is requested.
    for _ in 0..10 {
        assert_eq!(run_probe(&mut keepalive, ProbeResult::Alive).0, Probe::Ping);
    }
}

/// LC-05: after the first `-32601`, the probe is an advertised list for the rest of the connection.
#[test]
fn lc_05_without_ping_a_list_that_is_advertised_is_asked_for() {
    for (offers, list) in [
        (&["resources", "prompts", "tools"][..], "tools/list"),
        (&["resources", "prompts"], "prompts/list"),
        (&["prompts"], "prompts/list"),
        (&["resources", "logging"], "resources/list"),
    ] {
        let mut keepalive = connected(INTERVAL, &peer(offers), Instant::now());
        let (probe, proof, now) = run_probe(&mut keepalive, ProbeResult::Unsupported);
        assert_eq!((probe, proof), (Probe::Ping, Liveness::Alive), "{list}");
        // The list is not requested at once, since the error was a sign of life.
        assert_eq!(keepalive.poll_timeout(), Some(now + INTERVAL));
        for heard in [ProbeResult::Alive, ProbeResult::Alive, ProbeResult::Unsupported, ProbeResult::Alive] {
            let (probe, proof, _) = run_probe(&mut keepalive, heard);
            // -32601 for the list is proof of life too.
            assert_eq!((probe, proof), (Probe::List(list), Liveness::Alive));
        }
    }
}

/// Of the advertised lists, tools are chosen last, since they are the largest.
#[test]
fn smallest_list_is_one_that_is_advertised() {
    assert_eq!(smallest_list_method(&peer(&["tools", "resources", "prompts"])), Some(method::PROMPTS_LIST));
    assert_eq!(smallest_list_method(&peer(&["tools", "resources"])), Some(method::RESOURCES_LIST));
    assert_eq!(smallest_list_method(&peer(&["tools"])), Some(method::TOOLS_LIST));
    assert_eq!(smallest_list_method(&peer(&[])), None);
}

/// If no list is advertised, `-32601` is a sign of life: there is no reconnect loop, and `ping` is
/// sent again.
#[test]
fn where_nothing_is_advertised_a_refusal_is_life() {
    let mut keepalive = connected(INTERVAL, &peer(&["logging"]), Instant::now());
    for _ in 0..10 {
        let (probe, proof, _) = run_probe(&mut keepalive, ProbeResult::Unsupported);
        assert_eq!((probe, proof), (Probe::Ping, Liveness::Alive));
    }
}

/// A new connection is probed with `ping` again.
#[test]
fn a_new_connection_is_pinged_again() {
    let mut keepalive = connected(INTERVAL, &peer(&["tools"]), Instant::now());
    let (_, _, now) = run_probe(&mut keepalive, ProbeResult::Unsupported);
    keepalive.handle_disconnected();
    keepalive.handle_connected(now, &peer(&["tools"]));
    assert_eq!(run_probe(&mut keepalive, ProbeResult::Alive).0, Probe::Ping);
}

/// PG-02: any other failure of a probe means that the server is dead.
#[test]
fn pg_02_any_other_failure_is_death() {
    let start = Instant::now();
    let mut keepalive = connected(INTERVAL, &peer(&["tools"]), start);
    let (probe, proof, now) = run_probe(&mut keepalive, ProbeResult::Failed);
    assert_eq!((probe, proof), (Probe::Ping, Liveness::Dead));
    // If nobody acts on it, the next probe is due after the interval.
    assert_eq!(keepalive.poll_timeout(), Some(now + INTERVAL));
    run_probe(&mut keepalive, ProbeResult::Unsupported);
    let (probe, proof, _) = run_probe(&mut keepalive, ProbeResult::Failed);
    assert_eq!((probe, proof), (Probe::List("tools/list"), Liveness::Dead));
}

/// A result that comes after the end of its connection does not affect the next one.
#[test]
fn a_late_answer_latches_nothing() {
    let start = Instant::now();
    let mut keepalive = connected(INTERVAL, &peer(&["tools"]), start);
    let now = start + INTERVAL;
    keepalive.handle_timeout(now, false).unwrap();
    keepalive.handle_disconnected();
    keepalive.handle_connected(now, &peer(&["tools"]));
    keepalive.handle_probe_result(now + secs(1), ProbeResult::Unsupported);
    assert_eq!(run_probe(&mut keepalive, ProbeResult::Alive).0, Probe::Ping);
}

/// Traffic is a sign of life: no probe is sent while calls flow.
#[test]
fn traffic_puts_the_probe_off() {
    let start = Instant::now();
    let mut keepalive = connected(INTERVAL, &peer(&[]), start);
    keepalive.record_traffic(start + secs(100));
    // An older time changes nothing.
    keepalive.record_traffic(start + secs(50));
    assert_eq!(keepalive.poll_timeout(), Some(start + secs(280)));
    assert_eq!(keepalive.handle_timeout(start + INTERVAL, false), None);
    // A pending call has its own deadline.
    assert_eq!(keepalive.handle_timeout(start + secs(280), true), None);
    assert_eq!(keepalive.poll_timeout(), Some(start + secs(280) + INTERVAL));
}

/// A busy connection is not probed, and the next probe is scheduled after another interval.
#[test]
fn what_nobody_needs_to_know_is_not_asked() {
    let start = Instant::now();
    for peer in [peer(&["tools"]), modern(&["tools"])] {
        let mut keepalive = Keepalive::new(Some(INTERVAL));
        keepalive.handle_connected(start, &peer);
        assert_eq!(keepalive.handle_timeout(start + INTERVAL, true), None);
        assert_eq!(keepalive.poll_timeout(), Some(start + 2 * INTERVAL));
        assert_eq!(keepalive.handle_timeout(start + 2 * INTERVAL, false), Some(Probe::Ping));
    }
}

/// A modern server is probed too, whatever it advertises, since its process can hang.
#[test]
fn a_modern_process_is_asked_too() {
    for offers in [&["prompts"][..], &[]] {
        let mut keepalive = connected(INTERVAL, &modern(offers), Instant::now());
        assert_eq!(run_probe(&mut keepalive, ProbeResult::Alive).0, Probe::Ping);
    }
}

/// An unanswered request causes a probe when it is due, even if the keepalive is off or there is
/// other traffic; but probes keep their minimum interval, and none is sent while the server is
/// busy.
#[test]
fn a_doubt_is_asked_about() {
    let start = Instant::now();
    for interval in [None, Some(INTERVAL)] {
        let mut keepalive = Keepalive::new(interval);
        keepalive.handle_connected(start, &peer(&["tools"]));
        keepalive.suspect(start + secs(3));
        keepalive.suspect(start + secs(9));
        keepalive.record_traffic(start + secs(1));
        assert_eq!(keepalive.handle_timeout(start + secs(2), false), None);
        assert_eq!(keepalive.handle_timeout(start + secs(3), true), None);
        assert_eq!(keepalive.poll_timeout(), Some(start + secs(3) + MIN_PROBE_INTERVAL));
        assert_eq!(keepalive.handle_timeout(start + secs(8), false), Some(Probe::Ping));
        // A suspicion raised meanwhile is not settled by it.
        keepalive.suspect(start + secs(9));
        assert_eq!(keepalive.poll_timeout(), None);
        assert_eq!(keepalive.handle_probe_result(start + secs(10), ProbeResult::Alive), Liveness::Alive);
        assert_eq!(keepalive.poll_timeout(), Some(start + secs(8) + MIN_PROBE_INTERVAL));
        keepalive.clear_suspicion();
        assert_eq!(keepalive.poll_timeout(), interval.map(|interval| start + secs(10) + interval));
    }
}

/// The interval shrinks when a server loses sessions sooner, and does not grow again.
#[test]
fn a_server_that_forgets_soon_is_asked_sooner() {
    let start = Instant::now();
    let mut keepalive = connected(INTERVAL, &peer(&["tools"]), start);
    keepalive.handle_session_loss(start + secs(15));
    assert_eq!(keepalive.interval(), Some(secs(10)));
    keepalive.handle_disconnected();
    keepalive.handle_connected(start + secs(16), &peer(&["tools"]));
    assert_eq!(keepalive.poll_timeout(), Some(start + secs(26)));
    // A longer silence does not lengthen it.
    keepalive.handle_session_loss(start + secs(100));
    assert_eq!(keepalive.interval(), Some(secs(10)));
}

/// The learned interval never exceeds the configured one, and a loss below the floor teaches
/// nothing.
#[test]
fn only_a_silence_that_could_be_broken_teaches() {
    let start = Instant::now();
    for (silence, interval) in [(0, 20), (7, 20), (9, 6), (29, 58 / 3), (3_600, 20)] {
        let mut keepalive = connected(secs(20), &peer(&[]), start);
        keepalive.handle_session_loss(start + secs(silence));
        let found = keepalive.interval().unwrap();
        assert_eq!(found.as_secs(), interval, "{silence}");
        assert!(found >= MIN_PROBE_INTERVAL && found <= secs(20));
    }
    let mut off = Keepalive::new(None);
    off.handle_connected(start, &peer(&[]));
    off.handle_session_loss(start + secs(15));
    assert_eq!(off.interval(), None);
}

/// The probes learn the limit of a server that collects sessions after 15 s, whatever is
/// configured.
#[test]
fn the_interval_comes_down_to_what_keeps_a_session() {
    let collected_after = secs(15);
    let mut keepalive = connected(INTERVAL, &peer(&["tools"]), Instant::now());
    let mut losses = 0;
    for _ in 0..50 {
        let before = keepalive.last_traffic.unwrap();
        let now = keepalive.poll_timeout().unwrap();
        keepalive.handle_timeout(now, false).unwrap();
        if now - before < collected_after {
            assert_eq!(keepalive.handle_probe_result(now, ProbeResult::Alive), Liveness::Alive);
        } else {
            losses += 1;
            assert_eq!(keepalive.handle_probe_result(now, ProbeResult::Failed), Liveness::Dead);
            keepalive.handle_session_loss(now);
            keepalive.handle_disconnected();
            keepalive.handle_connected(now, &peer(&["tools"]));
        }
    }
    assert_eq!(losses, 7, "180, 120, 80, 53, 36, 24 and 16 seconds were too long");
    assert!(keepalive.interval().unwrap() < collected_after);
}

/// After a wake-up a probe is sent at once, but a flapping network does not cause a storm of
/// probes.
#[test]
fn a_wake_up_asks_at_once() {
    let start = Instant::now();
    let mut keepalive = connected(INTERVAL, &peer(&[]), start);
    keepalive.probe_soon();
    // Traffic that was already known does not delay the probe.
    keepalive.record_traffic(start);
    assert_eq!(keepalive.handle_timeout(start + secs(1), false), Some(Probe::Ping));
    keepalive.handle_probe_result(start + secs(2), ProbeResult::Alive);
    keepalive.probe_soon();
    assert_eq!(keepalive.poll_timeout(), Some(start + secs(1) + MIN_PROBE_INTERVAL));
}

#[derive(Clone, Debug)]
enum Step {
    Connected { modern: bool, offers: usize },
    Disconnected,
    Traffic,
    Timeout { busy: bool },
    ProbeResult(ProbeResult),
    SessionLost,
    ProbeSoon,
    Suspect,
}

fn any_step() -> impl Strategy<Value = Step> {
    let heard = prop_oneof![
        Just(ProbeResult::Alive),
        Just(ProbeResult::Unsupported),
        Just(ProbeResult::Unsupported),
        Just(ProbeResult::Failed)
    ];
    prop_oneof![
        2 => (any::<bool>(), 0usize..4).prop_map(|(modern, offers)| Step::Connected { modern, offers }),
        1 => Just(Step::Disconnected),
        2 => Just(Step::Traffic),
        6 => proptest::bool::weighted(0.2).prop_map(|busy| Step::Timeout { busy }),
        4 => heard.prop_map(Step::ProbeResult),
        1 => Just(Step::SessionLost),
        1 => Just(Step::ProbeSoon),
        1 => Just(Step::Suspect),
    ]
}

/// A model of what the keepalive must know, independent of its implementation.
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
                    keepalive.handle_connected(now, &peer);
                    model = Model {
                        up: true,
                        list: !offers.is_empty(),
                        life: Some(now),
                        probed: model.probed,
                        ..Model::default()
                    };
                }
                Step::Disconnected => {
                    keepalive.handle_disconnected();
                    model.up = false;
                    model.open = None;
                }
                Step::Traffic => {
                    keepalive.record_traffic(now);
                    model.life = Some(now);
                    model.hurried = false;
                }
                Step::ProbeSoon => {
                    keepalive.probe_soon();
                    model.hurried = true;
                }
                Step::Suspect => {
                    keepalive.suspect(now);
                    model.doubted = true;
                }
                Step::SessionLost => {
                    let before = keepalive.interval();
                    keepalive.handle_session_loss(now);
                    prop_assert!(keepalive.interval() <= before);
                }
                Step::ProbeResult(heard) => {
                    let proof = keepalive.handle_probe_result(now, heard);
                    prop_assert_eq!(proof == Liveness::Dead, heard == ProbeResult::Failed);
                    if model.open.take() == Some(Probe::Ping) && heard == ProbeResult::Unsupported && model.list {
                        model.latched = true;
                    }
                    if heard != ProbeResult::Failed {
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
                        // The interval may have shrunk since the probe was scheduled, but never
                        // grows.
                        prop_assert!(model.hurried || model.doubted || quiet >= interval);
                        prop_assert!(model.probed.is_none_or(|probed| now - probed >= MIN_PROBE_INTERVAL));
                        prop_assert_eq!(probe == Probe::Ping, !model.latched);
                        model.open = Some(probe);
                        model.probed = Some(now);
                        model.hurried = false;
                        model.doubted = false;
                    }
                }
            }
            // It is off, disconnected, probing, or has a probe scheduled.
            let waits = (on || model.doubted) && model.up && model.open.is_none();
            prop_assert_eq!(keepalive.poll_timeout().is_some(), waits);
            if let Some(interval) = keepalive.interval() {
                prop_assert!(interval >= MIN_PROBE_INTERVAL && interval <= secs(configured.unwrap()).max(MIN_PROBE_INTERVAL));
            }
        }
    }
}
