//! Tests of event streams: routing, formats, resumption and bounds, and their invariants under
//! random use.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::*;
use crate::wire::{Id, Json, outgoing};

const LIMITS: LogLimits = LogLimits { events: 8, bytes: 100 };

fn streams() -> EventStreams<u64> {
    EventStreams::new(LIMITS)
}

fn event(kind: EventKind, text: &str) -> Event {
    Event { data: text.as_bytes().to_vec().into(), kind }
}

fn notification(text: &str) -> Event {
    event(EventKind::Notification, text)
}

fn response(text: &str) -> Event {
    event(EventKind::Response, text)
}

/// What a reader gets until it has to wait or is at the end: ids and texts.
fn read_all(streams: &mut EventStreams<u64>, reader: Reader) -> (Vec<(String, String)>, NextEvent) {
    let mut events = Vec::new();
    loop {
        match streams.next(reader, || 0) {
            NextEvent::Event { id, data } => {
                events.push((id.to_string(), String::from_utf8(data.to_vec()).unwrap()));
            }
            end => return (events, end),
        }
    }
}

fn texts(streams: &mut EventStreams<u64>, reader: Reader) -> Vec<String> {
    read_all(streams, reader).0.into_iter().map(|(_, text)| text).collect()
}

fn id(text: &str) -> EventId {
    EventId::parse(text).unwrap()
}

#[test]
fn lone_response_is_json_and_leaves_nothing_behind() {
    let mut streams = streams();
    let reader = streams.open_post(1, PostFormat::Any);
    assert_eq!(streams.first(reader, || 7), FirstEvents::Wait);
    assert_eq!(streams.push(reader.stream(), &response("r")), PushOutcome::Stored);
    assert_eq!(streams.poll_wakeup(), Some(7));
    assert_eq!(streams.first(reader, || 0), FirstEvents::Responses(vec![response("r")]));
    streams.detach(reader);
    assert_eq!(streams.streams.len(), 1);
    assert_eq!(streams.resume(id("1-0")), Err(ResumeError::UnknownEvent));
    // What comes too late reaches nobody, except for a request of ours.
    assert_eq!(streams.push(reader.stream(), &notification("n")), PushOutcome::Discarded);
    assert_eq!(streams.push(reader.stream(), &event(EventKind::Request(1), "q")), PushOutcome::Stored);
    let standalone = streams.open_standalone();
    assert_eq!(texts(&mut streams, standalone), ["q"]);
}

#[test]
fn related_message_makes_an_event_stream_that_ends_with_the_response() {
    let mut streams = streams();
    let reader = streams.open_post(1, PostFormat::Any);
    streams.push(reader.stream(), &notification("n"));
    assert_eq!(streams.first(reader, || 0), FirstEvents::Stream);
    assert_eq!(read_all(&mut streams, reader).1, NextEvent::Wait);
    streams.push(reader.stream(), &response("r"));
    let (events, end) = read_all(&mut streams, reader);
    assert_eq!((events, end), (vec![("1-2".into(), "r".into())], NextEvent::End));
}

#[test]
fn batch_is_an_event_stream_until_each_request_has_ended() {
    let mut streams = streams();
    let reader = streams.open_post(2, PostFormat::Any);
    assert_eq!(streams.first(reader, || 0), FirstEvents::Stream);
    streams.push(reader.stream(), &response("a"));
    assert_eq!(read_all(&mut streams, reader).1, NextEvent::Wait);
    streams.end_request(reader.stream(), RequestEnd::Canceled);
    assert_eq!(read_all(&mut streams, reader).1, NextEvent::End);
}

#[test]
fn host_without_event_streams_gets_all_responses_and_the_rest_elsewhere() {
    let mut streams = streams();
    let reader = streams.open_post(2, PostFormat::JsonOnly);
    streams.push(reader.stream(), &notification("n"));
    streams.push(reader.stream(), &response("a"));
    assert_eq!(streams.first(reader, || 0), FirstEvents::Wait);
    streams.push(reader.stream(), &response("b"));
    assert_eq!(streams.first(reader, || 0), FirstEvents::Responses(vec![response("a"), response("b")]));
    let standalone = streams.open_standalone();
    assert_eq!(texts(&mut streams, standalone), ["n"]);
}

