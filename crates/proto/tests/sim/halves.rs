//! Simulates both halves of the protocol with each other: a host on the client's half, a server on
//! the server's half, and a link that delays and splits what they say.
//!
//! Every request gets exactly one response or is canceled, ids never collide, a cancellation
//! reaches the request that it names, and the host receives everything in the order in which it was
//! sent. `SIM_SEED=n` plays one seed.
//!
//! - [`host`]: calls, cancels, and answers the server
//! - [`server`]: serves, notifies, and sends requests to the host

mod host;
mod server;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use std::{env, panic};

use bowline_proto::frame::lines::{Line, LineDecoder};
use bowline_proto::wire::outgoing::Frame;
use bowline_proto::wire::{Json, ParseResult, parse};
use bytes::Bytes;
use fastrand::Rng;

use self::host::{HostEvent, SimHost};
use self::server::{ServerEvent, SimServer};
use crate::tally::Tally;

/// Number of seeds that the test plays.
const RUNS: u64 = 1_500;

#[test]
fn both_halves_agree_on_every_request() {
    if let Some(seed) = env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("{:#?}", Pair::new(seed).run());
        return;
    }
    let mut all = Tally::default();
    for seed in 0..RUNS {
        match panic::catch_unwind(|| Pair::new(seed).run()) {
            Ok(tally) => all.add(&tally),
            Err(cause) => {
                eprintln!("seed {seed} failed; SIM_SEED={seed} plays it alone");
                panic::resume_unwind(cause);
            }
        }
    }
    for (what, least) in MIN_COUNTS {
        assert!(all.count(what) >= *least, "{} times, not {least}: {what}\n{all:#?}", all.count(what));
    }
}

/// The least number of times that each of these must happen in all runs.
const MIN_COUNTS: &[(&str, u64)] = &[
    ("call: answered", 10_000),
    ("call: canceled", 2_000),
    ("call: canceled, but its response was on its way", 500),
    ("call: waited for its turn", 500),
    ("call: canceled while it waited", 20),
    ("call: canceled in vain", 500),
    ("host: ready", RUNS),
    ("host: refused discovery", 500),
    ("request to the host: answered", 2_000),
    ("request to the host: canceled", 200),
    ("request to the host: canceled at the host", 100),
    ("request to the host: progress", 500),
    ("notification: in order", 10_000),
];

/// Both halves, the link between them, and the virtual clock.
struct Pair {
    world: World,
    host: SimHost,
    server: SimServer,
}

/// What both halves use.
struct World {
    rng: Rng,
    now: Instant,
    queue: BTreeMap<(Instant, u64), SimEvent>,
    next_event: u64,
    to_server: Wire,
    to_host: Wire,
    /// How long the server takes for a request at most.
    serve_within: Duration,
    tally: Tally,
}

enum SimEvent {
    /// Bytes arrive at the server.
    AtServer(Bytes),
    /// Bytes arrive at the host.
    AtHost(Bytes),
    Host(HostEvent),
    Server(ServerEvent),
}

/// One direction of the link.
struct Wire {
    /// When the last bytes arrive. Later ones do not overtake them.
    last_arrival: Instant,
    decoder: LineDecoder,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let start = Instant::now();
        let wire = || Wire { last_arrival: start, decoder: LineDecoder::new() };
        let mut world = World {
            rng: Rng::with_seed(seed),
            now: start,
            queue: BTreeMap::new(),
            next_event: 0,
            to_server: wire(),
            to_host: wire(),
            serve_within: Duration::from_millis(100),
            tally: Tally::default(),
        };
        let host = SimHost::new(&mut world, seed);
        Self { world, host, server: SimServer::new() }
    }

    /// Plays until nothing is left to happen, and checks that nothing was left open.
    fn run(mut self) -> Tally {
        self.host.connect(&mut self.world);
        while let Some(((at, _), event)) = self.world.queue.pop_first() {
            self.world.now = at;
            match event {
                SimEvent::AtServer(bytes) => {
                    for message in self.world.to_server.receive(bytes) {
                        self.server.handle_message(&mut self.world, message);
                    }
                }
                SimEvent::AtHost(bytes) => {
                    for message in self.world.to_host.receive(bytes) {
                        self.host.handle_message(&mut self.world, message);
                    }
                }
                SimEvent::Host(event) => self.host.handle_event(&mut self.world, event),
                SimEvent::Server(event) => self.server.handle_event(&mut self.world, event),
            }
        }
        self.host.assert_all_ended();
        self.server.assert_all_ended();
        self.world.tally
    }
}

impl World {
    fn schedule(&mut self, within: Duration, event: SimEvent) {
        let at = self.now + self.random_delay(within);
        self.schedule_at(at, event);
    }

    fn schedule_at(&mut self, at: Instant, event: SimEvent) {
        self.queue.insert((at, self.next_event), event);
        self.next_event += 1;
    }

    fn random_delay(&mut self, within: Duration) -> Duration {
        within.mul_f64(self.rng.f64())
    }

    fn send_to_server(&mut self, frame: &Frame) {
        for (at, part) in self.split(frame, |world| &mut world.to_server) {
            self.schedule_at(at, SimEvent::AtServer(part));
        }
    }

    fn send_to_host(&mut self, frame: &Frame) {
        for (at, part) in self.split(frame, |world| &mut world.to_host) {
            self.schedule_at(at, SimEvent::AtHost(part));
        }
    }

    /// Splits a frame into parts, each with its time of arrival.
    fn split(&mut self, frame: &Frame, wire: fn(&mut Self) -> &mut Wire) -> Vec<(Instant, Bytes)> {
        let mut line = frame.line();
        let mut parts = Vec::new();
        while !line.is_empty() {
            let length = if self.rng.bool() { line.len() } else { self.rng.usize(1..=line.len()) };
            let arrival = self.now + self.random_delay(MAX_LATENCY);
            let wire = wire(self);
            wire.last_arrival = wire.last_arrival.max(arrival);
            parts.push((wire.last_arrival, line.split_to(length)));
        }
        parts
    }
}

impl Wire {
    fn receive(&mut self, bytes: Bytes) -> Vec<ParseResult> {
        self.decoder.push(bytes);
        let mut messages = Vec::new();
        while let Some(line) = self.decoder.next() {
            let Line::Message(frame) = line else { panic!("{line:?}") };
            parse(&frame, |message| messages.push(message));
        }
        messages
    }
}

/// The number under `name` in params or a result.
fn number(object: &Json, name: &str) -> u64 {
    object
        .member(name)
        .and_then(|number| number.decode().ok())
        .unwrap_or_else(|| panic!("{name} in {object}"))
}

/// An object with this number.
fn numbered(name: &str, number: u64) -> Json {
    Json::parse(format!(r#"{{"{name}":{number}}}"#)).expect("an object is JSON")
}

const MAX_LATENCY: Duration = Duration::from_millis(20);
