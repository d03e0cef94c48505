//! Simulates the protocol core against a server with sessions and executions, on a virtual clock,
//! with seeded random faults.
//!
//! A failing seed is printed. `SIM_SEED=n cargo test -p bowline-proto --test sim -- one_life
//! --nocapture` runs it alone, with a trace.
//!
//! - [`server`]: the scripted server: its sessions, its executions, and its faults
//! - [`halves`]: both halves of the protocol with each other, without faults
//! - [`exchange`]: one request on its way, and its fate
//! - [`driver`]: performs the session's actions, as the real driver does
//! - [`keepalive`]: sends the keepalive probes
//! - [`caller`]: the callers, which perform the steps of their retries
//! - [`requests`]: what callers request
//! - [`listing`]: lists the tools for a call
//! - [`oracle`]: how a call must end
//! - [`invariants`]: checks of the session's actions
//! - [`tally`]: counts of what happened
//! - [`world`]: the clock, and the queue of events

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests may read the clock and files")]

mod caller;
mod driver;
mod exchange;
mod halves;
mod invariants;
mod keepalive;
mod listing;
mod oracle;
mod requests;
mod server;
mod tally;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, panic, thread};

use tally::Tally;
use world::World;

/// Number of seeds that one test runs. `SIM_LIVES=n` overrides it.
const RUNS_PER_TEST: u64 = 5_000;

/// Defines one test for each part of the 50,000 seeds, so that none takes long on a busy machine.
macro_rules! parts {
    ($($name:ident: $part:literal,)*) => {
        $(#[test]
        fn $name() {
            play_part($part);
        })*
    };
}

parts! {
    invariants_hold_for_seeds_from_0: 0,
    invariants_hold_for_seeds_from_5_000: 1,
    invariants_hold_for_seeds_from_10_000: 2,
    invariants_hold_for_seeds_from_15_000: 3,
    invariants_hold_for_seeds_from_20_000: 4,
    invariants_hold_for_seeds_from_25_000: 5,
    invariants_hold_for_seeds_from_30_000: 6,
    invariants_hold_for_seeds_from_35_000: 7,
    invariants_hold_for_seeds_from_40_000: 8,
    invariants_hold_for_seeds_from_45_000: 9,
}

/// Runs one seed by hand: `SIM_SEED=n cargo test -p bowline-proto --test sim -- one_life
/// --nocapture`.
#[test]
fn one_life_is_played_by_hand() {
    let seed = env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    let world = World::new(seed.unwrap_or(1));
    let tally = if seed.is_some() { world.with_trace().run() } else { world.run() };
    println!("{tally:#?}");
}

/// Runs one part of the seeds. The invariants are asserted at every step of every run.
fn play_part(part: u64) {
    let lives = env::var("SIM_LIVES").ok().and_then(|lives| lives.parse().ok()).unwrap_or(RUNS_PER_TEST);
    let (first, end) = (part * lives, (part + 1) * lives);
    let (next, all) = (AtomicU64::new(first), Mutex::new(Tally::default()));
    let play = || {
        let mut mine = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            match panic::catch_unwind(|| World::new(seed).run()) {
                Ok(tally) => mine.add(&tally),
                Err(cause) => {
                    next.store(end, Ordering::Relaxed);
                    eprintln!("seed {seed} failed; SIM_SEED={seed} plays it alone, and tells it");
                    panic::resume_unwind(cause);
                }
            }
        }
        all.lock().unwrap().add(&mine);
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(play);
        }
    });
    all.into_inner().unwrap().assert_all_happened_often(lives);
}

/// A seed gives the same run every time. Otherwise a failure could not be reproduced.
#[test]
fn a_seed_is_played_the_same_every_time() {
    for seed in [1, 77, 4_242] {
        assert_eq!(World::new(seed).run(), World::new(seed).run());
    }
}

/// A keepalive with a shorter interval keeps the session of a server that collects it after 15 s.
#[test]
fn a_kept_session_is_not_collected() {
    let seen = World::calm(Duration::from_secs(15), Some(Duration::from_secs(10))).run();
    assert_eq!(seen.count("said: session lost"), 0, "{seen:#?}");
    assert_eq!(seen.count("call: answered"), 12, "{seen:#?}");
    assert!(seen.count("keepalive: alive") > 15, "{seen:#?}");
}

/// Without a keepalive, the next call recovers from the loss.
#[test]
fn a_collected_session_costs_no_call() {
    let seen = World::calm(Duration::from_secs(15), None).run();
    assert_eq!(seen.count("said: session lost"), 4, "{seen:#?}");
    assert_eq!(seen.count("call: answered") + seen.count("call: saved by sending it again"), 12, "{seen:#?}");
    assert_eq!(seen.count("keepalive: asked"), 0, "{seen:#?}");
}

/// An interval that is too long is shortened.
#[test]
fn the_interval_adapts_until_the_session_is_kept() {
    let seen = World::calm(Duration::from_secs(15), Some(Duration::from_secs(180))).run();
    let lost = seen.count("said: session lost");
    assert!((1..=4).contains(&lost), "{seen:#?}");
    assert!(seen.count("keepalive: alive") > 3, "{seen:#?}");
}