/// Whoever gets all responses at once has to tell them from a part of them.
#[test]
fn collected_responses_are_partial_if_a_request_was_dropped() {
    let first = |end: fn(&mut EventStreams<u64>, StreamId)| {
        let mut streams = streams();
        let reader = streams.open_post(2, PostFormat::JsonOnly);
        streams.push(reader.stream(), &response("a"));
        end(&mut streams, reader.stream());
        streams.first(reader, || 0)
    };
    let some = vec![response("a")];
    assert_eq!(first(|streams, _| streams.close()), FirstEvents::PartialResponses(some.clone()));
    let ended = first(|streams, stream| streams.end_request(stream, RequestEnd::Dropped));
    assert_eq!(ended, FirstEvents::PartialResponses(some.clone()));
    let ended = first(|streams, stream| streams.end_request(stream, RequestEnd::Canceled));
    assert_eq!(ended, FirstEvents::Responses(some));
}

#[test]
fn requests_without_a_response_end_the_post() {
    for (end, closes) in
        [(RequestEnd::Canceled, false), (RequestEnd::Dropped, false), (RequestEnd::Dropped, true)]
    {
        let mut streams = streams();
        let reader = streams.open_post(1, PostFormat::Any);
        assert_eq!(streams.first(reader, || 3), FirstEvents::Wait);
        if closes {
            streams.close();
        } else {
            streams.end_request(reader.stream(), end);
        }
        assert_eq!(streams.poll_wakeup(), Some(3));
        assert_eq!(streams.first(reader, || 0), FirstEvents::Ended(end));
    }
}

/// HL-07, HL-10: what a broken connection has not carried is replayed on its stream, and only there.
#[test]
fn hl_07_broken_stream_is_resumed_where_it_broke() {
    let mut streams = streams();
    let (a, b) = (streams.open_post(1, PostFormat::Any), streams.open_post(1, PostFormat::Any));
    for (reader, text) in [(a, "a1"), (b, "b1"), (a, "a2")] {
        streams.push(reader.stream(), &notification(text));
    }
    assert_eq!(texts(&mut streams, a), ["a1", "a2"]);
    assert_eq!(texts(&mut streams, b), ["b1"]);
    streams.detach(a);
    assert_eq!(streams.push(a.stream(), &notification("a3")), PushOutcome::Stored);
    assert_eq!(streams.push(a.stream(), &response("a4")), PushOutcome::Stored);
    let again = streams.resume(id("1-1")).unwrap();
    let (events, end) = read_all(&mut streams, again);
    let expected = [("1-2", "a2"), ("1-3", "a3"), ("1-4", "a4")];
    assert_eq!(events, expected.map(|(id, text)| (id.to_owned(), text.to_owned())));
    assert_eq!(end, NextEvent::End);
    // It may be resumed again, as long as the log has it.
    let last = streams.resume(id("1-3")).unwrap();
    assert_eq!(texts(&mut streams, last), ["a4"]);
    assert_eq!(read_all(&mut streams, b), (vec![], NextEvent::Wait));
}

#[test]
fn connection_that_broke_before_any_event_id_loses_the_response_only() {
    let mut streams = streams();
    let reader = streams.open_post(1, PostFormat::Any);
    streams.push(reader.stream(), &event(EventKind::Request(5), "q"));
    streams.detach(reader);
    assert_eq!(streams.push(reader.stream(), &response("r")), PushOutcome::Discarded);
    let standalone = streams.open_standalone();
    assert_eq!(texts(&mut streams, standalone), ["q"]);
    assert_eq!(streams.streams.len(), 1);
}

