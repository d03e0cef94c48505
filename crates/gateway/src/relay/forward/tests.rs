//! Tests of forwarding: order, missed events, and bounds.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bowline::{EventSender, Json, Notification};
use bowline_proto::server::handshake::OfferedLists;
use bowline_server::{Host, HostEvent};
use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream, Lines};

use super::*;
use crate::handshake::OfferBasis;
use crate::host_queue::HostQueue;
use crate::open_calls::OpenCall;
use tokio::time::timeout;

/// Timeout for anything that should happen.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

fn notification(method: &str) -> Event {
    Event::Notification(Notification::new(method, None))
}

fn send_numbered(events: &EventSender<Event>) {
    for number in 0..5 {
        events.send(notification(&format!("notifications/{number}")));
    }
}

/// A host that was offered tools and resources, and the lines it receives.
async fn host() -> (Host, HostReadiness, Lines<BufReader<DuplexStream>>) {
    let (host, readiness, _, lines) = host_with_call().await;
    (host, readiness, lines)
}

/// [`host`], with an open call.
async fn host_with_call() -> (Host, HostReadiness, Arc<OpenCall>, Lines<BufReader<DuplexStream>>) {
    let (stdout, from) = tokio::io::duplex(64 * 1024);
    let mut host = Host::new(INITIALIZE.as_bytes(), stdout);
    let Some(HostEvent::Initialize(request)) = host.next().await else { panic!("it begins a session") };
    let readiness = HostReadiness::new(request.handshake());
    let lists = OfferedLists { prompts: false, ..OfferedLists::ALL };
    readiness.accept(&request, RelayOffer { lists, basis: OfferBasis::ServerKnown });
    let Some(HostEvent::Request { request, .. }) = host.next().await else { panic!("it has a request") };
    assert!(host.next().await.is_none());
    (host, readiness, OpenCall::begin(request).0, BufReader::new(from).lines())
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call"}
"#;

async fn expect_methods(lines: &mut Lines<BufReader<DuplexStream>>, methods: &[&str]) {
    for method in methods {
        let line = timeout(TEST_TIMEOUT, lines.next_line()).await.expect("it is told").unwrap().unwrap();
        assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#));
    }
}

/// Any change may have been missed: the host is told that all offered lists changed, and later
/// events follow.
#[tokio::test]
async fn missed_events_announce_all_offered_lists() {
    let events = EventSender::new(2);
    let receiver = events.subscribe();
    send_numbered(&events);
    let (host, readiness, mut lines) = host().await;
    let (_, reader) = HostQueue::new(receiver);
    drop(events);
    forward_to_host(reader, host.link().clone(), readiness, Arc::new(|_| {})).await;
    host.link().close(TEST_TIMEOUT).await;
    let [tools, resources] = ["notifications/tools/list_changed", "notifications/resources/list_changed"];
    expect_methods(&mut lines, &[tools, resources, "notifications/3", "notifications/4"]).await;
    assert_eq!(lines.next_line().await.unwrap(), None);
}

/// Also if some of it was missed, and while the server continues to send.
#[tokio::test]
async fn response_waits_for_earlier_notifications_only() {
    let events = EventSender::new(2);
    let receiver = events.subscribe();
    let (host, readiness, mut lines) = host().await;
    let (queue, reader) = HostQueue::new(receiver);
    send_numbered(&events);
    let carrying = tokio::spawn(forward_to_host(reader, host.link().clone(), readiness, Arc::new(|_| {})));
    timeout(TEST_TIMEOUT, queue.wait_until_delivered()).await.expect("it is let go");
    host.link().notify("the answer", None).await;
    let [tools, resources] = ["notifications/tools/list_changed", "notifications/resources/list_changed"];
    expect_methods(&mut lines, &[tools, resources, "notifications/3", "notifications/4", "the answer"]).await;
    drop(events);
    carrying.await.unwrap();
    // After the end nobody waits for a delivery that will never happen.
    timeout(TEST_TIMEOUT, queue.wait_until_delivered()).await.expect("it is let go");
}

/// Before most responses a server sends nothing, and then nobody has to be woken for them.
#[tokio::test]
async fn response_without_notifications_waits_for_nobody() {
    let events = EventSender::new(2);
    let receiver = events.subscribe();
    let (queue, mut reader) = HostQueue::new(receiver);
    let is_delivered = async || timeout(Duration::ZERO, queue.wait_until_delivered()).await.is_ok();
    assert!(is_delivered().await);
    events.send(notification("notifications/first"));
    assert!(!is_delivered().await);
    assert!(matches!(reader.next().await, Some(QueueItem::Event(_))));
    assert!(!is_delivered().await, "it is being delivered");
    assert!(timeout(Duration::ZERO, reader.next()).await.is_err());
    assert!(is_delivered().await);
}

/// Progress and events arrive on two paths and are delivered in the order in which they were sent.
#[tokio::test]
async fn progress_keeps_its_order_among_events() {
    let events = EventSender::new(16);
    let receiver = events.subscribe();
    let (host, readiness, open, mut lines) = host_with_call().await;
    let (queue, reader) = HostQueue::new(receiver);
    let call = Arc::downgrade(&open);
    let progress = |call: &Weak<OpenCall>| queue.push_progress(call, Json::empty_object());
    progress(&call);
    send_numbered(&events);
    progress(&call);
    // Progress of a canceled call.
    progress(&Weak::new());
    events.send(notification("notifications/last"));
    let carrying = tokio::spawn(forward_to_host(reader, host.link().clone(), readiness, Arc::new(|_| {})));
    let mut told = Vec::new();
    while told.last().is_none_or(|line: &String| !line.contains("last")) {
        told.push(timeout(TEST_TIMEOUT, lines.next_line()).await.expect("it is told").unwrap().unwrap());
    }
    let told: Vec<_> = told.iter().map(|line| line.split("notifications/").nth(1).unwrap()).collect();
    let progress = r#"progress","params":{}}"#;
    assert_eq!(told, [progress, "0\"}", "1\"}", "2\"}", "3\"}", "4\"}", progress, "last\"}"]);
    drop((events, open));
    carrying.await.unwrap();
}

/// A host that does not read costs a bounded number of items, and no event is lost to progress.
#[tokio::test]
async fn progress_that_finds_no_room_is_dropped() {
    let events = EventSender::new(16);
    let receiver = events.subscribe();
    let (queue, mut reader) = HostQueue::new(receiver);
    let (_host, _, open, _) = host_with_call().await;
    for _ in 0..100_000 {
        queue.push_progress(&Arc::downgrade(&open), Json::empty_object());
    }
    events.send(notification("notifications/last"));
    queue.push_progress(&Arc::downgrade(&open), Json::empty_object());
    let mut before = 0;
    while let Some(QueueItem::Progress { .. }) = reader.next().await {
        before += 1;
    }
    assert_eq!(before, 1024);
    // The event was next; nothing came after it.
    assert!(timeout(Duration::ZERO, reader.next()).await.is_err());
}
