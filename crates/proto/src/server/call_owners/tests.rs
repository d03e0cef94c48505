//! Tests that nothing is taken for a message to a host that it may not be for.

use proptest::prelude::*;

use super::*;

const WORKING: Duration = Duration::from_secs(600);
const ANSWERED: Duration = Duration::from_secs(10);
const GRACE: GracePeriods = GracePeriods { answered: ANSWERED, abandoned: WORKING };

fn owners(hosts: &[u32]) -> CallOwners<u32> {
    let mut owners = CallOwners::new(GRACE);
    for host in hosts {
        owners.join(*host);
    }
    owners
}

#[test]
fn the_only_host_gets_everything() {
    let (mut owners, now) = (owners(&[1]), Instant::now());
    assert_eq!(owners.owner(now), Owner::Host { host: 1, call: None });
    let (first, second) = (owners.begin(1), owners.begin(1));
    assert_eq!(owners.owner(now), Owner::Host { host: 1, call: Some(second) });
    owners.end(second, CallEnd::Abandoned, now);
    assert_eq!(owners.owner(now), Owner::Host { host: 1, call: Some(first) });
    assert!(!owners.leave(1));
    assert_eq!(owners.owner(now), Owner::Nobody);
}

/// GW-15: a question of a shared server reaches a host only if no other one can be meant.
#[test]
fn gw_15_a_shared_server_reaches_the_host_that_alone_has_calls() {
    let (mut owners, now) = (owners(&[1, 2]), Instant::now());
    assert_eq!(owners.owner(now), Owner::Unclear);
    let one = owners.begin(1);
    assert_eq!(owners.owner(now), Owner::Host { host: 1, call: Some(one) });
    let two = owners.begin(2);
    assert_eq!(owners.owner(now), Owner::Unclear);
    owners.end(one, CallEnd::Answered, now);
    assert_eq!(owners.owner(now), Owner::Unclear, "what was said before the response may come after it");
    assert_eq!(owners.owner(now + ANSWERED), Owner::Host { host: 2, call: Some(two) });
}

#[test]
fn a_call_that_nobody_waits_for_may_still_ask() {
    let (mut owners, now) = (owners(&[1, 2]), Instant::now());
    let (one, two) = (owners.begin(1), owners.begin(2));
    owners.end(one, CallEnd::Abandoned, now);
    assert_eq!(owners.owner(now), Owner::Unclear);
    owners.leave(1);
    assert_eq!(owners.owner(now), Owner::Unclear);
    assert_eq!(owners.owner(now + WORKING), Owner::Host { host: 2, call: Some(two) });
    owners.end(two, CallEnd::Answered, now);
    assert_eq!(owners.owner(now), Owner::Unclear);
    assert_eq!(owners.owner(now + ANSWERED), Owner::Nobody, "only the host that has left can be meant");
}

#[derive(Clone, Debug)]
enum Step {
    Join(u8),
    Leave(u8),
    Begin(u8),
    Answer(usize),
    Abandon(usize),
    Wait(u16),
    /// The server says something about the call that it works on for the longest time.
    Speak(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4_u8).prop_map(Step::Join),
        (0..4_u8).prop_map(Step::Leave),
        (0..4_u8).prop_map(Step::Begin),
        any::<usize>().prop_map(Step::Answer),
        any::<usize>().prop_map(Step::Abandon),
        (0..400_u16).prop_map(Step::Wait),
        any::<usize>().prop_map(Step::Speak),
    ]
}

proptest! {
    /// GW-15: in every interleaving of hosts, calls and cancellations that a server ignores, what the
    /// server says about a call reaches its own host or nobody.
    #[test]
    fn gw_15_nothing_reaches_another_host(steps in prop::collection::vec(step(), 1..60)) {
        let mut owners = CallOwners::new(GRACE);
        let mut now = Instant::now();
        // What the server works on: the call, its host, and until when if nobody waits for it.
        let mut working: Vec<(CallKey, u8, Option<Instant>)> = Vec::new();
        for step in steps {
            let open: Vec<_> = working.iter().filter(|(.., until)| until.is_none()).copied().collect();
            match step {
                Step::Join(host) => owners.join(host),
                Step::Leave(host) => {
                    for (key, ..) in open.iter().filter(|(_, of, _)| *of == host) {
                        owners.end(*key, CallEnd::Abandoned, now);
                        let call = working.iter_mut().find(|(other, ..)| other == key).unwrap();
                        call.2 = Some(now + WORKING);
                    }
                    owners.leave(host);
                }
                Step::Begin(host) => {
                    owners.join(host);
                    working.push((owners.begin(host), host, None));
                }
                Step::Answer(_) | Step::Abandon(_) if open.is_empty() => {}
                Step::Answer(at) => {
                    let (key, ..) = open[at % open.len()];
                    owners.end(key, CallEnd::Answered, now);
                    working.iter_mut().find(|(other, ..)| *other == key).unwrap().2 = Some(now + ANSWERED);
                }
                Step::Abandon(at) => {
                    let (key, ..) = open[at % open.len()];
                    owners.end(key, CallEnd::Abandoned, now);
                    working.iter_mut().find(|(other, ..)| *other == key).unwrap().2 = Some(now + WORKING);
                }
                Step::Wait(seconds) => {
                    now += Duration::from_secs(seconds.into());
                    working.retain(|(.., until)| until.is_none_or(|until| until > now));
                }
                Step::Speak(_) if working.is_empty() => {}
                Step::Speak(at) => {
                    let (_, host, _) = working[at % working.len()];
                    if let Owner::Host { host: reached, .. } = owners.owner(now) {
                        prop_assert_eq!(reached, host);
                    }
                }
            }
        }
    }
}