#[test]
fn ids_that_were_never_sent_or_are_too_old_are_refused() {
    let mut streams = streams();
    let reader = streams.open_standalone();
    for number in 0..20 {
        assert_eq!(
            streams.push(StreamId::STANDALONE, &notification(&number.to_string())),
            PushOutcome::Stored
        );
        assert_eq!(texts(&mut streams, reader), [number.to_string()]);
    }
    assert_eq!(streams.resume(id("0-21")), Err(ResumeError::UnknownEvent));
    assert_eq!(streams.resume(id("3-1")), Err(ResumeError::UnknownEvent));
    assert_eq!(streams.resume(id("0-11")), Err(ResumeError::TooOld));
    let resumed = streams.resume(id("0-12")).unwrap();
    assert_eq!(texts(&mut streams, resumed).len(), 8);
    assert_eq!(read_all(&mut streams, reader).1, NextEvent::End, "the other reader was replaced");
}

#[test]
fn slow_reader_holds_up_senders_and_an_absent_one_does_not() {
    let mut streams = EventStreams::<u64>::new(LogLimits { events: 4, bytes: 1024 * 1024 });
    let absent = (0..1000).map(|_| streams.push(StreamId::STANDALONE, &notification("n")));
    assert!(absent.collect::<Vec<_>>().iter().all(|outcome| *outcome == PushOutcome::Stored));
    let reader = streams.open_standalone();
    assert_eq!(texts(&mut streams, reader).len(), 4);
    for _ in 0..MAX_UNREAD_EVENTS {
        assert_eq!(streams.push(StreamId::STANDALONE, &notification("n")), PushOutcome::Stored);
    }
    streams.poll_freed_room();
    assert_eq!(
        streams.push(StreamId::STANDALONE, &notification("n")),
        PushOutcome::Full(StreamId::STANDALONE)
    );
    assert!(!streams.poll_freed_room());
    assert!(matches!(streams.next(reader, || 0), NextEvent::Event { .. }));
    assert!(streams.poll_freed_room());
    assert_eq!(streams.push(StreamId::STANDALONE, &notification("n")), PushOutcome::Stored);
    assert!(!streams.is_flushed());
    streams.detach_stream(StreamId::STANDALONE);
    assert!(streams.is_flushed());
    assert_eq!(streams.log.len(), 4);
}

#[test]
fn oversized_event_is_delivered_once_and_spares_the_log_of_others() {
    let mut streams = streams();
    streams.push(StreamId::STANDALONE, &notification("kept"));
    let reader = streams.open_post(1, PostFormat::Any);
    streams.push(reader.stream(), &notification("n"));
    assert_eq!(texts(&mut streams, reader), ["n"]);
    streams.push(reader.stream(), &response(&"x".repeat(200)));
    assert_eq!(texts(&mut streams, reader), ["x".repeat(200)]);
    assert_eq!(streams.resume(id("1-1")), Err(ResumeError::UnknownEvent));
    let standalone = streams.open_standalone();
    assert_eq!(texts(&mut streams, standalone), ["kept"]);
    assert_eq!((streams.log.len(), streams.logged_bytes), (1, 4));
}

/// The response to a request with this id, which has so many further bytes.
fn response_to(request: &Id, bytes: usize) -> Event {
    let result = Json::encode(&"x".repeat(bytes)).unwrap();
    Event { data: outgoing::response(request, Ok(&result)).body(), kind: EventKind::Response }
}

/// The requests whose responses whoever resumes after this event misses.
fn missing(streams: &EventStreams<u64>, last: &str) -> Vec<Id> {
    streams.missing_responses(id(last)).into_iter().map(|missing| missing.request).collect()
}

