//! Tests of the host's requests: bounds, order, ids and cancellation.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

fn full() -> (Requests<i64>, Vec<RequestKey>) {
    let mut requests = Requests::default();
    let keys = (0..512).map(|id| open(&mut requests, id, 0).unwrap()).collect();
    (requests, keys)
}

fn open(requests: &mut Requests<i64>, id: i64, size: usize) -> Result<RequestKey, RequestRefusal> {
    let key = requests.open(&Id::Int(id), size)?;
    requests.attach(key, id);
    Ok(key)
}

fn cancel(requests: &mut Requests<i64>, id: &str) -> Option<i64> {
    requests.cancel(Some(&Json::parse(format!(r#"{{"requestId":{id}}}"#)).unwrap()))
}

/// Large requests use up the room for waiting ones sooner than small ones.
#[test]
fn waiting_requests_are_bounded_in_bytes_and_in_number() {
    let (mut requests, _) = full();
    open(&mut requests, 1000, 64 * 1024 * 1024).unwrap();
    assert_eq!(open(&mut requests, 1001, 0), Err(RequestRefusal::Full));
    assert_eq!(open(&mut requests, 1000, 0), Err(RequestRefusal::DuplicateId));
    let (mut requests, _) = full();
    for id in 1000..1000 + 4096 {
        open(&mut requests, id, 100).unwrap();
    }
    assert_eq!(open(&mut requests, 0x1000_0000, 0), Err(RequestRefusal::Full));
}

#[test]
fn waiting_requests_run_in_order_and_can_be_canceled() {
    let (mut requests, running) = full();
    let waiting: Vec<_> = [1000, 1001, 1002].map(|id| open(&mut requests, id, 0).unwrap()).into();
    assert_eq!(requests.turn(waiting[0]), Some(Turn::Waiting));
    assert_eq!(cancel(&mut requests, "1001"), Some(1001));
    assert_eq!(requests.turn(waiting[1]), None);
    // A running request keeps its place until it has ended.
    assert_eq!(cancel(&mut requests, "7"), Some(7));
    assert_eq!(requests.turn(waiting[0]), Some(Turn::Waiting));
    assert_eq!(requests.end(running[7]), Some(&mut 1000));
    assert_eq!(requests.turn(waiting[0]), Some(Turn::Running));
    assert_eq!(requests.end(waiting[1]), None, "it freed no place");
    assert_eq!(requests.end(waiting[0]), Some(&mut 1002));
    assert_eq!(requests.end(running[0]), None);
    assert_eq!(requests.len(), 511);
}

#[test]
fn turn_may_come_before_the_task() {
    let (mut requests, running) = full();
    let key = requests.open(&Id::Int(1000), 0).unwrap();
    let next = requests.open(&Id::Int(1001), 0).unwrap();
    assert_eq!(requests.end(running[0]), None);
    assert_eq!(requests.turn(key), Some(Turn::Running));
    assert_eq!(requests.attach(key, 1000), Some(&mut 1000));
    assert_eq!(requests.attach(next, 1001), None);
    assert_eq!(requests.attach(running[0], 0), None);
    assert!(requests.answer(key));
}

#[test]
fn room_of_waiting_requests_is_given_back() {
    let (mut requests, running) = full();
    for round in 0..10_000 {
        open(&mut requests, 1000 + round, 64 * 1024 * 1024).unwrap();
        assert!(cancel(&mut requests, &(1000 + round).to_string()).is_some());
    }
    open(&mut requests, 1, 0).unwrap_err();
    open(&mut requests, 20_000, 64 * 1024 * 1024).unwrap();
    requests.end(running[0]);
    open(&mut requests, 20_001, 64 * 1024 * 1024).unwrap();
}

#[test]
fn ids_are_compared_with_their_type_and_free_once_answered() {
    let mut requests: Requests<()> = Requests::default();
    let number = requests.open(&Id::Int(1), 0).unwrap();
    let text = requests.open(&Id::from_string("1"), 0).unwrap();
    assert_eq!(requests.open(&Id::Int(1), 0), Err(RequestRefusal::DuplicateId));
    assert!(requests.answer(number));
    assert!(!requests.answer(number));
    let again = requests.open(&Id::Int(1), 0).unwrap();
    // The end of the first does not touch its successor.
    requests.end(number);
    assert_eq!(requests.open(&Id::Int(1), 0), Err(RequestRefusal::DuplicateId));
    assert!(requests.answer(again) && requests.answer(text));
    requests.end(again);
    requests.end(text);
    assert!(requests.is_empty());
}

#[test]
fn canceled_requests_get_no_response() {
    let mut requests = Requests::default();
    let key = open(&mut requests, 1, 0).unwrap();
    assert_eq!(cancel(&mut requests, "\"1\""), None);
    assert_eq!(requests.cancel(None), None);
    assert_eq!(cancel(&mut requests, "1"), Some(1));
    assert_eq!(cancel(&mut requests, "1"), None);
    assert!(!requests.answer(key));
    requests.end(key);
    let key = open(&mut requests, 2, 0).unwrap();
    assert_eq!(requests.cancel_all(), [2]);
    assert!(!requests.answer(key));
}

proptest! {
    /// Whatever a host does, an id is open at most once, and no more run than may.
    #[test]
    fn table_holds_its_bounds(steps in prop::collection::vec((0..4u8, 0..1500i64, 0..20_000_000usize), 0..3000)) {
        let mut requests = Requests::default();
        let mut keys = HashMap::new();
        let mut open_ids = HashSet::new();
        for (step, id, size) in steps {
            match step {
                0 | 1 => match open(&mut requests, id, size) {
                    Ok(key) => {
                        prop_assert!(open_ids.insert(id));
                        keys.insert(id, key);
                    }
                    Err(RequestRefusal::DuplicateId) => prop_assert!(open_ids.contains(&id)),
                    Err(RequestRefusal::Full) => prop_assert!(requests.running == MAX_RUNNING_REQUESTS),
                },
                2 => {
                    let canceled = cancel(&mut requests, &id.to_string());
                    prop_assert_eq!(canceled, open_ids.remove(&id).then_some(id));
                }
                _ => if let Some(key) = keys.remove(&id) {
                    prop_assert_eq!(requests.answer(key), open_ids.remove(&id));
                    requests.end(key);
                }
            }
            prop_assert!(requests.running <= MAX_RUNNING_REQUESTS);
            prop_assert!(requests.waiting_kib <= MAX_WAITING_KIB);
            prop_assert!(requests.waiting.is_empty() || requests.running == MAX_RUNNING_REQUESTS);
            prop_assert_eq!(requests.running + requests.waiting.len(), requests.len());
            let kib: usize = requests.entries.values().filter_map(|entry| entry.waiting_kib).sum();
            prop_assert_eq!(kib, requests.waiting_kib);
        }
    }
}

#[test]
fn requests_without_a_response_are_taken_in_their_order() {
    let mut requests = Requests::<u64>::default();
    let ids = [Id::from(7), Id::from_string("a\"\u{e9}"), Id::from(3)];
    let keys = ids.clone().map(|id| requests.open(&id, 0).unwrap());
    assert!(requests.answer(keys[0]));
    for number in 0..MAX_RUNNING_REQUESTS as u64 - 3 {
        let key = requests.open(&Id::from(100 + number), 0).unwrap();
        assert!(requests.answer(key));
    }
    requests.open(&Id::from(4), 0).unwrap();
    let expected =
        [(ids[1].clone(), Turn::Running), (ids[2].clone(), Turn::Running), (Id::from(4), Turn::Waiting)];
    assert_eq!(requests.take_unanswered(), expected);
    assert_eq!(requests.take_unanswered(), []);
    assert!(!requests.answer(keys[1]), "it is answered by whoever took it");
}
