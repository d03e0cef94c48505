use std::time::Duration;

use super::*;
use crate::limits::HOSTS_PER_IDENTITY;

fn principal(name: &str) -> Audience {
    Audience::recorded(Some(name), None)
}

fn admission(in_flight: usize) -> Admission {
    Admission::new(HostLimits::new().with_requests_in_flight(in_flight))
}

fn take(host: &Arc<HostAdmission>, count: usize) -> Vec<RequestSlot> {
    (0..count).map(|_| host.admit().unwrap()).collect()
}

/// The part of a refusal that says whose limit was reached.
fn refusal(host: &Arc<HostAdmission>) -> String {
    host.admit().unwrap_err().message
}

#[tokio::test]
async fn one_host_leaves_room_for_others_with_its_token() {
    let admission = admission(3);
    let hosts = [(); 5].map(|()| admission.begin_session(&Audience::default()));
    let mut slots = take(&hosts[0], 3);
    assert!(refusal(&hosts[0]).contains("3 of this host may be"));
    for host in &hosts[1..4] {
        slots.extend(take(host, 3));
    }
    assert_eq!(slots.len(), 3 * HOSTS_PER_IDENTITY as usize);
    assert!(refusal(&hosts[4]).contains("12 of the hosts with this token may be"));
    // Another identity is not concerned.
    let other = admission.begin_session(&principal("other"));
    slots.extend(take(&other, 3));
    slots.swap_remove(0);
    slots.extend(take(&hosts[4], 1));
    assert!(refusal(&hosts[4]).contains("of the hosts with this token"));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_too_fast_leaves_the_rate_of_others() {
    let admission = Admission::new(HostLimits::new().with_rate(10, 2));
    let (fast, slow) =
        (admission.begin_session(&Audience::default()), admission.begin_session(&Audience::default()));
    drop(take(&fast, 2));
    assert!(refusal(&fast).ends_with("wait 0.1 s"), "its requests have ended, and count all the same");
    drop(take(&slow, 2));
    tokio::time::advance(Duration::from_millis(100)).await;
    drop(take(&fast, 1));
    assert!(refusal(&fast).contains("too many requests of this host"));
}

/// A host of 2026-07-28 has no session: its rate and its requests are known by its name.
#[tokio::test]
async fn hosts_without_a_session_are_told_apart_by_their_names() {
    let admission = admission(1);
    let host = |name: &str| admission.stateless_host(&Audience::default(), name);
    let first = host("a").admit().unwrap();
    assert!(refusal(&host("a")).contains("1 of this host"));
    let _second = host("b").admit().unwrap();
    drop(first);
    let _third = host("a").admit().unwrap();
}

/// Names cost no memory: too many of them are one host.
#[tokio::test]
async fn the_number_of_hosts_and_identities_is_bounded() {
    let admission = admission(10_000);
    let mut slots = Vec::new();
    for number in 0..3 * MAX_STATELESS_HOSTS {
        slots.push(admission.stateless_host(&Audience::default(), &number.to_string()).admit().unwrap());
    }
    let identity = admission.identity(&Audience::default());
    assert_eq!(identity.stateless.lock().len(), MAX_STATELESS_HOSTS + 1);
    drop(slots);
    admission.stateless_host(&Audience::default(), "another");
    assert_eq!(identity.stateless.lock().len(), 1, "those that are unused are forgotten");
    drop(identity);
    for number in 0..10 * MIN_SWEEP {
        drop(admission.begin_session(&principal(&number.to_string())).admit().unwrap());
    }
    assert!(admission.identities.lock().by_principal.len() <= MIN_SWEEP);
}

/// An identity whose rate is used up is remembered, though it has no session any more.
#[tokio::test(start_paused = true)]
async fn ending_a_session_does_not_renew_the_rate_of_its_identity() {
    let admission = Admission::new(HostLimits::new().with_rate(1, 1));
    for _ in 0..HOSTS_PER_IDENTITY {
        drop(admission.begin_session(&principal("a")).admit().unwrap());
    }
    for number in 0..2 * MIN_SWEEP {
        admission.begin_session(&principal(&format!("other {number}")));
    }
    let next = admission.begin_session(&principal("a"));
    assert!(refusal(&next).contains("of the hosts with this token"));
}