/// The log is bounded. What a host asks for that is no longer there comes from elsewhere, as a new event.
#[test]
fn hl_07_a_trimmed_response_is_replaced_when_its_stream_is_resumed() {
    let (one, two) = (Id::Int(1), Id::from_string("two"));
    let mut streams = streams();
    let reader = streams.open_post(2, PostFormat::Any);
    streams.push(reader.stream(), &notification("n"));
    assert_eq!(texts(&mut streams, reader), ["n"]);
    streams.detach(reader);
    for request in [&one, &two] {
        assert_eq!(streams.push(reader.stream(), &response_to(request, 200)), PushOutcome::Stored);
    }
    assert_eq!(streams.streams.len(), 1, "nothing is left of it");
    assert_eq!(missing(&streams, "1-1"), [one.clone(), two.clone()]);
    assert_eq!(missing(&streams, "1-2"), std::slice::from_ref(&two));
    assert_eq!(missing(&streams, "2-1"), []);
    let other = [(one.clone(), "first".into()), (two.clone(), "second".into())];
    let resumed = streams.resume_with(id("1-2"), &other).unwrap();
    assert_eq!(read_all(&mut streams, resumed), (vec![("1-4".into(), "second".into())], NextEvent::End));
    // Again, from the same event: what was sent is in the log.
    assert_eq!(missing(&streams, "1-2"), []);
    let resumed = streams.resume_with(id("1-2"), &[]).unwrap();
    assert_eq!(texts(&mut streams, resumed), ["second"]);
    // From an earlier one, the other response is missing.
    assert_eq!(missing(&streams, "1-1"), std::slice::from_ref(&one));
    let resumed = streams.resume_with(id("1-1"), &other).unwrap();
    assert_eq!(texts(&mut streams, resumed), ["second", "first"]);
    assert_eq!(streams.logged_bytes, "secondfirst".len());
    // A replacement that is too large for the log is dropped from it again, and remembered again.
    let large = response_to(&one, 200);
    streams.remember_trimmed(StreamId(7), 3, &large.data);
    let resumed = streams.resume_with(id("7-0"), &[(one.clone(), large.data.clone())]).unwrap();
    assert_eq!(texts(&mut streams, resumed), [String::from_utf8(large.data.to_vec()).unwrap()]);
    streams.detach(resumed);
    assert_eq!(missing(&streams, "7-3"), std::slice::from_ref(&one));
    assert_eq!(streams.resume_with(id("8-0"), &[]), Err(ResumeError::UnknownEvent));
    assert_eq!(streams.resume_with(id("0-18446744073709551615"), &[]), Err(ResumeError::UnknownEvent));
}

/// Only the latest are remembered, and only if the host knows an event of the stream.
#[test]
fn the_memory_of_trimmed_responses_is_bounded() {
    let mut streams = streams();
    for number in 0..600 {
        let reader = streams.open_post(1, PostFormat::Any);
        streams.begin_event(reader);
        streams.detach(reader);
        streams.push(reader.stream(), &response_to(&Id::Int(number), 200));
    }
    assert_eq!(missing(&streams, "88-0"), []);
    assert_eq!(missing(&streams, "89-0"), [Id::Int(88)]);
    assert_eq!(missing(&streams, "600-0"), [Id::Int(599)]);
    let unknown = streams.open_post(1, PostFormat::Any);
    streams.detach(unknown);
    streams.push(unknown.stream(), &response_to(&Id::Int(1), 200));
    assert_eq!(missing(&streams, "601-0"), []);
}

/// Whoever resumes a stream without one of its responses would wait for it in vain.
#[test]
fn a_stream_with_a_forgotten_response_is_not_resumed() {
    let mut streams = streams();
    let reader = streams.open_post(2, PostFormat::Any);
    streams.begin_event(reader);
    streams.detach(reader);
    for request in [Id::from_string(&"i".repeat(300)), Id::Int(1)] {
        streams.push(reader.stream(), &response_to(&request, 200));
    }
    assert_eq!(streams.resume_with(id("1-0"), &[]), Err(ResumeError::TooOld));
    let resumed = streams.resume_with(id("1-1"), &[(Id::Int(1), "other".into())]).unwrap();
    assert_eq!(texts(&mut streams, resumed), ["other"]);
    // As is one whose responses are more than are remembered.
    let mut streams = EventStreams::<u64>::new(LIMITS);
    let reader = streams.open_post(514, PostFormat::Any);
    streams.begin_event(reader);
    streams.detach(reader);
    for number in 0..513 {
        streams.push(reader.stream(), &response_to(&Id::Int(number), 200));
    }
    assert_eq!(streams.resume_with(id("1-0"), &[]), Err(ResumeError::TooOld));
    assert!(streams.resume_with(id("1-1"), &[]).is_ok());
}

/// An error in place of a response says that it was too large only if it was.
#[test]
fn a_missing_response_is_oversized_if_the_log_cannot_hold_it() {
    let mut streams = streams();
    let reader = streams.open_post(10, PostFormat::Any);
    streams.begin_event(reader);
    streams.detach(reader);
    streams.push(reader.stream(), &response_to(&Id::Int(0), 200));
    for number in 1..4 {
        streams.push(reader.stream(), &response_to(&Id::Int(number), 20));
    }
    let missing = streams.missing_responses(id("1-0"));
    let oversized: Vec<_> =
        missing.into_iter().map(|missing| (missing.request, missing.is_oversized)).collect();
    assert_eq!(oversized, [(Id::Int(0), true), (Id::Int(1), false), (Id::Int(2), false)]);
}

/// Progress that was dropped from the log keeps no host from its response.
#[test]
fn a_post_is_resumed_where_its_log_begins() {
    let mut streams = streams();
    let reader = streams.open_post(1, PostFormat::Any);
    for number in 0..20 {
        streams.push(reader.stream(), &notification(&number.to_string()));
        assert_eq!(texts(&mut streams, reader), [number.to_string()]);
    }
    streams.detach(reader);
    assert_eq!(streams.resume(id("1-3")), Err(ResumeError::TooOld));
    let resumed = streams.resume_with(id("1-3"), &[]).unwrap();
    let kept: Vec<_> = (12..20).map(|number| number.to_string()).collect();
    assert_eq!(texts(&mut streams, resumed), kept);
    assert!(streams.is_attached(resumed) && !streams.is_attached(reader));
}

#[test]
fn request_that_nobody_read_is_reported_when_it_is_dropped() {
    let mut streams = streams();
    streams.push(StreamId::STANDALONE, &event(EventKind::Request(9), "q"));
    for _ in 0..8 {
        assert_eq!(streams.poll_lost_request(), None);
        streams.push(StreamId::STANDALONE, &notification("n"));
    }
    assert_eq!(streams.poll_lost_request(), Some(9));
    assert_eq!(streams.poll_lost_request(), None);
}

#[test]
fn request_that_was_read_is_not_lost_when_it_is_dropped_from_the_log() {
    let mut streams = streams();
    let reader = streams.open_standalone();
    streams.push(StreamId::STANDALONE, &event(EventKind::Request(9), "q"));
    assert_eq!(texts(&mut streams, reader), ["q"]);
    streams.detach(reader);
    streams.resume(id("0-0")).unwrap();
    streams.detach_stream(StreamId::STANDALONE);
    for _ in 0..9 {
        streams.push(StreamId::STANDALONE, &notification("n"));
    }
    assert_eq!(streams.streams[&StreamId::STANDALONE].first, 3);
    assert_eq!(streams.poll_lost_request(), None);
}

#[test]
fn stream_can_begin_with_an_id_to_resume_from() {
    let mut streams = streams();
    let reader = streams.open_post(1, PostFormat::Any);
    assert_eq!(streams.begin_event(reader), Some(id("1-0")));
    streams.detach(reader);
    streams.push(reader.stream(), &response("r"));
    let resumed = streams.resume(id("1-0")).unwrap();
    assert_eq!(read_all(&mut streams, resumed), (vec![("1-1".into(), "r".into())], NextEvent::End));
}

#[test]
fn closed_streams_are_read_to_their_end() {
    let mut streams = streams();
    let reader = streams.open_standalone();
    streams.push(StreamId::STANDALONE, &notification("n"));
    streams.close();
    assert_eq!(streams.push(StreamId::STANDALONE, &notification("late")), PushOutcome::Discarded);
    assert_eq!(read_all(&mut streams, reader), (vec![("0-1".into(), "n".into())], NextEvent::End));
    assert!(streams.is_flushed());
}

#[derive(Clone, Debug)]
enum Step {
    Open(usize),
    Standalone,
    Push { stream: u64, kind: u8, size: usize },
    End(u64),
    Read(u64),
    Detach(u64),
    Resume { stream: u64, back: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..3usize).prop_map(Step::Open),
        Just(Step::Standalone),
        (0..6u64, 0..4u8, 0..60usize).prop_map(|(stream, kind, size)| Step::Push { stream, kind, size }),
        (0..6u64, 0..4u8, 0..60usize).prop_map(|(stream, kind, size)| Step::Push { stream, kind, size }),
        (0..6u64).prop_map(Step::End),
        (0..6u64).prop_map(Step::Read),
        (0..6u64).prop_map(Step::Read),
        (0..6u64).prop_map(Step::Detach),
        (0..6u64, 0..6u64).prop_map(|(stream, back)| Step::Resume { stream, back }),
    ]
}

/// A host resumes a restored session from any event that it has seen, and gets what it may have
/// missed.
#[test]
fn a_restored_stream_is_resumed_from_any_event() {
    const BASE: u64 = 1 << 40;
    let answered = RestoredStream { stream: StreamId(3), unanswered: 0, responses: vec!["done".into()] };
    let open = RestoredStream { stream: StreamId(5), unanswered: 1, responses: Vec::new() };
    let mut streams = EventStreams::<u32>::restore(LIMITS, BASE, [answered, open]);
    let last = |stream, number| EventId { stream: StreamId(stream), number };
    let reader = streams.resume(last(3, 0)).unwrap();
    let done = NextEvent::Event { id: last(3, BASE), data: "done".into() };
    assert_eq!(streams.next(reader, || 0), done);
    assert_eq!(streams.next(reader, || 0), NextEvent::End);
    let again = streams.resume(last(3, 17)).unwrap();
    assert_eq!(streams.next(again, || 0), done, "it is the same event for a host that comes back again");
    let reader = streams.resume(last(5, 2)).unwrap();
    assert_eq!(streams.next(reader, || 0), NextEvent::Wait);
    assert_eq!(streams.push(StreamId(5), &event(EventKind::Response, "late")), PushOutcome::Stored);
    assert_eq!(streams.next(reader, || 0), NextEvent::Event { id: last(5, BASE), data: "late".into() });
    assert_eq!(streams.next(reader, || 0), NextEvent::End);
    let standalone = streams.resume(last(0, 99)).unwrap();
    streams.push(StreamId::STANDALONE, &event(EventKind::Notification, "news"));
    let news = NextEvent::Event { id: last(0, BASE), data: "news".into() };
    assert_eq!(streams.next(standalone, || 0), news);
    assert_eq!(streams.resume(last(4, 1)), Err(ResumeError::UnknownEvent));
    // A stream of this process is resumed where it was left.
    let reader = streams.open_post(1, PostFormat::Any);
    assert_eq!(reader.stream(), StreamId(BASE));
    streams.begin_stream(reader.stream());
    assert_eq!(streams.first(reader, || 0), FirstEvents::Stream);
    assert_eq!(streams.begin_event(reader), Some(last(BASE, 0)));
    streams.detach_stream(reader.stream());
    assert_eq!(streams.push(StreamId(BASE), &event(EventKind::Response, "new")), PushOutcome::Stored);
    let reader = streams.resume(last(BASE, 0)).unwrap();
    assert_eq!(streams.next(reader, || 0), NextEvent::Event { id: last(BASE, 1), data: "new".into() });
}

#[test]
fn a_post_becomes_a_stream_before_it_says_anything() {
    let mut streams = EventStreams::<u32>::new(LIMITS);
    let reader = streams.open_post(1, PostFormat::Any);
    assert_eq!(streams.first(reader, || 7), FirstEvents::Wait);
    assert!(streams.accepts_stream(reader.stream()));
    streams.begin_stream(reader.stream());
    assert_eq!(streams.poll_wakeup(), Some(7));
    assert_eq!(streams.first(reader, || 0), FirstEvents::Stream);
    let json_only = streams.open_post(1, PostFormat::JsonOnly);
    for other in [json_only.stream(), StreamId::STANDALONE, StreamId(99)] {
        assert!(!streams.accepts_stream(other));
        streams.begin_stream(other);
    }
    assert_eq!(streams.first(json_only, || 8), FirstEvents::Wait);
}

proptest! {
    /// Each message is on one stream with one id; readers see the events of their stream in order
    /// and without gaps, except where the standalone stream has dropped its oldest; and the log and
    /// the unread events keep their bounds.
    #[test]
    fn order_and_bounds_hold(steps in prop::collection::vec(step(), 0..300)) {
        let mut streams = streams();
        let mut readers: HashMap<u64, Reader> = HashMap::new();
        let mut message_of: BTreeMap<(u64, u64), String> = BTreeMap::new();
        let mut id_of: HashMap<String, (u64, u64)> = HashMap::new();
        let mut expected: HashMap<u64, u64> = HashMap::new();
        let mut pushed = 0u64;
        for step in steps {
            match step {
                Step::Open(requests) => {
                    let reader = streams.open_post(requests, PostFormat::Any);
                    expected.insert(reader.stream().0, 1);
                    readers.insert(reader.stream().0, reader);
                }
                Step::Standalone => {
                    let reader = streams.open_standalone();
                    let state = &streams.streams[&StreamId::STANDALONE];
                    expected.insert(0, state.cursor.max(state.first));
                    readers.insert(0, reader);
                }
                Step::Push { stream, kind, size } => {
                    let kind = match kind {
                        0 => EventKind::Response,
                        1 => EventKind::Request(pushed),
                        _ => EventKind::Notification,
                    };
                    let text = format!("{pushed}:{}", "x".repeat(size));
                    pushed += 1;
                    if kind != EventKind::Response || stream != 0 {
                        streams.push(StreamId(stream), &event(kind, &text));
                    }
                }
                Step::End(stream) => streams.end_request(StreamId(stream), RequestEnd::Canceled),
                Step::Detach(stream) => {
                    if let Some(reader) = readers.remove(&stream) {
                        streams.detach(reader);
                    }
                }
                Step::Resume { stream, back } => {
                    let Some(state) = streams.streams.get(&StreamId(stream)) else { continue };
                    let number = state.next_number().saturating_sub(back);
                    let can = number < state.next_number() && number + 1 >= state.first;
                    let resumed = streams.resume(EventId { stream: StreamId(stream), number });
                    prop_assert_eq!(resumed.is_ok(), can);
                    if let Ok(reader) = resumed {
                        readers.insert(stream, reader);
                        expected.insert(stream, number + 1);
                    }
                }
                Step::Read(stream) => {
                    let Some(reader) = readers.get(&stream) else { continue };
                    let first = streams.streams.get(&StreamId(stream)).map_or(0, |state| state.first);
                    if let NextEvent::Event { id, data } = streams.next(*reader, || 0) {
                        let text = String::from_utf8(data.to_vec()).unwrap();
                        prop_assert_eq!(id.stream.0, stream);
                        let expected = expected.get_mut(&stream).unwrap();
                        if stream == 0 {
                            *expected = first.max(*expected);
                        }
                        prop_assert_eq!(id.number, *expected);
                        *expected += 1;
                        let known = message_of.entry((stream, id.number)).or_insert_with(|| text.clone());
                        prop_assert_eq!(&*known, &text, "an id names one message");
                        let place = id_of.entry(text).or_insert((stream, id.number));
                        prop_assert_eq!(*place, (stream, id.number), "a message has one id");
                    }
                }
            }
            let logged: usize = streams.streams.values().map(|state| {
                let count = usize::try_from(state.logged - state.first).unwrap();
                state.events.iter().take(count).map(|event| event.data.len()).sum::<usize>()
            }).sum();
            prop_assert_eq!(logged, streams.logged_bytes);
            prop_assert!(streams.log.len() <= LIMITS.events && streams.logged_bytes <= LIMITS.bytes);
            for state in streams.streams.values() {
                let unread = usize::try_from(state.next_number() - state.logged).unwrap();
                let bytes: usize = state.events.iter().rev().take(unread).map(|event| event.data.len()).sum();
                prop_assert_eq!(bytes, state.unread_bytes);
                prop_assert!(state.reader.is_some() || unread == 0);
                prop_assert!(unread <= MAX_UNREAD_EVENTS);
            }
        }
    }
}
